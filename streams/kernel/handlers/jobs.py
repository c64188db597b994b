"""Requests about jobs: submit, cancel, update. Each checks everything, then changes."""

from msgspec.structs import replace

from ganger.schemas.enums import Phase
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    JobCancelRequested,
    JobSubmitRequested,
    JobUpdateRequested,
    Role,
    RoleScale,
)
from ganger.streams.kernel import progress, quota
from ganger.streams.kernel.attempts import detach, end_job, evict, settle
from ganger.streams.kernel.decide import reject
from ganger.streams.kernel.digest import retell
from ganger.streams.kernel.entities import ENDED, Job, RoleState
from ganger.streams.kernel.lifecycle import WAITING
from ganger.streams.kernel.limits import (
    CARDS_MAX,
    NAMES_MAX,
    NUMBER_MAX,
    PRIORITY_MAX,
    QUANTITY_MAX,
    ROLES_MAX,
)
from ganger.streams.kernel.lines import line_up, step_out
from ganger.streams.kernel.resources import names_defect
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_CANCELLED = Phase.CANCELLED
_FAILED = Phase.FAILED
_PENDING = Phase.PENDING
_SUCCEEDED = Phase.SUCCEEDED
_UNKNOWN = Phase.UNKNOWN
_CANCEL_REQUESTED = Reason.CANCEL_REQUESTED
_DEPENDENCY_FAILED = Reason.DEPENDENCY_FAILED
_DEPENDENCY_UNKNOWN = Reason.DEPENDENCY_UNKNOWN
_JOB_ENDED = Reason.JOB_ENDED
_JOB_EXISTS = Reason.JOB_EXISTS
_JOB_UNKNOWN = Reason.JOB_UNKNOWN
_MIN_ABOVE_REPLICAS = Reason.MIN_ABOVE_REPLICAS
_PRIORITY_CLASS_UNKNOWN = Reason.PRIORITY_CLASS_UNKNOWN
_QUEUE_CLOSED = Reason.QUEUE_CLOSED
_QUEUE_NOT_A_LEAF = Reason.QUEUE_NOT_A_LEAF
_QUEUE_UNKNOWN = Reason.QUEUE_UNKNOWN
_ROLE_DUPLICATE = Reason.ROLE_DUPLICATE
_ROLE_MISSING = Reason.ROLE_MISSING
_ROLE_UNKNOWN = Reason.ROLE_UNKNOWN
_SCALED_DOWN = Reason.SCALED_DOWN
_VALUE_OUT_OF_RANGE = Reason.VALUE_OUT_OF_RANGE

Fault = tuple[Reason, int, int]
"""Reason, the value asked, the limit it breaks."""


def submit(state: State, record: JobSubmitRequested) -> None:
    """A job enters in phase PENDING, or is rejected."""
    fault = _fault_of(state, record)
    if fault is not None:
        reject(state, fault[0], record.job, fault[1], fault[2])
        return
    job = add_job(state, record, _PENDING)
    if job.dependencies and any(state.jobs[seq].phase in ENDED for seq in job.dependencies):
        _resolve(state, job)
    line_up(state, job)


def add_job(state: State, record: JobSubmitRequested, phase: Phase) -> Job:
    """Make the job of a valid request; it stands in no line yet."""
    shape = state.shapes.take(record.roles, record.min_available)
    if len(state.table.names) > len(state.total):
        state.widen()
    queue = state.queues[state.queue_by_name[record.queue]]
    named = state.policy.classes.get(record.priority_class)
    job = Job(
        state.cause,
        record,
        shape,
        queue.index,
        record.priority if named is None else named.priority,
        phase,
        record.held,
        state.now_ns,
        [RoleState(role.replicas) for role in record.roles],
    )
    if record.dependencies:
        job.dependencies = tuple(
            sorted({state.job_by_key[key]: None for key in record.dependencies})
        )
        for seq in job.dependencies:
            state.indexes.dependents.setdefault(seq, []).append(job.seq)
    state.jobs[state.cause] = job
    state.job_by_key[record.job] = state.cause
    for level in queue.chain:
        level.jobs += 1
    for position, pod_shape in enumerate(shape.shapes):
        quota.expect(queue, pod_shape.charges, job.roles[position].replicas)
    if phase in WAITING:
        state.waiting_count += 1
    state.touch(job)
    return job


def _resolve(state: State, job: Job) -> None:
    """Some jobs it depends on have ended already."""
    for seq in job.dependencies:
        other = state.jobs[seq]
        if other.phase in ENDED and other.phase is not _SUCCEEDED:
            end_job(state, job, _FAILED, _DEPENDENCY_FAILED)
            return
    job.dependencies = tuple(
        seq for seq in job.dependencies if state.jobs[seq].phase is not _SUCCEEDED
    )


def _fault_of(state: State, record: JobSubmitRequested) -> Fault | None:
    """Why a submission is refused: first what it says of itself, then what the cell says of it."""
    if not record.job:
        return (_VALUE_OUT_OF_RANGE, 0, 1)
    if record.job in state.job_by_key:
        return (_JOB_EXISTS, 0, 0)
    if not state.shapes.knows(record.roles, record.min_available):  # else checked before
        fault = roles_fault(record.roles, record.min_available)
        if fault is not None:
            return fault
    retry = record.retry
    numbers = (
        record.runtime_estimate_ns,
        record.time_limit_ns,
        record.sla_waiting_ns,
        retry.limit,
        retry.backoff_ns,
        retry.backoff_max_ns,
        record.backfill_risk_milli,
    )
    if (least := min(numbers)) < 0:
        return (_VALUE_OUT_OF_RANGE, least, 0)
    if (greatest := max(numbers)) > NUMBER_MAX:
        return (_VALUE_OUT_OF_RANGE, greatest, NUMBER_MAX)
    if retry.backoff_max_ns < retry.backoff_ns:
        return (_VALUE_OUT_OF_RANGE, retry.backoff_ns, retry.backoff_max_ns)
    if abs(record.priority) > PRIORITY_MAX:
        return (_VALUE_OUT_OF_RANGE, record.priority, PRIORITY_MAX)
    place = state.queue_by_name.get(record.queue)
    if place is None or state.queues[place].is_removed:
        return (_QUEUE_UNKNOWN, 0, 0)
    queue = state.queues[place]
    if queue.children:
        return (_QUEUE_NOT_A_LEAF, len(queue.children), 0)
    if queue.is_closed:
        return (_QUEUE_CLOSED, 0, 0)
    if record.priority_class and record.priority_class not in state.policy.classes:
        return (_PRIORITY_CLASS_UNKNOWN, 0, 0)
    if record.dependencies and any(key not in state.job_by_key for key in record.dependencies):
        return (_DEPENDENCY_UNKNOWN, 0, 0)
    return None


def roles_fault(roles: tuple[Role, ...], min_available: int) -> Fault | None:
    """What is wrong with a job's roles."""
    if not roles:
        return (_ROLE_MISSING, 0, 1)
    if len(roles) > ROLES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(roles), ROLES_MAX)
    if len({role.name: None for role in roles}) < len(roles):
        return (_ROLE_DUPLICATE, len(roles), 0)
    for role in roles:
        if not 0 < role.replicas <= CARDS_MAX:
            return (_VALUE_OUT_OF_RANGE, role.replicas, CARDS_MAX)
        if role.min_available < 0:
            return (_VALUE_OUT_OF_RANGE, role.min_available, 0)
        if role.min_available > role.replicas:
            return (_MIN_ABOVE_REPLICAS, role.min_available, role.replicas)
        fault = _request_fault(role)
        if fault is not None:
            return fault
    if min_available < 0:
        return (_VALUE_OUT_OF_RANGE, min_available, 0)
    replicas = sum(role.replicas for role in roles)
    if replicas > CARDS_MAX:
        return (_VALUE_OUT_OF_RANGE, replicas, CARDS_MAX)
    if min_available > replicas:
        return (_MIN_ABOVE_REPLICAS, min_available, replicas)
    return None


def _request_fault(role: Role) -> Fault | None:
    request = role.request
    if len(request.resources) > NAMES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(request.resources), NAMES_MAX)
    unnamed = names_defect(request.resources)
    if unnamed:
        return (_VALUE_OUT_OF_RANGE, unnamed, 0)
    amounts = [amount.count for amount in request.resources]
    numbers = (
        request.cards,
        request.card_milli,
        request.card_memory_mib,
        request.min_card_memory_mib,
        request.cpu_milli,
        request.memory_mib,
        *amounts,
    )
    if min(numbers) < 0:
        return (_VALUE_OUT_OF_RANGE, min(numbers), 0)
    if max(numbers) > QUANTITY_MAX:
        return (_VALUE_OUT_OF_RANGE, max(numbers), QUANTITY_MAX)
    if request.cards > CARDS_MAX:
        return (_VALUE_OUT_OF_RANGE, request.cards, CARDS_MAX)
    if request.card_milli >= 1000 or (request.cards and request.card_milli):
        return (_VALUE_OUT_OF_RANGE, request.card_milli, 0 if request.cards else 999)
    if request.card_memory_mib and not request.card_milli:
        return (_VALUE_OUT_OF_RANGE, request.card_memory_mib, 0)
    return None


def _known(state: State, key: str) -> Job | None:
    """The job of a request that names one; says the rejection when it cannot be changed."""
    seq = state.job_by_key.get(key)
    if seq is None:
        reject(state, _JOB_UNKNOWN, key)
        return None
    job = state.jobs[seq]
    if job.phase in ENDED or job.ending is not _UNKNOWN:
        reject(state, _JOB_ENDED, key)
        return None
    return job


def cancel(state: State, record: JobCancelRequested) -> None:
    """End a job as cancelled."""
    job = _known(state, record.job)
    if job is not None:
        end_job(state, job, _CANCELLED, _CANCEL_REQUESTED)


def update(state: State, record: JobUpdateRequested) -> None:
    """Change priority, hold or release, scale roles."""
    job = _known(state, record.job)
    if job is None:
        return
    roles = job.shape.roles
    min_available = job.shape.key[1]
    if record.scale:
        names = [role.name for role in roles]
        unknown = [scale.role for scale in record.scale if scale.role not in names]
        if unknown:
            reject(state, _ROLE_UNKNOWN, record.job)
            return
        roles = tuple(_scaled(role, record.scale) for role in roles)
        min_available = min(min_available, sum(role.replicas for role in roles))
        fault = roles_fault(roles, min_available)
        if fault is not None:
            reject(state, fault[0], record.job, fault[1], fault[2])
            return
    if record.priority is not None and abs(record.priority) > PRIORITY_MAX:
        reject(state, _VALUE_OUT_OF_RANGE, record.job, record.priority, PRIORITY_MAX)
        return
    step_out(state, job)
    progress.restore(state, job)
    if record.priority is not None:
        job.priority = record.priority
    if record.held is not None:
        job.held = record.held
    if record.scale:
        _scale(state, job, roles, min_available)
    settle(state, job)


def _scaled(role: Role, scales: tuple[RoleScale, ...]) -> Role:
    for scale in scales:
        if scale.role == role.name:
            return replace(role, replicas=scale.replicas, min_available=scale.min_available)
    return role


def _scale(state: State, job: Job, roles: tuple[Role, ...], min_available: int) -> None:
    """Give a job other sizes: pods beyond them are no longer wanted, the highest numbers first."""
    queue = state.queues[job.queue]
    had_claim = job.claims
    quota.disclaim(state, job)
    for role, shape in zip(job.roles, job.shape.shapes, strict=True):
        quota.expect(queue, shape.charges, -role.pending())
    old = job.shape
    job.shape = state.shapes.take(roles, min_available)
    state.shapes.drop(old)
    job.is_scaled = job.shape.key != (job.request.roles, job.request.min_available)
    for position, role in enumerate(job.roles):
        _resize(state, job, position, roles[position].replicas)
        quota.expect(queue, job.shape.shapes[position].charges, role.pending())
    retell(state, job)
    if had_claim:
        quota.claim(state, job)


def _resize(state: State, job: Job, position: int, replicas: int) -> None:
    """Set a role's size. Pods beyond it are given up, their numbers free to be used anew."""
    role = job.roles[position]
    role.replicas = replicas
    again = dict.fromkeys(role.returned or ())
    role.returned = [local for local in again if local < replicas] or None
    for local in range(replicas, role.fresh):
        index = local * len(job.roles) + position
        pod = job.pods.get(index) if job.pods else None
        if job.attempts is None:
            job.attempts = {}
        job.attempts.setdefault(index, 1)  # placed before, never returned: its first attempt
        if pod is not None:
            evict(state, job, pod, _SCALED_DOWN, 0, replicas)
            detach(state, job, pod)
        elif local not in again and role.succeeded:
            role.succeeded -= 1  # its success counts no more: grown again, the job runs it anew
    role.fresh = min(role.fresh, replicas)

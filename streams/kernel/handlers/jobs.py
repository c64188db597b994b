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
from ganger.streams.kernel.backfill.estimates import renewed
from ganger.streams.kernel.decide import reject
from ganger.streams.kernel.digest import retell
from ganger.streams.kernel.entities import ENDED, Job
from ganger.streams.kernel.handlers.job_faults import (
    Fault,
    bounds_fault,
    groups_fault,
    job_fault,
    roles_fault,
)
from ganger.streams.kernel.jobs import deadlines, progress, submissions
from ganger.streams.kernel.jobs.attempts import detach, end_job, settle, watch
from ganger.streams.kernel.jobs.lifecycle_actions import abort, is_aborted
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.jobs.new_jobs import add_job
from ganger.streams.kernel.limits import NUMBER_MAX, PRIORITY_MAX
from ganger.streams.kernel.preemption.evictions import evict
from ganger.streams.kernel.queues import held_quota, priorities, quota
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
_HELD = Reason.HELD
_JOB_ENDED = Reason.JOB_ENDED
_JOB_EXISTS = Reason.JOB_EXISTS
_JOB_UNKNOWN = Reason.JOB_UNKNOWN
_NO_REASON = Reason.UNKNOWN
_PRIORITY_CLASS_UNKNOWN = Reason.PRIORITY_CLASS_UNKNOWN
_QUEUE_CLOSED = Reason.QUEUE_CLOSED
_QUEUE_NOT_A_LEAF = Reason.QUEUE_NOT_A_LEAF
_QUEUE_UNKNOWN = Reason.QUEUE_UNKNOWN
_ROLE_UNKNOWN = Reason.ROLE_UNKNOWN
_SCALED_DOWN = Reason.SCALED_DOWN
_VALUE_OUT_OF_RANGE = Reason.VALUE_OUT_OF_RANGE


def submit(state: State, record: JobSubmitRequested) -> None:
    """A job enters in phase PENDING, or is rejected."""
    fault = _fault_of(state, record)
    if fault is not None:
        reject(state, fault[0], record.job, fault[1], fault[2])
        return
    job = add_job(state, record, _PENDING)
    queue = state.queues[job.queue]
    if queue.gates:
        submissions.count(state, queue, record)
    if record.actions:
        watch(state, job)
    if state.policy.sla_waiting_ns is not None:
        deadlines.watch(state, job)
    if job.dependencies and any(state.jobs[seq].phase in ENDED for seq in job.dependencies):
        _resolve(state, job)
    line_up(state, job)


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
    fault = job_fault(state, record)
    if fault is not None:
        return fault
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
    if queue.gates or queue.tenants:
        return submissions.refusal(state, queue, record)
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
    """Change priority, hold or release, scale roles, say anew what is expected of it."""
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
        fault = roles_fault(roles, min_available) or groups_fault(job.request.groups, roles)
        if fault is not None:
            reject(state, fault[0], record.job, fault[1], fault[2])
            return
    fault = bounds_fault(
        (record.priority or 0, -PRIORITY_MAX, PRIORITY_MAX),
        (record.runtime_estimate_ns or 0, 0, NUMBER_MAX),
        (record.time_limit_ns or 0, 0, NUMBER_MAX),
        (record.backfill_risk_milli or 0, 0, NUMBER_MAX),
    )
    if fault is not None:
        reject(state, fault[0], record.job, fault[1], fault[2])
        return
    step_out(state, job)
    progress.restore(state, job)
    if record.priority is not None:
        priorities.leave(state.indexes.priorities, job)
        job.priority = record.priority
        priorities.join(state.indexes.priorities, job)
    _wish(state, job, record)
    if record.scale:
        if job.flavors and not job.admitted_counts:  # quota was not asked for more than it has
            job.admitted_counts = tuple([role.replicas for role in job.roles])
        _scale(state, job, roles, min_available)
        if job.flavors:
            held_quota.recount(state, job)
    if record.deactivated:
        abort(state, job, _HELD)
        return
    _hold(state, job, record)
    settle(state, job)
    if record.runtime_estimate_ns is not None or record.time_limit_ns is not None:
        renewed(state, job)


def _hold(state: State, job: Job, record: JobUpdateRequested) -> None:
    """Hold or release a job; one that was deactivated is released when it is active again."""
    held = record.held
    if record.deactivated is False and is_aborted(job):
        held = False if held is None else held
    if held is False and job.held:
        job.reason = _NO_REASON
        watch(state, job)
    if held is not None:
        job.held = held


def _wish(state: State, job: Job, record: JobUpdateRequested) -> None:
    """The job's owner changes what is expected of it and what it accepts."""
    named: dict[str, object] = {  # as `int`, compiled, a preference would be a bare number
        "runtime_estimate_ns": record.runtime_estimate_ns,
        "time_limit_ns": record.time_limit_ns,
        "backfill": record.backfill,
        "backfill_risk_milli": record.backfill_risk_milli,
    }
    changes = {field: value for field, value in named.items() if value is not None}
    if changes:
        asked = job.request = replace(job.request, **changes)
        job.wishes = (
            asked.runtime_estimate_ns,
            asked.time_limit_ns,
            asked.backfill,
            asked.backfill_risk_milli,
        )


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
    job.shape = state.shapes.take(roles, min_available, job.shape.bonds)
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
        elif local not in again and role.succeeded and not _is_given_up(job, index):
            role.succeeded -= 1  # its success counts no more: grown again, the job runs it anew
    role.fresh = min(role.fresh, replicas)


def _is_given_up(job: Job, index: int) -> bool:
    """Whether a pod has used up its retries and the job goes on without it."""
    return job.failures is not None and job.failures.get(index, 0) > job.request.retry.limit

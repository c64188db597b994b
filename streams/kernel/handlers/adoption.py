"""Pods that ran already when the cell was taken over become known, each with its job.

A pod may belong to a job that was submitted before; otherwise its job is made here, with one role
and as many pods as adoptions tell of.
"""

from msgspec.structs import replace

from ganger.schemas.enums import BackfillPreference, IslandPolicy, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    CardSpan,
    FlavorChoice,
    JobSubmitRequested,
    PodAdopted,
    PodRequest,
    RetryPolicy,
    Role,
)
from ganger.streams.kernel.backfill.estimates import note
from ganger.streams.kernel.decide import reject
from ganger.streams.kernel.digest import holds_all, retell
from ganger.streams.kernel.entities import ENDED, Job, Node, Pod, Queue
from ganger.streams.kernel.handlers.job_faults import Fault, labels_fault, roles_fault
from ganger.streams.kernel.jobs.attempts import settle
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.lines import step_out
from ganger.streams.kernel.jobs.new_jobs import add_job
from ganger.streams.kernel.limits import (
    ATTEMPT_MAX,
    CARDS_MAX,
    NAMES_MAX,
    NUMBER_MAX,
    PRIORITY_MAX,
    SPANS_MAX,
)
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.preemption.evictions import protect
from ganger.streams.kernel.queues import held_quota, quota
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake
from ganger.streams.kernel.topology import mask_of

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED
_PENDING = Phase.PENDING
_RELEASING = Phase.RELEASING
_RUNNING = Phase.RUNNING
_UNKNOWN = Phase.UNKNOWN
_CARDS_TAKEN = Reason.CARDS_TAKEN
_FLAVOR_UNKNOWN = Reason.FLAVOR_UNKNOWN
_JOB_ENDED = Reason.JOB_ENDED
_NODE_UNKNOWN = Reason.NODE_UNKNOWN
_NODE_UNREACHABLE = Reason.NODE_UNREACHABLE
_POD_EXISTS = Reason.POD_EXISTS
_QUEUE_NOT_A_LEAF = Reason.QUEUE_NOT_A_LEAF
_QUEUE_UNKNOWN = Reason.QUEUE_UNKNOWN
_ROLE_UNKNOWN = Reason.ROLE_UNKNOWN
_VALUE_OUT_OF_RANGE = Reason.VALUE_OUT_OF_RANGE


def adopted(state: State, record: PodAdopted) -> None:
    """A pod that is bound or runs already becomes known, with its job."""
    fault = _spans_fault(record.cards)
    mask = 0 if fault is not None else mask_of(record.cards)
    if fault is None:
        fault = _fault_of(state, record, mask)
    if fault is not None:
        reject(state, fault[0], record.job, fault[1], fault[2])
        return
    node = state.nodes[state.node_by_name[record.node]]
    seq = state.job_by_key.get(record.job)
    job = _job_of(state, record) if seq is None else state.jobs[seq]
    step_out(state, job)
    if seq is not None:
        _grow_to(state, job, record.pod + 1)
    _choose_flavors(state, job, record.flavors)
    pod = _pod_of(state, job, node, record, mask)
    pod.is_untold = holds_all(job)
    state.touch_pod(job, pod)
    node.pods[(job.seq, pod.index, pod.attempt)] = pod
    if job.pods is None:
        job.pods = {}
    job.pods[pod.index] = pod
    if pod.attempt == 1 and not 0 < pod.started_ns < pod.allocated_ns:
        if job.attempts is None:
            job.attempts = {}
        job.attempts[pod.index] = 0  # so that its end will be remembered: see `end_attempt`
    queue = state.queues[job.queue]
    _book(job, queue, pod)
    quota.charge(state, queue, pod.shape.charges, 1)
    node.unknown = tuple(u for u in node.unknown if u != (record.job, record.pod, record.attempt))
    state.touch(node)
    occupancy.recount(state, node)
    occupancy.stir(state)
    state.shake(node)
    occupancy.offer(state, node)
    if state.indexes.futures is not None:
        note(state, state.indexes.futures, job, pod)
    job.last_tier = pod.tier
    job.dependencies = ()  # it runs already
    _move_on(state, job, pod)
    if state.indexes.uncounted is not None:
        state.indexes.uncounted[job.seq] = job
    if job.shape.is_elastic:
        state.indexes.elastic[job.seq] = job
    if job.flavors:
        held_quota.recount(state, job)
    if state.policy.protected and pod.phase is _RUNNING:
        protect(state, job, pod)
    settle(state, job)


def _pod_of(state: State, job: Job, node: Node, record: PodAdopted, mask: int) -> Pod:
    """The attempt as the record tells of it. One that leaves was told so before it was known."""
    started_ns = max(0, min(record.started_ns, state.now_ns))
    phase = _RUNNING if started_ns else _ALLOCATED
    pod = Pod(
        job.seq,
        record.pod,
        record.attempt,
        node.index,
        job.shape.shapes[record.pod % len(job.roles)],
        mask,
        record.card_milli,
        record.card_memory_mib,
        record.tier or Tier.MAIN,
        phase,
        state.cause,
        state.now_ns,
    )
    pod.started_ns = started_ns
    if record.is_leaving:
        pod.phase = _RELEASING
        pod.evict_seq = state.cause
        quota.depart(state, state.queues[job.queue], pod.shape.charges, 1)
    elif phase is _ALLOCATED:
        due = state.now_ns + state.policy.settings.start_timeout_ns
        state.indexes.timers.at(due, Wake.POD_START, pod.job, pod.index, pod.attempt)
    return pod


def _move_on(state: State, job: Job, pod: Pod) -> None:
    """The job is at least as far as its pod."""
    if job.phase is _RUNNING or (job.phase is _ALLOCATED and not pod.started_ns):
        return
    quota.disclaim(state, job)
    move_job(state, job, _RUNNING if pod.started_ns else _ALLOCATED)


def _choose_flavors(state: State, job: Job, flavors: tuple[FlavorChoice, ...]) -> None:
    """What the job's use is counted in, where that was not settled before."""
    if not flavors:
        return
    chosen = {(choice.role, choice.resource): choice for choice in (*flavors, *job.flavors)}
    job.flavors = tuple([chosen[key] for key in sorted(chosen)])
    state.touch(job)


# ---- what is wrong with an adoption -------------------------------------------------------------


def _spans_fault(cards: tuple[CardSpan, ...]) -> Fault | None:
    if len(cards) > SPANS_MAX:
        return (_VALUE_OUT_OF_RANGE, len(cards), SPANS_MAX)
    for span in cards:
        if min(span.first, span.count) < 0 or span.first + span.count > CARDS_MAX:
            return (_VALUE_OUT_OF_RANGE, min(span.first, span.count), CARDS_MAX)
    return None


def _fault_of(state: State, record: PodAdopted, mask: int) -> Fault | None:
    if not record.job:
        return (_VALUE_OUT_OF_RANGE, 0, 1)
    place = state.node_by_name.get(record.node)
    if place is None:
        return (_NODE_UNKNOWN, 0, 0)
    if state.nodes[place].is_lost:  # its return will show whether the pod still runs
        return (_NODE_UNREACHABLE, 0, 0)
    queue: Queue | None = None
    if record.queue in state.queue_by_name:
        queue = state.queues[state.queue_by_name[record.queue]]
    if queue is None or queue.is_removed:
        return (_QUEUE_UNKNOWN, 0, 0)
    if queue.children:
        return (_QUEUE_NOT_A_LEAF, len(queue.children), 0)
    fault = _numbers_fault(record)
    if fault is None:
        fault = roles_fault((_role_of(record, record.pod + 1),), 0)
    if fault is None:
        fault = _flavors_fault(state, record)
    if fault is None:
        seq = state.job_by_key.get(record.job)
        if seq is not None:
            fault = _place_fault(state.jobs[seq], record)
    return fault or _cards_fault(state.nodes[place], record, mask)


def _numbers_fault(record: PodAdopted) -> Fault | None:
    if record.pod < 0 or record.attempt < 1:
        return (_VALUE_OUT_OF_RANGE, min(record.pod, record.attempt), 0)
    if record.time_limit_ns < 0:
        return (_VALUE_OUT_OF_RANGE, record.time_limit_ns, 0)
    for value, most in (
        (record.attempt, ATTEMPT_MAX),
        (abs(record.priority), PRIORITY_MAX),
        (abs(record.runtime_estimate_ns), NUMBER_MAX),
        (record.time_limit_ns, NUMBER_MAX),
    ):
        if value > most:
            return (_VALUE_OUT_OF_RANGE, value, most)
    return labels_fault(record.labels)


def _flavors_fault(state: State, record: PodAdopted) -> Fault | None:
    if len(record.flavors) > NAMES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(record.flavors), NAMES_MAX)
    for choice in record.flavors:
        if choice.role != record.role:
            return (_ROLE_UNKNOWN, 0, 0)
        if choice.flavor not in state.flavors:
            return (_FLAVOR_UNKNOWN, 0, 0)
    return None


def _place_fault(job: Job, record: PodAdopted) -> Fault | None:
    """Whether a job that is known has such a pod, and not yet."""
    if job.phase in ENDED or job.ending is not _UNKNOWN:
        return (_JOB_ENDED, 0, 0)
    position = record.pod % len(job.roles)
    if len(job.roles) > 1 and job.shape.roles[position].name != record.role:
        return (_ROLE_UNKNOWN, 0, 0)
    if not _asks(job.shape.shapes[position], record):
        return (_ROLE_UNKNOWN, 0, 0)
    if job.pods and record.pod in job.pods:
        return (_POD_EXISTS, record.pod, 0)
    if job.attempts and record.attempt <= job.attempts.get(record.pod, 0):
        return (_POD_EXISTS, record.pod, 0)
    role = job.roles[position]
    local = record.pod // len(job.roles)
    if local >= role.replicas and (len(job.roles) > 1 or role.pending()):
        return (_VALUE_OUT_OF_RANGE, record.pod, role.replicas * len(job.roles) - 1)
    return None


def _asks(shape: Shape, record: PodAdopted) -> bool:
    """Whether a pod of the shape holds just what the record tells of."""
    held = _request_of(record)
    extra = sorted((a.resource, a.count) for a in shape.request.resources if a.count)
    return (
        shape.cards == held.cards
        and shape.card_milli == held.card_milli
        and shape.card_memory == held.card_memory_mib
        and shape.cpu == held.cpu_milli
        and shape.memory == held.memory_mib
        and extra == sorted((a.resource, a.count) for a in held.resources if a.count)
    )


def _cards_fault(node: Node, record: PodAdopted, mask: int) -> Fault | None:
    held = 0
    for pod in node.pods.values():
        held |= pod.mask
    if record.card_milli:
        card = mask.bit_length() - 1
        room = node.shared.get(card)
        free = room[0] if room is not None else (0 if held & mask else 1000)
        if mask.bit_count() != 1 or free < record.card_milli:
            return (_CARDS_TAKEN, record.card_milli, free)
        held = 0
    cards = sum(run.count for run in node.report.cards)
    if mask & held or mask >> cards:
        return (_CARDS_TAKEN, mask.bit_count(), (mask & ~held).bit_count())
    return None


# ---- the job of an adopted pod ------------------------------------------------------------------


def _request_of(record: PodAdopted) -> PodRequest:
    cards = 0 if record.card_milli else mask_of(record.cards).bit_count()
    return PodRequest(
        cards,
        record.card_milli,
        record.card_memory_mib,
        0,
        (),
        IslandPolicy.ANY,
        record.cpu_milli,
        record.memory_mib,
        record.resources,
        (),
        (),
    )


def _role_of(record: PodAdopted, replicas: int) -> Role:
    return Role(record.role, replicas, 0, _request_of(record), labels=record.labels)


def _job_of(state: State, record: PodAdopted) -> Job:
    """The job of an adopted pod that no request made: as many pods as adoptions tell of."""
    request = JobSubmitRequested(
        record.time_ns,
        record.event_id,
        None,
        record.job,
        record.queue,
        record.user,
        record.tenant,
        "",
        record.priority,
        (_role_of(record, record.pod + 1),),
        0,
        record.runtime_estimate_ns,
        record.time_limit_ns,
        record.can_checkpoint,
        record.accepts_suspend,
        BackfillPreference.ACCEPT,
        0,
        0,
        (),
        RetryPolicy(0, 0, 0),
        -1,
        False,
    )
    job = add_job(state, request, _PENDING)
    role = job.roles[0]
    queue = state.queues[job.queue]
    quota.expect(queue, job.shape.shapes[0].charges, -role.pending())
    role.fresh = role.replicas  # the others run too, or never did: nothing of it is to be placed
    return job


def _grow_to(state: State, job: Job, replicas: int) -> None:
    """A job of one role has more pods than were known."""
    role = job.roles[0]
    if len(job.roles) > 1 or replicas <= role.replicas:
        return
    spec = job.shape.roles[0]
    old = job.shape
    had_claim = job.claims
    quota.disclaim(state, job)
    roles = (replace(spec, replicas=replicas),)
    job.shape = state.shapes.take(roles, job.shape.key[1], job.shape.bonds)
    state.shapes.drop(old)
    job.is_scaled = job.shape.key != (job.request.roles, job.request.min_available)
    if had_claim:
        quota.claim(state, job)
    # those that were to be placed still are; those between them and this one run, or never did
    unplaced = [*(role.returned or ()), *range(role.fresh, role.replicas)]
    role.returned = sorted(unplaced) or None
    role.replicas = role.fresh = replicas
    retell(state, job)


def _book(job: Job, queue: Queue, pod: Pod) -> None:
    """Take the pod's number out of those to be placed."""
    role = job.roles[pod.index % len(job.roles)]
    number = pod.index // len(job.roles)
    before = role.pending()
    if role.returned and number in role.returned:
        role.returned = [local for local in role.returned if local != number] or None
    elif number >= role.fresh:
        skipped = range(role.fresh, number)
        role.fresh = number + 1
        if skipped:
            role.returned = sorted([*(role.returned or ()), *skipped])
    role.live += 1
    quota.expect(queue, pod.shape.charges, role.pending() - before)

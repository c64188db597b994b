"""Facts about attempts. One of an attempt that does not live changes nothing."""

from msgspec.structs import replace

from ganger.schemas.enums import BackfillPreference, FailureKind, IslandPolicy, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    CardSpan,
    JobSubmitRequested,
    PodAdopted,
    PodCheckpointed,
    PodFailed,
    PodProgressed,
    PodReleased,
    PodRequest,
    PodStarted,
    PodSucceeded,
    RetryPolicy,
    Role,
)
from ganger.streams.kernel import occupancy, quota
from ganger.streams.kernel.attempts import end_attempt, end_job, find, settle
from ganger.streams.kernel.decide import reject
from ganger.streams.kernel.digest import holds_all, retell
from ganger.streams.kernel.entities import ENDED, Job, Node, Pod, Queue
from ganger.streams.kernel.handlers.jobs import add_job, roles_fault
from ganger.streams.kernel.lifecycle import move_job, move_pod
from ganger.streams.kernel.limits import (
    ATTEMPT_MAX,
    CARDS_MAX,
    NUMBER_MAX,
    PRIORITY_MAX,
    SPANS_MAX,
)
from ganger.streams.kernel.lines import step_out
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake
from ganger.streams.kernel.topology import mask_of

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED
_EVICTED = Phase.EVICTED
_FAILED = Phase.FAILED
_PENDING = Phase.PENDING
_RELEASING = Phase.RELEASING
_RUNNING = Phase.RUNNING
_SUCCEEDED = Phase.SUCCEEDED
_UNKNOWN = Phase.UNKNOWN
_CARDS_TAKEN = Reason.CARDS_TAKEN
_JOB_ENDED = Reason.JOB_ENDED
_NODE_UNKNOWN = Reason.NODE_UNKNOWN
_NODE_UNREACHABLE = Reason.NODE_UNREACHABLE
_POD_EXISTS = Reason.POD_EXISTS
_QUEUE_NOT_A_LEAF = Reason.QUEUE_NOT_A_LEAF
_QUEUE_UNKNOWN = Reason.QUEUE_UNKNOWN
_RETRY_LIMIT = Reason.RETRY_LIMIT
_ROLE_UNKNOWN = Reason.ROLE_UNKNOWN
_VALUE_OUT_OF_RANGE = Reason.VALUE_OUT_OF_RANGE
_MAIN = Tier.MAIN
_JOB_BACKOFF = Wake.JOB_BACKOFF


def started(state: State, record: PodStarted) -> None:
    """An attempt runs; so does its job."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    if pod.started_ns:
        return
    pod.started_ns = state.now_ns
    if pod.phase is _ALLOCATED:
        move_pod(state, job, pod, _RUNNING)
        if job.phase is _ALLOCATED:
            move_job(state, job, _RUNNING)
    else:
        state.touch_pod(job, pod)
    if not job.first_started_ns:
        job.first_started_ns = state.now_ns
        state.touch(job)


def progressed(state: State, record: PodProgressed) -> None:
    """How far an attempt is; never backwards."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is not None and 1000 >= record.progress_milli > found[1].progress_milli:
        found[1].progress_milli = record.progress_milli
        state.touch_pod(*found)


def checkpointed(state: State, record: PodCheckpointed) -> None:
    """How far the saved state of an attempt is."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is not None and 1000 >= record.progress_milli > found[1].checkpoint_milli:
        found[1].checkpoint_milli = record.progress_milli
        state.touch_pod(*found)


def succeeded(state: State, record: PodSucceeded) -> None:
    """An attempt ended well, even if it had been told to end."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    step_out(state, job)
    end_attempt(state, job, pod, _SUCCEEDED)
    settle(state, job)


def released(state: State, record: PodReleased) -> None:
    """An attempt is gone and its pod, unless the job is ending, is to be placed again."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    step_out(state, job)
    end_attempt(state, job, pod, _EVICTED)
    settle(state, job)


def failed(state: State, record: PodFailed) -> None:
    """An attempt ended badly: try the pod again, or end the job when its retries are used up."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    step_out(state, job)
    if pod.phase is _RELEASING:
        end_attempt(state, job, pod, _EVICTED)
        settle(state, job)
        return
    end_attempt(state, job, pod, _FAILED)
    if job.failures is None:
        job.failures = {}
    count = job.failures[pod.index] = job.failures.get(pod.index, 0) + 1
    retry = job.request.retry
    if count > retry.limit:
        end_job(state, job, _FAILED, _RETRY_LIMIT, count, retry.limit)
        return
    if record.failure is FailureKind.START_FAILED and pod.node not in job.avoid:
        job.avoid = tuple(sorted((*job.avoid, pod.node)))
    if retry.backoff_ns:
        wait = min(
            retry.backoff_ns << min(count - 1, 62), max(retry.backoff_max_ns, retry.backoff_ns)
        )
        job.not_before_ns = max(job.not_before_ns, state.now_ns + wait)
        state.indexes.timers.at(job.not_before_ns, _JOB_BACKOFF, job.seq)
    settle(state, job)


# ---- adoption -----------------------------------------------------------------------------------


def adopted(state: State, record: PodAdopted) -> None:
    """A pod that runs already becomes known, with its job."""
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
    queue = state.queues[job.queue]
    shape = job.shape.shapes[0]
    pod = Pod(
        job.seq,
        record.pod,
        record.attempt,
        node.index,
        shape,
        mask,
        record.card_milli,
        record.card_memory_mib,
        _MAIN,
        _RUNNING,
        state.cause,
        state.now_ns,
        started_ns=max(1, min(record.started_ns, state.now_ns)),  # 0 would say: not started
    )
    pod.is_untold = holds_all(job)
    state.touch_pod(job, pod)
    node.pods[(job.seq, pod.index, pod.attempt)] = pod
    if job.pods is None:
        job.pods = {}
    job.pods[pod.index] = pod
    _book(job, queue, pod)
    quota.charge(state, queue, shape.charges, 1)
    node.unknown = tuple(u for u in node.unknown if u != (record.job, record.pod, record.attempt))
    state.touch(node)
    occupancy.recount(state, node)
    occupancy.offer(state, node)
    job.last_tier = _MAIN
    job.dependencies = ()  # it runs already
    if job.phase is not _RUNNING:
        quota.disclaim(state, job)
        move_job(state, job, _RUNNING)
    settle(state, job)


def _spans_fault(cards: tuple[CardSpan, ...]) -> tuple[Reason, int, int] | None:
    if len(cards) > SPANS_MAX:
        return (_VALUE_OUT_OF_RANGE, len(cards), SPANS_MAX)
    for span in cards:
        if min(span.first, span.count) < 0 or span.first + span.count > CARDS_MAX:
            return (_VALUE_OUT_OF_RANGE, min(span.first, span.count), CARDS_MAX)
    return None


def _fault_of(state: State, record: PodAdopted, mask: int) -> tuple[Reason, int, int] | None:
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
    if record.pod < 0 or record.attempt < 1:
        return (_VALUE_OUT_OF_RANGE, min(record.pod, record.attempt), 0)
    for value, most in (
        (record.attempt, ATTEMPT_MAX),
        (abs(record.priority), PRIORITY_MAX),
        (abs(record.runtime_estimate_ns), NUMBER_MAX),
    ):
        if value > most:
            return (_VALUE_OUT_OF_RANGE, value, most)
    fault = roles_fault((_role_of(record, record.pod + 1),), 0)
    if fault is not None:
        return fault
    seq = state.job_by_key.get(record.job)
    if seq is not None:
        job = state.jobs[seq]
        if job.phase in ENDED or job.ending is not _UNKNOWN:
            return (_JOB_ENDED, 0, 0)
        if len(job.roles) != 1 or job.shape.shapes[0].request != _request_of(record):
            return (_ROLE_UNKNOWN, 0, 0)
        if job.pods and record.pod in job.pods:
            return (_POD_EXISTS, record.pod, 0)
        if job.attempts and record.attempt <= job.attempts.get(record.pod, 0):
            return (_POD_EXISTS, record.pod, 0)
        role = job.roles[0]
        if record.pod >= role.replicas and role.pending():
            return (_VALUE_OUT_OF_RANGE, record.pod, role.replicas - 1)
    return _cards_fault(state.nodes[place], record, mask)


def _cards_fault(node: Node, record: PodAdopted, mask: int) -> tuple[Reason, int, int] | None:
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
        (),
        (),
        (),
    )


def _role_of(record: PodAdopted, replicas: int) -> Role:
    return Role(record.role, replicas, 0, _request_of(record))


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
        0,
        False,
        False,
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
    """An adopted job has more pods than were known."""
    role = job.roles[0]
    if replicas <= role.replicas:
        return
    spec = job.shape.roles[0]
    old = job.shape
    had_claim = job.claims
    quota.disclaim(state, job)
    job.shape = state.shapes.take((replace(spec, replicas=replicas),), job.shape.key[1])
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
    role = job.roles[0]
    before = role.pending()
    if role.returned and pod.index in role.returned:
        role.returned = [local for local in role.returned if local != pod.index] or None
    elif pod.index >= role.fresh:
        skipped = range(role.fresh, pod.index)
        role.fresh = pod.index + 1
        if skipped:
            role.returned = sorted([*(role.returned or ()), *skipped])
    role.live += 1
    quota.expect(queue, pod.shape.charges, role.pending() - before)

"""Attempts that stop and go on: told to suspend, suspended, told to resume, running again.

    RUNNING --tell--> RELEASING --suspended--> SUSPENDED --resume--> ALLOCATED --resumed--> RUNNING

It may be warned first, and has its grace to stop in (module `evictions`). While it stops an attempt
holds what it held and counts as leaving. A suspended one rests: it keeps
its host memory and its pod slot, and has given back its cards, cpu and all else. So it has another
shape (`rest_of`) and no mask until it is resumed, on cards of the same node; it may be evicted at
any time, and its job may then have its pod placed elsewhere at once (`attempts.detach`).

`Pod.suspended_ns` says since when it was told or rests; `ran_ns` how long it ran before that;
`started_ns` since when it has run without a break.
"""

from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import estimates
from ganger.streams.kernel.decide import Cause, say_told
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.jobs.lifecycle import move_job, move_pod
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.preemption.evictions import grace_ns
from ganger.streams.kernel.queues import quota, usage
from ganger.streams.kernel.resources import rest_of
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED
_RELEASING = Phase.RELEASING
_RUNNING = Phase.RUNNING
_SUSPENDED = Phase.SUSPENDED
_NO_REASON = Reason.UNKNOWN


def may_suspend(job: Job, pod: Pod) -> bool:
    """Whether an attempt can be told to suspend, and has not been warned that it, or worse, will
    come.
    """
    return not pod.notice_until_ns and can_suspend(job, pod)


def can_suspend(job: Job, pod: Pod) -> bool:
    """Whether an attempt runs on cards and its job takes a suspension well."""
    asked = job.request
    return bool(
        pod.phase is _RUNNING
        and pod.mask
        and pod.started_ns
        and asked.accepts_suspend
        and asked.can_checkpoint
    )


def is_stopping(pod: Pod) -> bool:
    """Whether an attempt was told to suspend, and not to end, and has not stopped yet."""
    return pod.phase is _RELEASING and pod.suspended_ns > 0


def tell(state: State, job: Job, pod: Pod, cause: Cause) -> None:
    """Tell a running attempt to suspend. It holds its cards until it says that it has stopped.

    `Pod.for_job` is left to whoever calls. The job must stand in no line.
    """
    assert can_suspend(job, pod), (job.request.job, pod.index, pod.phase)
    grace = grace_ns(state, job, pod)
    if not quota.is_departing(pod):
        quota.depart(state, state.queues[job.queue], pod.shape.charges, 1)
    move_pod(state, job, pod, _RELEASING)
    pod.notice_until_ns = 0
    pod.evict_seq = state.cause
    pod.evict_reason = cause.reason
    pod.suspended_ns = state.now_ns
    until_ns = state.now_ns + grace if grace else 0
    say_told(state, DecisionKind.SUSPEND, job, pod, cause, until_ns)


def suspended(state: State, job: Job, pod: Pod, progress_milli: int) -> None:
    """An attempt that was told to suspend has stopped; what it held is offered to all.

    The job must stand in no line and be settled next.
    """
    assert is_stopping(pod), (job.request.job, pod.index, pod.phase)
    queue, node = state.queues[job.queue], state.nodes[pod.node]
    usage.charge(state, job, pod)
    quota.depart(state, queue, pod.shape.charges, -1)
    quota.charge(state, queue, pod.shape.charges, -1)
    occupancy.lift(state, node, pod)
    move_pod(state, job, pod, _SUSPENDED)
    pod.shape = rest_of(pod.shape)
    pod.mask = pod.card_milli = pod.card_memory = 0
    pod.evict_seq = -1
    pod.evict_reason = _NO_REASON
    pod.suspended_ns = state.now_ns
    futures = state.indexes.futures
    if futures is not None:
        estimates.rests(state, futures, job, pod)
    pod.ran_ns += max(1, state.now_ns - pod.started_ns)
    if 0 <= progress_milli <= 1000:
        pod.progress_milli = max(pod.progress_milli, progress_milli)
        pod.checkpoint_milli = max(pod.checkpoint_milli, progress_milli)
    occupancy.hold(state, node, pod.shape, 0, 1)
    quota.charge(state, queue, pod.shape.charges, 1)
    occupancy.offer(state, node)
    if job.phase in (_RUNNING, _ALLOCATED) and all(
        other.phase is _SUSPENDED for other in (job.pods or {}).values()
    ):
        move_job(state, job, _SUSPENDED)


def resume(state: State, job: Job, pod: Pod, mask: int, cause: Cause) -> None:
    """Tell a suspended attempt to go on, on cards of its node that are free: whole ones, or the one
    that has room for its share. The job must stand in no line and be settled next.
    """
    assert pod.phase is _SUSPENDED, (job.request.job, pod.index, pod.phase)
    queue, node = state.queues[job.queue], state.nodes[pod.node]
    shape = job.shape.shapes[pod.index % len(job.roles)]
    occupancy.unhold(state, node, pod.shape, 0, 1)
    quota.charge(state, queue, pod.shape.charges, -1)
    pod.shape, pod.mask = shape, mask
    if shape.card_milli:
        pod.card_milli, pod.card_memory = shape.card_milli, shape.card_memory
        occupancy.hold_share(state, node, shape, mask.bit_length() - 1)
    else:
        occupancy.hold(state, node, shape, mask, 1)
    quota.charge(state, queue, shape.charges, 1)
    move_pod(state, job, pod, _ALLOCATED)
    futures = state.indexes.futures
    if futures is not None:
        estimates.goes_on(state, futures, job, pod, estimates.left_ns(pod))
    pod.suspended_ns = pod.started_ns = 0
    pod.allocated_ns = state.now_ns
    due = state.now_ns + state.policy.settings.start_timeout_ns
    state.indexes.timers.at(due, Wake.POD_START, pod.job, pod.index, pod.attempt)
    if job.phase is _SUSPENDED:
        move_job(state, job, _ALLOCATED)
    say_told(state, DecisionKind.RESUME, job, pod, cause)


def resumed(state: State, job: Job, pod: Pod) -> None:
    """An attempt that was told to go on runs again."""
    assert pod.phase is _ALLOCATED and pod.ran_ns, (job.request.job, pod.index, pod.phase)
    move_pod(state, job, pod, _RUNNING)
    pod.started_ns = state.now_ns
    if job.phase is _ALLOCATED:
        move_job(state, job, _RUNNING)

"""Telling attempts to end: at once, or after a grace period of which they are told first."""

from collections.abc import Sequence

from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.decide import Cause, say_told
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.jobs.lifecycle import move_pod
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_EVICT = DecisionKind.EVICT
_RELEASING = Phase.RELEASING
_RUNNING = Phase.RUNNING


def evict(state: State, job: Job, pod: Pod, reason: Reason, asked: int = 0, limit: int = 0) -> None:
    """Tell an attempt to end, unless it has been told. `asked`, `limit`: numbers of the reason."""
    if is_told(pod):
        return
    _release(state, job, pod, reason)
    say_told(state, _EVICT, job, pod, Cause(reason, asked, 0, limit))


def evict_for(state: State, job: Job, pod: Pod, cause: Cause) -> None:
    """The same for the sake of others, whose numbers `cause` has."""
    if is_told(pod):
        return
    _release(state, job, pod, cause.reason)
    say_told(state, _EVICT, job, pod, cause)


def warn(state: State, job: Job, pod: Pod, cause: Cause, until_ns: int) -> None:
    """Tell a running attempt that it will be told to end at `until_ns`."""
    assert pod.phase is _RUNNING and not pod.notice_until_ns, (job.request.job, pod.index)
    quota.depart(state, state.queues[job.queue], pod.shape.charges, 1)
    pod.notice_until_ns = until_ns
    pod.evict_reason = cause.reason
    state.touch_pod(job, pod)
    state.indexes.timers.at(until_ns, Wake.NOTICE, pod.job, pod.index, pod.attempt)
    say_told(state, DecisionKind.NOTICE, job, pod, cause, until_ns)


def grace_ns(state: State, job: Job, pod: Pod) -> int:
    """How long an attempt is warned before it is told to end; 0: not at all.

    The job's own word counts, else the policy's. An attempt that does not run has nothing to save.
    """
    if pod.phase is not _RUNNING:
        return 0
    own = job.request.grace_ns
    return state.policy.settings.grace_ns if own < 0 else own


def is_told(pod: Pod) -> bool:
    """Whether an attempt was told to end; one that was told to suspend may still be."""
    return pod.phase is _RELEASING and not pod.suspended_ns


def protect(state: State, job: Job, pod: Pod) -> None:
    """An attempt began to run: keep it from being a victim for as long as the rules say."""
    for rule in state.policy.protected:
        moments = rule(state, job, pod)
        if moments and moments[-1] > state.clock_ns:
            if moments[0] > max(pod.protected_until_ns, state.clock_ns):
                pod.protected_until_ns = moments[0]
                state.touch_pod(job, pod)
            _watch(state, pod, moments)


def watch_protection(state: State, job: Job, pod: Pod) -> None:
    """See that victims are looked for again when a protection of the attempt ends."""
    _watch(state, pod, protections(state, job, pod))


def _watch(state: State, pod: Pod, moments: Sequence[int]) -> None:
    for until_ns in moments:
        if until_ns > state.clock_ns:
            state.indexes.timers.at(until_ns, Wake.PROTECTED, pod.job, pod.index, pod.attempt)


def protections(state: State, job: Job, pod: Pod) -> list[int]:
    """When the protections of an attempt end."""
    moments = [pod.protected_until_ns] if pod.protected_until_ns else []
    for rule in state.policy.protected:
        moments += rule(state, job, pod)
    return sorted(dict.fromkeys(moments))


def _release(state: State, job: Job, pod: Pod, reason: Reason) -> None:
    if pod.phase is _RELEASING:
        state.touch_pod(job, pod)
    else:
        move_pod(state, job, pod, _RELEASING)
    pod.suspended_ns = 0
    if not quota.is_departing(pod):
        quota.depart(state, state.queues[job.queue], pod.shape.charges, 1)
    pod.notice_until_ns = 0
    pod.evict_seq = state.cause
    pod.evict_reason = reason

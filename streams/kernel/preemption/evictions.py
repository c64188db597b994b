"""Telling attempts to leave: warned first, then told to end, gone when their grace is over.

    RUNNING --NOTICE--> RUNNING --EVICT or SUSPEND--> RELEASING --gone--> EVICTED or SUSPENDED
             notice (`notice_ns`)                      grace (`grace_ns`)

NOTICE names the end of the notice, the other two the end of the grace, in `until_ns`. A notice may
be taken back (`claims_book.spare`). What follows it may not: executors signal the attempt at once
and end it when its grace is over at the latest; its cards are free when they say that it has gone.
"""

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
_SUSPENDED = Phase.SUSPENDED


def evict(
    state: State,
    job: Job,
    pod: Pod,
    reason: Reason,
    asked: int = 0,
    limit: int = 0,
    given_ns: int = 0,
) -> None:
    """Tell an attempt to end, unless it has been told. `asked`, `limit`: numbers of the reason.
    `given_ns`: its grace, by the word of an operator; 0: its own.
    """
    if not is_told(pod):
        _end(state, job, pod, Cause(reason, asked, 0, limit), given_ns)


def evict_for(state: State, job: Job, pod: Pod, cause: Cause) -> None:
    """The same for the sake of others, whose numbers `cause` has."""
    if not is_told(pod):
        _end(state, job, pod, cause)


def _end(state: State, job: Job, pod: Pod, cause: Cause, given_ns: int = 0) -> None:
    grace = grace_ns(state, job, pod)
    if given_ns and pod.started_ns:
        grace = given_ns
    _release(state, job, pod, cause.reason)
    say_told(state, _EVICT, job, pod, cause, state.now_ns + grace if grace else 0)


def tell_to_leave(state: State, job: Job, pod: Pod, cause: Cause) -> bool:
    """Have an attempt leave: after its notice, where it gets one, else at once. Whether at once."""
    notice = notice_ns(state, job, pod)
    if notice:
        warn(state, job, pod, cause, state.now_ns + notice)
    else:
        evict_for(state, job, pod, cause)
    return not notice


def warn(state: State, job: Job, pod: Pod, cause: Cause, until_ns: int) -> None:
    """Tell a running attempt that at `until_ns` it will be told to end, or to suspend."""
    assert pod.phase is _RUNNING and not pod.notice_until_ns, (job.request.job, pod.index)
    quota.depart(state, state.queues[job.queue], pod.shape.charges, 1)
    pod.notice_until_ns = until_ns
    pod.evict_reason = cause.reason
    state.touch_pod(job, pod)
    state.indexes.timers.at(until_ns, Wake.NOTICE, pod.job, pod.index, pod.attempt)
    say_told(state, DecisionKind.NOTICE, job, pod, cause, until_ns)


def notice_ns(state: State, job: Job, pod: Pod) -> int:
    """How long an attempt is warned before it is told to leave; 0: not at all.

    The job's own word counts, else the policy's. An attempt that does not run has nothing to save.
    """
    if pod.phase is not _RUNNING:
        return 0
    return job.request.notice_ns or state.policy.settings.grace_ns


def grace_ns(state: State, job: Job, pod: Pod) -> int:
    """How long an attempt has to end, or to stop, once it is told; 0: as long as its executor gives
    it. The job's own word counts, else the policy's.
    """
    if not pod.started_ns or pod.phase is _SUSPENDED:
        return 0
    own = job.request.grace_ns
    return state.policy.settings.release_ns if own < 0 else own


def leave_ns(state: State, job: Job, pod: Pod) -> int:
    """How long it takes at most until an attempt has gone that is told now, if its executor needs
    no time of its own.
    """
    if pod.phase is _RELEASING:
        return 0
    if pod.notice_until_ns:
        notice = max(0, pod.notice_until_ns - state.now_ns)
    else:
        notice = notice_ns(state, job, pod)
    return notice + grace_ns(state, job, pod)


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

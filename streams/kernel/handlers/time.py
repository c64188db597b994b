"""The passing of time: the clock moves, and what was due happens."""

from ganger.schemas.enums import Phase
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Tick
from ganger.streams.kernel.attempts import evict, forget, settle, ttl_ns
from ganger.streams.kernel.digest import event_term
from ganger.streams.kernel.entities import ENDED, Job, Pod
from ganger.streams.kernel.limits import TIME_MAX
from ganger.streams.kernel.lines import step_out
from ganger.streams.kernel.reservations import refresh_reservations
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Timer, Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED
_START_TIMEOUT = Reason.START_TIMEOUT
_JOB_BACKOFF = Wake.JOB_BACKOFF
_JOB_TTL = Wake.JOB_TTL
_POD_START = Wake.POD_START

EVENT_IDS_MAX = 1 << 20


def pass_time(state: State, record: Tick) -> bool:
    """Move the clock, do what is due.

    False: the Tick is a former owner's, moves time back, or out of all bounds.
    """
    clock_ns = record.time_ns
    if record.epoch != state.epoch or not state.clock_ns <= clock_ns <= TIME_MAX:
        return False
    state.clock_ns = state.now_ns = clock_ns
    due = state.indexes.timers.due
    while (timer := due(clock_ns)) is not None:
        _WAKES[timer[1]](state, timer)
    if state.event_ids:
        expire_event_ids(state)
    return True


def next_wake(state: State) -> int | None:
    """The earliest time in ns at which time alone would change something; none: never.

    Timers with nothing left to do are dropped on the way, which changes no decision.
    """
    timers = state.indexes.timers
    while (timer := timers.earliest()) is not None:
        if _is_due(state, timer):
            return timer[0]
        timers.drop_earliest()
    return None


def _is_due(state: State, timer: Timer) -> bool:
    """Whether the timer says when something will happen, as the facts are now."""
    at_ns, wake = timer[0], timer[1]
    if wake is _POD_START:
        return _unstarted(state, timer) is not None
    if wake is _JOB_BACKOFF:
        job = state.jobs.get(timer[2])
        return job is not None and job.phase not in ENDED and job.not_before_ns == at_ns
    return any(at_ns in (r.from_ns, r.to_ns) for r in state.reservations.values())


def _unstarted(state: State, timer: Timer) -> tuple[Job, Pod] | None:
    """The attempt that a start timer is about, if it still has not started."""
    _, _, seq, index, attempt = timer
    job = state.jobs.get(seq)
    pod = job.pods.get(index) if job is not None and job.pods else None
    if job is None or pod is None or pod.attempt != attempt or pod.phase is not _ALLOCATED:
        return None
    return job, pod


def _wake_backoff(state: State, timer: Timer) -> None:
    job = state.jobs.get(timer[2])
    if job is not None and job.phase not in ENDED and job.key is None:
        step_out(state, job)
        settle(state, job)


def _wake_ttl(state: State, timer: Timer) -> None:
    job = state.jobs.get(timer[2])
    if job is None or job.phase not in ENDED:
        return
    due = job.ended_ns + ttl_ns(state, job)
    if due > state.clock_ns:
        state.indexes.timers.at(due, _JOB_TTL, job.seq)
    elif any(key[0] == job.seq for key in state.indexes.ghosts):
        return  # a lost node still holds an attempt of it, whose end sets the timer again
    else:
        forget(state, job)


def _wake_start(state: State, timer: Timer) -> None:
    """An attempt that has not been reported running for too long is told to end."""
    found = _unstarted(state, timer)
    if found is None:
        return
    job, pod = found
    waited = state.clock_ns - pod.allocated_ns
    limit = state.policy.settings.start_timeout_ns
    if waited < limit:
        due = pod.allocated_ns + limit
        state.indexes.timers.at(due, _POD_START, pod.job, pod.index, pod.attempt)
        return
    step_out(state, job)
    if pod.node not in job.avoid:
        job.avoid = tuple(sorted((*job.avoid, pod.node)))
    evict(state, job, pod, _START_TIMEOUT, waited, limit)
    settle(state, job)


def _wake_reservation(state: State, timer: Timer) -> None:
    refresh_reservations(state)


def expire_event_ids(state: State) -> None:
    """Forget request ids that are too old, or too many."""
    ids = state.event_ids
    limit = state.clock_ns - state.policy.settings.event_id_ns
    surplus = len(ids) - EVENT_IDS_MAX
    over: list[str] = []
    for event_id, seen_ns in ids.items():
        if seen_ns > limit and surplus <= len(over):
            break
        over.append(event_id)
    for event_id in over:
        del ids[event_id]
        state.digest -= event_term(event_id)


_WAKES = {
    Wake.JOB_BACKOFF: _wake_backoff,
    Wake.JOB_TTL: _wake_ttl,
    Wake.POD_START: _wake_start,
    Wake.RESERVATION: _wake_reservation,
}

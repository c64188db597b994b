"""Which phase may follow which: the only place where a phase is assigned."""

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.state import State

_P = Phase

JOB_MOVES: dict[Phase, tuple[Phase, ...]] = {
    _P.PENDING: (_P.INQUEUE, _P.RUNNING, _P.FAILED, _P.CANCELLED),
    _P.INQUEUE: (
        _P.PENDING,
        _P.ALLOCATED,
        _P.RUNNING,
        _P.RELEASING,
        _P.SUCCEEDED,
        _P.FAILED,
        _P.CANCELLED,
    ),
    _P.ALLOCATED: (_P.RUNNING, _P.INQUEUE, _P.RELEASING, _P.SUCCEEDED, _P.FAILED, _P.CANCELLED),
    _P.RUNNING: (_P.INQUEUE, _P.RELEASING, _P.SUCCEEDED, _P.FAILED, _P.CANCELLED),
    _P.RELEASING: (_P.FAILED, _P.CANCELLED, _P.SUCCEEDED),
    _P.SUCCEEDED: (),
    _P.FAILED: (),
    _P.CANCELLED: (),
}
"""Job phases. RUNNING to INQUEUE: its last pod was lost and is to be placed again. INQUEUE to
PENDING: what it was admitted on has shrunk before anything of it was placed.
"""

POD_MOVES: dict[Phase, tuple[Phase, ...]] = {
    _P.ALLOCATED: (_P.RUNNING, _P.RELEASING, _P.SUCCEEDED, _P.FAILED, _P.EVICTED),
    _P.RUNNING: (_P.RELEASING, _P.SUCCEEDED, _P.FAILED, _P.EVICTED),
    _P.RELEASING: (_P.SUCCEEDED, _P.FAILED, _P.EVICTED),
}
"""Attempt phases; the last three end the attempt and free its cards."""

WAITING = (_P.PENDING, _P.INQUEUE)


def move_job(state: State, job: Job, phase: Phase) -> None:
    """Change a job's phase; asserts that the table allows it."""
    before = job.phase
    assert phase in JOB_MOVES[before], (job.request.job, before, phase)
    job.phase = phase
    if before in WAITING:
        if phase not in WAITING:
            state.waiting_count -= 1
    elif phase in WAITING:
        state.waiting_count += 1
    if not job.is_dirty:
        job.is_dirty = True
        state.dirty.append(job)


def move_pod(state: State, job: Job, pod: Pod, phase: Phase) -> None:
    """Change an attempt's phase; asserts that the table allows it."""
    assert phase in POD_MOVES[pod.phase], (pod.job, pod.index, pod.attempt, pod.phase, phase)
    pod.phase = phase
    told: Job | Pod = job if pod.is_untold else pod
    if not told.is_dirty:
        told.is_dirty = True
        state.dirty.append(told)

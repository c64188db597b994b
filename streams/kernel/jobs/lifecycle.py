"""Which phase may follow which: the only place where a phase is assigned."""

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.state import State

_P = Phase

JOB_MOVES: dict[Phase, tuple[Phase, ...]] = {
    _P.PENDING: (
        _P.INQUEUE,
        _P.ALLOCATED,
        _P.RUNNING,
        _P.SUCCEEDED,
        _P.FAILED,
        _P.CANCELLED,
    ),
    _P.INQUEUE: (
        _P.PENDING,
        _P.ALLOCATED,
        _P.RUNNING,
        _P.RELEASING,
        _P.SUCCEEDED,
        _P.FAILED,
        _P.CANCELLED,
    ),
    _P.ALLOCATED: (
        _P.RUNNING,
        _P.INQUEUE,
        _P.RELEASING,
        _P.SUSPENDED,
        _P.SUCCEEDED,
        _P.FAILED,
        _P.CANCELLED,
    ),
    _P.RUNNING: (
        _P.INQUEUE,
        _P.RELEASING,
        _P.SUSPENDED,
        _P.SUCCEEDED,
        _P.FAILED,
        _P.CANCELLED,
    ),
    _P.SUSPENDED: (
        _P.ALLOCATED,
        _P.RUNNING,
        _P.INQUEUE,
        _P.RELEASING,
        _P.SUCCEEDED,
        _P.FAILED,
        _P.CANCELLED,
    ),
    _P.RELEASING: (_P.FAILED, _P.CANCELLED, _P.SUCCEEDED),
    _P.SUCCEEDED: (),
    _P.FAILED: (),
    _P.CANCELLED: (),
}
"""Job phases. PENDING to ALLOCATED or RUNNING: a pod of it was adopted; to SUCCEEDED: so its owner
wants it after a long wait. RUNNING to INQUEUE: its last pod was lost and is to be placed again.
INQUEUE to PENDING: what it was admitted on has shrunk before anything of it was placed.
"""

POD_MOVES: dict[Phase, tuple[Phase, ...]] = {
    _P.ALLOCATED: (_P.RUNNING, _P.RELEASING, _P.SUCCEEDED, _P.FAILED, _P.EVICTED),
    _P.RUNNING: (_P.RELEASING, _P.SUCCEEDED, _P.FAILED, _P.EVICTED),
    _P.RELEASING: (_P.SUSPENDED, _P.SUCCEEDED, _P.FAILED, _P.EVICTED),
    _P.SUSPENDED: (_P.ALLOCATED, _P.RELEASING, _P.SUCCEEDED, _P.FAILED, _P.EVICTED),
}
"""Attempt phases; the last three end the attempt and free its cards. A suspended one has given them
back, and holds some again as ALLOCATED once it is told to go on.
"""

WAITING = (_P.PENDING, _P.INQUEUE)


def move_job(state: State, job: Job, phase: Phase) -> None:
    """Change a job's phase; asserts that the table allows it."""
    before = job.phase
    assert phase in JOB_MOVES[before], (job.request.job, before, phase)
    job.phase = phase
    if before in WAITING:
        if phase not in WAITING:
            count_waiting(state, job, -1)
    elif phase in WAITING:
        count_waiting(state, job, 1)
    if state.indexes.uncounted is not None:
        state.indexes.uncounted[job.seq] = job
    if not job.is_dirty:
        job.is_dirty = True
        state.dirty.append(job)


def count_waiting(state: State, job: Job, count: int) -> None:
    """A job begins (1) or ceases (-1) to wait."""
    state.waiting_count += count
    waiters = state.indexes.waiters
    if waiters is not None:
        asked = job.request
        key = (job.queue, asked.user, asked.tenant, asked.spot)
        left = waiters.get(key, 0) + count
        if left:
            waiters[key] = left
        else:
            del waiters[key]


def move_pod(state: State, job: Job, pod: Pod, phase: Phase) -> None:
    """Change an attempt's phase; asserts that the table allows it."""
    assert phase in POD_MOVES[pod.phase], (pod.job, pod.index, pod.attempt, pod.phase, phase)
    pod.phase = phase
    told: Job | Pod = job if pod.is_untold else pod
    if not told.is_dirty:
        told.is_dirty = True
        state.dirty.append(told)

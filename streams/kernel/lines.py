"""Which line a job stands in, by its facts: the gate, the line of admitted jobs, or none."""

from ganger.schemas.enums import Phase
from ganger.streams.kernel import quota
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.gangs import has_begun, is_ready
from ganger.streams.kernel.lifecycle import move_job
from ganger.streams.kernel.state import State
from ganger.streams.kernel.waiting import FRESH, GROWING, UNIQUE, Waiting

# bound once: looking a member up on its Enum class costs more than what is done with it
_INQUEUE = Phase.INQUEUE
_PENDING = Phase.PENDING
_UNKNOWN = Phase.UNKNOWN

_PLACEABLE = (Phase.INQUEUE, Phase.ALLOCATED, Phase.RUNNING)


def line_up(state: State, job: Job) -> None:
    """Put the job where it belongs now. It must stand in no line.

    The minimum of an admitted job counts as demand only while it may be placed: one that is held,
    backs off or whose queue drains keeps nobody out.
    """
    may = may_start(state, job)
    if job.phase is _INQUEUE:
        if may:
            quota.claim(state, job)
        else:
            quota.disclaim(state, job)
    if not may:
        return
    if job.phase is _PENDING:
        state.indexes.gate.add(job, order_key(state, job), FRESH)
    elif job.phase in _PLACEABLE:
        pending = empty = 0
        for role, shape in zip(job.roles, job.shape.shapes, strict=True):
            if shape.is_empty:
                empty += role.pending()
            else:
                pending += role.pending()
        if pending:
            state.indexes.inqueue.add(job, order_key(state, job), look_of(job))
        if empty:
            state.indexes.zero[job.seq] = job
            state.indexes.zero_grew = True


def send_back(state: State, job: Job) -> None:
    """Let an admitted job that was never placed ask anew: what it was admitted on has shrunk."""
    if job.phase is _INQUEUE and not any(role.fresh for role in job.roles):
        step_out(state, job)
        quota.disclaim(state, job)
        move_job(state, job, _PENDING)
        line_up(state, job)


def step_out(state: State, job: Job) -> None:
    """Take the job out of the line it stands in, if any. Call before its facts change."""
    if job.key is not None:
        line_of(state, job).remove(job)
    if job.shape.has_empty:
        state.indexes.zero.pop(job.seq, None)


def line_of(state: State, job: Job) -> Waiting:
    """The lines of the stage that the job's phase belongs to."""
    return state.indexes.gate if job.phase is _PENDING else state.indexes.inqueue


def may_start(state: State, job: Job) -> bool:
    """Whether nothing but capacity and limits keeps its pods from being placed."""
    return (
        not job.held
        and not job.dependencies
        and job.ending is _UNKNOWN
        and job.not_before_ns <= state.clock_ns
        and not state.queues[job.queue].is_draining
    )


def order_key(state: State, job: Job) -> tuple[int, ...]:
    """Its place among the jobs of its queue: what the policies say, then its seq."""
    key: tuple[int, ...] = ()
    for hook in state.policy.job_order:
        key += hook(state, job)
    return (*key, job.seq)


def look_of(job: Job) -> int:
    """Which jobs of its shape it looks like to placement (see module `waiting`)."""
    if job.avoid:
        return UNIQUE + job.seq
    if not has_begun(job):
        return FRESH
    if len(job.roles) == 1 and is_ready(job):
        return GROWING
    return UNIQUE + job.seq

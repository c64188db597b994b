"""allocate: place admitted jobs, queues by share, jobs by key, each gang whole or not at all."""

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.streams.kernel import quota
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.gangs import is_pending
from ganger.streams.kernel.lifecycle import move_job
from ganger.streams.kernel.lines import line_up
from ganger.streams.kernel.placement import place_job
from ganger.streams.kernel.session import QueueOrder, Session
from ganger.streams.kernel.state import State
from ganger.streams.kernel.statement import Statement

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_ALLOCATED = Phase.ALLOCATED
_INQUEUE = Phase.INQUEUE
_MAIN = Tier.MAIN


def run(session: Session) -> None:
    """Try jobs until none is left that has not been placed or refused."""
    state = session.state
    waiting = state.indexes.inqueue
    waiting.wake()
    statement = Statement(state)
    lone = session.lone
    if lone is not None and (waiting.open_count or waiting.is_stopped(lone)):
        session.line_lone()
    elif lone is not None:
        _try_lone(session, statement, lone)
    if not waiting.open_count:
        return
    order = QueueOrder(state, waiting, admits=False)
    while waiting.open_count and (queue := order.best()) is not None:
        job = waiting.first(queue.index)
        if job is None:
            order.drop(queue)
            continue
        refusal = place_job(state, statement, job)
        if refusal is None:
            session.started += statement.commit(job, _ALLOCATE, _MAIN)
            waiting.remove(job)
            _placed(state, job)
            order.served(queue)
        elif refusal.queue >= 0:
            waiting.block_by(job, refusal.queue, refusal.lacks_room)
        else:
            waiting.block(job)


def _try_lone(session: Session, statement: Statement, job: Job) -> None:
    """What the loop would do with the only job there is, without the line and its upkeep."""
    state = session.state
    refusal = place_job(state, statement, job)
    if refusal is None:
        session.lone = None
        session.started += statement.commit(job, _ALLOCATE, _MAIN)
        _placed(state, job)
        return
    session.line_lone()
    if refusal.queue >= 0:
        state.indexes.inqueue.block_by(job, refusal.queue, refusal.lacks_room)
    else:
        state.indexes.inqueue.block(job)


def _placed(state: State, job: Job) -> None:
    if job.shape.has_empty:
        state.indexes.zero.pop(job.seq, None)
    job.last_tier = _MAIN
    if job.phase is _INQUEUE:
        quota.disclaim(state, job)
        move_job(state, job, _ALLOCATED)
    else:
        state.touch(job)
    if is_pending(job):
        line_up(state, job)

"""backfill: place pods that ask for nothing at once, wherever a pod slot is free.

They do not wait for their gang: a zero-request pod costs nothing and counts as placed for it.
"""

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.gangs import placeable
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.lines import line_up, order_key, step_out
from ganger.streams.kernel.nodes.bars import bars_of
from ganger.streams.kernel.nodes.placement import find_node, is_guided, place_empty, role_order
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.session import Session


def run(session: Session) -> None:
    """Place what fits, jobs in order of their keys; skipped while nothing has changed for them."""
    state = session.state
    indexes = state.indexes
    if not indexes.zero or not indexes.zero_grew:
        return
    indexes.zero_grew = False
    full: dict[Shape, bool] = {}  # shapes that found no node in this cycle
    statement = Statement(state)
    for job in sorted(indexes.zero.values(), key=lambda job: order_key(state, job)):
        _place(statement, job, full)
        if statement.operations:
            _commit(session, statement, job)


def _place(statement: Statement, job: Job, full: dict[Shape, bool]) -> None:
    state = statement.state
    windows = state.indexes.windows
    if windows is not None:
        statement.bars = bars_of(state, windows, job, state.now_ns)
    for role in role_order(state, job):
        shape = job.shape.shapes[role]
        if not shape.is_empty:
            continue
        count = placeable(job, role)
        if is_guided(state, job):
            place_empty(state, statement, job, role, count)
            continue
        queue = state.queues[job.queue]
        if queue.is_capped:
            count, _ = quota.headroom(queue, shape, count, statement.held())
        for _ in range(count):
            if shape in full and not job.avoid:
                break
            node = find_node(state, job, shape, statement.bars)
            if node is None:
                if not job.avoid and state.indexes.windows is None:
                    full[shape] = True
                break
            statement.hold(role, shape, node, (0,))


def _commit(session: Session, statement: Statement, job: Job) -> None:
    state = session.state
    step_out(state, job)
    session.started += statement.commit(job, DecisionKind.BACKFILL, Tier.BACKFILL)
    if job.last_tier is Tier.UNKNOWN:
        job.last_tier = Tier.BACKFILL
    if job.phase is Phase.INQUEUE and job.shape.all_empty:
        quota.disclaim(state, job)
        move_job(state, job, Phase.ALLOCATED)
    else:
        state.touch(job)
    line_up(state, job)

"""allocate: place admitted jobs, queues by share, jobs by key, each gang whole or not at all.

With `surplus=one_by_one` a job gets its minimum or, when it has it, one pod more, and waits for its
turn again. With `pipelines=yes` a job for which there is no room is given what leaves anyway: it
claims the places where it would fit if all that was told to end were gone.
"""

from ganger.schemas.enums import DecisionKind, Tier
from ganger.streams.kernel.entities import Job, Pod, Queue
from ganger.streams.kernel.jobs.gangs import is_leaving
from ganger.streams.kernel.jobs.starts import placed
from ganger.streams.kernel.jobs.waiting import FRESH
from ganger.streams.kernel.nodes.marks import marked
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.session import QueueOrder, Session
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_MAIN = Tier.MAIN


def run(session: Session) -> None:
    """Try jobs until none is left that has not been placed or refused."""
    state = session.state
    waiting = state.indexes.inqueue
    if not state.policy.is_plain or state.shapes.guided_count:
        _wake_if_stirred(state)
    elif state.indexes.nodes.changed is not None:
        state.indexes.nodes.changed = state.indexes.rankings = None  # nobody asks for them
    waiting.wake()
    statement = Statement(state)
    lone = session.lone
    if lone is not None and (
        waiting.open_count or waiting.is_stopped(lone, marked(state, lone, FRESH))
    ):
        session.line_lone()
    elif lone is not None:
        _try_lone(session, statement, lone)
    if not waiting.open_count:
        return
    surplus = _takes_surplus(state)
    leaving = _leaving(state) if _pipelines(state) else []
    overused = state.policy.overused
    order = QueueOrder(state, waiting, admits=False)
    while waiting.open_count and (queue := order.best()) is not None:
        job = waiting.first(queue.index)
        if job is None or (overused and _is_overused(state, queue)):
            order.drop(queue)
            continue
        refusal = place_job(state, statement, job, surplus)
        if refusal is None:
            session.started += statement.commit(job, _ALLOCATE, _MAIN)
            waiting.remove(job)
            placed(state, job)
            order.served(queue)
        elif leaving and refusal.queue < 0 and _pipeline(state, statement, job, leaving):
            order.served(queue)
        else:
            _block(state, job, refusal)


def _try_lone(session: Session, statement: Statement, job: Job) -> None:
    """What the loop would do with the only job there is, without the line and its upkeep."""
    state = session.state
    if state.policy.overused or _pipelines(state):
        session.line_lone()
        return
    refusal = place_job(state, statement, job, _takes_surplus(state))
    if refusal is None:
        session.lone = None
        session.started += statement.commit(job, _ALLOCATE, _MAIN)
        placed(state, job)
        return
    session.line_lone()
    _block(state, job, refusal)


def _block(state: State, job: Job, refusal: Refusal) -> None:
    """Do not offer the first job of a group again before something has changed for it.

    Where rules look at nodes or queues one queue's refusal says nothing of another's, and more than
    growth may help: so the group is stopped alone, and woken by whatever changes.
    """
    waiting = state.indexes.inqueue
    if refusal.queue >= 0:
        waiting.block_by(job, refusal.queue, refusal.lacks_room)
    elif state.policy.is_plain and not job.shape.is_guided:
        waiting.block(job)
    else:
        waiting.block_by(job, job.queue, lacks_room=True)


def _wake_if_stirred(state: State) -> None:
    """Offer everything again if pods or demand of any queue have changed since the last cycle."""
    stand = tuple([(tuple(queue.used), tuple(queue.waiting)) for queue in state.queues])
    if stand != state.indexes.last_stand:
        state.indexes.last_stand = stand
        state.indexes.inqueue.wake_all()


def _is_overused(state: State, queue: Queue) -> bool:
    return any(vote(state, queue) is not None for vote in state.policy.overused)


def _pipelines(state: State) -> bool:
    """Whether jobs are given places that others are about to leave."""
    return state.policy.words.get("allocate.pipelines") == "yes"


def _takes_surplus(state: State) -> bool:
    """Whether a job is given more than its minimum when it starts."""
    return state.policy.words.get("allocate.surplus") != "one_by_one"


def _leaving(state: State) -> list[Pod]:
    """Attempts that were told to end and for whose places no claim waits. O(pods)."""
    claimed = {victim: True for claim in state.claims.values() for victim in claim.victims}
    return [
        pod
        for node in state.nodes
        for key, pod in sorted(node.pods.items())
        if is_leaving(pod) and key not in claimed
    ]


def _pipeline(state: State, statement: Statement, job: Job, leaving: list[Pod]) -> bool:
    """Claim places for the smallest start of a job among free ones and those of pods that leave."""
    lifts = Statement(state)
    for pod in leaving:
        lifts.give_back(pod)
    refusal = place_job(state, statement, job, surplus=False)
    entries = statement.take_entries() if refusal is None else ()
    lifts.discard()
    if entries:
        state.indexes.inqueue.remove(job)
        claims_book.make(state, job, entries)
    return bool(entries)

"""enqueue: admit pending jobs while the policies' admission rules allow. No placement."""

from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill.promising import promise
from ganger.streams.kernel.decide import say_of_job, say_promised
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.lines import line_up, watch_admission
from ganger.streams.kernel.queues.capacity import never_fits
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import CARDS, UNBOUND, Need
from ganger.streams.kernel.session import QueueOrder, Session
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_ADMIT = DecisionKind.ADMIT
_INQUEUE = Phase.INQUEUE
_WITHIN_LIMITS = Reason.WITHIN_LIMITS


def run(session: Session, asks: bool) -> None:
    """Admit in queue and job order. `asks`: by the admission rules; else everything."""
    state = session.state
    gate = state.indexes.gate
    if state.indexes.gate_grew:
        state.indexes.gate_grew = False
        if gate.failed:
            gate.grow(*_headroom(state))
            gate.wake()
    if not gate.open_count:
        return
    newcomer = gate.newcomer
    if newcomer is not None:  # nobody else waits here, so there is no order to keep
        _try(session, newcomer, asks)
        return
    order = QueueOrder(state, gate, admits=True)
    # where time counts, who comes alone may call for no pass: no memory of refusals may tell it
    is_timed = state.policy.is_timed
    while gate.open_count and (queue := order.best()) is not None:
        job = gate.first(queue.index)
        if job is None:
            order.drop(queue)
        elif _try(session, job, asks) and (gate.count if is_timed else gate.open_count):
            session.line_lone()
            order.served(queue)


def _try(session: Session, job: Job, asks: bool) -> bool:
    """Admit a job unless a rule keeps it out, and then all like it; whether it was admitted."""
    refusal = _ask(session.state, job) if asks else None
    if refusal is None:
        _admit(session, job)
        return True
    gate = session.state.indexes.gate
    if refusal.queue >= 0:
        gate.block_by(job, refusal.queue)
    else:
        gate.block(job)
    return False


def _ask(state: State, job: Job) -> Refusal | None:
    if state.policy.admits_unasked and job.request.start_request is None:
        return None
    refusal = never_fits(state, job.shape)
    if refusal is not None:
        return refusal
    settings = state.policy.settings
    is_overdue = job.seq in state.indexes.overdue and settings.votes == "all"
    for voter in state.policy.job_enqueue:
        vote = voter(state, job)
        # who has waited long enough is kept out by limits of queues alone
        if isinstance(vote, Refusal) and not (is_overdue and vote.queue < 0):
            return vote
    return None


def _admit(session: Session, job: Job) -> None:
    state = session.state
    key = job.key
    assert key is not None
    state.indexes.gate.remove(job)
    move_job(state, job, _INQUEUE)
    session.admitted.append(job)
    if job.shape.has_empty:
        line_up(state, job)
    else:
        # nothing that its key is made of has changed; lines tell their keys by identity, so a copy
        session.let_in(job, (*key[:-1], job.seq))


def say_admitted(session: Session) -> None:
    """ADMIT of the jobs admitted in this cycle that still wait; of others ALLOCATE says more."""
    state = session.state
    for job in session.admitted:
        if job.phase is _INQUEUE:
            watch_admission(state, job)
            total = state.total[CARDS]
            numbers = job.shape.min_needs[0][0], max(0, total - state.used[CARDS]), total
            told = None if state.indexes.promised is None else promise(state, job)
            if told is None:
                say_of_job(state, _ADMIT, job.request.job, _WITHIN_LIMITS, *numbers)
            else:
                span_ns = told.by_ns(0), told.by_ns(1)
                say_promised(state, _ADMIT, job.request.job, _WITHIN_LIMITS, numbers, span_ns)


def _headroom(state: State) -> Need:
    """No job whose minimum asks more than this of any resource can be admitted now."""
    cards = cpu = memory = UNBOUND
    for bound in state.policy.headroom:
        room = bound(state)
        cards, cpu, memory = min(cards, room[0]), min(cpu, room[1]), min(memory, room[2])
    return max(0, cards), max(0, cpu), max(0, memory)  # who asks for none needs none

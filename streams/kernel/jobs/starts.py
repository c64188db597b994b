"""Jobs that start: what follows for them, and those whose claim is met.

Claims come before everything else in a cycle: what they hold is nobody else's.
"""

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import bookings, estimates, manners, promised, tuning
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.jobs.gangs import is_pending
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.lines import line_up
from ganger.streams.kernel.nodes.bars import is_barred
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_BACKFILL_REFUSED = Reason.BACKFILL_REFUSED
_CLAIM_MADE = Reason.CLAIM_MADE
_PLACED_IN_TURN = Reason.PLACED_IN_TURN
_SAFE_IN_GAP = Reason.SAFE_IN_GAP
_IN_GAP = Tier.BACKFILL
_ALLOCATED = Phase.ALLOCATED
_INQUEUE = Phase.INQUEUE
_MAIN = Tier.MAIN
_NODE_RESERVED = Reason.NODE_RESERVED
_NO_REASON = Reason.UNKNOWN


def start_claims(session: Session) -> None:
    """Start the jobs whose claims are met, in order of submission; give up what cannot be met.

    O(places of all claims).
    """
    state = session.state
    for seq in sorted(state.claims):
        job = state.jobs[seq]
        fault = claims_book.fault(state, job)
        if fault is _NO_REASON and is_barred(state, job, state.claims[seq].entries):
            fault = _NODE_RESERVED
        if state.claims[seq].reason is not _CLAIM_MADE and not manners.takes_part(state, job):
            fault = _BACKFILL_REFUSED
        if fault is not _NO_REASON:
            claims_book.give_up(state, job, fault)
            line_up(state, job)
        elif claims_book.is_met(state, state.claims[seq]):
            session.started += _start(state, job)


def _start(state: State, job: Job) -> int:
    """Allocate the pods of a claim on the very cards that it held. Returns their number."""
    statement = Statement(state)
    claim = claims_book.take(state, job)
    for shape, entry in claims_book.places(job, claim):
        node = state.nodes[entry.node]
        if entry.card_milli:
            statement.hold_share(entry.role, shape, node, entry.mask.bit_length() - 1)
        else:
            statement.hold(entry.role, shape, node, (entry.mask,))
    if not state.policy.is_timed:
        count = statement.commit(job, _ALLOCATE, _MAIN)
        placed(state, job)
    elif claim.reason is _CLAIM_MADE:
        run_ns = estimates.expected_ns(state, job)  # since it claimed, whatever was learnt since
        told = bookings.foreseen(state, job, _PLACED_IN_TURN, run_ns)
        count = statement.commit(job, _ALLOCATE, _MAIN, told)
        if state.policy.timing is not None and state.policy.timing.yields is not None:
            in_turn(state, job)
        placed(state, job)
    else:
        count = statement.commit(job, _BACKFILL, _IN_GAP, _in_gap(state, job, claim.reason))
        placed(state, job, _IN_GAP)
    return count


def _in_gap(state: State, job: Job, reason: Reason) -> Foreseen:
    """What is said of a job whose claim was made in a gap and is met."""
    told = bookings.foreseen(state, job, reason)._replace(
        estimate_ns=job.estimate_ns, estimate_source=job.estimate_source
    )
    if reason is not _SAFE_IN_GAP or not state.bookings:
        return told
    start_ns = min(booking.start_ns for booking in state.bookings.values())
    gap_ns = max(0, min(start_ns, FOREVER - 1) - state.now_ns)
    return told._replace(asked=job.estimate_ns, limit=gap_ns, start_ns=start_ns)


def in_turn(state: State, job: Job) -> None:
    """A job started in its turn: the controller of gaps, if there is one, counts its wait."""
    if job.last_tier is not _IN_GAP and not job.attempts:
        tuning.main_started(state, state.now_ns - job.submitted_ns)


def placed(state: State, job: Job, tier: Tier = _MAIN) -> None:
    """Pods of a job that stands in no line were allocated: it goes on, in line if it has more."""
    if job.shape.has_empty:
        state.indexes.zero.pop(job.seq, None)
    job.last_tier = tier
    if job.promise:
        promised.started(state, job)
    if job.phase is _INQUEUE:
        if job.claims:
            quota.disclaim(state, job)
        move_job(state, job, _ALLOCATED)
    else:
        state.touch(job)
    if is_pending(job):
        line_up(state, job)

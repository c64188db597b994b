"""A pass over time in which those who run in gaps make way: suspended, moved or evicted.

The plain meaning, beside that of module `gaps`:

* Before gaps are offered the first in line is looked at again: if it fits once some of those who
  may be suspended, or run as spot work, have left, they are told to, and it claims their cards.
  Then the next one is looked at, and so on. Where that is not enough and it waits for too long,
  others in gaps are evicted too: none inside its protection window, none that would lose too much.
* Who is suspended goes on as soon as there are cards, before anybody new is let into a gap: where
  it was, or elsewhere from its checkpoint.
* A gap may be given for any time to whoever makes way again, whatever is reserved there; so cards
  of those who do count as free at once where a start is planned.
* What kind of idle cards somebody may have is judged where placement has put it.
"""

from collections.abc import Iterator, Sequence

from ganger.schemas.enums import BackfillPreference, DecisionKind, IdleClass
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import estimates, manners, tuning
from ganger.streams.kernel.backfill.estimates import Estimate
from ganger.streams.kernel.backfill.futures import Futures, HolderKey
from ganger.streams.kernel.backfill.gaps import Gaps, Hand, Head, OpenNodes, holdings
from ganger.streams.kernel.backfill.manners import HEAVY, SPOT, SUSPENDABLE
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Job, Key
from ganger.streams.kernel.foresight.risk import Terms
from ganger.streams.kernel.horizon.bench import Verdict
from ganger.streams.kernel.horizon.easy import Candidate
from ganger.streams.kernel.horizon.gather import Freed, Held
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.nodes.windows import Window
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.session import Way
from ganger.streams.kernel.settings import Timing
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_BACKFILL = DecisionKind.BACKFILL
_FRAGMENT = IdleClass.FRAGMENT
_LOW_RISK_ONLY = BackfillPreference.LOW_RISK_ONLY
_BESIDE = Reason.BESIDE_RESERVATION
_SAFE = Reason.SAFE_IN_GAP
_SPOT_FILL = Reason.SPOT_FILL
_SUSPENDABLE = Reason.SUSPENDABLE


class Lent(Gaps):
    """One pass."""

    __slots__ = ("_giving",)

    def __init__(
        self,
        state: State,
        futures: Futures,
        timing: Timing,
        hand: Hand,
        windows: Sequence[Window],
    ) -> None:
        """`windows`: what is reserved by request, now or later."""
        super().__init__(state, futures, timing, hand, windows)
        self._giving: dict[HolderKey, int] | None = None  # cards of those who make way at once

    # ---- planning -------------------------------------------------------------------------------

    def _freed(self, levels: OpenNodes) -> Iterator[Freed]:
        """What nodes are expected to get back, ascending by time; what makes way, at once."""
        state, futures = self._state, self._futures
        now_ns = state.now_ns
        giving = self._all_giving()
        for holder, cards in giving.items():
            for node, count in holdings(state, holder, cards):
                if levels.has(node):
                    yield Freed(now_ns, node, count)
        for end_ns, holder, cards in futures.releases():
            if holder in giving:
                continue
            at_ns = max(end_ns, now_ns)
            for node, count in holdings(state, holder, cards):
                if levels.has(node):
                    yield Freed(at_ns, node, count)

    def _all_giving(self) -> dict[HolderKey, int]:
        """Who makes way at once, and the cards that come free."""
        futures = self._futures
        if self._giving is None:
            self._giving = {}
            for holder in manners.givers(self._state, futures):
                found = futures.expected(holder)
                if found is not None:
                    self._giving[holder] = found[1]
        return self._giving

    def _longest_ns(self, start_ns: int) -> int:
        """Who runs for longer is not let into the gap before the reservation for its shortness."""
        gap_ns = super()._longest_ns(start_ns)
        return min(gap_ns, tuning.knobs_of(self._state).runtime_max_ns)

    # ---- in turn --------------------------------------------------------------------------------

    def _start_in_turn(self, job: Job) -> Refusal | None:
        """Start a job; spot work has no turn but is in a gap whenever it runs."""
        if not manners.manner(self._state, job) & SPOT:
            return super()._start_in_turn(job)
        run_ns = estimates.of_run(self._state, job).ns
        refusal = self._hand.place(job)
        if refusal is None:
            judged_ns = run_ns if self._windows else 0  # else it may run for as long as it likes
            self._take(job, _SPOT_FILL, self._hand.held(), judged_ns, 0, FOREVER, None)
        return refusal

    def _reserve(self, job: Job) -> None:
        """Find the start of the head and hold its cards; none are held for spot work."""
        if manners.manner(self._state, job) & SPOT:
            self.head = Head(job, None, False)
            return
        super()._reserve(job)

    # ---- making way -----------------------------------------------------------------------------

    def make_way(self, way: Way) -> None:
        """Let others make way for who is first in line, one after the other; then let those go on
        who were suspended before.
        """
        while (head := self.head) is not None and way.free_for(head.job):
            self.head = self._giving = None
            self.walk()
        for job in way.go_on():
            self._giving = None
            self._lend(_held_of(job))

    def _lend(self, held: Held) -> None:
        """Cards were given to somebody who makes way for the head at once."""
        head = self.head
        if head is not None and head.plan is not None and head.counted:
            back = head.plan.back
            for node, count in held.items():
                back[node] = back.get(node, 0) + count

    def _first_offered(self) -> list[Key]:
        """Who lost work in a gap."""
        jobs = self._state.jobs
        found = []
        for line in self._futures.lines.values():
            for key in reversed(line):  # there they stand, see policy `compensation`
                job = jobs[key[-1]]
                if job.credit:
                    found.append((-job.credit, key))
                elif not job.request.spot:
                    break
        return [key for _, key in sorted(found)]

    # ---- in gaps --------------------------------------------------------------------------------

    def _judge(self, candidate: Candidate, longest_ns: int, lane: int) -> Verdict:
        """Start a job in a gap if it delays nobody, or makes way."""
        state, hand, head = self._state, self._hand, self.head
        assert head is not None
        job = state.jobs[candidate.place[-1]]
        if job is head.job:
            return Verdict.SKIPPED
        if not self._left:
            return Verdict.FULL
        self._left -= 1
        manner = self._futures.manner_of(candidate.cards)
        judged_ns = candidate.estimate_ns
        is_safe = judged_ns < FOREVER and judged_ns <= longest_ns
        may_yield = manner & (SUSPENDABLE | SPOT)
        if not (is_safe or may_yield) and head.plan is None:
            return Verdict.TOO_LONG
        refusal = hand.place(job)
        if refusal is not None:
            is_own = refusal.queue >= 0 or bool(self._windows)
            return Verdict.SKIPPED if is_own else Verdict.FULL
        held = hand.held()
        idle = self._idle_class(held)
        if self._is_unsuited(job, manner, held):
            hand.undo()
            return Verdict.SKIPPED
        left = 0
        if manner & SPOT:
            reason = _SPOT_FILL
        elif is_safe:
            reason = _SAFE
        elif (
            job.request.backfill is _LOW_RISK_ONLY
            and self._terms(job, _BESIDE, judged_ns, lane, idle) is None
        ):
            hand.undo()
            return Verdict.SKIPPED
        else:
            left = self._left_beside(held) if head.plan is not None else -1
            reason = _BESIDE if left >= 0 else _SUSPENDABLE
            if left < 0 and not may_yield:
                hand.undo()
                return Verdict.TOO_LONG
        if not self._take(job, reason, held, judged_ns, left, lane, idle):
            hand.undo()
            return Verdict.SKIPPED
        return Verdict.TAKEN

    def _take(
        self,
        job: Job,
        reason: Reason,
        held: Held,
        judged_ns: int,
        left: int,
        lane: int,
        idle: IdleClass | None,
    ) -> bool:
        """Start the job that is placed now; not if its owner takes less risk than that."""
        terms = self._terms(job, reason, judged_ns, lane, idle or self._idle_class(held))
        if terms is None:
            return False
        estimate = self._estimate(job, judged_ns, lane)
        if reason is _SAFE or reason is _BESIDE:
            told = self._told(reason is _SAFE, judged_ns, left, estimate)
        else:
            told = Foreseen(reason, 0, 0, 0, 0, estimate.ns, estimate.source, estimate.margin_ns)
        self._hand.take(job, _BACKFILL, told._replace(terms=terms))
        if not self._counts_no_more() and reason is not _BESIDE:
            self._lend(held)
        return True

    def _estimate(self, job: Job, judged_ns: int, lane: int) -> Estimate:
        is_known = 0 < judged_ns < FOREVER
        return estimates.judged(self._state, job, judged_ns if is_known else 0, lane)

    def _terms(
        self, job: Job, reason: Reason, judged_ns: int, lane: int, idle: IdleClass
    ) -> Terms | None:
        """What a job would have to expect that is placed now; none: its owner takes less risk."""
        head = self.head
        for_head = head.job if head is not None and reason is _SUSPENDABLE else None
        estimate_ns = self._estimate(job, judged_ns, lane).ns
        terms = manners.terms(self._state, job, reason, estimate_ns, idle, for_head)
        return None if manners.is_too_risky(job, terms) else terms

    def _idle_class(self, held: Held) -> IdleClass:
        """The kind of the cards that somebody was placed on; on several nodes, that of the most."""
        yields = self._timing.yields
        assert yields is not None
        plan = None if self.head is None else self.head.plan
        counts: dict[IdleClass, int] = {}
        for node, cards in held.items():
            kept = 0 if plan is None else plan.held.get(node, 0)
            kind = manners.idle_class(self._state.nodes[node], cards, kept, yields.large_cards)
            counts[kind] = counts.get(kind, 0) + cards
        return max(counts, key=lambda kind: (counts[kind], kind), default=_FRAGMENT)

    def _is_unsuited(self, job: Job, manner: int, held: Held) -> bool:
        """Whether idle cards are kept for jobs of another kind: a job whose pods talk much is not
        scattered over what others left on many nodes.
        """
        yields = self._timing.yields
        assert yields is not None
        if not manner & HEAVY or len(held) < 2:
            return False
        fragments = 0
        for node, cards in held.items():
            kind = manners.idle_class(self._state.nodes[node], cards, 0, yields.large_cards)
            fragments += kind is _FRAGMENT
        return fragments > 1


def _held_of(job: Job) -> Held:
    """Cards of a job by node."""
    held: Held = {}
    for pod in (job.pods or {}).values():
        held[pod.node] = held.get(pod.node, 0) + pod.mask.bit_count()
    return held

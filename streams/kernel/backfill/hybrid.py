"""Hybrid backfill on several nodes: as many as the policy says have reservations, first come first.

Made anew in each pass. Whoever is first starts while it fits; the first that does not is given the
earliest start there is, the next one the earliest beside that, and so on; who has one now starts.
Others start in gaps if they fit beside all of these for their whole estimate. (On one node of cards
that are all alike module `pool` does the same by counting.)
"""

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import bookings, estimates
from ganger.streams.kernel.backfill.bases import NodeHeld, NodeProspect
from ganger.streams.kernel.backfill.estimates import Estimate
from ganger.streams.kernel.backfill.futures import Futures
from ganger.streams.kernel.backfill.several import Seats, Several, gang_of, is_bookable
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.horizon.bench import Verdict
from ganger.streams.kernel.horizon.easy import Candidate
from ganger.streams.kernel.horizon.orders import ORDERS, Ask
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.nodes.bars import may_go_inside
from ganger.streams.kernel.queues.capacity import never_fits
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.session import Turns
from ganger.streams.kernel.settings import Timing
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_BESIDE = Reason.BESIDE_RESERVATION
_IN_TURN = Reason.PLACED_IN_TURN
_SAFE = Reason.SAFE_IN_GAP
_NOT_NEEDED = Reason.NOT_NEEDED


class Hybrid(Several):
    """One pass."""

    __slots__ = ("_heads", "_offered", "_starts")

    def __init__(self, state: State, futures: Futures, timing: Timing, hand: Seats) -> None:
        super().__init__(state, futures, timing, hand)
        self._heads: dict[int, None] = {}  # who could not start and is first in line, in order
        self._starts: dict[int, int] = {}  # when they do, if they do
        self._offered = timing.scan_max  # gaps that may be offered yet

    def fits(self, job: Job) -> bool:
        """Whether it may start now, by the cards of its pods alone. Never wrongly no."""
        state = self._state
        if self._futures.due(state.now_ns):
            return True
        index = state.indexes.nodes
        return all(
            not need or index.room(shape, need) >= need
            for shape, need in zip(job.shape.shapes, job.shape.fresh_needs, strict=True)
        )

    def start_lone(self, job: Job) -> bool:
        """Start a job where nobody else waits, so that nothing is reserved; whether it could."""
        prospect = self._begin()
        return self._start(prospect, job, self._run_ns(job), _ALLOCATE, self._told(job))

    def _begin(self) -> NodeProspect:
        """What is expected of the nodes, with nothing reserved."""
        prospect = self._futures.prospect
        if prospect is not None:
            prospect.roll_back()
        prospect, _ = self._prospect()
        prospect.rooms.mark()
        return prospect

    def _restore(self, prospect: NodeProspect) -> list[int]:
        """Nothing is kept from pass to pass."""
        return []

    # ---- in turn --------------------------------------------------------------------------------

    def walk(self) -> None:
        """Start who is first while it fits; reserve for those who do not."""
        state, timing = self._state, self._timing
        prospect = self._begin()
        turns = Turns(state, self._futures.lines)
        while len(self._heads) < timing.reserve and (key := turns.key()) is not None:
            job = state.jobs[key[-1]]
            if self._has_turn(prospect, job):
                turns.started()
            else:
                turns.passed()
        if state.bookings:
            bookings.keep_only(state, [seq for seq in self._heads if seq in self._starts])

    def _has_turn(self, prospect: NodeProspect, job: Job) -> bool:
        """Start a job or reserve for it; whether it started."""
        state = self._state
        run_ns = self._run_ns(job)
        if self._start_inside(prospect, job, run_ns, _ALLOCATE, self._told(job)):
            return True
        if not is_bookable(job):
            return self._start(prospect, job, run_ns, _ALLOCATE, self._told(job))
        if never_fits(state, job.shape) is not None:
            return False
        held = self._find(prospect, job, run_ns, state.now_ns)
        if held is not None and held.start_ns == state.now_ns:
            if self._hand.start_at(job, held.places, _ALLOCATE, self._told(job), 0):
                self._take(prospect, held)
                return True
            return False  # its queue may not have more, or a claim is on its cards
        self._heads[job.seq] = None
        if held is None:
            if job.seq in state.bookings:
                bookings.give_up(state, job.seq, _NOT_NEEDED)
            return False
        prospect.book(job.seq, held, None)
        self._starts[job.seq] = held.start_ns
        self._say(prospect, job, held)
        return False

    def _run_ns(self, job: Job) -> int:
        return estimates.of_run(self._state, job).ns or FOREVER

    def _told(self, job: Job) -> Foreseen:
        return bookings.foreseen(self._state, job, _IN_TURN)

    def _take(self, prospect: NodeProspect, held: NodeHeld) -> None:
        """Hold cards until the pass is over."""
        for place in held.places:
            if not place.card_milli:
                prospect.rooms.take(place.node, held.start_ns, held.until_ns, place.mask)

    def _start(
        self,
        prospect: NodeProspect,
        job: Job,
        run_ns: int,
        kind: DecisionKind,
        told: Foreseen,
    ) -> bool:
        """Start a job if it fits now beside all that is reserved; whether it did."""
        if self._start_inside(prospect, job, run_ns, kind, told):
            return True
        now_ns = self._state.now_ns
        held = self._find(prospect, job, run_ns, now_ns, now_ns + 1)
        if held is None or not self._hand.start_at(job, held.places, kind, told, 0):
            return False
        self._take(prospect, held)
        return True

    def _start_inside(
        self,
        prospect: NodeProspect,
        job: Job,
        run_ns: int,
        kind: DecisionKind,
        told: Foreseen,
    ) -> bool:
        """Start a job for which cards are kept by request, there or elsewhere; whether it did."""
        state = self._state
        if not (self._left and may_go_inside(state, job)):
            return False
        self._left -= 1
        held: NodeHeld = NodeHeld(state.now_ns, min(state.now_ns + run_ns, FOREVER), ())
        places = self._hand.within(job, held, prospect, is_inside=True)
        if places is None or not self._hand.start_at(job, places, kind, told, 0):
            return False
        for place in places:
            steps = prospect.rooms.nodes[place.node]
            for from_ns, until_ns, mask in list(steps.segments(held.start_ns, held.until_ns)):
                if mask & place.mask and not place.card_milli:
                    prospect.rooms.take(place.node, from_ns, until_ns, mask & place.mask)
        return True

    # ---- in gaps --------------------------------------------------------------------------------

    def scan(self) -> None:
        """Offer the gaps before and beside the reservations to all that wait behind."""
        state, timing, futures = self._state, self._timing, self._futures
        prospect = futures.prospect
        if not self._heads or prospect is None:
            return
        head = state.jobs[next(iter(self._heads))]
        has_waited = timing.guard_ns and state.now_ns - head.submitted_ns >= timing.guard_ns
        lane = 1 if has_waited else 0
        first_ns = min(self._starts.values(), default=FOREVER)
        longest_ns = first_ns - state.now_ns if "safe" in timing.routes else 0

        def judge(candidate: Candidate) -> Verdict:
            return self._judge(prospect, candidate, first_ns, lane)

        bench = futures.bench
        if timing.order in ("arrival", "shortest"):
            is_shortest = timing.order == "shortest"
            kinds = bench.kinds()
            bench.offer_each(kinds, longest_ns, judge, lane=lane, is_shortest=is_shortest)
            return
        full: dict[int, None] = {}
        for candidate in sorted(bench.all(lane), key=self._key):
            if candidate.cards not in full and judge(candidate) is Verdict.FULL:
                full[candidate.cards] = None

    def _key(self, candidate: Candidate) -> tuple[int, ...]:
        """Where somebody stands in the order of the policy."""
        state = self._state
        job = state.jobs[candidate.place[-1]]
        cards = job.shape.min_needs[0][0] // CARD_MILLI
        wait_ns = state.now_ns - job.submitted_ns
        ask = Ask(candidate.place, cards, candidate.estimate_ns, wait_ns)
        return ORDERS[self._timing.order](ask)

    def _judge(
        self, prospect: NodeProspect, candidate: Candidate, first_ns: int, lane: int
    ) -> Verdict:
        """Start a job in a gap if it delays nobody."""
        state = self._state
        job = state.jobs[candidate.place[-1]]
        if job.seq in self._heads:
            return Verdict.SKIPPED
        if not self._offered:
            return Verdict.FULL
        self._offered -= 1
        now_ns, judged_ns = state.now_ns, candidate.estimate_ns
        is_safe = judged_ns < FOREVER and now_ns + judged_ns <= first_ns
        if ("safe" if is_safe else "beside") not in self._timing.routes:
            return Verdict.SKIPPED if is_safe else Verdict.TOO_LONG
        if judged_ns >= FOREVER and len(self._starts) < len(self._heads):
            return Verdict.SKIPPED  # some head is not expected to start: nothing is held for it
        gang = None if may_go_inside(state, job) else gang_of(state, job)
        if gang is not None and not prospect.rooms.may_start(gang, 1, now_ns, now_ns + 1):
            return Verdict.FULL
        estimate = estimates.judged(state, job, judged_ns if judged_ns < FOREVER else 0, lane)
        told = self._told_in_gap(judged_ns, first_ns if is_safe else 0, estimate)
        is_started = self._start(prospect, job, judged_ns, _BACKFILL, told)
        return Verdict.TAKEN if is_started else Verdict.SKIPPED

    def _told_in_gap(self, judged_ns: int, gap_end_ns: int, estimate: Estimate) -> Foreseen:
        """What is said of a job that starts in a gap; `gap_end_ns`: 0 = it goes on beside what is
        reserved.
        """
        parts = (estimate.ns, estimate.source, estimate.margin_ns)
        if not gap_end_ns:
            return Foreseen(_BESIDE, 0, self._free() * CARD_MILLI, 0, 0, *parts)
        gap_ns = min(gap_end_ns, FOREVER - 1) - self._state.now_ns
        start_ns = gap_end_ns if gap_end_ns < FOREVER else 0
        return Foreseen(_SAFE, judged_ns, 0, gap_ns, start_ns, *parts)

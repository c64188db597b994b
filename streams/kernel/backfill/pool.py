"""A pass over time where cards are all alike: on one node, for jobs that ask for cards alone.

How many cards are free, and when how many more will be, decides everything; a placement is tried
only for a job that starts.
"""

from typing import Protocol

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import bookings, estimates
from ganger.streams.kernel.backfill.bookings import Room
from ganger.streams.kernel.backfill.futures import Futures, Outcome
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Job, Key
from ganger.streams.kernel.horizon.book import Book, Booking
from ganger.streams.kernel.horizon.easy import Bound, Candidate, Gap, scan
from ganger.streams.kernel.horizon.orders import ORDERS, Ask
from ganger.streams.kernel.horizon.outlook import Outlook
from ganger.streams.kernel.horizon.steps import FOREVER, Steps
from ganger.streams.kernel.queues.capacity import never_fits
from ganger.streams.kernel.queues.quota import is_over_limit
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.session import Turns
from ganger.streams.kernel.settings import FREED, RESERVE_ALL, ROUTES, Timing
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_BESIDE = Reason.BESIDE_RESERVATION
_IN_TURN = Reason.PLACED_IN_TURN
_SAFE = Reason.SAFE_IN_GAP
_NOT_NEEDED = Reason.NOT_NEEDED


class Starter(Protocol):
    """Starts jobs in a cycle."""

    def start(
        self, job: Job, kind: DecisionKind, foreseen: Foreseen, claims: bool, run_ns: int
    ) -> bool:
        """Start a job; `claims`: on cards some of whose holders are about to end, when they have;
        `run_ns`: it counts as to run so long; 0: as long as is expected of it.

        Returns whether nothing kept it.
        """
        ...


class Pool:
    """One pass.

    Attributes:
        free: cards that nobody holds or that are due now.
        heads: who could not start and has a reservation, in turn.
        start_ns: of the reservation, where there is but one.
        extra: cards free then beyond what it needs.
        outlook: where there are several.
    """

    __slots__ = (
        "_futures",
        "_node",
        "_starter",
        "_state",
        "_timing",
        "extra",
        "free",
        "heads",
        "outlook",
        "start_ns",
    )

    def __init__(self, state: State, futures: Futures, timing: Timing, starter: Starter) -> None:
        self.free = 0
        self.heads: list[Job] = []
        self.start_ns, self.extra = FOREVER, 0
        self.outlook: Outlook | None = None
        self._state = state
        self._futures = futures
        self._timing = timing
        self._starter = starter
        self._node = state.nodes[0]

    def begin(self) -> None:
        """Begin a pass, with the cards as they are now."""
        node = self._node = self._state.nodes[0]
        self.free = node.free_count + self._futures.ends.due(self._state.now_ns)
        if not node.is_open:
            self.free = 0
        if self.heads:
            self.heads.clear()
            self.start_ns, self.extra = FOREVER, 0
            self.outlook = None

    def fits(self, job: Job) -> bool:
        """Whether there are cards for a job now."""
        return job.shape.min_needs[0][0] <= self.free * CARD_MILLI

    def start_lone(self, job: Job) -> bool:
        """Start a job that fits where nobody else waits; whether nothing kept it."""
        cards = job.shape.min_needs[0][0] // CARD_MILLI
        return self._start(job, cards, _ALLOCATE, bookings.foreseen(self._state, job, _IN_TURN))

    def start_beside(self, job: Job, cards: int, outcome: Outcome) -> bool:
        """Start a job that fits and came after the last pass, before or beside the reservation;
        whether it could. Nobody else who waits can start, as at the end of that pass.
        """
        state = self._state
        estimate_ns = estimates.lanes(state, job)[outcome.lane]
        gap = Gap(outcome.start_ns, outcome.extra)
        if not gap.take(state.now_ns, cards, estimate_ns):
            return False
        gap_end_ns = gap.start_ns if gap.extra == outcome.extra else 0
        if not self._fill(job, cards, estimate_ns, gap_end_ns, outcome.lane, outcome.extra):
            return False
        if estimate_ns == estimates.expected_ns(state, job):
            self._futures.outcome = outcome._replace(free=self.free, extra=gap.extra)
        return True

    def _start(
        self, job: Job, cards: int, kind: DecisionKind, foreseen: Foreseen, run_ns: int = 0
    ) -> bool:
        claims = cards > self._node.free_count  # some of them are only due
        if not self._starter.start(job, kind, foreseen, claims, run_ns):
            return False
        self.free -= cards
        return True

    # ---- in turn --------------------------------------------------------------------------------

    def walk(self) -> None:
        """Start who is first while it fits; reserve for those who do not."""
        timing = self._timing
        if timing.reserve >= RESERVE_ALL:
            self._follow_book()
            return
        state, futures = self._state, self._futures
        turns = Turns(state, futures.lines)
        while (key := turns.key()) is not None:
            job = state.jobs[key[-1]]
            cards = futures.cards_of(key)
            if cards <= self.free and not self.heads:
                if self._start(job, cards, _ALLOCATE, bookings.foreseen(state, job, _IN_TURN)):
                    turns.started()
                    continue
            elif never_fits(state, job.shape) is None:
                if not timing.reserve and timing.stops:
                    break
                if timing.reserve == 1:
                    self._reserve(job, cards)
                    break
                if timing.reserve and self._start_or_reserve(job, cards):
                    turns.started()
                    continue
                if timing.reserve and len(self.heads) >= timing.reserve:
                    break
            turns.passed()
        kept = state.bookings
        if kept and not (len(kept) == 1 == len(self.heads) and self.heads[0].seq in kept):
            bookings.keep_only(state, [head.seq for head in self.heads])

    def _reserve(self, job: Job, cards: int) -> None:
        """Reserve for the only job that has a reservation."""
        state = self._state
        self.heads.append(job)
        reach = self._futures.ends.reach(cards, self.free, state.now_ns)
        if reach is None:
            if job.seq in state.bookings:
                bookings.give_up(state, job.seq, _NOT_NEEDED)
            return
        self.start_ns, then = reach
        self.extra = then - cards
        estimate = estimates.of_run(state, job)
        bookings.reserve(state, job, self.start_ns, cards, estimate, Room(self.free, then))

    def _start_or_reserve(self, job: Job, cards: int) -> bool:
        """Reserve for one of several that do not fit, or stand behind one that does not; whether it
        started, since it fits beside all reservations.
        """
        state = self._state
        estimate = estimates.of_run(state, job)
        now_ns = state.now_ns
        if self.outlook is None:
            self.outlook = Outlook(self._futures.ends, self.free, now_ns)
        start = self.outlook.book(cards, estimate.ns or FOREVER)
        start_ns = FOREVER if start is None else start
        then = 0 if start is None else self.outlook.free.at(start_ns) + cards
        if start_ns == now_ns:
            told = bookings.foreseen(state, job, _IN_TURN)
            return self._start(job, cards, _ALLOCATE, told)
        self.heads.append(job)
        if start_ns < FOREVER:
            bookings.reserve(state, job, start_ns, cards, estimate, Room(self.free, then))
        elif job.seq in state.bookings:
            bookings.give_up(state, job.seq, _NOT_NEEDED)
        return False

    # ---- in gaps --------------------------------------------------------------------------------

    def scan(self) -> None:
        """Offer the gaps before and beside the reservations to all that wait behind."""
        if not self.heads:
            return
        timing, head = self._timing, self.heads[0]
        lane = 0
        if timing.guard_ns and self._state.now_ns - head.submitted_ns >= timing.guard_ns:
            lane = 1
        if self.outlook is not None:
            if self.free > 0:
                self._scan_outlook(self.outlook, lane)
            return
        start_ns, extra = self.start_ns, self.extra
        is_whole = timing.routes == ROUTES
        if not is_whole:
            start_ns = start_ns if "safe" in timing.routes else self._state.now_ns
            extra = extra if "beside" in timing.routes else 0
        gap = Gap(start_ns, extra)
        is_simple = timing.order in ("arrival", "shortest")
        if self.free > 0 and not self._fill_all(head, gap, lane, is_simple):
            return
        if is_simple and is_whole and self.free == self._node.free_count:
            assert head.key is not None, head.seq
            self._futures.outcome = Outcome(head.key, self.free, start_ns, gap.extra, lane)

    def _fill_all(self, head: Job, gap: Gap, lane: int, is_simple: bool) -> bool:
        """Start who may start before and beside the only reservation; whether it stands for sure
        where it stood before.
        """
        timing, now_ns = self._timing, self._state.now_ns
        extra = gap.extra
        if is_simple:
            is_shortest = timing.order == "shortest"
            chosen = self._futures.bench.offer(
                now_ns, self.free, gap, lane=lane, is_shortest=is_shortest
            )
            if not chosen:
                return True
        else:
            bound = Bound(self._futures.cards_of(_key(head)), FOREVER)
            chosen = scan(self._candidates(lane), now_ns, self.free, gap, bound)
        is_sure = True
        for candidate in chosen:
            is_safe = gap.is_safe(now_ns, candidate.estimate_ns)
            job = self._state.jobs[candidate.place[-1]]
            gap_end_ns = gap.start_ns if is_safe else 0
            _, cards, estimate_ns = candidate
            has_started = self._fill(job, cards, estimate_ns, gap_end_ns, lane, extra)
            if not is_safe:
                extra -= cards
            if not has_started or estimate_ns != estimates.expected_ns(self._state, job):
                is_sure = False
        return is_sure

    def _scan_outlook(self, outlook: Outlook, lane: int) -> None:
        """The same where several have reservations: who fits beside them all starts."""
        now_ns = self._state.now_ns
        booked = [
            self._state.bookings[head.seq].start_ns
            for head in self.heads
            if head.seq in self._state.bookings
        ]
        first_ns = min(booked, default=FOREVER)
        heads = [_key(head) for head in self.heads]
        for candidate in self._candidates(lane):
            if candidate.cards > self.free or candidate.place in heads:
                continue
            is_safe = candidate.estimate_ns < FOREVER and now_ns + candidate.estimate_ns <= first_ns
            if ("safe" if is_safe else "beside") not in self._timing.routes:
                continue
            left = outlook.free.at(first_ns) if not is_safe and first_ns < FOREVER else 0
            if outlook.take(candidate.cards, candidate.estimate_ns):
                job = self._state.jobs[candidate.place[-1]]
                _, cards, estimate_ns = candidate
                self._fill(job, cards, estimate_ns, first_ns if is_safe else 0, lane, left)

    def _candidates(self, lane: int) -> list[Candidate]:
        """Whoever takes part, in the order of the policy, as many as it looks at."""
        state, timing = self._state, self._timing
        key_of = ORDERS[timing.order]

        def key(candidate: Candidate) -> tuple[int, ...]:
            wait_ns = state.now_ns - state.jobs[candidate.place[-1]].submitted_ns
            return key_of(Ask(*candidate, wait_ns))

        return sorted(self._futures.bench.all(lane), key=key)[: timing.scan_max]

    def _fill(
        self, job: Job, cards: int, estimate_ns: int, gap_end_ns: int, lane: int, left: int
    ) -> bool:
        """Start a job in a gap; whether nothing kept it. `gap_end_ns`: 0 = it goes on beside the
        reservation, where `left` cards are.
        """
        state = self._state
        judged_ns = estimate_ns if estimate_ns < FOREVER else 0
        ns, margin_ns, source = estimates.judged(state, job, judged_ns, lane)
        if gap_end_ns:
            gap_ns = min(gap_end_ns, FOREVER - 1) - state.now_ns
            said_ns = gap_end_ns if gap_end_ns < FOREVER else 0
            told = Foreseen(_SAFE, judged_ns, 0, gap_ns, said_ns, ns, source, margin_ns)
        else:
            told = Foreseen(_BESIDE, 0, left * CARD_MILLI, 0, 0, ns, source, margin_ns)
        return self._start(job, cards, _BACKFILL, told)

    # ---- everybody booked -----------------------------------------------------------------------

    def _follow_book(self) -> None:
        """Conservative backfill: book who came, move up who can, start whose time has come."""
        state, futures, now_ns = self._state, self._futures, self._state.now_ns
        book, changed = self._book()
        if state.stirred & FREED:
            changed.update(book.replan(now_ns))
        for key in sorted(futures.unbooked):
            job = state.jobs[key[-1]]
            cards = futures.cards_of(key)
            duration_ns = estimates.of_run(state, job).ns or FOREVER
            may_fit = cards > 0 and never_fits(state, job.shape) is None
            if may_fit and not is_over_limit(state, job):
                booking = book.book(job.seq, cards, duration_ns, now_ns)
                if booking is not None:
                    del futures.unbooked[key]
                    changed[job.seq] = booking
        for seq in book.due(now_ns):
            self._start_booked(book, seq)
        for seq, booking in changed.items():
            if seq in book.bookings:
                self._say(book, seq, booking)
        if book.bookings:
            start_ns, seq = min((one.start_ns, seq) for seq, one in book.bookings.items())
            if (start_ns, seq) != futures.woken:
                futures.woken = (start_ns, seq)
                state.indexes.timers.at(start_ns, Wake.BOOKED, seq)

    def _start_booked(self, book: Book, seq: int) -> None:
        """Start a job whose time has come."""
        state, futures = self._state, self._futures
        job = state.jobs[seq]
        key = _key(job)
        booking = book.bookings[seq]
        cards, kind = booking.cards, _ALLOCATE
        told = bookings.foreseen(state, job, _IN_TURN, booking.duration_ns)
        if Turns(state, futures.lines).key() != key:
            kind = _BACKFILL
            told = told._replace(reason=_BESIDE, free=self.free * CARD_MILLI)
        if cards <= self.free and self._start(job, cards, kind, told, told.estimate_ns):
            book.start(seq)
            if booking.duration_ns != estimates.expected_ns(state, job):
                futures.book = None  # it ends at another time than was booked
            return
        book.drop(seq)
        futures.unbooked[key] = None
        if seq in state.bookings:
            bookings.give_up(state, seq, _NOT_NEEDED)

    def _say(self, book: Book, seq: int, booking: Booking) -> None:
        state = self._state
        job = state.jobs[seq]
        estimate = estimates.as_booked(state, job, booking.duration_ns)
        then = book.free.at(booking.start_ns) + booking.cards
        bookings.reserve(
            state, job, booking.start_ns, booking.cards, estimate, Room(self.free, then)
        )

    def _book(self) -> tuple[Book, dict[int, Booking]]:
        """The book as the cards are now, and the bookings that had to change for that."""
        futures, now_ns = self._futures, self._state.now_ns
        book = futures.book
        if book is not None:
            book.free.trim(now_ns)
            due = [book.bookings[seq] for seq in book.due(now_ns)]
            is_late = any(one.start_ns < now_ns for one in due)  # it ends later than was booked
            cards = sum(one.cards for one in due)
            if not is_late and book.free.at(now_ns) + cards == self.free:
                return book, {}
        return self._book_anew()

    def _book_anew(self) -> tuple[Book, dict[int, Booking]]:
        """The book made of what runs and what is booked; where both do not fit, bookings move."""
        state, futures, now_ns = self._state, self._futures, self._state.now_ns
        changes: dict[int, int] = {}
        for _, end_ns, cards in futures.holders():
            if now_ns < end_ns < FOREVER:
                changes[end_ns] = changes.get(end_ns, 0) + cards
        futures.unbooked.clear()
        futures.unbooked.update(
            (key, None) for key in futures.places() if key[-1] not in state.bookings
        )
        book = futures.book = Book(now_ns, 0)
        book.free = Steps.changing(now_ns, self.free, changes)
        changed: dict[int, Booking] = {}
        for seq in sorted(state.bookings):
            one = state.bookings[seq]
            duration_ns = FOREVER if one.until_ns >= FOREVER else one.until_ns - one.start_ns
            start_ns = max(one.start_ns, now_ns)  # it could not start when its time came
            booking = book.bookings[seq] = Booking(start_ns, one.cards, duration_ns)
            book.free.add(start_ns, min(start_ns + duration_ns, FOREVER), -one.cards)
            if start_ns != one.start_ns:
                changed[seq] = booking
        for seq, moved in book.mend(now_ns).items():
            if moved is None:
                changed.pop(seq, None)
                futures.unbooked[_key(state.jobs[seq])] = None
                bookings.give_up(state, seq, _NOT_NEEDED)
            else:
                changed[seq] = moved
        return book, changed


def _key(job: Job) -> Key:
    """The place of a job that waits."""
    assert job.key is not None, job.seq
    return job.key

"""Conservative backfill on several nodes: everybody who waits has a start, and cards.

A job is booked when it comes, at the earliest start beside all bookings made before; nobody who
comes later moves it back. When cards come free that were expected later, those who wait are asked
one at a time, in order of submission, whether they can start earlier than booked, each as if it
had nothing booked; who can is booked there instead. When its time comes a job starts on its cards.
(On one node of cards that are all alike module `pool` does the same by counting.)

At most `depth` jobs have bookings, as the policy says. Those behind wait until one of these starts.
"""


from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import bookings, estimates
from ganger.streams.kernel.backfill.prospect import Gain, Held, Prospect, held_of
from ganger.streams.kernel.backfill.several import Several, gang_of, is_bookable
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Job, Key
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.queues.capacity import never_fits
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.session import Turns
from ganger.streams.kernel.settings import FREED
from ganger.streams.kernel.timers import Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_BESIDE = Reason.BESIDE_RESERVATION
_IN_TURN = Reason.PLACED_IN_TURN
_NOT_NEEDED = Reason.NOT_NEEDED

_NO_GAIN = Gain(FOREVER, 0, 0)


class Conservative(Several):
    """One pass."""

    __slots__ = ()

    def fits(self, job: Job) -> bool:
        """Whether the job's submission calls for a pass: it is to be booked."""
        return True

    def start_lone(self, job: Job) -> bool:
        """Nobody starts unbooked."""
        return False

    def scan(self) -> None:
        """There are no gaps but those that jobs are booked into."""

    def walk(self) -> None:
        """Book who came, move up who can, start whose time has come."""
        state, futures = self._state, self._futures
        prospect, displaced = self._prospect()
        changed: dict[int, None] = {}
        if len(prospect.booked) + len(displaced) != len(state.bookings):
            for seq in [seq for seq in prospect.booked if seq not in state.bookings]:
                prospect.unbook(seq)
        self._book_again(prospect, displaced, changed)
        if state.stirred & FREED and prospect.gains:
            self._move_up(prospect, changed)
        self._book(prospect, changed)
        self._start_due(prospect, changed)
        for seq in changed:
            if seq in prospect.booked:
                self._say(prospect, state.jobs[seq], prospect.booked[seq])
        if prospect.starts and prospect.starts[0] != futures.woken:
            futures.woken = prospect.starts[0]
            state.indexes.timers.at(futures.woken[0], Wake.BOOKED, futures.woken[1])

    def _restore(self, prospect: Prospect) -> list[int]:
        """Book anew what is booked; who has no cards there any more, ascending. By start, so that
        cards are found wherever counts have promised them.
        """
        state, futures = self._state, self._futures
        futures.unbooked.clear()
        for key in futures.places():
            if key[-1] not in state.bookings:
                futures.unbooked[key] = None
        displaced = []
        rooms = prospect.rooms
        for start_ns, seq in sorted((one.start_ns, one.job) for one in state.bookings.values()):
            held: Held | None = held_of(state.bookings[seq])
            assert held is not None
            if not held.places:
                gang = gang_of(state, state.jobs[seq])
                held = None
                if gang is not None and start_ns >= state.now_ns:
                    duration_ns = _duration_ns(held_of(state.bookings[seq]))
                    held = self._find(prospect, state.jobs[seq], duration_ns, start_ns, start_ns + 1)
            elif any(
                one.mask & ~rooms.free(one.node, max(start_ns, state.now_ns), held.until_ns)
                for one in held.places
                if held.until_ns > state.now_ns
            ):
                held = None
            if held is None:
                displaced.append(seq)
            else:
                prospect.book(seq, held)
                prospect.tried[seq] = 0
        return sorted(displaced)

    # ---- booking --------------------------------------------------------------------------------

    def _book_again(
        self, prospect: Prospect, displaced: list[int], changed: dict[int, None]
    ) -> None:
        """Book those whose cards somebody else holds for longer; give up where there is no start."""
        state, futures = self._state, self._futures
        for seq in displaced:
            booking = state.bookings.get(seq)
            if booking is None:
                continue
            job = state.jobs[seq]
            duration_ns = _duration_ns(held_of(booking))
            held = self._find(prospect, job, duration_ns, state.now_ns)
            if held is None:
                futures.unbooked[_key(job)] = (prospect.gain_count(), duration_ns)
                bookings.give_up(state, seq, _NOT_NEEDED)
            else:
                prospect.book(seq, held)
                changed[seq] = None

    def _book(self, prospect: Prospect, changed: dict[int, None]) -> None:
        """Book who has no start yet, as many as the policy allows, in order."""
        state, unbooked = self._state, self._futures.unbooked
        if not unbooked or len(prospect.booked) >= self._timing.depth:
            return
        for key in sorted(unbooked):
            if len(prospect.booked) >= self._timing.depth:
                break
            job = state.jobs[key[-1]]
            duration_ns = estimates.of_run(state, job).ns or FOREVER
            asked = (prospect.gain_count(), duration_ns)
            if unbooked[key] == asked or never_fits(state, job.shape) is not None:
                continue
            if not is_bookable(job):
                self._start_loose(prospect, job, duration_ns)
                continue
            held = self._find(prospect, job, duration_ns, state.now_ns)
            if held is None:
                unbooked[key] = asked
            else:
                prospect.book(job.seq, held)
                del unbooked[key]
                changed[job.seq] = None

    # ---- moving up ------------------------------------------------------------------------------

    def _move_up(self, prospect: Prospect, changed: dict[int, None]) -> None:
        """Ask each job, in order of submission, whether it can start earlier than booked."""
        gains = list(prospect.gains)
        since = [_NO_GAIN] * (len(gains) + 1)  # all gains from one on, as one
        for place in range(len(gains) - 1, -1, -1):
            since[place] = _both(since[place + 1], gains[place])
        base = prospect.gain_base
        recent, seen = _NO_GAIN, len(gains)  # those made by who moved up just now
        for seq in sorted(prospect.booked):
            held = prospect.booked[seq]
            gain = since[max(0, prospect.tried[seq] - base)]
            while seen < len(prospect.gains):
                recent = _both(recent, prospect.gains[seen])
                seen += 1
            gain = _both(gain, recent)
            if gain.most and self._moves(prospect, seq, held, gain):
                changed[seq] = None
            if seq in prospect.booked:
                prospect.tried[seq] = prospect.gain_count()
        prospect.forget_gains(len(gains))

    def _moves(self, prospect: Prospect, seq: int, held: Held, gain: Gain) -> bool:
        """Book a job earlier if it can start earlier through a gain; whether it does."""
        duration_ns = _duration_ns(held)
        now_ns = self._state.now_ns
        before_ns = min(held.start_ns, gain.until_ns)
        not_before_ns = max(now_ns, gain.from_ns - duration_ns + 1)
        if not_before_ns >= before_ns:
            return False
        job = self._state.jobs[seq]
        gang = gang_of(self._state, job)
        if gang is not None:
            if gain.most < min(shape.cards for shape, _ in gang):
                return False
            first_ns = prospect.rooms.first(gang, not_before_ns, before_ns)
            if first_ns is None:
                return False
            not_before_ns = first_ns
        prospect.lift(seq)
        found = self._find(prospect, job, duration_ns, not_before_ns, before_ns)
        if found is None:
            prospect.put_back(held)
            return False
        prospect.move(seq, found)
        return True

    # ---- starting -------------------------------------------------------------------------------

    def _start_due(self, prospect: Prospect, changed: dict[int, None]) -> None:
        """Start whose time has come, in order of submission."""
        now_ns = self._state.now_ns
        due = []
        for start_ns, seq in prospect.starts:
            if start_ns > now_ns:
                break
            due.append(seq)
        for seq in sorted(due):
            held = prospect.booked.get(seq)
            if held is not None and held.start_ns <= now_ns:
                self._start_booked(prospect, seq, held, changed)

    def _start_booked(
        self, prospect: Prospect, seq: int, held: Held, changed: dict[int, None]
    ) -> None:
        state, futures = self._state, self._futures
        job = state.jobs[seq]
        key = _key(job)
        kind, told = self._told(job, held)
        run_ns = 0 if held.until_ns >= FOREVER else held.until_ns - held.start_ns
        if self._hand.start_at(job, held.places, kind, told, run_ns):
            bases = self._bases([entry.node for entry in held.places])
            self._book_again(prospect, prospect.met(seq, state.now_ns, bases), changed)
            return
        prospect.unbook(seq)
        futures.unbooked[key] = None
        if seq in state.bookings:
            bookings.give_up(state, seq, _NOT_NEEDED)

    def _told(self, job: Job, held: Held) -> tuple[DecisionKind, Foreseen]:
        """As what a job starts, and what is said of it."""
        state = self._state
        estimate = self._estimate(job, held)
        told = bookings.foreseen(state, job, _IN_TURN)
        told = told._replace(estimate_ns=estimate.ns, estimate_source=estimate.source)
        if Turns(state, self._futures.lines).key() == job.key:
            return _ALLOCATE, told
        return _BACKFILL, told._replace(reason=_BESIDE, free=self._free() * CARD_MILLI)

    def _start_loose(self, prospect: Prospect, job: Job, duration_ns: int) -> None:
        """Start a job for which nothing is booked, if it fits now beside all that is."""
        state = self._state
        if not self._left:
            return
        self._left -= 1
        held = Held(state.now_ns, min(state.now_ns + duration_ns, FOREVER), ())
        places = self._hand.within(job, held, prospect)
        if places is None:
            return
        held = held._replace(places=places)
        kind, told = self._told(job, held)
        if self._hand.start_at(job, places, kind, told, 0):
            bases = self._bases([entry.node for entry in places])
            displaced = prospect.catch_up(state.now_ns, bases)
            assert not displaced, displaced


def _both(one: Gain, other: Gain) -> Gain:
    """A gain that covers two."""
    return Gain(
        min(one.from_ns, other.from_ns),
        max(one.until_ns, other.until_ns),
        max(one.most, other.most),
    )


def _duration_ns(held: Held) -> int:
    return FOREVER if held.until_ns >= FOREVER else held.until_ns - held.start_ns


def _key(job: Job) -> Key:
    """The place of a job that waits."""
    assert job.key is not None, job.seq
    return job.key

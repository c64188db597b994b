"""Conservative backfill on several nodes: everybody who waits has a start, and cards.

A job is booked when it comes, at the earliest start beside all bookings made before; nobody who
comes later moves it back. When cards come free that were expected later, those who wait are asked
one at a time, in order of submission, whether they can start earlier than booked, each as if it
had nothing booked; who can is booked there instead. When its time comes a job starts on its cards.
(On one node of cards that are all alike module `pool` does the same by counting.)

At most `depth` jobs have bookings, as the policy says. Those behind wait until one of these starts.
"""

from typing import NamedTuple

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import bookings, estimates
from ganger.streams.kernel.backfill.bases import NodeHeld, NodeProspect
from ganger.streams.kernel.backfill.several import (
    Several,
    duration_of,
    gang_of,
    held_of,
    is_bookable,
)
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Job, Key
from ganger.streams.kernel.horizon.prospect import Gain
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.nodes.bars import may_go_inside
from ganger.streams.kernel.queues.capacity import never_fits
from ganger.streams.kernel.queues.quota import is_over_limit
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


class _Chance(NamedTuple):
    """Of all the runs that go through some gains."""

    from_ns: int  # none of these begins earlier
    until_ns: int  # nor later
    longest_ns: int  # no run of a pod of some size that counts on no cards of its own is longer


class _Chances:
    """What gains allow, one after the other: of the first n added, for each n."""

    __slots__ = ("_by_size", "_known", "_prospect", "_spans", "count")

    def __init__(self, prospect: NodeProspect) -> None:
        self._prospect = prospect
        self._spans = [(FOREVER, 0)]  # of the first n
        sizes = dict.fromkeys([size for sizes in prospect.sizes.values() for size in sizes])
        self._by_size = {size: [0] for size in sizes}  # longest runs through the first n
        self._known: dict[tuple[int, tuple[int, ...]], _Chance] = {}
        self.count = 0

    def add(self, gain: Gain) -> None:
        """One more."""
        self.count += 1
        from_ns, until_ns = self._spans[-1]
        self._spans.append((min(from_ns, gain.from_ns), max(until_ns, gain.until_ns)))
        for size, longest in self._by_size.items():
            longest.append(max(longest[-1], self._prospect.longest_ns(gain, size)))

    def of(self, count: int, sizes: tuple[int, ...]) -> _Chance:
        """For a job with pods of these sizes, by the first so many gains."""
        chance = self._known.get((count, sizes))
        if chance is None:
            longest_ns = max(self._by_size[size][count] for size in sizes)
            chance = self._known[count, sizes] = _Chance(*self._spans[count], longest_ns)
        return chance


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
        # who has lost its booking meanwhile stands among the unbooked
        displaced = [seq for seq in displaced if seq in state.bookings]
        changed: dict[int, None] = {}
        if len(prospect.booked) + len(displaced) != len(state.bookings):
            for seq in [seq for seq in prospect.booked if seq not in state.bookings]:
                prospect.unbook(seq)
        self._book_again(prospect, displaced, changed)
        if state.stirred & FREED and prospect.gains:
            self._move_up(prospect, changed)
        if state.indexes.windows is not None:
            self._start_inside(prospect, changed)
        self._book(prospect, changed)
        self._start_due(prospect, changed)
        for seq in changed:
            if seq in prospect.booked:
                self._say(prospect, state.jobs[seq], prospect.booked[seq])
        if prospect.starts and prospect.starts[0] != futures.woken:
            futures.woken = prospect.starts[0]
            state.indexes.timers.at(futures.woken[0], Wake.BOOKED, futures.woken[1])

    def _restore(self, prospect: NodeProspect) -> list[int]:
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
            held: NodeHeld | None = held_of(state.bookings[seq])
            assert held is not None
            if not held.places:
                gang = gang_of(state, state.jobs[seq])
                held = None
                if gang is not None and start_ns >= state.now_ns:
                    duration_ns = duration_of(held_of(state.bookings[seq]))
                    held = self._find(
                        prospect, state.jobs[seq], duration_ns, start_ns, start_ns + 1
                    )
            elif any(
                one.mask & ~rooms.free(one.node, max(start_ns, state.now_ns), held.until_ns)
                for one in held.places
                if held.until_ns > state.now_ns
            ):
                held = None
            if held is None:
                displaced.append(seq)
            else:
                prospect.book(seq, held, gang_of(state, state.jobs[seq]))
                prospect.tried[seq] = 0
        return sorted(displaced)

    # ---- booking --------------------------------------------------------------------------------

    def _book_again(
        self, prospect: NodeProspect, displaced: list[int], changed: dict[int, None]
    ) -> None:
        """Book those whose cards somebody else holds; give up where there is no start."""
        state, futures = self._state, self._futures
        for seq in displaced:
            job, booking = state.jobs.get(seq), state.bookings.get(seq)
            if job is None or job.key is None:
                continue  # it waits no more
            if booking is not None:
                duration_ns = duration_of(held_of(booking))
            else:  # booked in this very pass, and not said yet
                duration_ns = estimates.of_run(state, job).ns or FOREVER
            held = self._find(prospect, job, duration_ns, state.now_ns)
            if held is None:
                changed.pop(seq, None)
                futures.unbooked[_key(job)] = (prospect.gain_count(), futures.lessons)
                if booking is not None:
                    bookings.give_up(state, seq, _NOT_NEEDED)
            else:
                prospect.book(seq, held, gang_of(state, state.jobs[seq]))
                changed[seq] = None

    def _book(self, prospect: NodeProspect, changed: dict[int, None]) -> None:
        """Book who has no start yet, as many as the policy allows, in order. Who was asked before
        is asked again when cards have become free since, or anything was learnt of runs. Who is
        over a limit of its queue is not asked: when others of it end is no plan's to know.
        """
        state, futures, depth = self._state, self._futures, self._timing.depth
        unbooked = futures.unbooked
        if not unbooked or len(prospect.booked) >= depth:
            return
        asked = (prospect.gain_count(), futures.lessons)
        for key in sorted([key for key, last in unbooked.items() if last != asked]):
            job = state.jobs[key[-1]]
            if never_fits(state, job.shape) is not None or is_over_limit(state, job):
                continue
            duration_ns = estimates.of_run(state, job).ns or FOREVER
            if not is_bookable(job):
                self._start_loose(prospect, job, duration_ns, changed)
                continue
            held = self._find(prospect, job, duration_ns, state.now_ns)
            if held is None:
                unbooked[key] = asked if self._left else None
                continue
            prospect.book(job.seq, held, gang_of(state, job))
            del unbooked[key]
            changed[job.seq] = None
            if len(prospect.booked) >= depth:
                break

    # ---- moving up ------------------------------------------------------------------------------

    def _move_up(self, prospect: NodeProspect, changed: dict[int, None]) -> None:
        """Ask each job, in order of submission, whether it can start earlier than booked."""
        past = _Chances(prospect)
        for gain in reversed(prospect.gains):
            past.add(gain)
        count = len(prospect.gains)
        base = prospect.gain_base
        recent = _Chances(prospect)  # through gains of those who moved up just now
        for seq in sorted(prospect.booked):
            if seq not in prospect.booked:
                continue
            while recent.count < len(prospect.gains) - count:
                recent.add(prospect.gains[count + recent.count])
            since = count - max(0, prospect.tried[seq] - base)  # of the past ones
            held = prospect.booked[seq]
            if held.start_ns > self._state.now_ns and (since > 0 or recent.count):
                sizes = prospect.sizes[seq]
                chance = past.of(max(0, since), sizes)
                if recent.count:
                    chance = _both(chance, recent.of(recent.count, sizes))
                if self._moves(prospect, seq, held, chance):
                    changed[seq] = None
            prospect.tried[seq] = prospect.gain_count()
        prospect.forget_gains(count)

    def _moves(self, prospect: NodeProspect, seq: int, held: NodeHeld, chance: _Chance) -> bool:
        """Book a job earlier if it can start earlier through a gain; whether it does."""
        duration_ns = duration_of(held)
        if duration_ns > chance.longest_ns and not _may_shift(prospect, seq, held):
            return False
        before_ns = min(held.start_ns, chance.until_ns)
        not_before_ns = max(self._state.now_ns, chance.from_ns - duration_ns + 1)
        if not_before_ns >= before_ns:
            return False
        gang = prospect.gangs.get(seq)
        if gang is not None and not prospect.rooms.may_start(
            gang, duration_ns, not_before_ns, before_ns, held.start_ns
        ):
            return False
        job = self._state.jobs[seq]
        found = self._find(prospect, job, duration_ns, not_before_ns, before_ns, held)
        if found is not None:
            prospect.move(seq, found)
        return found is not None

    # ---- starting -------------------------------------------------------------------------------

    def _start_due(self, prospect: NodeProspect, changed: dict[int, None]) -> None:
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
        self, prospect: NodeProspect, seq: int, held: NodeHeld, changed: dict[int, None]
    ) -> None:
        state, futures = self._state, self._futures
        job = state.jobs[seq]
        key = _key(job)
        kind, told = self._told(job, held)
        gang = gang_of(state, job)
        is_same = gang is None or sum(count for _, count in gang) == len(held.places)
        if is_same and self._hand.start_at(job, held.places, kind, told, told.estimate_ns):
            bases = self._bases([entry.node for entry in held.places])
            self._book_again(prospect, prospect.met(seq, state.now_ns, bases), changed)
            return
        prospect.unbook(seq)
        futures.unbooked[key] = None
        if seq in state.bookings:
            bookings.give_up(state, seq, _NOT_NEEDED)

    def _start_inside(self, prospect: NodeProspect, changed: dict[int, None]) -> None:
        """Start those for whom cards are kept by request, as soon as they fit there: nothing is
        booked on such cards, since all others are kept from them.
        """
        state = self._state
        for key in sorted(self._futures.places()):
            job = state.jobs[key[-1]]
            if self._left and may_go_inside(state, job):
                duration_ns = estimates.of_run(state, job).ns or FOREVER
                self._start_loose(prospect, job, duration_ns, changed, is_inside=True)

    def _told(self, job: Job, held: NodeHeld) -> tuple[DecisionKind, Foreseen]:
        """As what a job starts, and what is said of it."""
        state = self._state
        told = bookings.foreseen(state, job, _IN_TURN, duration_of(held))
        if Turns(state, self._futures.lines).key() == job.key:
            return _ALLOCATE, told
        return _BACKFILL, told._replace(reason=_BESIDE, free=self._free() * CARD_MILLI)

    def _start_loose(
        self,
        prospect: NodeProspect,
        job: Job,
        duration_ns: int,
        changed: dict[int, None],
        is_inside: bool = False,
    ) -> bool:
        """Start a job with no cards booked if it fits now beside all that are; whether it did."""
        state = self._state
        if not self._left:
            return False
        self._left -= 1
        held: NodeHeld = NodeHeld(state.now_ns, min(state.now_ns + duration_ns, FOREVER), ())
        places = self._hand.within(job, held, prospect, is_inside)
        if places is None:
            return False
        held = held._replace(places=places)
        kind, told = self._told(job, held)
        if not self._hand.start_at(job, places, kind, told, 0):
            return False
        if job.seq in prospect.booked:
            prospect.unbook(job.seq)
        bases = self._bases([entry.node for entry in places])
        self._book_again(prospect, prospect.catch_up(state.now_ns, bases), changed)
        return True


def _both(one: _Chance, other: _Chance) -> _Chance:
    """What gains of two kinds allow."""
    return _Chance(
        min(one.from_ns, other.from_ns),
        max(one.until_ns, other.until_ns),
        max(one.longest_ns, other.longest_ns),
    )


def _may_shift(prospect: NodeProspect, seq: int, held: NodeHeld) -> bool:
    """Whether a pod could begin earlier and go on on cards of its job: just before, enough cards of
    one of its nodes are free.
    """
    least = prospect.sizes[seq][0]
    nodes = prospect.rooms.nodes
    return any(
        nodes[place.node].at(held.start_ns - 1).bit_count() >= least for place in held.places
    )


def _key(job: Job) -> Key:
    """The place of a job that waits."""
    assert job.key is not None, job.seq
    return job.key

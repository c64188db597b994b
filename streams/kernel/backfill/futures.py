"""What is expected of the future: who ends when, who waits in which order, who is booked for when.

Derived, and only there for policies that plan with run times. Module `estimates` says what to
expect of a job; this one keeps it in order.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from ganger.streams.kernel.entities import ClaimEntry, Job, Key, Pod
from ganger.streams.kernel.horizon.bench import Bench
from ganger.streams.kernel.horizon.book import Book
from ganger.streams.kernel.horizon.ends import Ends
from ganger.streams.kernel.horizon.prospect import Prospect
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.resources import JobShape, Shape

HolderKey = tuple[int, int, int]
"""Job, pod, attempt; of a claim: job, -1, 0."""

_ATTEMPT_BITS = 31
"""Pod and attempt are one number where releases are kept in order."""

Kind = tuple[JobShape, int, tuple[str, ...], int, bool, int]
"""Job shape, look, and names of what is known of the runs of such jobs, if that and a limit give
their lanes; then how they make way in gaps, see `lent.manner`, whether they count as ended at the
limit, and the limit, 0 without one."""

Learner = Key | int
"""Whose lanes are made of what is known: a job, by its key, or a kind, by its number."""

NEVER_WOKEN = (-1, -1)

LIMITS_MAX = 16
"""Limits by which jobs that are alike else are told apart as kinds: most users state few. Each kind
is a row that a scan looks at, so jobs with further limits have lanes of their own in one row."""

_KINDS_MAX = 1024
"""Kinds that are numbered before those of which nobody sits are forgotten."""

Lanes = tuple[int, ...]
"""What a job is judged by in a gap, in ns; `FOREVER` where nothing is known."""


class Outcome(NamedTuple):
    """How the last pass ended where counts of cards decide: nobody behind the head could start."""

    head: Key  # who is first, and has the reservation
    free: int  # cards
    start_ns: int  # of the reservation
    extra: int  # cards free then beyond what the head needs
    lane: int  # by which those behind were judged


STOPS, LEAVES, IS_EVICTED = 0, 1, 2
"""How a job in a gap makes way, the easiest first: suspended, as spot work, evicted. As long as it
is there that does not change.
"""

Guests = dict[int, dict[HolderKey, Pod]]
"""Jobs in gaps with their attempts, also former ones on nodes that are lost."""


def stops(routes: tuple[str, ...], job: Job) -> bool:
    """Whether a job in a gap can be suspended, under a policy that lets such jobs into gaps."""
    request = job.request
    return (
        "suspendable" in routes
        and request.can_checkpoint
        and request.accepts_suspend
        and all(shape.cards for shape in job.shape.shapes)
    )


class Futures:
    """What is expected of a cell.

    Attributes:
        ends: when cards come free, of attempts and claims that are expected to end.
        lines: keys of the waiting jobs in order, by queue, or all in line 0.
        bench: those of them that gaps are offered to, by cards or `by_kind`.
        book: bookings of all that wait, under conservative backfill on cards that are all alike.
        prospect: the same, and what holds cards, on several nodes.
        lessons: how often anything was learnt of runs.
        touched: nodes of which the prospect does not know what has happened to them.
        unbooked: keys of waiting jobs without a booking, under conservative backfill; with what it
            was that they found no start with, if they were asked.
        held: cards of those who are expected to end, under policies that promise starts.
        held_until: the sum of their ends, each as often as it has cards.
        odd_count: jobs that wait and ask for more than cards, so that counts do not decide.
        lent: attempts in gaps, where those may have to make way, with their cards.
        lent_cards: the sum of these.
        guests: the same by way and job.
        stale: rows that have changed since lanes were made of them.
        rests: nobody can start while the facts (their digest) are these, before that moment.
        planner, starter: kept for the next cycle by module `timed`.
        outcome: of the last pass; none once anything it was made of may have changed.
        resting: suspended attempts, and some that were.
    """

    __slots__ = (
        "_by_row",
        "_counts_work",
        "_expected",
        "_kinds",
        "_kinds_max",
        "_last_kind",
        "_limits",
        "_numbers",
        "_queued",
        "_rows",
        "bench",
        "book",
        "by_kind",
        "ends",
        "guests",
        "held",
        "held_until",
        "lent",
        "lent_cards",
        "lessons",
        "lines",
        "odd_count",
        "outcome",
        "planner",
        "prospect",
        "resting",
        "rests",
        "shares",
        "stale",
        "starter",
        "touched",
        "tune_ns",
        "unbooked",
        "woken",
    )

    def __init__(self, lane_count: int, counts_work: bool = False) -> None:
        """Nothing runs, nobody waits. `counts_work`: `held` and `held_until` are kept."""
        self.ends = Ends()
        self._counts_work = counts_work
        self.held = self.held_until = 0
        self.lines: dict[int, list[Key]] = {}  # none is empty
        self.bench = Bench(lane_count)
        self.book: Book | None = None
        self.odd_count = 0
        self.lent: dict[HolderKey, int] = {}
        self.lent_cards = 0
        self.guests: tuple[Guests, Guests, Guests] = ({}, {}, {})
        self.resting: dict[HolderKey, None] = {}
        self.prospect: Prospect[Shape, ClaimEntry] | None = None
        self.lessons = 0
        self.touched: dict[int, None] = {}
        self.unbooked: dict[Key, tuple[int, int] | None] = {}
        self.outcome: Outcome | None = None
        self.rests: tuple[int, int] | None = None
        self.shares: dict[HolderKey, None] = {}  # who holds, or claims, shares of cards
        self.planner: object | None = None
        self.starter: object | None = None
        self.tune_ns = -1  # the end of a window that a timer was set for last
        self.woken = NEVER_WOKEN  # the booking, by start and job, that a timer was set for last
        self._expected: dict[HolderKey, tuple[int, int]] = {}  # end, cards
        self._queued: dict[Key, tuple[int, int]] = {}  # the line that a key stands in, and cards
        self.by_kind = False
        self._kinds: dict[int, Kind] = {}
        self._numbers: dict[Kind, int] = {}
        self._limits: dict[tuple[object, ...], int] = {}  # how many among kinds that are alike else
        self._last_kind = 0
        self._kinds_max = _KINDS_MAX
        self._rows: dict[Learner, tuple[str, ...]] = {}  # what its lanes depend on
        self._by_row: dict[str, dict[Learner, None]] = {}
        self.stale: dict[str, None] = {}

    # ---- who ends when --------------------------------------------------------------------------

    def expect(self, holder: HolderKey, end_ns: int, cards: int) -> None:
        """A holder of cards is expected to end then; `FOREVER`: not at all."""
        assert holder not in self._expected, holder
        self._expected[holder] = (end_ns, cards)
        self.outcome = None
        if end_ns < FOREVER:
            self.ends.add(end_ns, holder[0], holder[1] << _ATTEMPT_BITS | holder[2], cards)
            if self._counts_work:
                self.held += cards
                self.held_until += cards * end_ns

    def lend(self, pod: Pod, way: int) -> None:
        """An attempt is in a gap. `way`: how it makes way."""
        holder = (pod.job, pod.index, pod.attempt)
        cards = self.lent[holder] = pod.mask.bit_count()
        self.lent_cards += cards
        self.guests[way].setdefault(pod.job, {})[holder] = pod

    def _take_back(self, holder: HolderKey) -> None:
        """An attempt has left its gap."""
        self.lent_cards -= self.lent.pop(holder)
        for guests in self.guests:
            pods = guests.get(holder[0])
            if pods is not None and pods.pop(holder, None) is not None and not pods:
                del guests[holder[0]]

    def forget(self, holder: HolderKey) -> tuple[int, int] | None:
        """It has ended. When it was expected to, and the cards it held; none if it is unknown."""
        if holder in self.lent:
            self._take_back(holder)
        if self.resting:
            self.resting.pop(holder, None)
        if self.shares:
            self.shares.pop(holder, None)
        found = self._expected.pop(holder, None)
        if found is not None:
            self.outcome = None
            end_ns, cards = found
            if end_ns < FOREVER:
                number = holder[1] << _ATTEMPT_BITS | holder[2]
                self.ends.remove(end_ns, holder[0], number, cards)
                if self._counts_work:
                    self.held -= cards
                    self.held_until -= cards * end_ns
        return found

    def expected(self, holder: HolderKey) -> tuple[int, int] | None:
        """Its expected end, and the cards that it will free then."""
        return self._expected.get(holder)

    def holders(self) -> Iterator[tuple[HolderKey, int, int]]:
        """Who holds cards, until when, and how many; in no order that means anything."""
        for holder, (end_ns, cards) in self._expected.items():
            yield holder, end_ns, cards

    def lasting(self) -> int:
        """Cards of those who are not expected to end."""
        return sum(cards for end_ns, cards in self._expected.values() if end_ns >= FOREVER)

    def releases(self) -> Iterator[tuple[int, HolderKey, int]]:
        """Who is expected to end when, and the cards that come free, ascending by time."""
        for end_ns, job, number, cards in self.ends.releases:
            yield end_ns, (job, *_parts(number)), cards

    def due(self, now_ns: int) -> list[HolderKey]:
        """Who is expected to end now or earlier, in that order."""
        releases = self.ends.releases
        if not releases or releases[0][0] > now_ns:
            return []
        holders = []
        for end_ns, holder, _ in self.releases():
            if end_ns > now_ns:
                break
            holders.append(holder)
        return holders

    # ---- who waits ------------------------------------------------------------------------------

    def stand(self, job: Job, line: int, cards: int) -> None:
        """A job waits. `cards`: that it asks for, and nothing else; -1: it asks for more."""
        key = job.key
        assert key is not None, job.seq
        if self.outcome is not None and key < self.outcome.head:
            self.outcome = None
        keys = self.lines.get(line)
        if keys is None:
            self.lines[line] = [key]
        elif key > keys[-1]:
            keys.append(key)
        else:
            insort(keys, key)
        self._queued[key] = (line, cards)
        if cards < 0:
            self.odd_count += 1

    def kind_of(self, kind: Kind) -> int:
        """A number for jobs that nothing here can tell apart: the same for all of them."""
        number = self._numbers.get(kind)
        if number is None:
            if len(self._kinds) >= self._kinds_max:
                self._forget_kinds()
            self._last_kind += 1
            number = self._numbers[kind] = self._last_kind
            self._kinds[number] = kind
        return number

    def limited_kind_of(self, kind: Kind) -> int | None:
        """The same of jobs with a limit; none where there are many limits among those alike."""
        number = self._numbers.get(kind)
        if number is None:
            alike = kind[:-1]
            if self._limits.get(alike, 0) >= LIMITS_MAX:
                return None
            number = self.kind_of(kind)
            self._limits[alike] = self._limits.get(alike, 0) + 1
        return number

    def has_own_lanes(self, key: Key) -> bool:
        """Whether it is offered gaps by lanes of its own that are made of what is known."""
        return key in self._rows

    def _forget_kinds(self) -> None:
        """Drop the numbers of kinds of which nobody sits any more."""
        kept = dict.fromkeys(self.bench.kinds())
        gone = [number for number in self._kinds if number not in kept]
        self.bench.forget_prices(gone)
        for number in gone:
            kind = self._kinds.pop(number)
            del self._numbers[kind]
            self._unlist(number)
            if kind[-1]:
                alike = kind[:-1]
                self._limits[alike] -= 1
                if not self._limits[alike]:
                    del self._limits[alike]
        self._kinds_max = max(_KINDS_MAX, 2 * len(self._kinds))

    def shape_of(self, number: int) -> JobShape:
        """What jobs of a kind ask for."""
        return self._kinds[number][0]

    def manner_of(self, number: int) -> int:
        """How jobs of a kind make way."""
        return self._kinds[number][3]

    def names_of(self, number: int) -> tuple[str, ...]:
        """What is known that the lanes of a kind are made of, the narrowest first."""
        return self._kinds[number][2]

    def limit_of(self, number: int) -> int:
        """The limit of jobs of a kind whose lanes are made of what is known; 0 without one."""
        return self._kinds[number][5]

    def is_bound(self, number: int) -> bool:
        """Whether no run of such jobs counts as longer than their limit."""
        return self._kinds[number][4]

    def clear_bench(self, lane_count: int, by_kind: bool) -> None:
        """Nobody sits; who sits from now on does so by kind, or by cards."""
        self.outcome = None
        self.bench = Bench(lane_count)
        self.by_kind = by_kind
        self._rows.clear()
        self._by_row.clear()
        self.stale.clear()
        self._kinds.clear()
        self._numbers.clear()
        self._limits.clear()

    def places(self) -> list[Key]:
        """Places of all that stand in line."""
        return list(self._queued)

    def sit(self, key: Key, row_of: int, lanes: Lanes, rows: tuple[str, ...]) -> None:
        """Gaps are offered to it, by these lanes. `row_of`: its cards, or its kind; `rows`: what is
        known that the lanes depend on.
        """
        if key in self.bench:
            self._unlist(key)
            self.bench.change(key, lanes)
            self.outcome = None
        else:
            self.bench.add(key, row_of, lanes)
        if rows:
            self._list(key, rows)

    def price(self, number: int, lanes: Lanes, rows: tuple[str, ...]) -> None:
        """These are the lanes of all that are of a kind; they depend on what is known in `rows`."""
        self._unlist(number)
        self.bench.price(number, lanes)
        self._list(number, rows)

    def has_price(self, number: int) -> bool:
        """Whether lanes of a kind are known."""
        return number in self._rows

    def _list(self, who: Learner, rows: tuple[str, ...]) -> None:
        self._rows[who] = rows
        for row in rows:
            self._by_row.setdefault(row, {})[who] = None

    def _unlist(self, who: Learner) -> None:
        for row in self._rows.pop(who, ()):
            listed = self._by_row[row]
            del listed[who]
            if not listed:
                del self._by_row[row]

    def leave(self, key: Key) -> None:
        """It waits no more."""
        if self.outcome is not None and key == self.outcome.head:
            self.outcome = None
        line, cards = self._queued.pop(key)
        keys = self.lines[line]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self.lines[line]
        if cards < 0:
            self.odd_count -= 1
        if self.unbooked:
            self.unbooked.pop(key, None)
        self.bench.discard(key)
        if key in self._rows:
            self._unlist(key)

    def learnt(self, row: str) -> None:
        """What was known of such jobs has changed: lanes made of it must be made anew."""
        self.outcome = None
        self.lessons += 1
        if row in self._by_row:
            self.stale[row] = None

    def take_stale(self) -> list[Learner]:
        """Jobs, by key, and kinds, by number, whose lanes must be made anew; each once."""
        if not self.stale:
            return []
        found = dict.fromkeys([who for row in self.stale for who in self._by_row.get(row, ())])
        self.stale.clear()
        return list(found)

    def cards_of(self, key: Key) -> int:
        """Cards that a waiting job asks for; -1: it asks for more than cards."""
        return self._queued[key][1]

    def first(self) -> Key | None:
        """Who stands first in line 0."""
        keys = self.lines.get(0)
        return keys[0] if keys else None

    def overdue(self, now_ns: int) -> HolderKey | None:
        """The first who was expected to end before now."""
        releases = self.ends.releases
        if not releases or releases[0][0] >= now_ns:
            return None
        _, job, number, _ = releases[0]
        return (job, *_parts(number))


def _parts(number: int) -> tuple[int, int]:
    return number >> _ATTEMPT_BITS, number & (1 << _ATTEMPT_BITS) - 1

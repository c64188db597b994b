"""Waiting jobs, ready to be offered a gap: those that might start are found without asking others.

The plain meaning is `easy.scan` over all that wait, in order of arrival or shortest first. What
departs from it: jobs stand in rows by their cards, each row sorted by place and by estimate. A row
has something to offer only if its cards are free and its shortest job ends by the gap's end, or its
cards fit beside. Such rows are merged, and each is walked only as far as it is served. Most passes
find nothing, and cost as many steps as there are different counts of cards.

Most jobs leave soon. So those that came last *stand*, in order of their cards, and each whose cards
are free is looked at in each pass; they are seated in rows only when more than a few stand.

A job may have several estimates, one per *lane*: the scan says which lane it judges by. Where all
jobs of a row have the same ones, by its kind, these are kept once: see `price`.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heapreplace

from ganger.streams.kernel.horizon.easy import Candidate, Gap, Place

STANDING_MAX = 32
"""Jobs that stand at most; looking at one costs a tenth of seating it."""

_Offer = tuple[Place, int, int]
"""Key in the order of the scan, cards, position in the row or `_STANDS`."""

_Standing = tuple[int, tuple[int, ...], Place]
"""Cards, estimates by lane, key: of a job that stands."""

_STANDS = -1

_ANY = 1 << 62
_SHORT = -1
"""Cards beside the reservation, for kinds of jobs: as many as are asked for, or none."""


class Verdict(IntEnum):
    """What became of a job that was offered a gap."""

    TAKEN = 1  # it starts
    TOO_LONG = 2  # no longer one of its kind can start
    FULL = 3  # nor any other
    SKIPPED = 4  # something of its own keeps it


@dataclass(slots=True, eq=False)
class _Row:
    """Jobs that ask for equally many cards."""

    places: list[Place] = field(default_factory=list)  # ascending
    estimates: dict[Place, tuple[int, ...]] = field(default_factory=dict)  # by lane
    lanes: tuple[list[Place], ...] = ()  # (estimate, *place), ascending


class Bench:
    """Who waits for a gap."""

    __slots__ = ("_lane_count", "_ordered", "_prices", "_rows", "_seated", "_standing", "_widths")

    def __init__(self, lane_count: int = 1) -> None:
        """Nobody waits."""
        self._lane_count = lane_count
        self._prices: dict[int, tuple[int, ...]] = {}  # estimates by kind, where they are of a kind
        self._rows: dict[int, _Row] = {}  # by cards; none is empty
        self._widths: list[int] = []  # their keys, ascending
        self._seated: dict[Place, int] = {}  # cards of those in rows
        self._standing: dict[Place, _Standing] = {}
        self._ordered: list[_Standing] = []  # the same, ascending

    def __len__(self) -> int:
        return len(self._seated) + len(self._standing)

    def __contains__(self, place: Place) -> bool:
        return place in self._standing or place in self._seated

    # ---- keeping ------------------------------------------------------------------------------

    def add(self, place: Place, cards: int, estimates_ns: tuple[int, ...]) -> None:
        """A job waits.

        Args:
            place: its key in line, unique.
            cards: at least 1.
            estimates_ns: by lane; `FOREVER` where nothing is known; () for those of its kind.
        """
        standing = self._standing
        assert place not in standing and place not in self._seated, place
        assert len(estimates_ns) in (0, self._lane_count), place
        if len(standing) >= STANDING_MAX:
            for its_cards, its_estimates_ns, other in standing.values():
                self._seat(other, its_cards, its_estimates_ns)
            standing.clear()
            self._ordered.clear()
        entry = standing[place] = (cards, estimates_ns, place)
        insort(self._ordered, entry)

    def _seat(self, place: Place, cards: int, estimates_ns: tuple[int, ...]) -> None:
        self._seated[place] = cards
        row = self._rows.get(cards)
        if row is None:
            row = self._rows[cards] = _Row(lanes=tuple([] for _ in range(self._lane_count)))
            insort(self._widths, cards)
        insort(row.places, place)
        row.estimates[place] = estimates_ns
        if estimates_ns:
            for lane, estimate_ns in zip(row.lanes, estimates_ns, strict=True):
                insort(lane, (estimate_ns, *place))

    def price(self, kind: int, estimates_ns: tuple[int, ...]) -> None:
        """All jobs of a kind, whoever they are, have these estimates; by lane."""
        self._prices[kind] = estimates_ns

    def forget_prices(self, kinds: Iterable[int]) -> None:
        """Nobody of these kinds is on the bench."""
        for kind in kinds:
            self._prices.pop(kind, None)

    def remove(self, place: Place) -> None:
        """A job waits no more."""
        assert place in self, place
        self.discard(place)

    def discard(self, place: Place) -> None:
        """A job waits no more, if it did: not all that wait are offered gaps."""
        entry = self._standing.pop(place, None)
        if entry is not None:
            del self._ordered[bisect_left(self._ordered, entry)]
        elif place in self._seated:
            self._unseat(place)

    def _unseat(self, place: Place) -> None:
        cards = self._seated.pop(place)
        row = self._rows[cards]
        del row.places[bisect_left(row.places, place)]
        estimates_ns = row.estimates.pop(place)
        if estimates_ns:
            for lane, estimate_ns in zip(row.lanes, estimates_ns, strict=True):
                del lane[bisect_left(lane, (estimate_ns, *place))]
        if not row.places:
            del self._rows[cards]
            del self._widths[bisect_left(self._widths, cards)]

    def change(self, place: Place, estimates_ns: tuple[int, ...]) -> None:
        """A waiting job's estimates are others now."""
        standing = self._standing.get(place)
        if standing is not None:
            del self._ordered[bisect_left(self._ordered, standing)]
            entry = self._standing[place] = (standing[0], estimates_ns, place)
            insort(self._ordered, entry)
            return
        cards = self._seated[place]
        if self._rows[cards].estimates[place] != estimates_ns:
            self._unseat(place)
            self._seat(place, cards, estimates_ns)

    def kinds(self) -> list[int]:
        """Kinds, or counts of cards, of those on the bench; each once, ascending."""
        return sorted({**self._rows, **{kind: None for kind, _, _ in self._standing.values()}})

    def find(self, place: Place, lane: int = 0) -> Candidate | None:
        """Who waits there; none: nobody that gaps are offered to."""
        standing = self._standing.get(place)
        if standing is not None:
            cards, estimates_ns, _ = standing
        elif place in self._seated:
            cards = self._seated[place]
            estimates_ns = self._rows[cards].estimates[place]
        else:
            return None
        return Candidate(place, cards, (estimates_ns or self._prices[cards])[lane])

    def all(self, lane: int = 0) -> Iterator[Candidate]:
        """Everybody, in no order that means anything."""
        for cards, estimates_ns, place in self._standing.values():
            yield Candidate(place, cards, (estimates_ns or self._prices[cards])[lane])
        for cards in self._widths:
            row = self._rows[cards]
            for place in row.places:
                estimates_ns = row.estimates[place] or self._prices[cards]
                yield Candidate(place, cards, estimates_ns[lane])

    # ---- asking -------------------------------------------------------------------------------

    def offer(
        self, now_ns: int, free: int, gap: Gap, *, lane: int = 0, is_shortest: bool = False
    ) -> list[Candidate]:
        """The jobs that start now, each judged after those before it; they stay on the bench.

        Args:
            now_ns: when they would start.
            free: cards free now.
            gap: the head's; what starts beside it is taken from it.
            lane: of the estimates that judge them.
            is_shortest: offered by estimate, then place; else by place.
        """
        longest_ns = gap.start_ns - now_ns
        extra = gap.extra
        offers: list[_Offer] = []
        ordered = self._ordered
        for cards, estimates_ns, place in ordered[: bisect_left(ordered, (free + 1,))]:
            if cards <= extra or estimates_ns[lane] <= longest_ns:
                key = (estimates_ns[lane], *place) if is_shortest else place
                offers.append((key, cards, _STANDS))
        following = self._following_shortest if is_shortest else self._following
        for cards in self._widths:
            if cards > free:
                break
            offer = following(cards, 0, extra, longest_ns, lane)
            if offer is not None:
                offers.append(offer)
        chosen: list[Candidate] = []
        if len(offers) > 1:
            heapify(offers)
        while offers and free:
            key, cards, position = offers[0]
            if cards > free:
                heappop(offers)
                continue
            place = key[1:] if is_shortest else key
            estimate_ns = self._estimate(place, cards, position, lane)
            if gap.take(now_ns, cards, estimate_ns):
                free -= cards
                chosen.append(Candidate(place, cards, estimate_ns))
            offer = None
            if position != _STANDS and cards <= free:
                offer = following(cards, position + 1, gap.extra, longest_ns, lane)
            if offer is None:
                heappop(offers)
            else:
                heapreplace(offers, offer)
        return chosen

    def offer_each(
        self,
        kinds: Iterable[int],
        longest_ns: int,
        judge: Callable[[Candidate], Verdict],
        *,
        lane: int = 0,
        is_shortest: bool = False,
    ) -> None:
        """Offer one after the other, where counts do not decide; rows are of kinds, not of cards.

        Args:
            kinds: that might start now.
            longest_ns: estimates up to this one end before the reservation.
            judge: starts a job if it can; one that it has taken must be off the bench then.
            lane: of the estimates that judge them.
            is_shortest: offered by estimate, then place; else by place.
        """
        open_kinds = dict.fromkeys(kinds, _ANY)  # kind to `_ANY`, or `_SHORT`: only such that end
        offers: list[_Offer] = []
        for kind, estimates_ns, place in self._standing.values():
            if kind in open_kinds:
                estimate_ns = (estimates_ns or self._prices[kind])[lane]
                key = (estimate_ns, *place) if is_shortest else place
                offers.append((key, kind, _STANDS))
        following = self._following_shortest if is_shortest else self._following
        for kind in open_kinds:
            if kind in self._rows:
                offer = following(kind, 0, _ANY, longest_ns, lane)
                if offer is not None:
                    offers.append(offer)
        heapify(offers)
        while offers:
            key, kind, position = offers[0]
            room = open_kinds.get(kind)
            if room is None:
                heappop(offers)
                continue
            place = key[1:] if is_shortest else key
            estimate_ns = self._estimate(place, kind, position, lane)
            following_place = position + 1
            if room == _ANY or estimate_ns <= longest_ns:
                verdict = judge(Candidate(place, kind, estimate_ns))
                if verdict is Verdict.FULL:
                    del open_kinds[kind]
                    heappop(offers)
                    continue
                if verdict is Verdict.TAKEN:
                    following_place = position  # where the one behind it stands now
                elif verdict is Verdict.TOO_LONG:
                    room = open_kinds[kind] = _SHORT
            offer = None
            if position != _STANDS and kind in self._rows:
                offer = following(kind, following_place, room, longest_ns, lane)
            if offer is None:
                heappop(offers)
            else:
                heapreplace(offers, offer)

    def _estimate(self, place: Place, cards: int, position: int, lane: int) -> int:
        if position == _STANDS:
            estimates_ns = self._standing[place][1]
        else:
            estimates_ns = self._rows[cards].estimates[place]
        return (estimates_ns or self._prices[cards])[lane]

    def _following(
        self, cards: int, position: int, extra: int, longest_ns: int, lane: int
    ) -> _Offer | None:
        """The next job of a row, by place, that might start; from a position on."""
        row = self._rows[cards]
        places = row.places
        price = self._prices.get(cards)
        if cards <= extra or (price is not None and price[lane] <= longest_ns):
            return (places[position], cards, position) if position < len(places) else None
        if price is not None or row.lanes[lane][0][0] > longest_ns:
            return None
        estimates = row.estimates
        while position < len(places):
            if estimates[places[position]][lane] <= longest_ns:
                return places[position], cards, position
            position += 1
        return None

    def _following_shortest(
        self, cards: int, position: int, extra: int, longest_ns: int, lane: int
    ) -> _Offer | None:
        """The next job of a row, by estimate, that might start; from a position on."""
        price = self._prices.get(cards)
        if price is not None:
            places = self._rows[cards].places
            if position < len(places) and (cards <= extra or price[lane] <= longest_ns):
                return (price[lane], *places[position]), cards, position
            return None
        ordered = self._rows[cards].lanes[lane]
        if position < len(ordered) and (cards <= extra or ordered[position][0] <= longest_ns):
            return ordered[position], cards, position
        return None

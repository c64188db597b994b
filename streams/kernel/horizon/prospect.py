"""Free cards of nodes over time, as they are expected: what runs, what is claimed, what is booked.

Kept in `horizon.rooms`, for policies that make several reservations on several nodes. Of each node
a *base* says what is free but for bookings (module `bases`); it changes as the facts do. Bookings
never overlap with what holds cards, nor with each other; where a fact comes in their way (a pod
outlives its estimate, a node is closed) they are displaced, and are to be made anew.

Where cards have become free is remembered as *gains*, so that a job that found no earlier start is
not asked again before there is one: any run that was impossible before and is possible now goes
through a gain.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.rooms import Fit, Own, Rooms
from ganger.streams.kernel.horizon.steps import FOREVER

Kind = TypeVar("Kind", bound=Hashable)
"""What one pod asks for; see `rooms`."""


class Place(Protocol):
    """Cards of one pod."""

    @property
    def node(self) -> int:
        """Where."""
        ...

    @property
    def mask(self) -> int:
        """Which."""
        ...


Spot = TypeVar("Spot", bound=Place)

_KindIn = TypeVar("_KindIn", bound=Hashable, contravariant=True)


class NodeFit(Fit[_KindIn], Protocol[_KindIn]):
    """How pods fit into the nodes of a cell, as these were once."""

    def is_of(self, nodes: list[int]) -> bool:
        """Whether there are no other nodes than there were, and these are of the same kinds."""
        ...


class Gain(NamedTuple):
    """Cards became free on a node; -1: on any."""

    node: int
    from_ns: int
    until_ns: int


class Held(NamedTuple, Generic[Spot]):
    """What is booked for a job."""

    start_ns: int
    until_ns: int
    places: tuple[Spot, ...]


class Prospect(Generic[Kind, Spot]):
    """What is expected of the nodes.

    Attributes:
        rooms: their free cards over time.
        booked: what is booked for waiting jobs, by seq.
        fit: how pods fit.
        starts: start and seq of these, ascending.
        gangs: of those who ask for cards alone, what they ask for.
        sizes: cards of each pod of a job that is booked, each once, ascending.
        gains: since the last time all jobs were asked.
        tried: by job, how many gains there had been, in all, when it last found no earlier start.
        gain_base: how many of these are forgotten.
    """

    __slots__ = (
        "_bases",
        "_on_node",
        "booked",
        "fit",
        "gain_base",
        "gains",
        "gangs",
        "rooms",
        "sizes",
        "starts",
        "tried",
    )

    def __init__(self, now_ns: int, bases: list[Masks], fit: NodeFit[Kind]) -> None:
        """Nothing is booked, and nobody was asked: so all is gain. O(nodes).

        Args:
            now_ns: the origin of all.
            bases: by node.
            fit: how pods fit.
        """
        self.booked: dict[int, Held[Spot]] = {}
        self.gangs: dict[int, list[tuple[Kind, int]]] = {}
        self.sizes: dict[int, tuple[int, ...]] = {}
        self.starts: list[tuple[int, int]] = []
        self.gains = [Gain(-1, now_ns, FOREVER)]
        self.gain_base = 0
        self.tried: dict[int, int] = {}
        self._on_node: dict[int, dict[int, None]] = {}  # who is booked there
        self._bases = bases
        first = {place: base.masks[0] for place, base in enumerate(bases)}
        self.fit = fit
        self.rooms: Rooms[Kind] = Rooms(now_ns, first, fit)
        for place, base in enumerate(bases):
            for from_ns, until_ns, mask in base.segments(now_ns, FOREVER):
                self.rooms.give(place, from_ns, until_ns, mask & ~first[place])
                self.rooms.take(place, from_ns, until_ns, first[place] & ~mask)

    # ---- facts --------------------------------------------------------------------------------

    def catch_up(self, now_ns: int, bases: dict[int, Masks]) -> list[int]:
        """Time has gone on, and of some nodes the base is another. Returns the jobs whose bookings
        were displaced, ascending.
        """
        self.rooms.trim(now_ns)
        displaced: dict[int, None] = {}
        for place in sorted(bases):
            base = bases[place]
            for from_ns, until_ns, more, less in differences(self._bases[place], base, now_ns):
                if less:
                    for seq in self._in_way(place, from_ns, until_ns, less):
                        displaced[seq] = None
                        self.unbook(seq)
                    self.rooms.take(place, from_ns, until_ns, less)
                if more:
                    self.rooms.give(place, from_ns, until_ns, more)
                    self._gain(place, from_ns, until_ns)
            self._bases[place] = base
        return sorted(displaced)

    def _in_way(self, place: int, from_ns: int, until_ns: int, mask: int) -> list[int]:
        """Who is booked for some of these cards within a time."""
        return [
            seq
            for seq in self._on_node.get(place, ())
            if self.booked[seq].start_ns < until_ns
            and from_ns < self.booked[seq].until_ns
            and any(one.node == place and one.mask & mask for one in self.booked[seq].places)
        ]

    def booked_on(self, place: int) -> Iterable[int]:
        """Who is booked on a node."""
        return self._on_node.get(place, ())

    def own(self, seq: int) -> Own | None:
        """What is booked for a job, as it sees it itself."""
        held = self.booked.get(seq)
        return None if held is None else Own(held.start_ns, by_node(held.places))

    # ---- bookings -----------------------------------------------------------------------------

    def book(self, seq: int, held: Held[Spot], gang: list[tuple[Kind, int]] | None) -> None:
        """Hold cards, which are free then, for a job that has none booked. `gang`: what it asks
        for, if that is cards alone.
        """
        assert seq not in self.booked, seq
        self.booked[seq] = held
        self.tried[seq] = self.gain_count()
        if gang is not None:
            self.gangs[seq] = gang
        counts = dict.fromkeys([place.mask.bit_count() for place in held.places])
        self.sizes[seq] = tuple(sorted(counts))
        insort(self.starts, (held.start_ns, seq))
        for node, mask in by_node(held.places).items():
            self._on_node.setdefault(node, {})[seq] = None
            self.rooms.take(node, held.start_ns, held.until_ns, mask)

    def unbook(self, seq: int) -> None:
        """What a job had booked is free for others."""
        held = self._forget(seq)
        for node, mask in by_node(held.places).items():
            self.rooms.give(node, held.start_ns, held.until_ns, mask)
            self._gain(node, held.start_ns, held.until_ns)

    def move(self, seq: int, held: Held[Spot]) -> None:
        """A job is booked earlier, maybe on some of its own cards."""
        gang = self.gangs.get(seq)
        old = self._forget(seq)
        for node, mask in by_node(old.places).items():
            self.rooms.give(node, old.start_ns, old.until_ns, mask)
        self.book(seq, held, gang)
        for node in by_node(old.places):
            self._gain(node, max(old.start_ns, held.start_ns), old.until_ns)

    def met(self, seq: int, now_ns: int, bases: dict[int, Masks]) -> list[int]:
        """A job has started as booked: its cards are held by its pods, or by its claim, from now.

        `bases`: of its nodes, with these. Returns who is displaced since they are expected to hold
        them for longer, ascending.
        """
        held = self._forget(seq)
        nodes = by_node(held.places)
        for node, mask in nodes.items():
            self.rooms.give(node, held.start_ns, held.until_ns, mask)
        displaced = self.catch_up(now_ns, bases)
        for node, mask in nodes.items():
            if self.rooms.nodes[node].at(max(now_ns, held.until_ns - 1)) & mask:
                self._gain(node, max(now_ns, held.start_ns), held.until_ns)
        return displaced

    def _forget(self, seq: int) -> Held[Spot]:
        held = self.booked.pop(seq)
        del self.starts[bisect_left(self.starts, (held.start_ns, seq))]
        del self.tried[seq], self.sizes[seq]
        self.gangs.pop(seq, None)
        for entry in held.places:
            self._on_node[entry.node].pop(seq, None)
        return held

    def roll_back(self) -> None:
        """Forget all bookings, and all that was done to the rooms since they were marked first. For
        those who book anew each time, and ask nobody whether it can move up.
        """
        self.rooms.mark()
        self.rooms.rollback(0)
        self.rooms.settle()
        self.booked.clear()
        self.starts.clear()
        self.gangs.clear()
        self.sizes.clear()
        self.tried.clear()
        self._on_node.clear()
        self.gains.clear()

    # ---- gains --------------------------------------------------------------------------------

    def _gain(self, place: int, from_ns: int, until_ns: int) -> None:
        self.gains.append(Gain(place, max(from_ns, self.rooms.nodes[place].times[0]), until_ns))

    def longest_ns(self, gain: Gain, cards: int) -> int:
        """No run of a pod of so many cards that goes through a gain is longer than this; 0: there
        is none. Runs that count on cards of their own aside.
        """
        if gain.node < 0:
            return FOREVER
        steps = self.rooms.nodes[gain.node]
        times, masks = steps.times, steps.masks
        longest_ns = 0
        place = max(0, bisect_right(times, gain.from_ns) - 1)
        while place < len(times) and times[place] < gain.until_ns:
            if masks[place].bit_count() >= cards:
                first = place
                while first and masks[first - 1].bit_count() >= cards:
                    first -= 1
                while place + 1 < len(times) and masks[place + 1].bit_count() >= cards:
                    place += 1
                if place + 1 == len(times):
                    return FOREVER
                longest_ns = max(longest_ns, times[place + 1] - times[first])
            place += 1
        return longest_ns

    def gain_count(self) -> int:
        """Gains so far, forgotten ones too."""
        return self.gain_base + len(self.gains)

    def forget_gains(self, count: int) -> None:
        """Everybody was asked since the first so many of the gains that are remembered."""
        del self.gains[:count]
        self.gain_base += count


def by_node(places: Iterable[Place]) -> dict[int, int]:
    """Cards by node, ascending."""
    masks: dict[int, int] = {}
    for entry in places:
        masks[entry.node] = masks.get(entry.node, 0) | entry.mask
    return dict(sorted(masks.items()))


def differences(old: Masks, new: Masks, from_ns: int) -> Iterator[tuple[int, int, int, int]]:
    """From, until, and the cards that are free in the new and not in the old, and the opposite."""
    times = sorted({from_ns: None, **dict.fromkeys(old.times), **dict.fromkeys(new.times)})
    times = times[bisect_left(times, from_ns) :]
    for place, at_ns in enumerate(times):
        before, after = old.at(at_ns), new.at(at_ns)
        if before != after:
            until_ns = times[place + 1] if place + 1 < len(times) else FOREVER
            yield at_ns, until_ns, after & ~before, before & ~after

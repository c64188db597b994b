"""Free cards of a cell's nodes over time, as they are expected: what runs, is claimed and is booked.

Kept in `horizon.rooms`, for policies that make several reservations on several nodes. Of each node
a *base* says what is free but for bookings (module `bases`); it changes as the facts do (`catch_up`). Bookings
never overlap with what holds cards, nor with each other; where a fact comes in their way (a pod
outlives its estimate, a node is closed) they are displaced, and are to be made anew.

Where cards have become free is remembered as *gains*, so that a job that found no earlier start is
not asked again before there is one: any run that was impossible before and is possible now goes
through a gain.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from ganger.streams.kernel.entities import Booking, ClaimEntry
from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.rooms import Fit, Rooms
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.resources import Shape

_MANY = 1 << 32
"""More cards than any node has."""

class NodeFit(Fit[Shape], Protocol):
    """How pods fit into the nodes of the cell, as these were once."""

    def is_of(self, nodes: list[int]) -> bool:
        """Whether there are no other nodes than there were, and these are of the same kinds."""
        ...


class Gain(NamedTuple):
    """Cards became free, on some node or on several."""

    from_ns: int
    until_ns: int
    most: int  # cards free then on one node


class Held(NamedTuple):
    """What is booked for a job."""

    start_ns: int
    until_ns: int
    places: tuple[ClaimEntry, ...]


class Prospect:
    """What is expected of the nodes.

    Attributes:
        rooms: their free cards over time.
        booked: what is booked for waiting jobs, by seq.
        fit: how pods fit.
        starts: start and seq of these, ascending.
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
        "rooms",
        "starts",
        "tried",
    )

    def __init__(self, now_ns: int, bases: list[Masks], fit: NodeFit) -> None:
        """Nothing is booked, and nobody was asked: so all is gain. O(nodes).

        Args:
            now_ns: the origin of all.
            bases: by node.
            fit: how pods fit.
        """
        self.booked: dict[int, Held] = {}
        self.starts: list[tuple[int, int]] = []
        self.gains = [Gain(now_ns, FOREVER, _MANY)]
        self.gain_base = 0
        self.tried: dict[int, int] = {}
        self._on_node: dict[int, dict[int, None]] = {}  # who is booked there
        self._bases = bases
        first = {place: base.masks[0] for place, base in enumerate(bases)}
        self.fit = fit
        self.rooms: Rooms[Shape] = Rooms(now_ns, first, fit)
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

    # ---- bookings -----------------------------------------------------------------------------

    def book(self, seq: int, held: Held) -> None:
        """Hold cards, which are free then, for a job that has none booked."""
        assert seq not in self.booked, seq
        self.booked[seq] = held
        self.tried[seq] = self.gain_count()
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

    def lift(self, seq: int) -> Held:
        """The same while its job is asked for an earlier start: it is booked again at once."""
        held = self.booked[seq]
        for node, mask in by_node(held.places).items():
            self.rooms.give(node, held.start_ns, held.until_ns, mask)
        return held

    def put_back(self, held: Held) -> None:
        """Undo of `lift`."""
        for node, mask in by_node(held.places).items():
            self.rooms.take(node, held.start_ns, held.until_ns, mask)

    def move(self, seq: int, held: Held) -> None:
        """A job that was lifted is booked elsewhere, earlier."""
        old = self._forget(seq)
        self.book(seq, held)
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

    def _forget(self, seq: int) -> Held:
        held = self.booked.pop(seq)
        del self.starts[bisect_left(self.starts, (held.start_ns, seq))]
        self.tried.pop(seq, None)
        for entry in held.places:
            self._on_node[entry.node].pop(seq, None)
        return held

    # ---- gains --------------------------------------------------------------------------------

    def _gain(self, place: int, from_ns: int, until_ns: int) -> None:
        most = max(
            (mask.bit_count() for _, _, mask in self._segments(place, from_ns, until_ns)), default=0
        )
        if most:
            self.gains.append(Gain(from_ns, until_ns, most))

    def _segments(self, place: int, from_ns: int, until_ns: int) -> Iterator[tuple[int, int, int]]:
        steps = self.rooms.nodes[place]
        return steps.segments(max(from_ns, steps.times[0]), until_ns)

    def gain_count(self) -> int:
        """Gains so far, forgotten ones too."""
        return self.gain_base + len(self.gains)

    def forget_gains(self, count: int) -> None:
        """Everybody was asked since the first so many of the gains that are remembered."""
        del self.gains[:count]
        self.gain_base += count


def by_node(places: tuple[ClaimEntry, ...]) -> dict[int, int]:
    """Cards by node, ascending."""
    masks: dict[int, int] = {}
    for entry in places:
        masks[entry.node] = masks.get(entry.node, 0) | entry.mask
    return dict(sorted(masks.items()))


def held_of(booking: Booking) -> Held:
    """What a booking of certain cards holds."""
    return Held(booking.start_ns, booking.until_ns, booking.places)


def differences(old: Masks, new: Masks, from_ns: int) -> Iterator[tuple[int, int, int, int]]:
    """From, until, and the cards that are free in the new and not in the old, and the opposite."""
    times = sorted({from_ns: None, **dict.fromkeys(old.times), **dict.fromkeys(new.times)})
    times = times[bisect_left(times, from_ns) :]
    for place, at_ns in enumerate(times):
        before, after = old.at(at_ns), new.at(at_ns)
        if before != after:
            until_ns = times[place + 1] if place + 1 < len(times) else FOREVER
            yield at_ns, until_ns, after & ~before, before & ~after

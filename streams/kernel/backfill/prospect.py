"""Free cards of a cell's nodes over time, as they are expected: what runs, is claimed and is booked.

Kept in `horizon.rooms`, for policies that make several reservations on several nodes. It changes as
the facts do: a node that something has happened to is looked at anew, alone (`catch_up`). Bookings
never overlap with what holds cards, nor with each other; where a fact comes in their way (a pod
outlives its estimate, a node is closed) they are displaced, and are to be made anew.

Where cards have become free is remembered as *gains*, so that a job that found no earlier start is
not asked again before there is one: any run that was impossible before and is possible now goes
through a gain.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from ganger.streams.kernel.entities import Booking, ClaimEntry, Node
from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.rooms import Rooms
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.nodes.node_index import NodeIndex, matches
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards, pods_in

_SUITS_MAX = 256
"""Shapes whose cards on all nodes are remembered."""


class CardFit:
    """How pods of a shape fit into cards of a node, by cards, taints and labels alone."""

    __slots__ = ("_index", "_suits")

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._suits: dict[Shape, list[int]] = {}  # cards of each node that suit

    def pods(self, kind: Shape, node: int, free: int) -> int:
        """How many fit."""
        suits = self._suits.get(kind)
        if suits is None:
            suits = self._suit(kind)
        free &= suits[node]
        if not kind.same_island:
            return free.bit_count() // kind.cards
        found = self._index.nodes[node].kind
        assert found is not None, node
        return pods_in(free, kind.cards, found.islands, True)

    def choose(self, kind: Shape, node: int, free: int) -> int:
        """The cards of one, as placement chooses them."""
        found = self._index.nodes[node].kind
        assert found is not None, node
        suits = self._suits[kind][node]
        return choose_cards(free & suits, kind.cards, found.islands, kind.same_island)

    def _suit(self, shape: Shape) -> list[int]:
        index = self._index
        masks = {kind.order: mask for kind, mask, _ in index.eligible(shape)}
        selectors = shape.request.selectors
        suits = [0] * len(index.nodes)
        for node in index.nodes:
            if node.kind is not None and matches(node.labels, selectors):
                suits[node.index] = masks.get(node.kind.order, 0)
        if len(self._suits) >= _SUITS_MAX:
            self._suits.clear()
        self._suits[shape] = suits
        return suits


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
        starts: start and seq of these, ascending.
        gains: since the last time all jobs were asked.
        tried: by job, how many gains there had been, in all, when it last found no earlier start.
        gain_base: how many of these are forgotten.
    """

    __slots__ = (
        "_base",
        "_known",
        "_on_node",
        "booked",
        "gain_base",
        "gains",
        "homeless",
        "rooms",
        "starts",
        "tried",
    )

    def __init__(self, state: State) -> None:
        """Of what holds cards now; nothing is booked. O(nodes + pods)."""
        self.booked: dict[int, Held] = {}
        self.starts: list[tuple[int, int]] = []
        self.gains: list[Gain] = []
        self.gain_base = 0
        self.tried: dict[int, int] = {}
        self.homeless: dict[int, int] = {}  # like `tried`, of jobs that found no start at all
        self._on_node: dict[int, dict[int, None]] = {}  # who is booked there
        self._known = [_look(node) for node in state.nodes]
        self._base = [base_of(state, node) for node in state.nodes]
        first = {place: base.masks[0] for place, base in enumerate(self._base)}
        self.rooms: Rooms[Shape] = Rooms(state.now_ns, first, CardFit(state.indexes.nodes))
        for place, base in enumerate(self._base):
            for from_ns, until_ns, mask in base.segments(state.now_ns, FOREVER):
                self.rooms.give(place, from_ns, until_ns, mask & ~first[place])
                self.rooms.take(place, from_ns, until_ns, first[place] & ~mask)

    # ---- facts --------------------------------------------------------------------------------

    def knows(self, state: State) -> bool:
        """Whether its nodes are those of the cell, of the same kinds. O(nodes)."""
        return len(self._known) == len(state.nodes)

    def catch_up(self, state: State, touched: list[int]) -> list[int] | None:
        """Look anew at nodes that something has happened to.

        Returns:
            Jobs whose bookings were displaced, ascending; none where a node is of another kind than
            it was, so that all must be made anew.
        """
        now_ns = state.now_ns
        self.rooms.trim(now_ns)
        displaced: dict[int, None] = {}
        for place in sorted(touched):
            if _look(state.nodes[place]) != self._known[place]:
                return None
            base = base_of(state, state.nodes[place])
            for from_ns, until_ns, more, less in differences(self._base[place], base, now_ns):
                if less:
                    for seq in self._in_way(place, from_ns, until_ns, less):
                        displaced[seq] = None
                        self.unbook(seq)
                    self.rooms.take(place, from_ns, until_ns, less)
                if more:
                    self.rooms.give(place, from_ns, until_ns, more)
                    self._gain(place, from_ns, until_ns)
            self._base[place] = base
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

    # ---- bookings -----------------------------------------------------------------------------

    def book(self, seq: int, held: Held) -> None:
        """Hold cards, which are free then, for a job that has none booked."""
        assert seq not in self.booked, seq
        self.booked[seq] = held
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

    def met(self, state: State, seq: int) -> list[int]:
        """A job has started as booked: its cards are held by its pods, or by its claim, from now.

        Returns:
            Who is displaced since it is expected to hold them for longer.
        """
        held = self._forget(seq)
        nodes = by_node(held.places)
        for node, mask in nodes.items():
            self.rooms.give(node, held.start_ns, held.until_ns, mask)
        displaced = self.catch_up(state, list(nodes))
        assert displaced is not None, seq
        for node in nodes:
            if self.rooms.nodes[node].at(max(state.now_ns, held.until_ns - 1)) & nodes[node]:
                self._gain(node, max(state.now_ns, held.start_ns), held.until_ns)
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


def _look(node: Node) -> tuple[object, dict[str, str]]:
    """What makes a node suit a shape."""
    return (None if node.kind is None else node.kind.order), node.labels


def base_of(state: State, node: Node) -> Masks:
    """Cards of a node that nothing but bookings holds over time, from now on. O(holders^2)."""
    now_ns = state.now_ns
    if node.is_lost or node.is_cordoned or node.is_draining or node.unknown:
        return Masks(now_ns, 0)
    holds = list(_holds(state, node))
    times = {now_ns: None}
    for from_ns, until_ns, _ in holds:
        if now_ns < from_ns:
            times[from_ns] = None
        if now_ns < until_ns < FOREVER:
            times[until_ns] = None
    base = Masks(now_ns, -1)
    base.times.clear()
    base.masks.clear()
    for at_ns in sorted(times):
        mask = node.healthy
        for from_ns, until_ns, cards in holds:
            if from_ns <= at_ns < until_ns:
                mask &= ~cards
        if not base.masks or base.masks[-1] != mask:
            base.times.append(at_ns)
            base.masks.append(mask)
    return base


def _holds(state: State, node: Node) -> Iterator[tuple[int, int, int]]:
    """From when until when who holds which cards."""
    futures = state.indexes.futures
    assert futures is not None
    for holder, pod in node.pods.items():
        if pod.mask:
            found = futures.expected(holder)
            yield state.now_ns, FOREVER if found is None else found[0], pod.mask
    for seq, places in state.indexes.reserved.get(node.index, {}).items():
        found = futures.expected((seq, -1, 0))
        mask = 0
        for _, entry in places:
            mask |= entry.mask
        yield state.now_ns, FOREVER if found is None else found[0], mask
    name = node.report.node
    for window in state.reservations.values():
        if name in window.nodes and window.to_ns > state.now_ns:
            yield window.from_ns, window.to_ns, node.healthy


def differences(old: Masks, new: Masks, from_ns: int) -> Iterator[tuple[int, int, int, int]]:
    """From, until, and the cards that are free in the new and not in the old, and the opposite."""
    times = sorted({from_ns: None, **dict.fromkeys(old.times), **dict.fromkeys(new.times)})
    times = times[bisect_left(times, from_ns) :]
    for place, at_ns in enumerate(times):
        before, after = old.at(at_ns), new.at(at_ns)
        if before != after:
            until_ns = times[place + 1] if place + 1 < len(times) else FOREVER
            yield at_ns, until_ns, after & ~before, before & ~after

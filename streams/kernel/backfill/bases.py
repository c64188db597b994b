"""What holds the cards of each node over time, but for bookings; and how pods fit into them."""

from collections.abc import Iterator

from ganger.streams.kernel.entities import Node
from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.nodes.node_index import NodeIndex, matches
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards, pods_in

_SUITS_MAX = 256
"""Shapes whose cards on all nodes are remembered."""


class CardFit:
    """How pods of a shape fit into cards of a node, by cards, taints and labels alone."""

    __slots__ = ("_index", "_looks", "_suits")

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._looks = [_look(node) for node in index.nodes]
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

    def is_of(self, nodes: list[int]) -> bool:
        """Whether there are no other nodes than there were, and these are of the same kinds."""
        found = self._index.nodes
        return len(found) == len(self._looks) and all(
            _look(found[place]) == self._looks[place] for place in nodes
        )

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
    windows = state.indexes.windows
    for window in () if windows is None else windows.windows:
        for place in window.places:
            if place.node == node.index and window.record.to_ns > state.now_ns:
                yield window.record.from_ns, window.record.to_ns, node.healthy & place.mask

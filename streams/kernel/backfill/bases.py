"""What holds the cards of each node over time, but for bookings; and how pods fit into them."""

from collections.abc import Iterator, Mapping

from ganger.streams.kernel.entities import ClaimEntry, Job, Node
from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.prospect import Held, Prospect
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.nodes.marks import whose
from ganger.streams.kernel.nodes.node_index import NodeIndex, matches
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards, pods_in

NodeProspect = Prospect[Shape, ClaimEntry]
NodeHeld = Held[ClaimEntry]

Gang = list[tuple[Shape, int]]
"""Kind and count of the pods of each role that has any to place."""

_SUITS_MAX = 256
"""Shapes whose cards on all nodes are remembered."""

_MASKS_MAX = 1 << 12
"""Masks remembered of each."""


class _Table(dict[int, int]):
    """Pods of a shape that fit, by mask of free cards of nodes that are alike; filled as asked."""

    __slots__ = ("_islands", "_shape", "suits")

    def __init__(self, shape: Shape, suits: int, islands: tuple[int, ...]) -> None:
        """`suits`: cards that suit the shape."""
        super().__init__()
        self._shape = shape
        self._islands = islands
        self.suits = suits

    def __missing__(self, free: int) -> int:
        if len(self) >= _MASKS_MAX:
            self.clear()
        shape = self._shape
        found = pods_in(free & self.suits, shape.cards, self._islands, shape.same_island)
        self[free] = found
        return found


class CardFit:
    """How pods of a shape fit into cards of a node, by cards, taints and labels alone."""

    __slots__ = ("_index", "_looks", "_tables")

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._looks = [_look(node) for node in index.nodes]
        self._tables: dict[Shape, list[_Table]] = {}  # by node

    def table(self, kind: Shape, node: int) -> Mapping[int, int]:
        """How many fit, by mask of free cards."""
        tables = self._tables.get(kind)
        return (self._suit(kind) if tables is None else tables)[node]

    def choose(self, kind: Shape, node: int, free: int) -> int:
        """The cards of one, as placement chooses them."""
        found = self._index.nodes[node].kind
        assert found is not None, node
        suits = self._tables[kind][node].suits
        return choose_cards(free & suits, kind.cards, found.islands, kind.same_island)

    def is_of(self, nodes: list[int]) -> bool:
        """Whether there are no other nodes than there were, and these are of the same kinds."""
        found = self._index.nodes
        return len(found) == len(self._looks) and all(
            _look(found[place]) == self._looks[place] for place in nodes
        )

    def _suit(self, shape: Shape) -> list[_Table]:
        """One table for all nodes that are alike."""
        index = self._index
        masks = {kind.order: mask for kind, mask, _ in index.eligible(shape)}
        made: dict[tuple[object, int], _Table] = {}
        tables = []
        for node in index.nodes:
            suits, order = 0, None
            islands: tuple[int, ...] = ()
            if node.kind is not None:
                islands, order = node.kind.islands, node.kind.order
                if matches(node.labels, shape.request.selectors):
                    suits = masks.get(order, 0)
            table = made.get((order, suits))
            if table is None:
                table = made[order, suits] = _Table(shape, suits, islands)
            tables.append(table)
        if len(self._tables) >= _SUITS_MAX:
            self._tables.clear()
        self._tables[shape] = tables
        return tables


def _look(node: Node) -> tuple[object, dict[str, str]]:
    """What makes a node suit a shape."""
    return (None if node.kind is None else node.kind.order), node.labels


def base_of(state: State, node: Node, job: Job | None = None) -> Masks:
    """Cards of a node that nothing but bookings holds over time, from now on: for a job, or for one
    that is on no list of a reservation. O(holders^2).
    """
    now_ns = state.now_ns
    if node.is_lost or node.is_cordoned or node.is_draining or node.unknown:
        return Masks(now_ns, 0)
    holds = [*_holds(state, node), *_keeps(state, node, job)]
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


def _keeps(state: State, node: Node, job: Job | None) -> Iterator[tuple[int, int, int]]:
    """From when until when which cards are kept from a job, or from one on no list."""
    windows = state.indexes.windows
    if windows is None:
        return
    strange = None if job is None else windows.strange(whose(state, job))
    for position, window in enumerate(windows.windows):
        if window.record.to_ns > state.now_ns and (strange is None or position in strange):
            for place in window.places:
                if place.node == node.index:
                    yield window.record.from_ns, window.record.to_ns, node.healthy & place.mask

"""When a gang can gather its cards on many nodes, and which nodes then hold them for it.

The plain meaning: let running pods end in the order in which they are expected to; at each of these
moments place the gang as it would be placed then: role by role, on the node with the fewest free
cards on which a pod fits, as many pods as fit there, until all are placed; the first moment at
which that succeeds is its start, and those nodes are held for it.

What departs from it: whether a gang fits depends only on how many nodes have how many cards free,
so at each moment these counts are asked (O(levels)), and nodes are looked up once, in the end. Only
nodes of pods that end are touched; the others stand in lists by their free cards and are read from
the front. Exact where pods ask for cards alone; else it is the earliest moment to try.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

Gang = tuple[tuple[int, int], ...]
"""Cards of a pod and count of pods, role by role; at least one card each."""


Held = dict[int, int]
"""Cards by node."""


class Freed(NamedTuple):
    """Cards that one node is expected to get back."""

    at_ns: int
    node: int
    cards: int


class Plan(NamedTuple):
    """A gang's start.

    Attributes:
        start_ns: when.
        held: cards held for it from then on by node.
        spare: of these nodes, and of those that get cards back until then: cards that are free at
            the start beyond what is held. Any other node is as free then as it is now.
        back: cards that nodes get back until the start.
    """

    start_ns: int
    held: Held
    spare: Held
    back: Held


class FreeCards(Protocol):
    """Nodes by their free cards, as they are now."""

    def counts(self) -> dict[int, int]:
        """Nodes by their free cards."""
        ...

    def free(self, node: int) -> int:
        """Cards free on a node."""
        ...

    def with_free(self, free: int) -> Sequence[int]:
        """Nodes with so many cards free, ascending."""
        ...


class Levels:
    """Nodes by their free cards, in lists of ascending numbers."""

    __slots__ = ("_free", "lists")

    def __init__(self, free: Mapping[int, int] | None = None) -> None:
        """`free`: cards by node."""
        self._free: dict[int, int] = {}
        self.lists: dict[int, list[int]] = {}  # by free cards; none is empty
        for node in sorted(free or {}):
            self.set(node, (free or {})[node])

    def set(self, node: int, free: int) -> None:
        """A node has so many cards free now."""
        before = self._free.get(node)
        if before is not None:
            nodes = self.lists[before]
            del nodes[bisect_left(nodes, node)]
            if not nodes:
                del self.lists[before]
        self._free[node] = free
        insort(self.lists.setdefault(free, []), node)

    def free(self, node: int) -> int:
        """Cards free now."""
        return self._free[node]

    def counts(self) -> dict[int, int]:
        """Nodes by their free cards."""
        return {free: len(nodes) for free, nodes in self.lists.items()}

    def with_free(self, free: int) -> Sequence[int]:
        """Nodes with so many cards free, ascending."""
        return self.lists.get(free, ())


def gather(gang: Gang, levels: FreeCards, freed: Iterable[Freed], now_ns: int) -> Plan | None:
    """The gang's earliest start.

    Args:
        gang: what must start together.
        levels: nodes as they are now, those only that suit it.
        freed: what they are expected to get back, ascending by time; later than now.
        now_ns: the start if it fits now.

    Returns:
        None where it does not fit even when all have ended.
    """
    counts = levels.counts()
    if fits(gang, counts):
        return _plan(gang, levels, {}, now_ns)
    back: dict[int, int] = {}
    wanted = sum(cards * count for cards, count in gang)
    total = sum(free * nodes for free, nodes in counts.items())
    at_ns = now_ns
    least = gang[0][0] if len(gang) == 1 else 0  # of pods that are all alike; their room is counted
    room = sum(free // least * nodes for free, nodes in counts.items() if free > 0) if least else 0
    for moment in freed:
        if moment.at_ns != at_ns and total >= wanted:
            if room >= gang[0][1] if least else fits(gang, counts):
                break
        at_ns = moment.at_ns
        regained = back.get(moment.node, 0)
        before = levels.free(moment.node) + regained
        after = before + moment.cards
        back[moment.node] = regained + moment.cards
        counts[before] -= 1
        counts[after] = counts.get(after, 0) + 1
        total += moment.cards
        if least:
            room += max(0, after) // least - max(0, before) // least
    if total < wanted or not fits(gang, counts):
        return None
    return _plan(gang, levels, back, at_ns)


def gather_at(gang: Gang, levels: FreeCards, plan: Plan) -> Plan | None:
    """Where a gang starts at the time of an earlier plan, as nodes are now; none if it does not.

    O(levels + nodes that get cards back).
    """
    counts = levels.counts()
    for node, cards in plan.back.items():
        free = levels.free(node)
        counts[free] -= 1
        counts[free + cards] = counts.get(free + cards, 0) + 1
    return _plan(gang, levels, plan.back, plan.start_ns) if fits(gang, counts) else None


def fits(gang: Gang, counts: Mapping[int, int]) -> bool:
    """Whether a gang can be placed on nodes of which so many have so many cards free."""
    if len(gang) == 1:
        cards, count = gang[0]
        return sum(free // cards * nodes for free, nodes in counts.items() if free > 0) >= count
    left = dict(counts)
    for cards, count in gang:
        for free in sorted(left):
            nodes = left[free]
            if free < cards or not nodes:
                continue
            each = free // cards
            filled = min(nodes, count // each)
            _shift(left, free, free - each * cards, filled)
            count -= filled * each
            if count and filled < nodes:
                _shift(left, free, free - count * cards, 1)
                count = 0
            if not count:
                break
        if count:
            return False
    return True


def _shift(counts: dict[int, int], free: int, rest: int, nodes: int) -> None:
    if nodes:
        counts[free] -= nodes
        counts[rest] = counts.get(rest, 0) + nodes


def _plan(gang: Gang, levels: FreeCards, back: dict[int, int], start_ns: int) -> Plan:
    """Which nodes hold a gang that fits. `back`: cards that nodes get back until the start."""
    # free cards at the start, of nodes that differ from now
    then = {node: levels.free(node) + cards for node, cards in back.items()}
    held: Held = {}
    for cards, count in gang:
        for free, node in _ascending(cards, levels, then):
            pods = min(count, free // cards)
            then[node] = free - pods * cards
            held[node] = held.get(node, 0) + pods * cards
            count -= pods
            if not count:
                break
        assert not count, gang
    return Plan(start_ns, held, then, back)


def _ascending(cards: int, levels: FreeCards, then: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Nodes with enough free cards at the start: fewest first, then by number. Lazily."""
    changed: dict[int, list[int]] = {}
    for node, free in then.items():
        if free >= cards:
            changed.setdefault(free, []).append(node)
    frozen = dict(then)
    for free in sorted({**changed, **levels.counts()}):
        if free < cards:
            continue
        now = (node for node in levels.with_free(free) if node not in frozen)
        for node in _merged(iter(sorted(changed.get(free, ()))), now):
            yield free, node


def _merged(one: Iterator[int], other: Iterator[int]) -> Iterator[int]:
    """Two ascending series as one."""
    first, second = next(one, None), next(other, None)
    while first is not None or second is not None:
        if second is None or (first is not None and first < second):
            assert first is not None
            yield first
            first = next(one, None)
        else:
            yield second
            second = next(other, None)

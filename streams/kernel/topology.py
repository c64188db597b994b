"""Cards of a node as bit masks: which to take, and how to say them as runs; classes of equal nodes.

Bit i of a mask is card i of the node. All functions are pure. Masks may be of any length; those of
at most 64 cards are memoised, since a cell sees few distinct ones.
"""

from dataclasses import dataclass, field

from ganger.schemas.enums import CardHealth
from ganger.schemas.parts import CardRun, CardSpan, NodeReport, Taint

_MEMO_BITS = 64
_MEMO_MASK = (1 << _MEMO_BITS) - 1
_MEMO_MAX = 1 << 16

_chosen: dict[tuple[int, int, tuple[int, ...], bool], int] = {}
_spans: dict[int, tuple[CardSpan, ...]] = {0: ()}


def lowest_cards(mask: int, count: int) -> int:
    """The `count` lowest cards of `mask`, which must have as many. O(runs of cards)."""
    assert 0 <= count <= mask.bit_count(), (mask, count)
    taken = 0
    while count:
        lowest = mask & -mask
        above = mask + lowest  # the carry clears the lowest run
        run = mask & ~above
        size = run.bit_count()
        if size >= count:
            return taken | (lowest << count) - lowest
        taken |= run
        mask &= above
        count -= size
    return taken


def spans(mask: int) -> tuple[CardSpan, ...]:
    """Runs of neighbouring cards, ascending."""
    found = _spans.get(mask)
    if found is not None:
        return found
    runs = []
    rest = mask
    while rest:
        lowest = rest & -rest
        above = rest + lowest  # the carry clears the lowest run
        runs.append(CardSpan(lowest.bit_length() - 1, (rest & ~above).bit_count()))
        rest &= above
    result = tuple(runs)
    if mask.bit_length() <= _MEMO_BITS:
        if len(_spans) >= _MEMO_MAX:
            _spans.clear()
        _spans[mask] = result
    return result


def mask_of(cards: tuple[CardSpan, ...]) -> int:
    """The mask that `spans` would say as `cards`. Overlapping runs are merged."""
    mask = 0
    for span in cards:
        mask |= ((1 << span.count) - 1) << span.first
    return mask


def choose_cards(free: int, count: int, islands: tuple[int, ...], same_island: bool) -> int:
    """Cards to give a pod: `count` of `free`, as few islands as can be, the tightest first.

    Returns 0 when they do not suffice (or, with `same_island`, no island has enough).
    """
    if free > _MEMO_MASK and len(islands) == 1 and count > 0:
        part = free & islands[0]
        if part.bit_count() >= count:
            return lowest_cards(part, count)
    if len(islands) <= 1 and not same_island and free.bit_count() >= count:
        if free.bit_count() == count:
            return free
    key = (free, count, islands, same_island)
    chosen = _chosen.get(key)
    if chosen is None:
        chosen = _choose(free, count, islands, same_island)
        if free.bit_length() <= _MEMO_BITS:
            if len(_chosen) >= _MEMO_MAX:
                _chosen.clear()
            _chosen[key] = chosen
    return chosen


def _choose(free: int, count: int, islands: tuple[int, ...], same_island: bool) -> int:
    if count <= 0 or free.bit_count() < count:
        return 0
    taken = 0
    while True:
        need = count - taken.bit_count()
        left = [free & island & ~taken for island in islands]
        enough = [part for part in left if part.bit_count() >= need]
        if enough:
            tightest = min(enough, key=lambda part: (part.bit_count(), part))
            return taken | lowest_cards(tightest, need)
        if same_island:
            return 0
        widest = max(left, key=lambda part: (part.bit_count(), -part), default=0)
        if not widest:  # cards of no island
            return taken | lowest_cards(free & ~taken, need)
        taken |= widest


def pods_in(free: int, cards: int, islands: tuple[int, ...], same_island: bool) -> int:
    """How many pods of `cards` cards each fit into `free`. `cards` is at least 1."""
    if same_island:
        return sum((free & island).bit_count() // cards for island in islands)
    return free.bit_count() // cards


def best_island(free: int, islands: tuple[int, ...]) -> int:
    """Free cards of the island that has most."""
    return max(((free & island).bit_count() for island in islands), default=0)


@dataclass(slots=True, eq=False)
class Bucket:
    """Nodes of one class with equally many free cards, as two ascending lists of negated keys.

    Negated, so that the least that suffices stands at the end of a prefix and the busiest ends of
    the lists, where little is left, are the cheap ones to change.
    """

    count: int  # of free cards
    by_cpu: list[int] = field(default_factory=list)  # -(cpu, memory, node) in one int
    by_memory: list[int] = field(default_factory=list)  # -(memory, node) in one int


@dataclass(slots=True, eq=False)
class NodeClass:
    """What placement may take as equal: card models and memory by position, islands, taints."""

    order: tuple[object, ...]  # content, comparable: the order in which classes are asked
    kinds: tuple[tuple[str, int, int], ...]  # model, MiB of memory, mask of the cards of it
    islands: tuple[int, ...]  # masks
    taints: tuple[Taint, ...]
    node_count: int = 0  # derived: nodes of the class that are not lost
    buckets: dict[int, Bucket] = field(default_factory=dict)  # derived: by count of free cards
    levels: int = 0  # derived: bit n is set if bucket n holds a node
    partial: list[tuple[int, int, int]] = field(default_factory=list)  # free milli, node, card


def card_masks(
    cards: tuple[CardRun, ...],
) -> tuple[tuple[tuple[str, int, int], ...], tuple[int, ...], int]:
    """Kinds (model, MiB, mask), island masks and the mask of healthy cards of a node's runs."""
    kinds: dict[tuple[str, int], int] = {}
    islands: dict[int, int] = {}
    healthy = first = 0
    for run in cards:
        mask = ((1 << run.count) - 1) << first
        first += run.count
        key = (run.model, run.memory_mib)
        kinds[key] = kinds.get(key, 0) | mask
        islands[run.island] = islands.get(run.island, 0) | mask
        if run.health is CardHealth.HEALTHY:
            healthy |= mask
    return (
        tuple(sorted((model, memory, mask) for (model, memory), mask in kinds.items())),
        tuple(mask for _, mask in sorted(islands.items())),
        healthy,
    )


def class_key(report: NodeReport) -> tuple[object, ...]:
    """The content by which nodes are classed; equal keys are one class."""
    kinds, islands, _ = card_masks(report.cards)
    taints = tuple(sorted((t.key, t.value, int(t.effect)) for t in report.taints))
    return (sum(run.count for run in report.cards), kinds, islands, taints)

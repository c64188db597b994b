"""How unfairly much a node of a cohort borrows: the dominant share, exact.

Of every resource: what the node uses beyond its quota, all flavors summed, over what its parent
could get of it if nothing was used. The greatest of these ratios over the node's weight is its
share; a node within its quota has none. A node of weight 0 that borrows has an infinite share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ganger.streams.kernel.fairness.cohort import Cohort, Key, potential


@dataclass(frozen=True, slots=True)
class Share:
    """`borrowed` / `lendable`, over the weight. `resource`: the dominant one, empty if none is."""

    borrowed: int = 0
    lendable: int = 1
    weight_milli: int = 1000
    resource: str = ""
    is_borrowing: bool = False

    @property
    def is_infinite(self) -> bool:
        """Whether it borrows with a weight of 0."""
        return self.is_borrowing and self.weight_milli == 0

    def permille(self) -> int | None:
        """Thousandths, rounded up; none: infinite."""
        if self.is_infinite:
            return None
        if not self.borrowed:
            return 0
        return -(-self.borrowed * 1_000_000 // (self.lendable * self.weight_milli))


def compare(left: Share, right: Share) -> int:
    """-1, 0 or 1. Infinite shares compare by their ratios alone."""
    if left.is_infinite is not right.is_infinite:
        return 1 if left.is_infinite else -1
    a, b = left.borrowed * right.lendable, right.borrowed * left.lendable
    if not left.is_infinite:
        # without anything borrowed the weight, which may be 0, plays no part
        a *= right.weight_milli if left.borrowed and right.borrowed else 1
        b *= left.weight_milli if left.borrowed and right.borrowed else 1
    return (a > b) - (a < b)


def share_of(node: Cohort, more: Mapping[Key, int] | None = None) -> Share:
    """The node's share, as if it used `more` too. A root borrows from nobody."""
    if node.parent is None:
        return Share(weight_milli=node.weight_milli)
    borrowed: dict[str, int] = {}
    for key in {**node.root().subtree, **node.usage, **(more or {})}:
        beyond = node.usage.get(key, 0) - node.subtree.get(key, 0)
        beyond += 0 if more is None else more.get(key, 0)
        if beyond > 0:
            borrowed[key[1]] = borrowed.get(key[1], 0) + beyond
    if not borrowed:
        return Share(weight_milli=node.weight_milli)
    lendable = _lendable(node.parent)
    best = Share(weight_milli=node.weight_milli, is_borrowing=True)
    for resource in sorted(borrowed):
        total = lendable.get(resource, 0)
        if total > 0 and borrowed[resource] * best.lendable > best.borrowed * total:
            best = Share(borrowed[resource], total, node.weight_milli, resource, is_borrowing=True)
    return best


def _lendable(node: Cohort) -> dict[str, int]:
    """What a node could use of each resource, all flavors, if nothing was used."""
    amounts: dict[str, int] = {}
    for key in node.root().subtree:
        amounts[key[1]] = amounts.get(key[1], 0) + potential(node, key)
    return amounts

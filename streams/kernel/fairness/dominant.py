"""Dominant resource fairness: flat, and down a tree with weights (HDRF).

In a tree a node's allocation is not the sum of its children's: a branch that has run ahead of its
siblings, since they cannot use more, must not count against the whole. So what each child has is
scaled down to the least dominant share among those that could still use more, before it is summed.

Shares are ints in units of 2**-`BITS`, rounded down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

BITS = 64
ONE = 1 << BITS


@dataclass(slots=True)
class Branch:
    """A node of the tree; only leaves have `allocated` and `request`, by resource place."""

    weight: int = 1
    allocated: dict[int, int] = field(default_factory=dict)
    request: Mapping[int, int] = field(default_factory=dict)
    children: "list[Branch]" = field(default_factory=list)
    share: int = 0  # made by `settle`
    is_saturated: bool = False  # it can use no more; made by `settle`

    def key(self) -> tuple[int, int]:
        """Place among its siblings, least first: those that can use more, then by weighted share.

        A weight of 0 is served last of its kind.
        """
        share = self.share // self.weight if self.weight > 0 else 1 << (2 * BITS)
        return (1 if self.is_saturated else 0, share)


def dominant_share(allocated: Mapping[int, int], total: Mapping[int, int]) -> int:
    """The greatest part of any resource's total. Of a total of 0: all of it, if anything is had."""
    best = 0
    for place, amount in allocated.items():
        whole = total.get(place, 0)
        if amount > 0:
            best = max(best, (amount << BITS) // whole if whole > 0 else ONE)
    return best


def settle(node: Branch, total: Mapping[int, int], used: Mapping[int, int]) -> None:
    """Make shares and saturation of a subtree. `used`: of each total, by everybody.

    A leaf is saturated when it has all it asks for of some resource, or asks for one of which
    nothing is left; an inner node when all its children are.
    """
    if not node.children:
        node.share = dominant_share(node.allocated, total)
        node.is_saturated = any(
            amount > 0
            and (
                node.allocated.get(place, 0) >= amount or used.get(place, 0) >= total.get(place, 0)
            )
            for place, amount in node.request.items()
        ) or not any(node.request.values())
        return
    for child in node.children:
        settle(child, total, used)
    open_shares = [c.share for c in node.children if not c.is_saturated and c.share > 0]
    least = min(open_shares, default=0)
    node.allocated = {}
    for child in node.children:
        for place, amount in child.allocated.items():
            if not child.is_saturated and least:
                amount = amount * least // child.share if child.share else amount
            node.allocated[place] = node.allocated.get(place, 0) + amount
    node.share = dominant_share(node.allocated, total)
    node.is_saturated = all(child.is_saturated for child in node.children)

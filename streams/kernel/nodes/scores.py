"""How well a node suits a pod by what is used there: pure parts of the policies that score nodes.

A score is an int in units of 10**-9 points; a full score is 100 points, then times the policy's
weight. Quantities by resource place. Only resources that the pod asks for and that have a weight
count. A node that could not hold one of them scores 0; one that has none of it at all only scores
nothing for it, as in Volcano: whether it may be used is no question of scores.
"""

from collections.abc import Mapping
from enum import IntEnum

POINT = 10**9
FULL = 100 * POINT

Amounts = Mapping[int, int]


class Lean(IntEnum):
    """What is better of a resource."""

    MOST_ALLOCATED = 1
    LEAST_ALLOCATED = 2


def binpack(request: Amounts, used: Amounts, capacity: Amounts, weights: Amounts) -> int:
    """The fuller the better: the weighted mean of what would be used of each resource."""
    leans = {place: (Lean.MOST_ALLOCATED, weight) for place, weight in weights.items()}
    return by_resource(request, used, capacity, leans)


def by_resource(
    request: Amounts, used: Amounts, capacity: Amounts, leans: Mapping[int, tuple[Lean, int]]
) -> int:
    """The weighted mean of scores by resource, each with its own lean. 0..`FULL`."""
    total = weighted = 0
    for place, (lean, weight) in leans.items():
        asked = request.get(place, 0)
        if asked <= 0 or weight <= 0:
            continue
        total += weight
        whole = capacity.get(place, 0)
        if whole <= 0:
            continue
        then = used.get(place, 0) + asked
        if then > whole:
            return 0
        best = then if lean is Lean.MOST_ALLOCATED else whole - then
        weighted += weight * FULL * best // whole
    return weighted // total if total else 0

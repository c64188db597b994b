"""Dividing one resource among claimants by weight, in exact integers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """One claimant: gets at least `floor`, at most `cap`; the rest by `weight` (at least 1).

    `floor` above `cap` counts as `cap`.
    """

    weight: int
    floor: int
    cap: int


def divide(total: int, claims: list[Claim]) -> list[int]:
    """Weighted max-min shares of `total`, one per claim, in their order.

    Every share lies within its bounds; the shares sum to the lesser of `total` and all caps. When
    the floors alone exceed `total` they are scaled down in proportion. Where units remain they go
    one by one to the largest fraction, then to the claim that comes first, so callers order claims
    by a unique name and never by anything that could differ between runs.

    The obvious algorithm raises a level until all is given, each claim getting weight x level
    within its bounds. Here the level is found by fixing, in each round, the claims that the even
    level would put out of bounds on the side that is off by more; that ends after at most one round
    per claim.
    """
    floors = [min(claim.floor, claim.cap) for claim in claims]
    if sum(floors) >= total:
        return apportion(total, floors)
    shares = floors[:]
    loose = list(range(len(claims)))
    rest = total
    while loose:
        weight = sum(claims[i].weight for i in loose)
        below = [i for i in loose if rest * claims[i].weight < floors[i] * weight]
        above = [i for i in loose if rest * claims[i].weight > claims[i].cap * weight]
        if not below and not above:
            parts = apportion(rest, [claims[i].weight for i in loose])
            for i, part in zip(loose, parts, strict=True):
                shares[i] = part
            break
        lack = sum(floors[i] * weight - rest * claims[i].weight for i in below)
        excess = sum(rest * claims[i].weight - claims[i].cap * weight for i in above)
        fixed = dict.fromkeys(below if lack >= excess else above)
        if lack == excess:
            fixed.update(dict.fromkeys(above))
        for i in fixed:
            shares[i] = floors[i] if i in below else claims[i].cap
            rest -= shares[i]
        loose = [i for i in loose if i not in fixed]
    return shares


def apportion(total: int, weights: list[int]) -> list[int]:
    """`total` in proportion to the weights by largest remainder, ties to the first.

    All zero weights, or nothing to give: all zero.
    """
    weight = sum(weights)
    if weight <= 0 or total <= 0:
        return [0] * len(weights)
    parts = [total * w // weight for w in weights]
    left = total - sum(parts)
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % weight), i))
    for i in order[:left]:
        parts[i] += 1
    return parts

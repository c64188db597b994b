"""Fair share of one resource among siblings that have a quota and a weight beyond it: KAI's.

Everybody first gets the lesser of quota and demand, even where quotas together exceed what there
is. What is left goes to the higher priority first; among equals by weight, past use counted, in
whole units. Units that rounding leaves go one by one to the largest fraction, then to the older,
then by name. A claimant without a weight gets nothing beyond its quota.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm


@dataclass(frozen=True, slots=True)
class Demand:
    """One claimant. None: no limit. `key` breaks ties, least first, and is unique.

    `used_micro`: its past use in millionths of what the cell could have given meanwhile.
    """

    quota: int | None
    limit: int | None
    weight: int
    request: int
    priority: int = 0
    key: tuple[int | str, ...] = ()
    used_micro: int = 0

    def wanted(self) -> int:
        """What it asks for within its limit."""
        return self.request if self.limit is None else min(self.request, self.limit)


def divide_fair(
    total: int, demands: Sequence[Demand], unit: int = 1, penalty_milli: int = 0
) -> tuple[list[int], int]:
    """Shares in the order of the demands, and what nobody gets.

    Args:
        total: What there is of the resource.
        demands: The claimants.
        unit: What is whole: shares beyond quota come in multiples of it where demand allows.
        penalty_milli: How much past use lowers a weight, in thousandths; 0: not at all.
    """
    shares = [
        demand.wanted() if demand.quota is None else min(demand.quota, demand.wanted())
        for demand in demands
    ]
    left = max(0, total - sum(shares))
    return divide_beyond(left, demands, shares, unit, penalty_milli)


def divide_beyond(
    left: int, demands: Sequence[Demand], shares: list[int], unit: int = 1, penalty_milli: int = 0
) -> tuple[list[int], int]:
    """Hand out what quotas leave, on top of `shares`. Arguments as for `divide_fair`."""
    shares = shares[:]
    levels = sorted({demand.priority: True for demand in demands}, reverse=True)
    for level in levels:
        members = [i for i, demand in enumerate(demands) if demand.priority == level]
        while left:
            before = left
            fractions: dict[int, tuple[int, int]] = {}
            left = _rounds(left, demands, shares, members, unit, penalty_milli, fractions)
            left = _leftovers(left, demands, shares, unit, fractions)
            if left == before:
                break
    return shares, left


def _rounds(
    left: int,
    demands: Sequence[Demand],
    shares: list[int],
    members: list[int],
    unit: int,
    penalty_milli: int,
    fractions: dict[int, tuple[int, int]],
) -> int:
    """Give by weight until nobody is satisfied by a round. `fractions`: what rounding kept from
    those who are not, as numerator and denominator.
    """
    is_on = True
    while is_on and left:
        is_on = False
        weights = _weights(demands, shares, members, penalty_milli)
        whole = sum(weights.values())
        if not whole:
            break
        pot = left
        for i, weight in weights.items():
            wanted = demands[i].wanted() - shares[i]
            if wanted * whole <= pot * weight:
                given = wanted
                fractions.pop(i, None)
                is_on = is_on or wanted * whole < pot * weight
            else:
                given = pot * weight // (whole * unit) * unit
                fraction = pot * weight - given * whole
                if fraction:
                    fractions[i] = (fraction, whole)
            shares[i] += given
            left -= given
    return left


def _weights(
    demands: Sequence[Demand], shares: list[int], members: list[int], penalty_milli: int
) -> dict[int, int]:
    """Weights of those who want more, lowered by past use beyond their part and raised by less.

    W' = max(0, W + k (W - U)) with W the part of all weights, over one common denominator.
    """
    hungry = [i for i in members if demands[i].wanted() > shares[i] and demands[i].weight > 0]
    whole = sum(demands[i].weight for i in hungry)
    weights = {}
    for i in hungry:
        weight, used = demands[i].weight, demands[i].used_micro
        part = weight * 10**9 + penalty_milli * (weight * 10**6 - used * whole)
        if part > 0:
            weights[i] = part
    return weights


def _leftovers(
    left: int,
    demands: Sequence[Demand],
    shares: list[int],
    unit: int,
    fractions: dict[int, tuple[int, int]],
) -> int:
    common = lcm(*[whole for _, whole in fractions.values()])

    def rank(i: int) -> tuple[int, tuple[int | str, ...]]:
        fraction, whole = fractions[i]
        return -fraction * (common // whole), demands[i].key

    for i in sorted(fractions, key=rank):
        given = min(unit, left, demands[i].wanted() - shares[i])
        shares[i] += given
        left -= given
    return left

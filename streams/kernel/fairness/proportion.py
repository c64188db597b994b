"""What each queue deserves by its weight, within guarantee, capability and request: Volcano's.

Volcano hands out what remains by weight, again and again, cuts each queue's part to its bounds and
takes back what was cut, until nothing changes. Resource by resource that converges to the weighted
max-min division, which is computed here at once and exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ganger.streams.kernel.queues.shares import Claim, divide

Amounts = Mapping[int, int]
"""By resource place."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A queue that has jobs. `capability`: an absent resource is unlimited; of the others an absent
    one is 0. `key` is unique and breaks ties.
    """

    key: tuple[int | str, ...]
    weight: int
    request: Amounts  # used and waiting
    guarantee: Amounts = field(default_factory=dict)
    capability: Amounts = field(default_factory=dict)


def real_capability(total: int, guaranteed: int, guarantee: int, capability: int | None) -> int:
    """The most a queue can have of a resource: what others' guarantees leave, and its capability.

    `guaranteed`: the sum of all queues' guarantees, its own included.
    """
    most = max(0, total - guaranteed) + guarantee
    return most if capability is None else min(most, capability)


def deserved(
    total: Amounts, contenders: Sequence[Contender], guaranteed: Amounts
) -> list[dict[int, int]]:
    """What each deserves, in their order, for every resource of `total`. O(resources x n log n).

    `guaranteed`: sums of the guarantees of all queues, those without jobs too. A guarantee above
    the request is kept for its queue.
    """
    shares: list[dict[int, int]] = [{} for _ in contenders]
    for place, amount in total.items():
        claims = []
        for one in contenders:
            floor = one.guarantee.get(place, 0)
            most = real_capability(
                amount, guaranteed.get(place, 0), floor, one.capability.get(place)
            )
            cap = max(floor, min(most, one.request.get(place, 0)))
            claims.append((one.key, Claim(one.weight, floor, cap)))
        for share, part in zip(shares, divide_by_key(amount, claims), strict=True):
            share[place] = part
    return shares


def divide_by_key(total: int, claims: Sequence[tuple[tuple[int | str, ...], Claim]]) -> list[int]:
    """`shares.divide` for claims in any order: ties go to the least key, which must be unique.

    A weight of 0 gets its floor and no more.
    """
    places = sorted(range(len(claims)), key=lambda place: claims[place][0])
    shares = [0] * len(claims)
    floors = sum(min(claim.floor, claim.cap) for _, claim in claims)
    loose = places
    if floors < total:
        loose = [place for place in places if claims[place][1].weight > 0]
        for place in places:
            claim = claims[place][1]
            if claim.weight <= 0:
                shares[place] = min(claim.floor, claim.cap)
                total -= shares[place]
    for place, share in zip(loose, divide(total, [claims[p][1] for p in loose]), strict=True):
        shares[place] = share
    return shares

"""Shares and claims of queues whose due is given by an administrator: Volcano's capacity rules.

Quantities by resource place. A queue may use more than it deserves while nobody else wants it; who
is below what it deserves of some resource it asks for may take back.
"""

from collections.abc import Mapping

Amounts = Mapping[int, int]

Ratio = tuple[int, int]
"""Numerator and positive denominator."""

WHOLE: Ratio = (1, 1)


def share(allocated: Amounts, deserved: Amounts) -> Ratio:
    """The greatest part of its due that a queue has; 1 where nothing at all is due to it.

    Resources of which 0 is due do not count.
    """
    best: Ratio | None = None
    for place, due in deserved.items():
        if due > 0:
            has = allocated.get(place, 0)
            if best is None or has * best[1] > best[0] * due:
                best = (has, due)
    return WHOLE if best is None else best


def share_key(ratio: Ratio) -> int:
    """A ratio as an int that orders as it does, while denominators stay below 2**64."""
    return (ratio[0] << 128) // ratio[1]


def may_take(
    allocated: Amounts, request: Amounts, deserved: Amounts, most: Mapping[int, int | None]
) -> bool:
    """Whether a queue may take back for a request: nothing above the `most` it may have, and of at
    least one resource asked for no more than it deserves. Only what is asked for counts.
    """
    asked = {place: amount for place, amount in request.items() if amount > 0}
    if not asked:
        return True
    for place, amount in asked.items():
        limit = most.get(place)
        if limit is not None and allocated.get(place, 0) + amount > limit:
            return False
    return any(
        allocated.get(place, 0) + amount <= deserved.get(place, 0)
        for place, amount in asked.items()
    )


def may_lose(
    allocated: Amounts, victim: Amounts, request: Amounts, deserved: Amounts, guarantee: Amounts
) -> bool:
    """Whether a queue that has so much may lose a victim to a request of another queue.

    The victim must free something that is asked for and leave the guarantee; and of something that
    the victim holds the queue must have more than its due, unless none of that is due to it.
    """
    holds = [place for place, amount in victim.items() if amount > 0]
    if not any(request.get(place, 0) > 0 for place in holds):
        return False
    for place, floor in guarantee.items():
        if allocated.get(place, 0) - victim.get(place, 0) < floor:
            return False
    return has_more(allocated, victim, deserved)


def has_more(allocated: Amounts, victim: Amounts, deserved: Amounts) -> bool:
    """Whether of something that a victim holds there is more than is due, or none of it is due."""
    spoken = [p for p, amount in victim.items() if amount > 0 and deserved.get(p, 0) > 0]
    return not spoken or any(allocated.get(place, 0) > deserved[place] for place in spoken)

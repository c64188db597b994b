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
    """The greatest part of its due that a queue has; 1 where nothing is due to it.

    Of a resource of which 0 is due: 0 if it has none, else 1.
    """
    best: Ratio | None = None
    for place, due in deserved.items():
        has = allocated.get(place, 0)
        ratio = (has, due) if due else (1 if has else 0, 1)
        if best is None or ratio[0] * best[1] > best[0] * ratio[1]:
            best = ratio
    return WHOLE if best is None else best


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

    The victim must free something that is asked for and leave the guarantee; and the queue must
    have more than its due of what both sides speak about, unless its due speaks of none of what
    the victim holds.
    """
    holds = [place for place, amount in victim.items() if amount > 0]
    shared = [place for place in holds if request.get(place, 0) > 0]
    if not shared:
        return False
    for place, floor in guarantee.items():
        if allocated.get(place, 0) - victim.get(place, 0) < floor:
            return False
    if not any(place in deserved for place in holds):
        return True
    spoken = [place for place in shared if place in deserved]
    return any(allocated.get(place, 0) > deserved[place] for place in spoken)

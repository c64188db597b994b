"""Quantiles of few numbers, exactly, in integers. Shares are thousandths."""

from collections.abc import Iterable, Sequence

_ONE = 1 << 40
"""Fixed-point 1 of survival shares."""


def nearest_rank(ascending: Sequence[int], share_milli: int) -> int:
    """The least of the values that at least so many thousandths of them do not exceed.

    Args:
        ascending: at least one value.
        share_milli: 1..1000.
    """
    assert ascending and 0 < share_milli <= 1000, share_milli
    return ascending[-(-len(ascending) * share_milli // 1000) - 1]


def censored(ended: Iterable[int], lasting: Iterable[int], share_milli: int) -> int | None:
    """The same of durations of which some still last (Kaplan and Meier, 1958).

    Args:
        ended: durations that are known.
        lasting: durations so far of what has not ended.
        share_milli: 1..999.

    Returns:
        None where too few have ended to say: the share is never reached.
    """
    # at one value what ended comes before what still lasts
    ordered = sorted([*((value, 0) for value in ended), *((value, 1) for value in lasting)])
    left_share = _ONE
    goal = _ONE * (1000 - share_milli) // 1000
    for place, (value, lasts) in enumerate(ordered):
        if not lasts:
            at_risk = len(ordered) - place
            left_share = left_share * (at_risk - 1) // at_risk
            if left_share <= goal:
                return value
    return None

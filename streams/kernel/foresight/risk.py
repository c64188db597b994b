"""What a backfilled pod has to expect: how long it keeps its cards, how likely it is told to leave.

Learnt per class of backfill (route, idle class, width) from pods of the same class. A *record* is
`(ended, preempted, *holds)`: how many ended by themselves or were told to leave, how many of them
the latter, and the last times that pods held their cards, in ns, the latest last.
"""

from typing import NamedTuple

from ganger.schemas.enums import IdleClass
from ganger.streams.kernel.foresight.quantiles import censored

HOLDS_MAX = 64

PRIOR_ENDED = 10
"""What is taken as known beforehand weighs as much as so many pods."""

MEMORY_MAX = 256
"""Counts are halved beyond, so that what was long ago fades."""

EMPTY = (0, 0)


class Terms(NamedTuple):
    """What a job in a gap has to expect."""

    protect_ns: int  # for how long it is nobody's victim once it runs
    hold_ns: int  # how long it keeps its cards, as likely as not
    risk_milli: int  # probability of having to make way
    idle: IdleClass  # of the cards
    for_job: str  # for whom it will be suspended
    for_seq: int  # of that job; -1 = none


def learn(record: tuple[int, ...], hold_ns: int, is_preempted: bool) -> tuple[int, ...]:
    """The record after one more pod."""
    ended, preempted, *holds = record
    if ended >= MEMORY_MAX:
        ended, preempted = ended // 2, preempted // 2
    return (ended + 1, preempted + is_preempted, *holds[1 - HOLDS_MAX :], hold_ns)


def preemption_milli(record: tuple[int, ...], prior_milli: int) -> int:
    """Probability of being told to leave, in thousandths.

    Args:
        record: of the class.
        prior_milli: what to think while nothing is known.
    """
    ended, preempted = record[:2]
    return (preempted * 1000 + prior_milli * PRIOR_ENDED) // (ended + PRIOR_ENDED)


def hold_ns(record: tuple[int, ...], lasting_ns: tuple[int, ...], estimate_ns: int) -> int:
    """Time for which a pod is expected to keep its cards: the median, at most its estimate.

    Args:
        record: of the class.
        lasting_ns: how long pods of the class that still run have held theirs so far.
        estimate_ns: of the pod; 0 = none.
    """
    median = censored(record[2:], lasting_ns, 500) if len(record) > 2 else None
    if median is None:
        return estimate_ns
    return min(median, estimate_ns) if estimate_ns else median

"""When a waiting job will start: a median and a late estimate, from how long others have waited.

Waits are measured in units of the work ahead: card-time that waits or runs, over all cards. The
quotient of wait and unit is learnt by class, from the narrowest that knows enough to the widest.
Two factors, slowly moved by every promise kept or broken, hold the shares kept at what they should
be: half of the median promises, nine tenths of the late ones. Nothing is assumed of the policy.

A *row* is the last quotients of a class, in units of 2^-20, the latest last.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ganger.streams.kernel.foresight.quantiles import nearest_rank

QUOTIENT_SHIFT = 20
QUOTIENT_MAX = 1 << 40

WAITS_MAX = 64
"""Twice as many and half as many gave promises as good on the archive's logs; a row is a fact of
the state, so short is better."""

WAITS_LEAST = 30
"""A class with fewer leaves the word to a wider one."""

UNIT_NS_LEAST = 10**9

MEDIAN_MILLI = 500
LATE_MILLI = 920
"""The late promise aims at a little more than nine tenths: bursts break many at once."""

FACTOR_ONE = 1 << 30
FACTOR_MAX = 8 * FACTOR_ONE
FACTOR_MIN = -(-FACTOR_ONE // 8)
"""A thousand jobs whose promises break together must not move a factor beyond use."""

FACTOR_STEP = 200
"""A broken promise raises its factor by the share it aims at, over this."""

UNKNOWN = (FACTOR_ONE >> (30 - QUOTIENT_SHIFT), 3 * FACTOR_ONE >> (30 - QUOTIENT_SHIFT))
"""Quotients while nobody has waited yet: the work ahead, and three times that."""


class Promise(NamedTuple):
    """Waits from now on."""

    median_ns: int
    late_ns: int


class Factors(NamedTuple):
    """Corrections of the two, in units of 2^-30."""

    median: int
    late: int


def unit_ns(work_card_ns: int, cards: int) -> int:
    """The time in which all cards do the work ahead."""
    return max(UNIT_NS_LEAST, work_card_ns // max(1, cards))


def classes(cards: int, ahead: int) -> tuple[tuple[int, ...], ...]:
    """Classes of a job, the narrowest first, by octaves.

    Args:
        cards: that the job asks.
        ahead: jobs that will be offered cards before it, as the policy's order is now.
    """
    width = cards.bit_length()
    return ((width, ahead.bit_length()), (width,), ())


def learn(row: tuple[int, ...], wait_ns: int, unit: int) -> tuple[int, ...]:
    """The row of a class after one more start; `unit`: as it was when the promise was made."""
    quotient = min((wait_ns << QUOTIENT_SHIFT) // unit, QUOTIENT_MAX)
    return (*row[1 - WAITS_MAX :], quotient) if len(row) >= WAITS_MAX else (*row, quotient)


def promise(rows: Sequence[tuple[int, ...]], unit: int, factors: Factors) -> Promise:
    """What to promise a job.

    Args:
        rows: of its classes, the narrowest first.
        unit: see `unit_ns`.
        factors: as of now.
    """
    median, late = UNKNOWN
    known = next((row for row in rows if len(row) >= WAITS_LEAST), rows[-1])
    if known:
        ascending = sorted(known)
        median = nearest_rank(ascending, MEDIAN_MILLI)
        late = nearest_rank(ascending, LATE_MILLI)
    median_ns = _wait_ns(median, factors.median, unit)
    return Promise(median_ns, max(median_ns, _wait_ns(late, factors.late, unit)))


def _wait_ns(quotient: int, factor: int, unit: int) -> int:
    return (quotient * unit * (factor >> 10)) >> (QUOTIENT_SHIFT + 20)


def correct(factor: int, share_milli: int, is_broken: bool) -> int:
    """A factor after one more promise was kept or broken; where the shares are right it rests."""
    if is_broken:
        factor += factor * share_milli // (1000 * FACTOR_STEP)
    else:
        factor -= factor * (1000 - share_milli) // (1000 * FACTOR_STEP)
    return min(FACTOR_MAX, max(FACTOR_MIN, factor))

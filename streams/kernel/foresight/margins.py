"""How far runs went beyond what was expected of them, and the margin to add so that few do.

A *row* is the last ratios of run time to estimate, in thousandths, the latest last.
"""

from ganger.streams.kernel.foresight.quantiles import nearest_rank

RATIOS_MAX = 32
RATIO_MILLI_MAX = 1_000_000
"""A run of a thousand times its estimate says no more than that the estimate was none."""

RATIOS_LEAST = 8
"""With fewer there is no margin to speak of: see `margin_ns`."""


def learn(row: tuple[int, ...], estimate_ns: int, run_ns: int) -> tuple[int, ...]:
    """The row after one more run. `estimate_ns`: as it was when the run began, at least 1."""
    ratio = min(run_ns * 1000 // estimate_ns, RATIO_MILLI_MAX)
    return (*row[1 - RATIOS_MAX :], ratio) if len(row) >= RATIOS_MAX else (*row, ratio)


def margin_ns(row: tuple[int, ...], estimate_ns: int, share_milli: int, unknown_milli: int) -> int:
    """What to add to an estimate so that `share_milli` of the runs known end by then.

    Args:
        row: see `learn`.
        estimate_ns: of the job in question.
        share_milli: of runs that are to end in time, 1..1000.
        unknown_milli: margin in thousandths of the estimate while too few runs are known.
    """
    if len(row) < RATIOS_LEAST:
        return estimate_ns * unknown_milli // 1000
    ratio = nearest_rank(sorted(row), share_milli)
    return max(0, estimate_ns * (ratio - 1000) // 1000)

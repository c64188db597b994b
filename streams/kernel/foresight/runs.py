"""Run times to expect, from the last runs of the same kind. A *row* is those, the latest last.

Which runs are of one kind (of one user, of one queue and size, ...) is the caller's: it asks rows
from the narrowest kind to the widest and takes the first that knows enough.
"""

from collections.abc import Iterable

RUNS_MAX = 10
"""Enough to be steady, few enough to follow a user's change of work. On the archive's KTH-SP2 and
CTC-SP2, under EASY with the shortest first, the mean of the last two (as EASY++ has it) gives mean
bounded slowdowns of 58.6 and 17.8, of five 56.7 and 18.4, of ten 52.6 and 17.0, of twenty 55.7 and
17.0.
"""

FURTHER_NS_LEAST = 60 * 10**9


def learn(row: tuple[int, ...], run_ns: int, runs_max: int = RUNS_MAX) -> tuple[int, ...]:
    """The row after one more run."""
    return (*row[1 - runs_max :], run_ns) if len(row) >= runs_max else (*row, run_ns)


def predict(row: tuple[int, ...], limit_ns: int) -> int:
    """Run time in ns to expect of a job that may run for `limit_ns`: the mean of the row, capped.

    Without any run it is the limit.
    """
    if not row:
        return limit_ns
    return min(limit_ns, max(1, sum(row) // len(row)))


def first_known(rows: Iterable[tuple[int, ...]], least_count: int = 1) -> tuple[int, ...]:
    """The first row with enough runs; empty if none has."""
    return next((row for row in rows if len(row) >= least_count), ())


def outlive(started_ns: int, now_ns: int, limit_ns: int) -> int:
    """When to expect the end of a pod that has outlived what was expected of it.

    At its limit, while that lies ahead; else after as much time again as it has run, and a minute
    at least, so that a guess of a second is not corrected a dozen times.

    Args:
        started_ns: when it began to run.
        now_ns: later than that.
        limit_ns: how long it may run; 0 for no limit.
    """
    end_ns = started_ns + limit_ns
    return end_ns if end_ns > now_ns else now_ns + max(FURTHER_NS_LEAST, now_ns - started_ns)

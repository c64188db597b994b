"""How the promises of a run fared: when jobs that had to wait were told that they would start.

What counts is the first promise of each job. It is kept if the job started by then; one whose time
was not over when the run ended, of a job that had not started, is left out.
"""

from collections.abc import Mapping
from statistics import median_low

from ganger.schemas.decisions import Decision


class Promises:
    """The first promises of jobs, median and late, as times in ns."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, int]] = {}
        self._late_waits: list[int] = []  # from the promise to its late time, ns

    def admitted(self, decision: Decision) -> None:
        """ADMIT of a job, with a promise or without."""
        if decision.start_ns and decision.job not in self._first:
            self._first[decision.job] = (decision.start_ns, decision.start_late_ns)
            self._late_waits.append(decision.start_late_ns - decision.time_ns)

    @property
    def late_median_ns(self) -> int | None:
        """The median of the waits that late promises allowed, which says how much they tell; none
        without any.
        """
        return median_low(self._late_waits) if self._late_waits else None

    def coverage(
        self, starts_ns: Mapping[str, int], last_ns: int
    ) -> tuple[float | None, float | None]:
        """Shares of the median and of the late promises that were kept; none without any.

        Args:
            starts_ns: when jobs started, of those that did.
            last_ns: end of the run.
        """
        shares = []
        for which in (0, 1):
            kept = [
                _is_kept(promised[which], starts_ns.get(job), last_ns)
                for job, promised in self._first.items()
            ]
            known = [one for one in kept if one is not None]
            shares.append(sum(known) / len(known) if known else None)
        return shares[0], shares[1]


def _is_kept(by_ns: int, start_ns: int | None, last_ns: int) -> bool | None:
    """Whether a job started by a time; none where that cannot be said yet."""
    if start_ns is None:
        return None if by_ns > last_ns else False
    return start_ns <= by_ns

"""Promises that stand: what was told to whom, and when the time of which is over."""

from heapq import heappop, heappush
from typing import NamedTuple


class Told(NamedTuple):
    """A promise, as a job keeps it. Waits are counted from `at_ns`."""

    at_ns: int
    median_ns: int
    late_ns: int
    unit_ns: int  # see `promises.unit_ns`
    ahead: int  # jobs that waited too
    cards_milli: int  # of the job
    estimate_ns: int  # its run time, as was expected; 0 = nothing was

    @property
    def work(self) -> int:
        """Card-ns that the job was expected to need."""
        return self.cards_milli * self.estimate_ns // 1000

    def by_ns(self, which: int) -> int:
        """Until when the job is to start: 0 the median promise, 1 the late one."""
        return self.at_ns + (self.late_ns if which else self.median_ns)


class Promised:
    """All promises that stand.

    Attributes:
        work: card-ns that their jobs were expected to need.
    """

    __slots__ = ("_expiries", "work")

    def __init__(self) -> None:
        """None stands."""
        self.work = 0
        self._expiries: list[tuple[int, int, int]] = []  # heap: time, job, which of the two

    def add(self, seq: int, told: Told, not_before_ns: int) -> None:
        """A promise stands; its times before `not_before_ns` have been counted already."""
        self.work += told.work
        for which in (0, 1):
            by_ns = told.by_ns(which)
            if by_ns >= not_before_ns:
                heappush(self._expiries, (by_ns, seq, which))

    def passed(self, now_ns: int) -> tuple[int, int, int] | None:
        """Take the first time before now: the time, its job, which of the two promises.

        It may be that of a promise which stands no more.
        """
        expiries = self._expiries
        return heappop(expiries) if expiries and expiries[0][0] < now_ns else None

"""A planner that promises starts, and how its promises fared: the fold that the kernel does.

Times are whole seconds; they are handed on as ns, so that units are the kernel's.
"""

from heapq import heappop, heappush
from typing import NamedTuple

from ganger.replay.traces.fields import NS_PER_S
from ganger.streams.kernel.foresight import promises
from ganger.streams.kernel.foresight.promises import Factors, Promise
from support.archive import Job, Running
from support.planners import Predicting

SHARES = (promises.MEDIAN_MILLI, promises.LATE_MILLI)


class Open(NamedTuple):
    """A promise made to a job that waits."""

    at_s: int
    unit_ns: int
    classes: tuple[tuple[int, ...], ...]
    promise: Promise


class Promises:
    """All promises of a run.

    Attributes:
        made: each promise, in order.
        kept: how many of both kinds were.
    """

    def __init__(self) -> None:
        self.made: list[Promise] = []
        self.kept = [0, 0]
        self._open: dict[int, Open] = {}
        self._rows: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._factors = [promises.FACTOR_ONE] * 2
        self._expiries: list[tuple[int, int, int]] = []  # time in ns, job, which of the two

    def make(self, number: int, now_s: int, cards: int, ahead: int, unit_ns: int) -> Promise:
        """Promise a job its start."""
        self.expire(now_s)
        classes = promises.classes(cards, ahead)
        rows = [self._rows.get(one, ()) for one in classes]
        promise = promises.promise(rows, unit_ns, Factors(*self._factors))
        self._open[number] = Open(now_s, unit_ns, classes, promise)
        self.made.append(promise)
        for which in (0, 1):
            heappush(self._expiries, (now_s * NS_PER_S + promise[which], number, which))
        return promise

    def expire(self, now_s: int) -> None:
        """What was promised for a moment before now, and did not come, is broken."""
        while self._expiries and self._expiries[0][0] < now_s * NS_PER_S:
            _, number, which = heappop(self._expiries)
            if number in self._open:
                self._correct(which, is_broken=True)

    def start(self, number: int, now_s: int) -> None:
        """A job starts; if it was promised when, learn from it."""
        if number not in self._open:
            return
        self.expire(now_s)
        at_s, unit_ns, classes, promise = self._open.pop(number)
        wait_ns = (now_s - at_s) * NS_PER_S
        for which in (0, 1):
            if wait_ns <= promise[which]:
                self.kept[which] += 1
                self._correct(which, is_broken=False)
        for one in classes:
            self._rows[one] = promises.learn(self._rows.get(one, ()), wait_ns, unit_ns)

    def _correct(self, which: int, *, is_broken: bool) -> None:
        self._factors[which] = promises.correct(self._factors[which], SHARES[which], is_broken)

    def shares(self) -> tuple[float, float]:
        """Of the promises, how many were kept, median and late."""
        return self.kept[0] / len(self.made), self.kept[1] / len(self.made)

    def medians_s(self) -> tuple[float, float]:
        """The median of what was promised, median and late."""
        ordered = [sorted(promise[which] for promise in self.made) for which in (0, 1)]
        middle = len(self.made) // 2
        return ordered[0][middle] / NS_PER_S, ordered[1][middle] / NS_PER_S


class Promising(Predicting):
    """Predicts run times, and promises every job that does not start at once when it will."""

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        self.promises = Promises()
        self._processors = processors
        self._waiting_work = 0  # processor-seconds, by what was predicted when they came
        self._work: dict[int, int] = {}  # of the waiting jobs
        self._held = 0  # processors of running jobs
        self._ends_sum = 0  # of running jobs, processors x expected end

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        started = super().submitted(job, now_s)
        if job.number in self.line:
            running_work = max(0, self._ends_sum - self._held * now_s)
            unit_ns = promises.unit_ns(
                (self._waiting_work + running_work) * NS_PER_S, self._processors
            )
            ahead = len(self.line) - 1
            self.promises.make(job.number, now_s, job.processors, ahead, unit_ns)
            self._work[job.number] = job.processors * self.lanes_s(job)[0]
            self._waiting_work += self._work[job.number]
        return started

    def hold(self, job: Job, now_s: int) -> None:
        super().hold(job, now_s)
        self.promises.start(job.number, now_s)
        self._waiting_work -= self._work.pop(job.number, 0)
        self._held += job.processors
        self._ends_sum += job.processors * self.expected_s(job, now_s)

    def ended(self, running: Running, now_s: int) -> list[Job]:
        self._held -= running.job.processors
        self._ends_sum -= running.job.processors * running.expected_s
        return super().ended(running, now_s)

"""The published scheduling algorithms over the kernel's pure planners, for logs of the archive.

Each is what the kernel does on a cell of one node, without the kernel.
"""

from collections.abc import Callable

from ganger.streams.kernel.horizon.book import Book
from ganger.streams.kernel.horizon.easy import Bound, Candidate, Gap, scan
from ganger.streams.kernel.horizon.ends import Ends
from ganger.streams.kernel.horizon.orders import ORDERS, Ask
from ganger.streams.kernel.horizon.steps import FOREVER
from support.archive import Job, Running

Estimate = Callable[[Job], int]


def requested(job: Job) -> int:
    """What the user asked for."""
    return job.requested_s


def exact(job: Job) -> int:
    """What nobody can know."""
    return job.run_s


class Queueing:
    """What all of them share: a line of waiting jobs, running ones by expected end."""

    def __init__(self, processors: int, estimate: Estimate) -> None:
        self.free = processors  # neither held nor claimed; negative while claims are
        self.estimate = estimate
        self.ends = Ends()
        self.line: dict[int, Job] = {}  # by number, in order of submission
        self.scans = 0  # candidates judged

    def expected_s(self, job: Job, now_s: int) -> int:
        return now_s + self.estimate(job)

    def started(self, running: Running) -> None:
        self.free -= running.job.processors
        self.ends.add(running.expected_s, running.order, 0, running.job.processors)

    def ended(self, running: Running, now_s: int) -> list[Job]:
        self.free += running.job.processors
        self.ends.remove(running.expected_s, running.order, 0, running.job.processors)
        return self.plan(now_s)

    def wake_s(self) -> int | None:
        return None

    def woken(self, now_s: int) -> list[Job]:
        return []

    def plan(self, now_s: int) -> list[Job]:
        """One pass."""
        raise NotImplementedError

    def heads(self, free: int) -> tuple[list[Job], int]:
        """Take the jobs at the head that fit out of the line; they, and what is left free."""
        started = []
        for job in self.line.values():
            if job.processors > free:
                break
            free -= job.processors
            started.append(job)
        for job in started:
            del self.line[job.number]
        return started, free


class Fcfs(Queueing):
    """First come, first served."""

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        self.line[job.number] = job
        return self.plan(now_s)

    def plan(self, now_s: int) -> list[Job]:
        return self.heads(self.free + self.ends.due(now_s))[0]


class Easy(Queueing):
    """One reservation.

    Args:
        order: of the scan, by its name in `ORDERS`.
        only_fitting: a submission causes a pass only if the job fits now.
        judge: what candidates are judged by, given the head's wait; by default the estimate.
    """

    def __init__(
        self,
        processors: int,
        estimate: Estimate,
        *,
        order: str = "arrival",
        only_fitting: bool = True,
        judge: Callable[[Job, int], int] | None = None,
    ) -> None:
        super().__init__(processors, estimate)
        self._order = ORDERS[order]
        self._is_fifo = order == "arrival"
        self._only_fitting = only_fitting
        self._judge = judge or (lambda job, head_wait_s: estimate(job))

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        self.line[job.number] = job
        if self._only_fitting and job.processors > self.free + self.ends.due(now_s):
            return []
        return self.plan(now_s)

    def plan(self, now_s: int) -> list[Job]:
        started, free = self.heads(self.free + self.ends.due(now_s))
        if len(self.line) < 2 or not free:
            return started
        waiting = iter(self.line.values())
        head = next(waiting)
        gap = self._gap(head, free, now_s, started)
        candidates = []
        for job in waiting:
            if job.processors <= free:
                estimate_s = self._judge(job, now_s - head.submit_s)
                candidates.append(Candidate(job.number, job.processors, estimate_s))
        self.scans += len(candidates)
        if not self._is_fifo:
            candidates.sort(key=lambda one: self._key(one, now_s))
        bound = Bound(head.processors, self.estimate(head))
        for candidate in scan(candidates, now_s, free, gap, bound):
            started.append(self.line.pop(candidate.job))
        return started

    def _gap(self, head: Job, free: int, now_s: int, started: list[Job]) -> Gap:
        """The head's gap, those that start in this pass counted as running."""
        for job in started:
            self.ends.add(self.expected_s(job, now_s), -job.number, 0, job.processors)
        reach = self.ends.reach(head.processors, free, now_s)
        for job in started:
            self.ends.remove(self.expected_s(job, now_s), -job.number, 0, job.processors)
        if reach is None:
            return Gap(FOREVER, 0)
        return Gap(reach.at_ns, reach.free - head.processors)

    def _key(self, candidate: Candidate, now_s: int) -> tuple[int, ...]:
        job = self.line[candidate.job]
        wait_s = now_s - job.submit_s
        return self._order(Ask(job.number, job.processors, candidate.estimate_ns, wait_s))


class Predicting(Easy):
    """EASY over predicted run times: the mean of the user's last five, shortest first.

    Running jobs are expected to end at their requested time; once the head has waited `guard_s`,
    candidates are judged by their request.
    """

    def __init__(self, processors: int, *, guard_s: int = 2 * 86400, runs_max: int = 5) -> None:
        super().__init__(
            processors, requested, order="shortest", only_fitting=False, judge=self._predict
        )
        self._guard_s = guard_s
        self._runs_max = runs_max
        self._runs: dict[str, list[int]] = {}

    def ended(self, running: Running, now_s: int) -> list[Job]:
        runs = self._runs.setdefault(running.job.user, [])
        runs.append(running.job.run_s)
        del runs[: -self._runs_max]
        return super().ended(running, now_s)

    def _predict(self, job: Job, head_wait_s: int) -> int:
        runs = self._runs.get(job.user)
        if not runs or head_wait_s >= self._guard_s:
            return job.requested_s
        return min(job.requested_s, max(1, sum(runs) // len(runs)))


class Conservative(Queueing):
    """A booking for everybody."""

    def __init__(self, processors: int, estimate: Estimate) -> None:
        super().__init__(processors, estimate)
        self._book = Book(0, processors)

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        self.line[job.number] = job
        self._book.free.trim(now_s)
        self._book.book(job.number, job.processors, self.estimate(job), now_s)
        return self.plan(now_s)

    def ended(self, running: Running, now_s: int) -> list[Job]:
        self._book.release(running.job.processors, now_s, running.expected_s)
        self.scans += len(self.line)
        self._book.replan(now_s)
        return super().ended(running, now_s)

    def wake_s(self) -> int | None:
        return min((booking.start_ns for booking in self._book.bookings.values()), default=None)

    def woken(self, now_s: int) -> list[Job]:
        self._book.free.trim(now_s)
        return self.plan(now_s)

    def plan(self, now_s: int) -> list[Job]:
        due = self._book.due(now_s)
        for number in due:
            self._book.start(number)
        return [self.line.pop(number) for number in due]

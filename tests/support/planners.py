"""The published scheduling algorithms over the kernel's pure planners, for logs of the archive.

Each is what the kernel does on a cell of one node, without the kernel.
"""

from collections.abc import Callable

from ganger.streams.kernel.foresight.runs import RUNS_MAX, learn, predict
from ganger.streams.kernel.horizon.bench import Bench
from ganger.streams.kernel.horizon.book import Book
from ganger.streams.kernel.horizon.easy import Bound, Candidate, Gap, scan
from ganger.streams.kernel.horizon.ends import Ends
from ganger.streams.kernel.horizon.orders import ORDERS, Ask
from ganger.streams.kernel.horizon.steps import FOREVER
from support.archive import Job, Running


class Queueing:
    """What all of them share: a line of waiting jobs, running ones by expected end.

    `is_exact`: estimates are the run times, which nobody can know; else the requested times.
    """

    def __init__(self, processors: int, *, is_exact: bool = False) -> None:
        self.free = processors  # neither held nor claimed; negative while claims are
        self.is_exact = is_exact
        self.ends = Ends()
        self.line: dict[int, Job] = {}  # by number, in order of submission

    def estimate_s(self, job: Job) -> int:
        """What the job is known to need at most."""
        return job.run_s if self.is_exact else job.requested_s

    def expected_s(self, job: Job, now_s: int) -> int:
        return now_s + self.estimate_s(job)

    def hold(self, job: Job, now_s: int) -> None:
        """A job starts."""
        self.free -= job.processors
        self.ends.add(self.expected_s(job, now_s), job.number, 0, job.processors)

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        self.line[job.number] = job
        return self.plan(now_s)

    def ended(self, running: Running, now_s: int) -> list[Job]:
        job = running.job
        self.free += job.processors
        self.ends.remove(running.expected_s, job.number, 0, job.processors)
        return self.plan(now_s)

    def wake_s(self) -> int | None:
        return None

    def woken(self, now_s: int) -> list[Job]:
        return []

    def plan(self, now_s: int) -> list[Job]:
        """One pass: the jobs at the head that fit."""
        free = self.free + self.ends.due(now_s)
        started = []
        for job in self.line.values():
            if job.processors > free:
                break
            free -= job.processors
            started.append(job)
        for job in started:
            del self.line[job.number]
            self.hold(job, now_s)
        return started


class Easy(Queueing):
    """One reservation.

    Attributes:
        lane_count: estimates of a candidate.

    Args:
        processors: of the machine.
        order: of the scan, by its name in `ORDERS`.
        only_fitting: a submission causes a pass only if the job fits now.
        is_exact: see `Queueing`.
    """

    lane_count = 1

    def __init__(
        self,
        processors: int,
        *,
        order: str = "arrival",
        only_fitting: bool = False,
        is_exact: bool = False,
    ) -> None:
        super().__init__(processors, is_exact=is_exact)
        self.bench = Bench(self.lane_count)
        self._order = order
        self._only_fitting = only_fitting

    def lanes_s(self, job: Job) -> tuple[int, ...]:
        """What a candidate is judged by, as a rule and while the head has waited too long."""
        return (self.estimate_s(job),)

    def lane(self, head_wait_s: int) -> int:
        """Which of these judges now."""
        return 0

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        if self._only_fitting and job.processors > self.free + self.ends.due(now_s):
            self.line[job.number] = job
            self.sit(job)
            return []
        return super().submitted(job, now_s)

    def sit(self, job: Job) -> None:
        """The job is not started at once."""
        self.bench.add((job.number,), job.processors, self.lanes_s(job))

    def plan(self, now_s: int) -> list[Job]:
        started = super().plan(now_s)
        for job in started:
            if (job.number,) in self.bench:
                self.bench.remove((job.number,))
        if len(self.bench) < len(self.line):
            self.sit(next(reversed(self.line.values())))
        free = self.free + self.ends.due(now_s)
        if len(self.line) < 2 or free <= 0:
            return started
        head = next(iter(self.line.values()))
        reach = self.ends.reach(head.processors, free, now_s)
        gap = Gap(FOREVER, 0)
        if reach is not None:
            gap = Gap(reach.at_ns, reach.free - head.processors)
        for candidate in self._offer(head, now_s, free, gap):
            job = self.line.pop(candidate.place[0])
            self.bench.remove(candidate.place)
            self.hold(job, now_s)
            started.append(job)
        return started

    def _offer(self, head: Job, now_s: int, free: int, gap: Gap) -> list[Candidate]:
        lane = self.lane(now_s - head.submit_s)
        if self._order in ("arrival", "shortest"):
            is_shortest = self._order == "shortest"
            return self.bench.offer(now_s, free, gap, lane=lane, is_shortest=is_shortest)
        key = ORDERS[self._order]
        bound = Bound(head.processors, self.lanes_s(head)[lane])
        asks = {
            candidate: Ask(candidate.place, candidate.cards, candidate.estimate_ns, wait_s)
            for candidate in self.bench.all(lane)
            if (wait_s := now_s - self.line[candidate.place[0]].submit_s) >= 0
        }
        return scan(sorted(asks, key=lambda one: key(asks[one])), now_s, free, gap, bound)


class Predicting(Easy):
    """EASY over predicted run times: the mean of the user's last runs, shortest first.

    Running jobs are expected to end at their requested time; once the head has waited `guard_s`,
    candidates are judged by their request.
    """

    lane_count = 2

    def __init__(self, processors: int, *, guard_s: int = 3 * 86400) -> None:
        super().__init__(processors, order="shortest")
        self._guard_s = guard_s
        self._runs: dict[str, tuple[int, ...]] = {}
        self._waiting: dict[str, dict[int, Job]] = {}  # by user

    def lanes_s(self, job: Job) -> tuple[int, int]:
        return predict(self._runs.get(job.user, ()), job.requested_s), job.requested_s

    def lane(self, head_wait_s: int) -> int:
        return int(head_wait_s >= self._guard_s)

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        self._waiting.setdefault(job.user, {})[job.number] = job
        return super().submitted(job, now_s)

    def hold(self, job: Job, now_s: int) -> None:
        del self._waiting[job.user][job.number]
        super().hold(job, now_s)

    def ended(self, running: Running, now_s: int) -> list[Job]:
        user = running.job.user
        self._runs[user] = learn(self._runs.get(user, ()), running.job.run_s, RUNS_MAX)
        for job in self._waiting[user].values():
            if (job.number,) in self.bench:
                self.bench.change((job.number,), self.lanes_s(job))
        return super().ended(running, now_s)


class Conservative(Queueing):
    """A booking for everybody."""

    def __init__(self, processors: int, *, is_exact: bool = False) -> None:
        super().__init__(processors, is_exact=is_exact)
        self._book = Book(0, processors)

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        self._book.free.trim(now_s)
        self._book.book(job.number, job.processors, self.estimate_s(job), now_s)
        return super().submitted(job, now_s)

    def ended(self, running: Running, now_s: int) -> list[Job]:
        self._book.release(running.job.processors, now_s, running.expected_s)
        self._book.replan(now_s)
        return super().ended(running, now_s)

    def wake_s(self) -> int | None:
        return min((booking.start_ns for booking in self._book.bookings.values()), default=None)

    def woken(self, now_s: int) -> list[Job]:
        self._book.free.trim(now_s)
        return self.plan(now_s)

    def plan(self, now_s: int) -> list[Job]:
        started = []
        for number in self._book.due(now_s):
            self._book.start(number)
            job = self.line.pop(number)
            self.hold(job, now_s)
            started.append(job)
        return started


PLANNERS: dict[str, Callable[[int], Queueing]] = {
    "fcfs": Queueing,
    "easy": lambda processors: Easy(processors, only_fitting=True),
    "easy-clairvoyant": lambda processors: Easy(processors, only_fitting=True, is_exact=True),
    "sjbf-clairvoyant": lambda processors: Easy(processors, order="shortest", is_exact=True),
    "conservative": Conservative,
}
"""The published algorithms, by the names of their files."""

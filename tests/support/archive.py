"""Logs of the Parallel Workloads Archive, their published schedules, a machine to replay them.

The machine knows nothing of policies: it keeps time and processors, calls a `Planner` at every
event, one event at a time, as the kernel is called, and starts what the planner says. Times are
whole seconds, as in the logs.

Within a second submissions come first, then terminations in the order in which the jobs were
started. A job may be started on processors whose holder is expected to end now and has not yet: it
then claims them and starts when they are free, in the same second.
"""

import csv
import gzip
from collections.abc import Iterable
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple, Protocol

from ganger.replay.traces.detect import open_trace
from ganger.replay.traces.fields import NS_PER_S

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces" / "swf"
"""Where a checkout may have the logs beside it."""

PROCESSORS = {"KTH-SP2": 100, "CTC-SP2": 338}

ALGORITHMS = {
    "hpc-fcfs": "fcfs",
    "hpc-easy": "easy",
    "hpc-easy-clairvoyant": "easy-clairvoyant",
    "hpc-sjbf-clairvoyant": "sjbf-clairvoyant",
    "hpc-conservative": "conservative",
}
"""Published algorithm by preset."""

SLOWDOWN_BOUND_S = 10


class Job(NamedTuple):
    """One job of a log."""

    number: int
    submit_s: int
    run_s: int
    processors: int
    requested_s: int
    user: str


class Running(NamedTuple):
    """A job that holds processors."""

    job: Job
    start_s: int
    order: int  # of starts
    expected_s: int  # when it is expected to end


def has_log(name: str) -> bool:
    """Whether the log is at hand."""
    return (SHARED / f"{name}.swf.gz").exists()


def read_log(name: str) -> list[Job]:
    """The jobs of a log in order of submission, then number."""
    jobs = [
        Job(
            int(job.id),
            job.submit_ns // NS_PER_S,
            job.run_ns // NS_PER_S,
            sum(pods.count * pods.cards for pods in job.pods),
            job.estimate_ns // NS_PER_S,
            job.user,
        )
        for job in open_trace(SHARED / f"{name}.swf.gz").jobs
    ]
    return sorted(jobs, key=lambda job: (job.submit_s, job.number))


def published_waits(name: str, algorithm: str) -> dict[int, int]:
    """The published schedule: wait in seconds by job number."""
    path = SHARED / "starts" / f"{name}.{algorithm}.waits.csv.gz"
    with gzip.open(path, "rt", encoding="ascii") as file:
        return {int(row["job"]): int(row["wait"]) for row in csv.DictReader(file)}


def differences(name: str, algorithm: str, waits: dict[int, int]) -> int:
    """Jobs that start in another second than published, or in one of the two schedules only."""
    published = published_waits(name, algorithm)
    numbers = {**published, **waits}
    return sum(published.get(number) != waits.get(number) for number in numbers)


def comparable(name: str, waits: dict[int, int], limit: int) -> list[int]:
    """Numbers of the first `limit` jobs whose start no later job of the log can have changed.

    Args:
        name: of the log.
        waits: in the whole log, by number.
        limit: at least 1.
    """
    jobs = read_log(name)[:limit]
    last_s = jobs[-1].submit_s
    return [job.number for job in jobs if job.submit_s + waits[job.number] < last_s]


def mean_bounded_slowdown(jobs: Iterable[Job], waits: dict[int, int]) -> float:
    """Mean of max(1, (wait + run) / max(run, 10 s))."""
    slowdowns = [
        max(1.0, (waits[job.number] + job.run_s) / max(job.run_s, SLOWDOWN_BOUND_S)) for job in jobs
    ]
    return sum(slowdowns) / len(slowdowns)


class Planner(Protocol):
    """Decides what starts. Each call returns the jobs that start now, in order."""

    def submitted(self, job: Job, now_s: int) -> list[Job]:
        """A job was submitted."""
        ...

    def ended(self, running: Running, now_s: int) -> list[Job]:
        """A job ended."""
        ...

    def expected_s(self, job: Job, now_s: int) -> int:
        """When a job that starts now is expected to end."""
        ...

    def wake_s(self) -> int | None:
        """When to be called without any event; none: never."""
        ...

    def woken(self, now_s: int) -> list[Job]:
        """That moment has come."""
        ...


class _Claim:
    """A job that waits in its last second, for the holders of its processors to end."""

    def __init__(self, running: Running, holders: dict[int, int]) -> None:
        self.running = running
        self.holders = holders  # processors by the holder's order of start


class Machine:
    """Replays a log under a planner.

    Attributes:
        waits: seconds from submission to start by job number.
        claimed: starts that had to wait for an end in the same second.
    """

    def __init__(self, processors: int, planner: Planner) -> None:
        self.waits: dict[int, int] = {}
        self.claimed = 0
        self._planner = planner
        self._idle = processors
        self._order = 0
        self._ends: list[tuple[int, int, Running]] = []
        self._left: dict[int, list[int]] = {}  # order of start: expected end, unclaimed processors
        self._claims: list[_Claim] = []

    def run(self, jobs: list[Job]) -> dict[int, int]:
        """Replay all; returns the waits."""
        place = 0
        planner, ends = self._planner, self._ends
        while True:
            wake_s = planner.wake_s()
            moments = [] if wake_s is None else [wake_s]
            if place < len(jobs):
                moments.append(jobs[place].submit_s)
            if ends:
                moments.append(ends[0][0])
            if not moments:
                return self.waits
            now_s = min(moments)
            while place < len(jobs) and jobs[place].submit_s == now_s:
                place += 1
                self._start(planner.submitted(jobs[place - 1], now_s), now_s)
            while ends and ends[0][0] == now_s:
                running = heappop(ends)[2]
                self._release(running)
                self._start(planner.ended(running, now_s), now_s)
            if wake_s == now_s:
                self._start(planner.woken(now_s), now_s)
            assert not self._claims, (
                "more processors are held at the end of a second than there are"
            )

    def _start(self, jobs: list[Job], now_s: int) -> None:
        for job in jobs:
            self.waits[job.number] = now_s - job.submit_s
            self._order += 1
            running = Running(job, now_s, self._order, self._planner.expected_s(job, now_s))
            lacking = job.processors - self._idle
            if lacking <= 0:
                self._idle -= job.processors
                self._hold(running)
                continue
            self._idle = 0
            self.claimed += 1
            self._claims.append(_Claim(running, self._due_holders(lacking, now_s)))

    def _due_holders(self, lacking: int, now_s: int) -> dict[int, int]:
        """Take processors of holders that are expected to end now."""
        holders = {}
        for order, left in sorted(self._left.items(), key=lambda item: (item[1][0], item[0])):
            if left[0] > now_s or not lacking:
                break
            part = min(left[1], lacking)
            if part:
                left[1] -= part
                lacking -= part
                holders[order] = part
        assert not lacking, "a job was started where there is no room"
        return holders

    def _hold(self, running: Running) -> None:
        """The job begins to run; among ends of one second the order is that of this moment."""
        self._left[running.order] = [running.expected_s, running.job.processors]
        self._order += 1
        heappush(self._ends, (running.start_s + running.job.run_s, self._order, running))

    def _release(self, running: Running) -> None:
        self._idle += self._left.pop(running.order)[1]
        for claim in self._claims:
            claim.holders.pop(running.order, None)
        ready = [claim for claim in self._claims if not claim.holders]
        self._claims = [claim for claim in self._claims if claim.holders]
        for claim in ready:
            self._hold(claim.running)

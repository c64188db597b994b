"""Waiting lines against a list that is searched anew each time."""

from dataclasses import dataclass, field
from random import Random

import pytest

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Job, RoleState
from ganger.streams.kernel.jobs import waiting
from ganger.streams.kernel.jobs.waiting import FRESH, GROWING, TimedWaiting, Waiting
from ganger.streams.kernel.resources import JobShape, ResourceTable, ShapeTable
from support.builders import role, submission

QUEUES = (0, 1, 2)
KINDS = "add add add leave rejoin room limit relent grow all".split()
Alike = tuple[int, int]
"""Index of the shape, look."""


@dataclass
class Model:
    """The same rules, the slow way: every job's facts, and what is remembered of failures."""

    jobs: dict[int, tuple[int, tuple[int, ...], Alike]] = field(default_factory=dict)
    failed: list[Alike] = field(default_factory=list)
    limited: dict[tuple[Alike, int], int] = field(default_factory=dict)

    def offered(self, queue: int) -> int | None:
        """Seq of the first job of a queue that nothing keeps back."""
        free = [
            (key, seq)
            for seq, (at, key, alike) in self.jobs.items()
            if at == queue and alike not in self.failed and (alike, queue) not in self.limited
        ]
        return min(free)[1] if free else None

    def relent(self, queue: int) -> None:
        """Forget what that queue's limit stopped."""
        self.limited = {place: by for place, by in self.limited.items() if by != queue}


class Bench:
    """Waiting lines and their model, driven alike."""

    def __init__(self, by_pod: bool, is_timed: bool = False) -> None:
        self.by_pod = by_pod
        self.stirs = 0
        table = ShapeTable(ResourceTable())
        asks = [{"cards": 1}, {"cards": 2, "cpu": 500}, {"cpu": 900, "memory": 5}, {"milli": 300}]
        self.shapes = [table.take((role(replicas=2, **one),), 0) for one in asks]
        self.jobs: dict[int, Job] = {}
        self.waiting = (
            TimedWaiting(self.jobs, by_pod, self.stir) if is_timed else Waiting(self.jobs, by_pod)
        )
        self.model = Model()
        self.next = 0

    def stir(self) -> None:
        self.stirs += 1

    def add(self, queue: int, priority: int, shape: int, look: int) -> None:
        self.next += 1
        made: JobShape = self.shapes[shape]
        request = submission(f"j{self.next}", *made.roles)
        job = Job(
            self.next, request, made, queue, priority, Phase.INQUEUE, False, 0, [RoleState(2)]
        )
        self.jobs[job.seq] = job
        self._stand(job, (-priority, job.seq), shape, look)

    def _stand(self, job: Job, key: tuple[int, ...], shape: int, look: int) -> None:
        self.waiting.add(job, key, look)
        self.model.jobs[job.seq] = (job.queue, key, (shape, look))

    def leave(self, seq: int) -> None:
        self.waiting.remove(self.jobs[seq])
        del self.jobs[seq]
        del self.model.jobs[seq]

    def rejoin(self, seq: int, look: int) -> None:
        """Out and in again with an equal key."""
        job = self.jobs[seq]
        _, key, (shape, _) = self.model.jobs[seq]
        self.waiting.remove(job)
        self._stand(job, (*key[:-1], seq), shape, look)

    def refuse(self, queue: int, by: int | None) -> None:
        """The first job of a queue is refused: no room, or a queue's limit."""
        job = self.waiting.first(queue)
        if job is None:
            return
        alike = self.model.jobs[job.seq][2]
        if by is None:
            self.waiting.block(job)
            self.model.failed.append(alike)
        else:
            self.waiting.block_by(job, by)
            self.model.limited[(alike, queue)] = by

    def grow(self, cards_milli: int, cpu: int, memory: int) -> None:
        self.waiting.grow(cards_milli, cpu, memory)
        self.waiting.wake()
        kept = []
        for alike in self.model.failed:
            shape = self.shapes[alike[0]]
            needs = shape.pod_needs if self.by_pod else shape.min_needs
            if not any(n[0] <= cards_milli and n[1] <= cpu and n[2] <= memory for n in needs):
                kept.append(alike)
        self.model.failed = kept

    def check(self) -> None:
        for queue in QUEUES:
            job = self.waiting.first(queue)
            assert (job and job.seq) == self.model.offered(queue)
            line = sorted(key for at, key, _ in self.model.jobs.values() if at == queue)
            assert self.waiting.keys(queue) == line
        assert self.waiting.open_count == self.waiting.recount_open()
        wanted = any(self.model.offered(queue) is not None for queue in QUEUES)
        assert (self.waiting.open_count > 0) == wanted
        assert bool(self.waiting.limited) == bool(self.model.limited)


@pytest.mark.parametrize("is_timed", [False, True], ids=["plain", "timed"])
@pytest.mark.parametrize("by_pod", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_the_first_is_the_first(
    seed: int, by_pod: bool, is_timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(waiting, "EMPTIES_MAX", random.choice((0, 3, 4096)))
    bench = Bench(by_pod, is_timed)
    for _ in range(160):
        kind = random.choice(
            ("add", "add", "add", "leave", "rejoin", "room", "limit", "relent", "grow", "all")
        )
        queue, look = random.choice(QUEUES), random.choice((FRESH, GROWING))
        seqs = sorted(bench.jobs)
        if kind == "add":
            bench.add(queue, random.randint(0, 2), random.randrange(4), look)
        elif kind == "leave" and seqs:
            bench.leave(random.choice(seqs))
        elif kind == "rejoin" and seqs:
            bench.rejoin(random.choice(seqs), look)
        elif kind == "room":
            bench.refuse(queue, None)
        elif kind == "limit":
            bench.refuse(queue, random.choice(QUEUES))
        elif kind == "relent":
            bench.waiting.relent(queue)
            bench.model.relent(queue)
        elif kind == "grow":
            bench.grow(
                random.choice((0, 300, 1000, 2000, 4000)),
                random.randint(0, 2000),
                random.randint(0, 9),
            )
        elif random.random() < 0.2:
            bench.waiting.wake_all()
            bench.model.failed, bench.model.limited = [], {}
        if not is_timed or random.random() < 0.3:  # who is not asked for stands apart
            bench.check()


def test_who_stands_apart_leaves_without_having_been_grouped() -> None:
    bench = Bench(by_pod=True, is_timed=True)
    for _ in range(3):
        bench.add(0, 0, 0, FRESH)
    assert (bench.waiting.count, bench.waiting.open_count, bench.stirs) == (3, 3, 3)
    bench.leave(2)
    assert (bench.waiting.count, bench.waiting.open_count) == (2, 2)
    assert all(job.group is None for job in bench.jobs.values())
    assert bench.waiting.fresh() == [1, 3]
    assert bench.waiting.open_count == 1  # they are of one group
    bench.leave(1)
    bench.check()


def test_a_failure_is_remembered_in_all_queues_and_for_jobs_to_come() -> None:
    bench = Bench(by_pod=True)
    bench.add(0, 0, 1, FRESH)
    bench.add(1, 0, 1, FRESH)
    bench.refuse(0, None)
    bench.add(2, 9, 1, FRESH)
    assert [bench.waiting.first(queue) for queue in QUEUES] == [None, None, None]
    bench.add(2, 0, 0, FRESH)
    bench.check()


def test_a_limit_is_remembered_for_its_queue_alone() -> None:
    bench = Bench(by_pod=True)
    bench.add(0, 0, 1, FRESH)
    bench.add(1, 0, 1, FRESH)
    bench.refuse(0, 2)
    assert bench.waiting.first(0) is None
    assert bench.waiting.first(1) is not None
    bench.waiting.relent(0)
    assert bench.waiting.first(0) is None
    bench.waiting.relent(2)
    assert bench.waiting.first(0) is not None


def test_growth_that_cannot_help_wakes_nobody() -> None:
    bench = Bench(by_pod=True)
    bench.add(0, 0, 1, FRESH)
    bench.refuse(0, None)
    bench.grow(1999, 9999, 9999)
    assert bench.waiting.first(0) is None
    bench.grow(2000, 499, 9999)
    assert bench.waiting.first(0) is None
    bench.grow(2000, 500, 0)
    assert bench.waiting.first(0) is not None


def test_growth_of_the_whole_cell_must_suffice_for_the_minimum() -> None:
    bench = Bench(by_pod=False)  # two pods of one card each
    bench.add(0, 0, 0, FRESH)
    bench.refuse(0, None)
    bench.grow(1999, 0, 0)
    assert bench.waiting.first(0) is None
    bench.grow(2000, 0, 0)
    assert bench.waiting.first(0) is not None

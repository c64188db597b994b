"""Jobs whose run times are predicted share what they are judged by with others of their limit."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from ganger.streams.kernel.backfill import estimates
from ganger.streams.kernel.backfill.futures import LIMITS_MAX, Futures
from ganger.streams.kernel.entities import Job
from ganger.streams.presets.loader import load_policy
from support.builders import SECOND, Cell, node, role, submission

MINUTE = 60 * SECOND
CARDS = 4


class World:
    """Two full nodes under preset xirang, and a line behind a job that cannot start."""

    def __init__(self) -> None:
        nodes = [node(name, CARDS) for name in ("n1", "n2")]
        self.cell = Cell().start(*nodes, rules=load_policy("xirang"))
        for name in ("r1", "r2", "r3", "r4"):
            self.submit(name, 2, 10 * MINUTE)
        self.submit("head", CARDS, 30 * MINUTE, replicas=2)

    def submit(self, job: str, cards: int, limit_ns: int, replicas: int = 1) -> None:
        """Submit a job and let a cycle run."""
        request = submission(job, role(cards=cards, replicas=replicas), time_ns=self.cell.now_ns)
        self.cell.put(replace(request, runtime_estimate_ns=limit_ns))
        for decision in self.cell.tick(0):
            if decision.pod >= 0 and decision.kind.name in ("ALLOCATE", "BACKFILL"):
                self.cell.started(decision.job, decision.pod, decision.attempt)

    @property
    def futures(self) -> Futures:
        found = self.cell.state.indexes.futures
        assert found is not None
        return found

    def waiting(self) -> Iterator[Job]:
        for key in self.futures.places():
            yield self.cell.state.jobs[key[-1]]

    def check(self) -> None:
        """Everybody is judged as he would be alone."""
        state = self.cell.state
        for job in self.waiting():
            assert job.key is not None
            for lane, wanted_ns in enumerate(estimates.lanes(state, job)):
                found = self.futures.bench.find(job.key, lane)
                assert found is not None
                assert found.estimate_ns == wanted_ns, (job.request.job, lane)

    def own_count(self) -> int:
        """How many have lanes of their own."""
        return sum(
            job.key is not None and self.futures.has_own_lanes(job.key) for job in self.waiting()
        )

    def end(self, job: str) -> None:
        """A job ends, which teaches how long such jobs run; a cycle follows."""
        self.cell.tick(7)
        self.cell.succeeded(job)
        self.cell.tick(0)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of jobs that are judged alone."""
    found: list[str] = []
    lanes: Callable[..., tuple[int, ...]] = estimates.lanes

    def noted(state: object, job: Job) -> tuple[int, ...]:
        found.append(job.request.job)
        return lanes(state, job)

    monkeypatch.setattr(estimates, "lanes", noted)
    return found


@pytest.mark.interpreted
def test_what_is_learnt_is_applied_once_to_all_of_a_limit(judged: list[str]) -> None:
    world = World()
    for number in range(3 * LIMITS_MAX):
        world.submit(f"w{number}", 3, (1 + number % 3) * MINUTE)
    world.end("r1")
    world.end("r3")
    assert judged == []
    assert world.own_count() == 0
    world.check()


@pytest.mark.interpreted
def test_jobs_with_ever_other_limits_are_judged_one_by_one(judged: list[str]) -> None:
    world = World()
    names = [f"w{number}" for number in range(2 * LIMITS_MAX)]
    for number, name in enumerate(names):
        world.submit(name, 3, (60 + number) * SECOND)
    assert judged == names[LIMITS_MAX:]
    assert world.own_count() == LIMITS_MAX
    world.check()
    judged.clear()
    world.end("r1")
    assert sorted(judged) == sorted(names[LIMITS_MAX:]), "and again when more is known"
    world.check()


def test_limits_that_nobody_has_any_more_make_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ganger.streams.kernel.backfill.futures._KINDS_MAX", 4)
    world = World()
    for number in range(5 * LIMITS_MAX):
        world.submit(f"w{number}", 3, (60 + number) * SECOND)
        assert world.own_count() == 0, number
        world.cell.cancel(f"w{number}")
        world.cell.tick(0)
    world.submit("last", 3, 9 * SECOND)
    world.check()

"""Quota admission under random work: quotas hold, evictions end, and a snapshot may be taken
anywhere.
"""

import random

import pytest

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, VictimRule
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.queues.cohort_tree import is_leaving
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support.builders import Cell, role
from support.quotas import CARDS, flavor, kueue, leaf, quota_cell

ARGUMENTS = (
    {},
    {"fair": "both"},
    {"then": "quota_alone"},
    {"heads": "one_per_queue", "then": "quota_alone", "fair": "initial"},
    {"heads": "one_per_queue", "overlap": "skip"},
)
QUEUES = ("a", "b", "c", "d")
QUOTA = {"f": 6, "g": 3}
"""Of all queues together, in cards."""

STEPS = 60


class Play:
    """A cell whose jobs come, start, end and leave at random."""

    def __init__(self, seed: int, arguments: dict[str, str]) -> None:
        self.chance = random.Random(seed)
        any_, lower = VictimRule.ANY, VictimRule.LOWER_PRIORITY
        newer = VictimRule.LOWER_OR_NEWER_EQUAL
        self.cell = quota_cell(
            leaf("all", {}),
            leaf("part", {"f": 2}, parent="all"),
            leaf("a", {"f": 2, "g": 1}, parent="part", reclaim=any_, within=lower),
            leaf("b", {"f": (0, 3)}, parent="part", reclaim=lower, borrow=lower, within=newer),
            leaf("c", {"f": (2, -1, 1), "g": 2}, parent="all", reclaim=any_, strict=True),
            leaf("d", {"f": 0, "g": 0}, parent="all", within=lower),
            cards=3,
            nodes=3,
            flavors=(flavor("f"), flavor("g")),
            rules=kueue({"start_timeout_ns": "20s"}, **arguments),
        )
        self.count = 0

    def go(self, steps: int) -> None:
        """Let things happen."""
        for _ in range(steps):
            what = self.chance.choice("sssttttteeer")
            if what == "s":
                self._submit()
            elif what == "t":
                self.cell.tick(self.chance.randint(1, 5))
            else:
                self._report(what)

    def _submit(self) -> None:
        chance = self.chance
        self.count += 1
        replicas = chance.randint(1, 3)
        least = chance.randint(1, replicas)
        self.cell.submit(
            f"j{self.count}",
            role(replicas=replicas, minimum=least, cards=chance.randint(1, 2)),
            queue=chance.choice(QUEUES),
            priority=chance.randint(0, 2),
        )

    def _report(self, what: str) -> None:
        cell = self.cell
        pods = [pod for host in cell.state.nodes for pod in host.pods.values()]
        if not pods:
            return
        pod = self.chance.choice(sorted(pods, key=lambda p: (p.job, p.index)))
        name = cell.state.jobs[pod.job].request.job
        if pod.evict_seq >= 0:
            cell.released(name, pod.index, pod.attempt)
        elif what == "r" or not pod.started_ns:
            cell.started(name, pod.index, pod.attempt)
        else:
            cell.succeeded(name, pod.index, pod.attempt)

    def settle(self) -> None:
        """Nothing new comes; what is told to leave leaves, and what is placed starts."""
        quiet = 0
        for _ in range(100):
            made: list[object] = [*self.cell.tick(100)]
            pods = [p for host in self.cell.state.nodes for p in list(host.pods.values())]
            for pod in sorted(pods, key=lambda p: (p.job, p.index)):
                name = self.cell.state.jobs[pod.job].request.job
                if pod.evict_seq >= 0:
                    self.cell.released(name, pod.index, pod.attempt)
                    made.append(name)
                elif not pod.started_ns:
                    self.cell.started(name, pod.index, pod.attempt)
                    made.append(name)
            quiet = 0 if made else quiet + 1
            if quiet > 40:  # longer than any backoff
                return
        raise AssertionError("still deciding after 100 cycles")


def in_use(state: State) -> dict[str, int]:
    """Milli-cards by flavor of jobs that have pods which are not about to leave."""
    sums: dict[str, int] = {}
    for job in state.jobs.values():
        if job.pods and not is_leaving(job):
            for (one, resource), amount in (job.held_quota or {}).items():
                assert resource == CARDS
                sums[one] = sums.get(one, 0) + amount
    return sums


def forked(cell: Cell, start: int, state: State) -> list[Decision]:
    """What a cell decides from record `start` on that goes on from a snapshot."""
    return [d for at, one in enumerate(cell.records[start:], start) for d in step(state, at, one)]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_no_more_quota_is_in_use_than_there_is(arguments: dict[str, str], seed: int) -> None:
    play = Play(seed, arguments)
    for _ in range(STEPS):
        play.go(2)
        for name, amount in in_use(play.cell.state).items():
            assert amount <= QUOTA[name] * 1000, (seed, play.cell.state.next_seq)
    made = play.cell.decisions
    fresh = {(one.cause_seq, one.job): True for one in made if one.kind is DecisionKind.ADMIT}
    gone = [one for one in made if one.kind is DecisionKind.EVICT]
    assert not any((one.cause_seq, one.job) in fresh for one in gone), seed


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("seed", range(10, 13))
def test_evictions_end_when_nothing_new_comes(arguments: dict[str, str], seed: int) -> None:
    play = Play(seed, arguments)
    play.go(STEPS)
    before = len(play.cell.decisions)
    play.settle()
    evictions = [one for one in play.cell.decisions[before:] if one.kind is DecisionKind.EVICT]
    assert len({one.for_job for one in evictions}) <= play.count, seed


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("seed", range(20, 23))
def test_who_goes_on_from_a_snapshot_decides_the_same(arguments: dict[str, str], seed: int) -> None:
    play = Play(seed, arguments)
    cuts = []
    for _ in range(STEPS // 4):
        play.go(4)
        cuts.append((play.cell.state.next_seq, snapshot.fork(play.cell.state)))
    chain = play.cell.state.chain
    for start, state in cuts:
        forked(play.cell, start, state)
        assert state.chain == chain, (seed, start)

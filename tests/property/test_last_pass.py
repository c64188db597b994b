"""What a pass leaves behind spares the next ones work and changes no decision."""

from hashlib import sha256
from random import Random

import pytest
from msgspec.structs import replace

from ganger.schemas.records import PolicyConfigured
from ganger.streams.kernel.backfill.futures import Outcome
from ganger.streams.kernel.backfill.pool import Pool
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support.timed_cells import TimedHistory, carry_out, random_work, timed_policy

CARDS = 8
STEPS = 90


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("overruns", [False, True], ids=["in-time", "overrun"])
@pytest.mark.parametrize("nodes", [(CARDS,), (4, 4)], ids=["pool", "nodes"])
@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("hpc-easy", {}),
        ("hpc-easy", {"passes": "all"}),
        ("hpc-sjbf-clairvoyant", {}),
        ("hpc-predict", {}),
        ("hpc-conservative", {}),
        ("hpc-fcfs", {}),
    ],
)
def test_who_forgets_the_last_pass_decides_the_same(
    preset: str, settings: dict[str, str], nodes: tuple[int, ...], overruns: bool, seed: int
) -> None:
    policy = with_guard(timed_policy(preset, **settings))
    history = TimedHistory(policy, seed, nodes, overruns=overruns)
    cell = history.cell
    cell.checks = False  # they ask for groups, so nobody would stand apart
    chance = Random(seed)
    forgetful = State("cell", sha256(b"cell").digest())
    seen = rested = 0
    for _ in range(STEPS):
        history.step()
        for _ in range(chance.choice((0, 0, 2, 3))):  # time passes, and nothing else
            history.see(cell.tick(chance.choice((0, 1, 3))))
        for record in cell.records[seen:]:
            futures = forgetful.indexes.futures
            if futures is not None:
                futures.outcome = futures.rests = futures.planner = futures.starter = None
            step(forgetful, forgetful.next_seq, record)
        seen = len(cell.records)
        assert forgetful.chain == cell.state.chain
        futures = cell.state.indexes.futures
        rested += futures is not None and futures.rests is not None
    assert rested or cell.state.policy.settings.passes == "fitting"


def with_guard(policy: PolicyConfigured) -> PolicyConfigured:
    """Heads wait no longer than a few seconds before others are judged by their limits."""
    actions = [
        replace(
            action,
            arguments=tuple(
                replace(one, value="6s") if one.key == "guard_ns" else one
                for one in action.arguments
            ),
        )
        for action in policy.actions
    ]
    return replace(policy, actions=tuple(actions))


@pytest.mark.interpreted
@pytest.mark.parametrize("preset", ["hpc-easy", "hpc-sjbf-clairvoyant"])
def test_a_pass_is_remembered(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above compares two ways, not one way with itself."""
    asked = []
    beside = Pool.start_beside

    def spy(pool: Pool, job: Job, cards: int, outcome: Outcome) -> bool:
        asked.append(beside(pool, job, cards, outcome))
        return asked[-1]

    monkeypatch.setattr(Pool, "start_beside", spy)
    for seed in range(8):
        carry_out(timed_policy(preset), random_work(seed, 150, CARDS), CARDS)
    assert asked.count(True) >= 5
    assert asked.count(False) >= 2

"""What a pass leaves behind spares the next ones work and changes no decision."""

from hashlib import sha256

import pytest

from ganger.streams.kernel.backfill.futures import Outcome
from ganger.streams.kernel.backfill.pool import Pool
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support.timed_cells import TimedHistory, carry_out, random_work, timed_policy

CARDS = 8
STEPS = 90


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("overruns", [False, True], ids=["in-time", "overrun"])
@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("hpc-easy", {}),
        ("hpc-easy", {"passes": "all"}),
        ("hpc-sjbf-clairvoyant", {}),
        ("hpc-predict", {}),
    ],
)
def test_who_forgets_the_last_pass_decides_the_same(
    preset: str, settings: dict[str, str], overruns: bool, seed: int
) -> None:
    history = TimedHistory(timed_policy(preset, **settings), seed, (CARDS,), overruns=overruns)
    history.cell.checks = False  # they ask for groups, so nobody would stand apart
    forgetful = State("cell", sha256(b"cell").digest())
    seen = 0
    for _ in range(STEPS):
        history.step()
        records = history.cell.records
        for record in records[seen:]:
            futures = forgetful.indexes.futures
            if futures is not None:
                futures.outcome = futures.planner = futures.starter = None
            step(forgetful, forgetful.next_seq, record)
        seen = len(records)
        assert forgetful.chain == history.cell.state.chain


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

"""Some who hold a state ask it when to wake it next, which drops timers; others never do, or start
from a snapshot, which has none of those that do not stand any more. All decide alike.
"""

import random
from hashlib import sha256

import pytest

from ganger.streams.kernel import snapshot
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import next_wake, step
from support.lives import Life
from support.timed_cells import TimedHistory, timed_policy

STEPS = 150


class Twins:
    """States that take the records of another, which is asked after each of them when to wake it.

    One of them is never asked, and one is restored from its own snapshot now and then.
    """

    def __init__(self, seed: int) -> None:
        seed_of_cell = sha256(b"cell").digest()
        self.asked, self.silent, self.restored = (State("cell", seed_of_cell) for _ in range(3))
        self._chance = random.Random(seed)

    def follow(self, life: "Reported | TimedHistory") -> None:
        """Take what is new, and compare."""
        for record in life.cell.records[self.asked.next_seq :]:
            for state in (self.asked, self.silent, self.restored):
                step(state, state.next_seq, record)
            next_wake(self.asked)
            if self._chance.random() < 0.1:
                self.restored = snapshot.decode(snapshot.encode(self.restored))
        assert self.silent.chain == self.asked.chain == self.restored.chain == life.cell.state.chain


class Reported(Life):
    """A life of which all is in records."""

    def step(self) -> None:
        """One thing happens."""
        acts = (self.submit, self.change, self.disturb, self.pass_time, self.report)
        self.random.choices(acts, (3, 2, 1, 5, 12))[0]()


@pytest.mark.parametrize("seed", range(12))
def test_whoever_holds_a_cell_decides_alike(seed: int) -> None:
    life, twins = Reported(seed), Twins(seed)
    for _ in range(STEPS):
        life.step()
        twins.follow(life)


@pytest.mark.parametrize("nodes", [(8,), (4, 4, 2)], ids=["pool", "nodes"])
@pytest.mark.parametrize("preset", ["hpc-easy", "hpc-conservative", "hpc-predict", "xirang"])
@pytest.mark.parametrize("seed", range(3))
def test_whoever_holds_a_cell_that_plans_with_time_decides_alike(
    seed: int, preset: str, nodes: tuple[int, ...]
) -> None:
    history = TimedHistory(timed_policy(preset), seed, nodes, overruns=True)
    twins = Twins(seed)
    for _ in range(STEPS):
        history.step()
        twins.follow(history)

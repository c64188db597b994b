"""Passes that only submissions that fit call for, together with whatever else plans with time."""

import random

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import LimitScope
from support import builders as b
from support.lent_cells import LentHistory, lent_policy
from support.timed_cells import TimedHistory, follow_restored, timed_policy

STEPS = 60
FITTING = r.Argument("passes", "fitting")
ENQUEUE = r.ActionConfig("enqueue", ())
TUNE = r.ActionConfig("tune", (r.Argument("window_ns", "10s"),))
LIMITS = r.PolicyConfig("limits", ("job_enqueue",), ())


def lent(reserve: str) -> r.PolicyConfigured:
    ways = {"evict_after_ns": "5s", "floor_ns": "3s"}
    made = lent_policy(allocate={"reserve": reserve}, yielding=ways, tune={"window_ns": "10s"})
    return replace(made, settings=(*made.settings, FITTING))


def booked(name: str, *more: r.ActionConfig) -> r.PolicyConfigured:
    """A preset that admits by limits too."""
    made = timed_policy(name, passes="fitting")
    tiers = (*made.tiers, r.PolicyTier((LIMITS,)))
    return replace(made, tiers=tiers, actions=(ENQUEUE, *made.actions, *more))


class Limited(TimedHistory):
    """Jobs may ask for more than the cell has, and users may have few cards."""

    def limit(self, cards: int) -> None:
        limit = r.Limit(LimitScope.USER, "", "cards_milli", cards * 1000)
        self.cell.put(b.queue("q", limits=(limit,), time_ns=self.cell.now_ns))

    def _submit(self) -> None:
        self.cards = self.chance.choice((8, 8, 9))
        super()._submit()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reserve", ["1", "all"])
def test_gaps_that_are_lent_are_the_same_from_a_snapshot(reserve: str, seed: int) -> None:
    follow_restored(LentHistory(lent(reserve), seed), steps=STEPS, seed=seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", [(8,), (4, 4)], ids=["pool", "nodes"])
@pytest.mark.parametrize(
    "rules",
    [booked("hpc-conservative"), booked("hpc-easy"), booked("hpc-easy", TUNE)],
    ids=["all", "head", "tuned"],
)
def test_bookings_are_the_same_from_a_snapshot(
    rules: r.PolicyConfigured, nodes: tuple[int, ...], seed: int
) -> None:
    history = Limited(rules, seed, nodes)
    history.limit(random.Random(seed).choice((3, 8)))
    follow_restored(history, steps=STEPS, seed=seed)

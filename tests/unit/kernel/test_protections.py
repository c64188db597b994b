"""A protection that a rule gives holds whoever takes, and whatever rules that vote say."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, VictimRule
from support.builders import SECOND, Cell, node, policy, role, submission
from support.lent_cells import lent_policy
from support.quotas import kueue, leaf, quota_cell
from support.taking import evicted, start

COOLING = r.PolicyConfig("cooldown", ("protected",), ())
"""It protects, and has no vote on victims."""

PROTECTED_S = 90
TOLD = (DecisionKind.EVICT, DecisionKind.SUSPEND)


def cooled(rules: r.PolicyConfigured) -> r.PolicyConfigured:
    """The same policy with the rule that protects."""
    first, *others = rules.tiers or (r.PolicyTier(()),)
    return replace(rules, tiers=(r.PolicyTier((*first.policies, COOLING)), *others))


def put(cell: Cell, job: str, cards: int, run_s: int = 0, priority: int = 0) -> None:
    made = submission(job, role(cards=cards), priority=priority, time_ns=cell.now_ns)
    protected_ns = PROTECTED_S * SECOND if priority == 0 else 0
    cell.put(replace(made, protected_ns=protected_ns, runtime_estimate_ns=run_s * SECOND))


def leaves_when_it_may(cell: Cell) -> None:
    """`low` runs, and another waits for its cards: it leaves at the end of its time."""
    start(cell)
    put(cell, "high", 2, priority=1)
    assert evicted(cell.tick(1)) == []
    assert evicted(cell.tick(PROTECTED_S - 2)) == []
    assert evicted(cell.tick(1)) == [("low", 0)]


@pytest.mark.parametrize("search", ["cell", "node"])
def test_nobody_is_preempted_inside_its_time(search: str) -> None:
    rules = policy("priority", "gang", "pack", actions=("enqueue", "allocate", "preempt"))
    action = r.ActionConfig("preempt", (r.Argument("search", search),))
    rules = replace(rules, actions=(*rules.actions[:2], action))
    cell = Cell().start(node("n", 2), rules=cooled(rules))
    put(cell, "low", 2)
    leaves_when_it_may(cell)


def test_nobody_leaves_for_quota_inside_its_time() -> None:
    within = leaf("q", {"f": 2}, within=VictimRule.LOWER_PRIORITY)
    cell = quota_cell(within, cards=2, rules=cooled(kueue()))
    put(cell, "low", 2)
    leaves_when_it_may(cell)


def test_a_job_in_a_gap_has_its_own_time_beside_the_window() -> None:
    """It is evicted when both are over, and not when the window alone is."""
    ways = {"evict_after_ns": "10s", "floor_ns": "5s", "ceiling_ns": "20s"}
    cell = Cell().start(node("n", 8), rules=cooled(lent_policy(yielding=ways)))
    put(cell, "long", 6, 1000)
    start(cell)
    put(cell, "head", 8, 50, priority=1)
    cell.tick()
    put(cell, "low", 2, 900)
    (fill,) = [one for one in start(cell) if one.kind is DecisionKind.BACKFILL]
    assert fill.protect_ns == 20 * SECOND
    cell.succeeded("long")
    assert evicted(cell.tick(30)) == []
    assert evicted(cell.tick(PROTECTED_S - 31)) == []
    assert evicted(cell.tick(1)) == [("low", 0)]

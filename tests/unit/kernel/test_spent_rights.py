"""Who was evicted for another, or had others evicted, has nobody evicted any more until something
ends or an operator says so: whoever seeks the victims.
"""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, VictimRule
from support.builders import Cell, node, policy, role
from support.decision_lines import cordon
from support.quotas import leaf, quota_cell
from support.taking import evicted, start


def cell_of(takes: str, first: int, second: int) -> Cell:
    """Two nodes with so many cards, where a job takes from lower priority."""
    if takes == "quota":
        within = leaf("q", {"f": first + second}, within=VictimRule.LOWER_PRIORITY)
        cell = quota_cell(within, cards=first)
        cell.put(node("n1", second))
        return cell
    rules = policy("priority", "gang", "pack", actions=("enqueue", "allocate", "preempt"))
    action = r.ActionConfig("preempt", (r.Argument("search", takes),))
    rules = replace(rules, actions=(*rules.actions[:2], action))
    return Cell().start(node("n0", first), node("n1", second), rules=rules)


def run(cell: Cell, job: str, priority: int, *roles: r.Role) -> None:
    cell.submit(job, *roles, priority=priority)
    start(cell)


@pytest.mark.parametrize("takes", ["cell", "quota"])
def test_a_victim_takes_from_nobody(takes: str) -> None:
    cell = cell_of(takes, 2, 1)
    run(cell, "low", 1, role(cards=1))
    run(cell, "middle", 5, role(replicas=2, minimum=1, cards=1))
    cell.submit("high", role(cards=2), priority=9)
    gone = evicted(cell.tick())
    assert sorted(gone) == [("middle", 0), ("middle", 1)]
    for job, pod in gone:
        cell.released(job, pod)
    assert [one.job for one in start(cell) if one.kind is DecisionKind.ALLOCATE] == ["high"]
    for _ in range(5):
        assert evicted(cell.tick(120)) == []
    cell.update("middle", priority=6)
    assert evicted(cell.tick()) == [("low", 0)]


@pytest.mark.parametrize("takes", ["cell", "node"])
def test_a_taker_that_could_not_start_takes_from_nobody_else(takes: str) -> None:
    cell = cell_of(takes, 2, 2)
    run(cell, "low", 1, role(cards=2))
    run(cell, "middle", 5, role(cards=2))
    cell.submit("high", role(cards=2), priority=9)
    assert evicted(cell.tick()) == [("low", 0)]
    cordon(cell, "n0")
    for _ in range(5):
        assert evicted(cell.tick(120)) == []
    cell.update("high", priority=8)
    assert evicted(cell.tick()) == [("middle", 0)]

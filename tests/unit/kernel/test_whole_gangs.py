"""A job's own minimum where sums of cards would hold it and nodes do not."""

import pytest

from support.builders import Cell, node, policy, role
from support.decision_lines import places
from support.taking import evicted, start

UNGATED = ("priority", "gang", "fair_share", "pack")


@pytest.mark.parametrize("rules", [(), UNGATED])
def test_a_minimum_over_roles_without_minimums_is_placed_whole_or_not_at_all(
    rules: tuple[str, ...],
) -> None:
    cell = Cell().start(node("n0", 3), node("n1", 3), rules=policy(*rules))
    cell.submit("three", role(replicas=4, minimum=0, cards=2), minimum=3)
    assert places(cell.tick()) == []
    assert [one.free_count for one in cell.state.nodes] == [3, 3]
    cell.submit("two", role(replicas=4, minimum=0, cards=2), minimum=2)
    assert places(cell.tick()) == ["two/0@n0", "two/1@n1"]


def test_a_minimum_over_two_roles_counts_both() -> None:
    cell = Cell().start(node("n0", 3), node("n1", 3), rules=policy(*UNGATED))
    cell.submit("three", role("a", 2, 0, cards=2), role("b", 1, 0, cards=2), minimum=3)
    assert places(cell.tick()) == []
    cell.submit("two", role("a", 2, 0, cards=2), role("b", 1, 0, cards=2), minimum=2)
    assert len(places(cell.tick())) == 2


def test_cards_that_come_back_go_to_a_job_that_needs_every_one_of_them() -> None:
    cell = Cell().start(node("n0", 4), rules=policy(*UNGATED))
    cell.submit("first", role(cards=4))
    cell.tick()
    cell.submit("second", role(cards=4))
    assert places(cell.tick()) == []
    cell.started("first")
    cell.succeeded("first")
    assert places(cell.tick()) == ["second/0@n0"]


def test_spare_pods_are_those_beyond_the_minimum_of_their_own_role() -> None:
    rules = policy("priority", "gang", "pack", actions=("enqueue", "allocate", "preempt"))
    cell = Cell().start(node("n0", 3), rules=rules)
    cell.submit("low", role("a", 2, 2, cards=1), role("b", 1, 0, cards=1))
    start(cell)
    cell.submit("high", role(cards=1), priority=9)
    assert evicted(cell.tick()) == [("low", 1)]

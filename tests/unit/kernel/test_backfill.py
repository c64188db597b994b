"""Pods that ask for nothing: placed at once, wherever a slot is free."""

import pytest

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.schemas.reasons import Reason
from support.builders import Cell, node, role
from support.decision_lines import cordon, phase_of, places, said, uncordon


def test_a_pod_that_asks_for_nothing_is_backfilled() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", role())
    (made,) = cell.tick()
    assert (made.kind, made.tier) == (DecisionKind.BACKFILL, Tier.BACKFILL)
    assert (made.reason, made.cards, made.node) == (Reason.PLACED_WITHOUT_RESOURCES, (), "n1")
    assert phase_of(cell, "j") is Phase.ALLOCATED
    assert said(cell.succeeded("j")) == ["FINISH j ALL_PODS_SUCCEEDED"]


def test_it_does_not_wait_behind_a_job_that_does_not_fit() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("big", role(cards=8), priority=9)
    cell.submit("free", role())
    assert places(cell.tick()) == ["free/0@n1"]


@pytest.mark.parametrize("cards_of_node", [4, 2])
def test_in_a_mixed_gang_it_counts_for_the_minimum_and_does_not_wait(cards_of_node: int) -> None:
    cell = Cell().start(node("n1", 4), node("n2", 2))
    if cards_of_node < 4:
        cell.submit("busy", role(cards=3))
        cell.tick()
    cell.submit("j", role("launcher", 1), role("worker", 1, cards=4), minimum=2)
    made = places(cell.tick())
    if cards_of_node == 4:
        assert made == ["j/1@n1", "j/0@n1"] or made == ["j/1@n1", "j/0@n2"]
        assert phase_of(cell, "j") is Phase.ALLOCATED
    else:
        assert made == ["j/0@n1"]
        assert phase_of(cell, "j") is Phase.INQUEUE
        cell.put(node("n3", 4, time_ns=cell.now_ns))
        assert places(cell.tick()) == ["j/1@n3"]


def test_slots_are_what_it_takes() -> None:
    cell = Cell().start(node("n1", slots=2), node("n2", slots=1))
    cell.submit("j", role(replicas=5, minimum=0))
    assert len(places(cell.tick())) == 3
    cell.succeeded("j", 0)
    assert [place.split("@")[0] for place in places(cell.tick())] == ["j/3"]


def test_without_an_open_node_it_waits_and_is_placed_when_one_opens() -> None:
    cell = Cell().start(node("n1"))
    cordon(cell, "n1")
    cell.submit("j", role())
    assert places(cell.tick()) == []
    uncordon(cell, "n1")
    assert places(cell.tick()) == ["j/0@n1"]


def test_jobs_go_in_the_order_of_their_keys() -> None:
    cell = Cell().start(node("n1", slots=1))
    cell.submit("low", role())
    cell.submit("high", role(), priority=1)
    assert places(cell.tick()) == ["high/0@n1"]


def test_one_that_fails_is_placed_again() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(), retries=1)
    cell.tick()
    assert said(cell.failed("j")) == []
    assert said(cell.tick()) == ["BACKFILL j/0#2@n1 PLACED_WITHOUT_RESOURCES"]


def test_a_job_of_cards_alone_is_never_backfilled() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(milli=1))
    assert [d.tier for d in cell.tick()] == [Tier.MAIN]

"""Held jobs: nothing of them starts; what runs goes on."""

from ganger.schemas.enums import Phase
from support.builders import Cell, node, role
from support.decision_lines import phase_of, places, said


def test_a_job_submitted_held_waits_until_released() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", held=True)
    assert cell.tick() == []
    cell.update("j", held=False)
    assert places(cell.tick()) == ["j/0@n1"]


def test_a_held_job_does_not_block_those_behind_it() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("first", held=True)
    cell.submit("second")
    assert places(cell.tick()) == ["second/0@n1"]


def test_holding_a_running_job_stops_only_its_growth_and_restarts() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=3, minimum=1, cards=1), retries=3)
    cell.tick()
    assert said(cell.update("j", held=True)) == []
    cell.failed("j", 0)
    cell.succeeded("j", 1)
    assert places(cell.tick()) == []
    cell.update("j", held=False)
    assert places(cell.tick()) == ["j/0@n1", "j/2@n1"]


def test_a_held_job_can_be_cancelled() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", held=True)
    assert said(cell.cancel("j")) == ["FINISH j CANCEL_REQUESTED"]


def test_an_admitted_job_that_is_held_stays_admitted_but_is_not_placed() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("a")
    cell.tick()
    cell.submit("b", role(milli=100))
    cell.tick()
    assert phase_of(cell, "b") is Phase.INQUEUE
    cell.update("b", held=True)
    cell.succeeded("a")
    assert places(cell.tick()) == []
    cell.update("b", held=False)
    assert places(cell.tick()) == ["b/0@n1"]


def test_a_released_job_takes_its_old_place_in_the_line() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("first", held=True)
    cell.submit("second")
    cell.update("first", held=False)
    assert places(cell.tick()) == ["first/0@n1"]

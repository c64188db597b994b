"""Jobs that wait for other jobs."""

import pytest

from ganger.schemas.enums import Phase
from support.builders import Cell, node, role
from support.decision_lines import adopt, phase_of, places, said


def test_a_job_waits_for_all_it_depends_on() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a")
    cell.submit("b")
    cell.submit("c", depends=["a", "b"])
    assert places(cell.tick()) == ["a/0@n1", "b/0@n1"]
    cell.succeeded("a")
    assert places(cell.tick()) == []
    cell.succeeded("b")
    assert places(cell.tick()) == ["c/0@n1"]


def test_success_known_already_does_not_wait() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a")
    cell.tick()
    cell.succeeded("a")
    cell.submit("b", depends=["a", "a"])
    assert places(cell.tick()) == ["b/0@n1"]


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_failure_known_already_ends_the_job_at_once(end: str) -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a")
    cell.tick()
    if end == "fail":
        cell.failed("a")
    else:
        cell.cancel("a")
        cell.released("a")
    assert said(cell.submit("b", depends=["a"])) == ["FINISH b DEPENDENCY_FAILED"]
    assert phase_of(cell, "b") is Phase.FAILED


def test_failure_ends_the_whole_chain_in_one_step() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a")
    cell.submit("b", depends=["a"])
    cell.submit("c", depends=["b"])
    cell.submit("d", depends=["a", "c"])
    cell.tick()
    assert said(cell.failed("a")) == [
        "FINISH a RETRY_LIMIT",
        "FINISH b DEPENDENCY_FAILED",
        "FINISH d DEPENDENCY_FAILED",
        "FINISH c DEPENDENCY_FAILED",
    ]


def test_a_cancelled_dependent_leaves_no_trace() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a")
    cell.submit("b", depends=["a"])
    cell.cancel("b")
    cell.tick()
    assert said(cell.succeeded("a")) == ["FINISH a ALL_PODS_SUCCEEDED"]


def test_what_it_depended_on_may_be_forgotten() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a", ttl_ns=0)
    cell.submit("b", depends=["a"], held=True)
    cell.tick()
    cell.succeeded("a")
    cell.tick()
    assert "a" not in cell.state.job_by_key
    cell.update("b", held=False)
    assert places(cell.tick()) == ["b/0@n1"]


def test_a_retry_of_what_it_depends_on_is_no_failure() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a", retries=1)
    cell.submit("b", depends=["a"])
    cell.tick()
    cell.failed("a")
    cell.tick()
    assert phase_of(cell, "b") is Phase.PENDING
    cell.succeeded("a", 0, 2)
    assert places(cell.tick()) == ["b/0@n1"]


def test_a_dependent_that_was_adopted_runs_on_when_the_other_fails() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a", held=True)
    cell.submit("b", role(cards=1), depends=["a"])
    adopt(cell, "b", 0, "n1")
    assert said(cell.cancel("a")) == ["FINISH a CANCEL_REQUESTED"]
    assert phase_of(cell, "b") is Phase.RUNNING
    assert said(cell.succeeded("b")) == ["FINISH b ALL_PODS_SUCCEEDED"]

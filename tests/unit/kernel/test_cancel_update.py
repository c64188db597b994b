"""Requests about known jobs: cancel, priority, hold, scale."""

import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import Phase
from support.builders import Cell, node, placed, role
from support.decision_lines import job_of, phase_of, places, queue_of, said


def test_a_waiting_job_is_cancelled_at_once() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j")
    assert said(cell.cancel("j")) == ["FINISH j CANCEL_REQUESTED"]
    assert cell.tick() == []
    assert phase_of(cell, "j") is Phase.CANCELLED


def test_a_running_job_is_cancelled_when_its_last_pod_is_gone() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    assert said(cell.cancel("j")) == [
        "EVICT j/0#1@n1 CANCEL_REQUESTED",
        "EVICT j/1#1@n1 CANCEL_REQUESTED",
    ]
    cell.submit("next")
    assert placed(cell.tick()) == []  # its cards are not free yet
    assert said(cell.released("j", 0)) == []
    assert said(cell.released("j", 1)) == ["FINISH j CANCEL_REQUESTED"]
    assert places(cell.tick()) == ["next/0@n1"]


def test_a_pod_that_ends_by_itself_while_cancelled_frees_its_cards() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", retries=5)
    cell.tick()
    cell.cancel("j")
    assert said(cell.failed("j")) == ["FINISH j CANCEL_REQUESTED"]
    assert cell.tick() == []


def test_a_gang_that_waits_for_cards_with_zero_request_pods_running_can_be_cancelled() -> None:
    cell = Cell().start(node("n1", 5), node("n2", 5))
    cell.submit("busy", role(replicas=2, cards=1))
    cell.put(r.NodeCordoned(cell.now_ns, "", None, "n2", "me"))
    cell.tick()
    cell.submit("j", role("launcher"), role("worker", cards=5))
    assert places(cell.tick()) == ["j/0@n1"]
    assert phase_of(cell, "j") is Phase.INQUEUE
    assert said(cell.cancel("j")) == ["EVICT j/0#1@n1 CANCEL_REQUESTED"]
    assert queue_of(cell, "q").admitted[0] == 0
    assert said(cell.released("j", 0)) == ["FINISH j CANCEL_REQUESTED"]


@pytest.mark.parametrize(
    ("state", "reason"), [("never", "JOB_UNKNOWN"), ("ended", "JOB_ENDED"), ("ending", "JOB_ENDED")]
)
def test_requests_about_jobs_that_cannot_change(state: str, reason: str) -> None:
    cell = Cell().start(node("n1"))
    for key in ("ended", "ending"):
        cell.submit(key)
    cell.tick()
    cell.succeeded("ended")
    cell.cancel("ending")
    assert said(cell.cancel(state)) == [f"REJECT {state} {reason}"]
    assert said(cell.update(state, priority=1)) == [f"REJECT {state} {reason}"]


def test_priority_changes_the_order_of_waiting_jobs() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("a")
    cell.submit("b")
    cell.update("b", priority=1)
    assert places(cell.tick()) == ["b/0@n1"]


def test_a_priority_out_of_range_changes_nothing() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("a")
    made = cell.update("a", priority=-(1 << 31) - 1, held=True)
    assert said(made) == ["REJECT a VALUE_OUT_OF_RANGE"]
    assert places(cell.tick()) == ["a/0@n1"]


def test_an_update_that_changes_nothing_is_harmless_whatever_else_waits() -> None:
    # the job leaves its line and comes back with an equal key
    cell = Cell().start(node("n1", 6))
    for size, key in enumerate("abc", 1):
        cell.submit(key, role(cards=size))
    for _ in range(4):
        for key in "abc":
            cell.update(key, priority=0)
    assert places(cell.tick()) == ["a/0@n1", "b/0@n1", "c/0@n1"]


def test_scaling_up_places_more_pods() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=2, minimum=1, cards=1))
    cell.tick()
    assert said(cell.update("j", scale=[("worker", 4, 1)])) == []
    assert places(cell.tick()) == ["j/2@n1", "j/3@n1"]


def test_scaling_down_evicts_the_highest_numbers_and_their_cards_come_back() -> None:
    cell = Cell().start(node("n1", 4))
    cell.submit("j", role(replicas=4, minimum=1, cards=1))
    cell.tick()
    cell.submit("other", role(cards=2))
    assert said(cell.update("j", scale=[("worker", 2, 1)])) == [
        "EVICT j/2#1@n1 SCALED_DOWN",
        "EVICT j/3#1@n1 SCALED_DOWN",
    ]
    assert places(cell.tick()) == []
    cell.released("j", 2)
    cell.released("j", 3)
    assert places(cell.tick()) == ["other/0@n1"]
    cell.succeeded("j", 0)
    assert said(cell.succeeded("j", 1)) == ["FINISH j ALL_PODS_SUCCEEDED"]


def test_an_attempt_number_is_never_given_twice() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=4, minimum=1, cards=1), retries=2)
    cell.tick()
    cell.failed("j", 3)
    assert placed(cell.tick()) == [("j", 3, 2, "n1")]
    cell.succeeded("j", 3, 2)
    cell.update("j", scale=[("worker", 2, 1)])
    cell.update("j", scale=[("worker", 4, 1)])
    assert placed(cell.tick()) == [("j", 2, 2, "n1"), ("j", 3, 3, "n1")]


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        (("nobody", 1, 1), "ROLE_UNKNOWN"),
        (("worker", 0, 0), "VALUE_OUT_OF_RANGE"),
        (("worker", 2, 3), "MIN_ABOVE_REPLICAS"),
    ],
)
def test_scales_that_are_refused_change_nothing(scale: tuple[str, int, int], reason: str) -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=2, cards=1))
    assert said(cell.update("j", scale=[scale], priority=9)) == [f"REJECT j {reason}"]
    assert job_of(cell, "j").priority == 0
    assert places(cell.tick()) == ["j/0@n1", "j/1@n1"]


def test_scaling_a_waiting_job_down_lets_it_fit() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=4, cards=1))
    assert places(cell.tick()) == []
    cell.update("j", scale=[("worker", 2, 2)])
    assert places(cell.tick()) == ["j/0@n1", "j/1@n1"]


def test_a_job_scaled_down_to_pods_that_have_succeeded_is_done() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=3, minimum=1, cards=1))
    cell.tick()
    cell.succeeded("j", 0)
    cell.succeeded("j", 1)
    assert phase_of(cell, "j") is Phase.INQUEUE
    made = cell.update("j", scale=[("worker", 2, 1)])
    assert said(made) == ["FINISH j ALL_PODS_SUCCEEDED"]

"""Attempts that fail: how often and when they are tried again, and where not."""

import msgspec
import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, FailureKind, Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.step import next_wake
from support.builders import SECOND, Cell, node, placed, policy, role, submission
from support.decision_lines import job_of, phase_of, places, queue_of, said

TIMEOUT = policy(settings={"start_timeout_ns": str(10 * SECOND)})


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_pod_is_tried_again_up_to_the_limit(limit: int) -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", retries=limit)
    for attempt in range(1, limit + 1):
        assert placed(cell.tick()) == [("j", 0, attempt, "n1")]
        assert said(cell.failed("j", 0, attempt)) == []
    assert placed(cell.tick()) == [("j", 0, limit + 1, "n1")]
    (end,) = cell.failed("j", 0, limit + 1)
    assert (end.kind, end.reason) == (DecisionKind.FINISH, Reason.RETRY_LIMIT)
    assert (end.asked, end.limit) == (limit + 1, limit)
    assert phase_of(cell, "j") is Phase.FAILED
    assert cell.tick() == []


def test_retries_are_counted_pod_by_pod() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=2, cards=1), retries=1)
    cell.tick()
    cell.failed("j", 0)
    assert said(cell.failed("j", 1)) == []
    assert placed(cell.tick()) == [("j", 0, 2, "n1"), ("j", 1, 2, "n1")]


def test_the_end_of_retries_evicts_the_other_pods_first() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=3, cards=1))
    cell.tick()
    cell.succeeded("j", 2)
    assert said(cell.failed("j", 0)) == ["EVICT j/1#1@n1 RETRY_LIMIT"]
    assert phase_of(cell, "j") is Phase.RELEASING
    assert said(cell.succeeded("j", 1)) == ["FINISH j RETRY_LIMIT"]
    assert queue_of(cell, "q").used[0] == 0


@pytest.mark.parametrize(
    ("backoff_s", "cap_s", "waits_s"),
    [(10, 80, [10, 20, 40, 80, 80]), (10, 25, [10, 20, 25, 25]), (10, 10, [10, 10, 10])],
)
def test_backoff_doubles_up_to_its_cap(backoff_s: int, cap_s: int, waits_s: list[int]) -> None:
    cell = Cell().start(node("n1"))
    job = submission("j", role(cards=1), time_ns=cell.now_ns)
    retry = r.RetryPolicy(9, backoff_s * SECOND, cap_s * SECOND)
    cell.put(msgspec.structs.replace(job, retry=retry))
    cell.tick()
    for attempt, wait in enumerate(waits_s, 1):
        cell.failed("j", 0, attempt)
        assert next_wake(cell.state) == cell.now_ns + wait * SECOND
        assert placed(cell.tick(wait - 1)) == []
        assert placed(cell.tick()) == [("j", 0, attempt + 1, "n1")]


def test_a_job_that_backs_off_does_not_block_others() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", retries=1, backoff_ns=60 * SECOND)
    cell.tick()
    cell.submit("other")
    cell.failed("j")
    assert places(cell.tick()) == ["other/0@n1"]


def test_backoff_of_one_pod_leaves_the_others_running() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=2, cards=1), retries=1, backoff_ns=5 * SECOND)
    cell.tick()
    cell.started("j", 1)
    assert said(cell.failed("j", 0)) == []
    assert phase_of(cell, "j") is Phase.RUNNING
    assert placed(cell.tick(5)) == [("j", 0, 2, "n1")]


def test_a_node_where_a_pod_failed_to_start_is_avoided_by_its_job_alone() -> None:
    cell = Cell().start(node("n1", 1), node("n2", 2))
    cell.submit("j", retries=1)
    assert places(cell.tick()) == ["j/0@n1"]
    cell.failed("j", failure=FailureKind.START_FAILED)
    cell.submit("other")
    assert placed(cell.tick()) == [("j", 0, 2, "n2"), ("other", 0, 1, "n1")]


@pytest.mark.parametrize("failure", [FailureKind.ERROR, FailureKind.OUT_OF_MEMORY])
def test_a_failure_of_the_program_itself_keeps_its_node(failure: FailureKind) -> None:
    cell = Cell().start(node("n1", 1), node("n2", 2))
    cell.submit("j", retries=1)
    cell.tick()
    cell.failed("j", failure=failure)
    assert places(cell.tick()) == ["j/0@n1"]


def test_an_attempt_that_does_not_start_in_time_is_evicted_and_placed_elsewhere() -> None:
    cell = Cell().start(node("n1", 1), node("n2", 2), rules=TIMEOUT)
    cell.submit("j")
    cell.tick()
    assert next_wake(cell.state) == cell.now_ns + 10 * SECOND
    assert said(cell.tick(9)) == []
    made = cell.tick(1)
    assert said(made) == ["EVICT j/0#1@n1 START_TIMEOUT"]
    assert places(cell.tick()) == []  # not before it is gone
    cell.released("j")
    assert placed(cell.tick()) == [("j", 0, 2, "n2")]
    assert job_of(cell, "j").failures is None  # no retry was spent


def test_a_start_in_time_is_not_evicted() -> None:
    cell = Cell().start(node("n1"), rules=TIMEOUT)
    cell.submit("j")
    cell.tick()
    cell.tick(9)
    cell.started("j")
    assert next_wake(cell.state) is None
    assert said(cell.tick(99)) == []


def test_a_start_after_the_timeout_does_not_undo_the_eviction() -> None:
    cell = Cell().start(node("n1"), rules=TIMEOUT)
    cell.submit("j")
    cell.tick()
    cell.tick(10)
    cell.started("j")
    assert phase_of(cell, "j") is Phase.ALLOCATED
    assert said(cell.succeeded("j")) == ["FINISH j ALL_PODS_SUCCEEDED"]


@pytest.mark.parametrize("longer", [True, False])
def test_a_changed_timeout_acts_on_attempts_placed_before(longer: bool) -> None:
    cell = Cell().start(node("n1"), rules=TIMEOUT)
    cell.submit("j")
    cell.tick()
    seconds = 20 if longer else 5
    cell.put(policy(settings={"start_timeout_ns": str(seconds * SECOND)}))
    assert next_wake(cell.state) == cell.now_ns + seconds * SECOND
    assert said(cell.tick(seconds - 1)) == []
    assert said(cell.tick(1)) == ["EVICT j/0#1@n1 START_TIMEOUT"]

"""Submission: what is accepted, what is refused and why."""

import msgspec
import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, Phase, QueueState
from ganger.schemas.reasons import Reason
from support.builders import Cell, node, placed, policy, queue, role, submission
from support.decision_lines import job_of, phase_of, said

GOOD = submission("j", role(cards=1))


def test_a_job_waits_and_is_placed_in_the_next_cycle() -> None:
    cell = Cell().start(node("n1"))
    assert cell.submit("j") == []
    assert phase_of(cell, "j") is Phase.PENDING
    (allocated,) = cell.tick()
    assert (allocated.kind, allocated.node, allocated.asked) == (DecisionKind.ALLOCATE, "n1", 1000)
    assert (allocated.free, allocated.role, allocated.pod) == (8000, "worker", 0)


def test_submission_alone_decides_nothing_without_a_tick() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j")
    assert cell.tick(cycle=False) == []
    assert phase_of(cell, "j") is Phase.PENDING


@pytest.mark.parametrize(
    ("roles", "minimum", "reason", "asked", "limit"),
    [
        ((), 0, Reason.ROLE_MISSING, 0, 1),
        ((role("a"), role("a")), 0, Reason.ROLE_DUPLICATE, 2, 0),
        ((role("a", 0, 0),), 0, Reason.VALUE_OUT_OF_RANGE, 0, 1 << 20),
        ((role("a", -1, 0),), 0, Reason.VALUE_OUT_OF_RANGE, -1, 1 << 20),
        ((role("a", (1 << 20) + 1, 0),), 0, Reason.VALUE_OUT_OF_RANGE, (1 << 20) + 1, 1 << 20),
        ((role("a", 2, -1),), 0, Reason.VALUE_OUT_OF_RANGE, -1, 0),
        ((role("a", 2, 3),), 0, Reason.MIN_ABOVE_REPLICAS, 3, 2),
        ((role("a", 2, 0), role("b", 1, 0)), 4, Reason.MIN_ABOVE_REPLICAS, 4, 3),
        ((role("a", 2, 0),), -1, Reason.VALUE_OUT_OF_RANGE, -1, 0),
        ((role(cards=-1),), 0, Reason.VALUE_OUT_OF_RANGE, -1, 0),
        ((role(cpu=-5),), 0, Reason.VALUE_OUT_OF_RANGE, -5, 0),
        ((role(memory=-5),), 0, Reason.VALUE_OUT_OF_RANGE, -5, 0),
        ((role(resources=[("nic", -2)]),), 0, Reason.VALUE_OUT_OF_RANGE, -2, 0),
        ((role(cards=(1 << 20) + 1),), 0, Reason.VALUE_OUT_OF_RANGE, (1 << 20) + 1, 1 << 20),
        ((role(milli=1000),), 0, Reason.VALUE_OUT_OF_RANGE, 1000, 999),
        ((role(cards=1, milli=500),), 0, Reason.VALUE_OUT_OF_RANGE, 500, 0),
        ((role(cards=1, card_memory=5),), 0, Reason.VALUE_OUT_OF_RANGE, 5, 0),
    ],
)
def test_what_a_job_says_of_itself_must_be_possible(
    roles: tuple[r.Role, ...], minimum: int, reason: Reason, asked: int, limit: int
) -> None:
    cell = Cell().start(node("n1"))
    (refused,) = cell.put(msgspec.structs.replace(GOOD, roles=roles, min_available=minimum))
    assert refused.kind is DecisionKind.REJECT
    assert (refused.job, refused.reason, refused.asked, refused.limit) == (
        "j",
        reason,
        asked,
        limit,
    )
    assert cell.state.jobs == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"job": ""}, Reason.VALUE_OUT_OF_RANGE),
        ({"queue": "none"}, Reason.QUEUE_UNKNOWN),
        ({"queue": "gone"}, Reason.QUEUE_UNKNOWN),
        ({"queue": "parent"}, Reason.QUEUE_NOT_A_LEAF),
        ({"queue": "closed"}, Reason.QUEUE_CLOSED),
        ({"queue": "draining"}, Reason.QUEUE_CLOSED),
        ({"queue": "under-closed"}, Reason.QUEUE_CLOSED),
        ({"priority_class": "gold"}, Reason.PRIORITY_CLASS_UNKNOWN),
        ({"priority": (1 << 31) + 1}, Reason.VALUE_OUT_OF_RANGE),
        ({"dependencies": ("nobody",)}, Reason.DEPENDENCY_UNKNOWN),
        ({"dependencies": ("j",)}, Reason.DEPENDENCY_UNKNOWN),
        ({"runtime_estimate_ns": -1}, Reason.VALUE_OUT_OF_RANGE),
        ({"retry": r.RetryPolicy(-1, 0, 0)}, Reason.VALUE_OUT_OF_RANGE),
        ({"retry": r.RetryPolicy(1, 1 << 62, 1 << 62)}, Reason.VALUE_OUT_OF_RANGE),
    ],
)
def test_what_the_cell_says_of_a_job(change: dict[str, object], reason: Reason) -> None:
    cell = Cell().start(
        node("n1"),
        queue("q"),
        queue("gone"),
        queue("gone", removed=True),
        queue("parent"),
        queue("child", parent="parent"),
        queue("closed", state=QueueState.CLOSED),
        queue("draining", state=QueueState.DRAINING),
        queue("shut", state=QueueState.CLOSED),
        queue("under-closed", parent="shut"),
    )
    (refused,) = cell.put(msgspec.structs.replace(GOOD, **change))
    assert (refused.kind, refused.reason) == (DecisionKind.REJECT, reason)
    assert cell.state.jobs == {}


def test_a_key_is_taken_until_its_job_is_forgotten() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", ttl_ns=5 * 10**9)
    assert said(cell.submit("j")) == ["REJECT j JOB_EXISTS"]
    cell.tick()
    cell.succeeded("j")
    assert said(cell.submit("j")) == ["REJECT j JOB_EXISTS"]
    cell.tick(5)
    assert cell.submit("j") == []
    assert placed(cell.tick()) == [("j", 0, 1, "n1")]


def test_a_priority_class_gives_the_priority() -> None:
    cell = Cell().start(node("n1", 1), rules=policy(classes=[("gold", 100)]))
    cell.submit("plain", priority=50)
    cell.submit("classed", priority_class="gold", priority=1)
    assert job_of(cell, "classed").priority == 100
    assert placed(cell.tick()) == [("classed", 0, 1, "n1")]


def test_equal_priorities_go_in_order_of_submission() -> None:
    cell = Cell().start(node("n1", 2))
    for key in ("c", "a", "b"):
        cell.submit(key)
    assert [p[0] for p in placed(cell.tick())] == ["c", "a"]


def test_nothing_is_placed_before_a_policy() -> None:
    cell = Cell()
    cell.put(r.OwnerClaimed(cell.now_ns, "", None, "o"), queue("q"), node("n1"))
    cell.submit("j")
    assert cell.tick() == []
    cell.put(policy())
    assert placed(cell.tick()) == [("j", 0, 1, "n1")]


def test_without_enqueue_every_job_is_admitted_and_those_that_still_wait_are_told() -> None:
    cell = Cell().start(node("n1", 1), rules=policy(actions=["allocate"]))
    for key in "abcd":
        cell.submit(key)
    made = cell.tick()
    assert [d.job for d in made if d.kind is DecisionKind.ADMIT] == ["b", "c", "d"]
    assert placed(made) == [("a", 0, 1, "n1")]

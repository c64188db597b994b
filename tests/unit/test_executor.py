"""The executor: a fold of decisions that says what starts, ends, is released, and when."""

from collections.abc import Iterable
from typing import Any

import pytest

from ganger.replay.executor import Executor
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason

RUNS = {"a": 10, "b": 10, "c": 25, "zero": 0, "stays": -1}


def decision(
    kind: DecisionKind, job: str, pod: int = 0, attempt: int = 1, node: str = "n", cause: int = 0
) -> Decision:
    return Decision(
        "cell", cause, 0, 0, kind, job, "r", pod, attempt, node, (), 0, 0, Tier.MAIN, 0, "",
        Reason.PLACED_IN_TURN, 0, 0, 0, b"", 0, 0, 0, b"",
    )  # fmt: skip


def allocate(job: str, pod: int = 0, attempt: int = 1, node: str = "n", cause: int = 0) -> Decision:
    return decision(DecisionKind.ALLOCATE, job, pod, attempt, node, cause)


def evict(job: str, pod: int = 0, attempt: int = 1, node: str = "n", cause: int = 0) -> Decision:
    return decision(DecisionKind.EVICT, job, pod, attempt, node, cause)


def shown(facts: Iterable[r.Record]) -> list[str]:
    """Facts as `Kind job/pod/attempt @time`."""
    return [_line(fact) for fact in facts]


def _line(fact: Any) -> str:
    kind = type(fact).__name__.removeprefix("Pod")
    return f"{kind} {fact.job}/{fact.pod}/{fact.attempt} @{fact.time_ns}"


def drain(executor: Executor) -> list[str]:
    """All that is still to come, an end per item."""
    ends = []
    while (due_ns := executor.due()) is not None:
        ends.append(", ".join(shown(executor.take(due_ns) or ())))
    return ends


def test_an_allocation_starts_at_once_and_runs_its_time() -> None:
    executor = Executor(RUNS)
    assert executor.due() is None
    (fact,) = executor.observe([allocate("a")], 5)
    assert fact == r.PodStarted(5, "", None, "a", 0, 1, "n", 5)
    assert executor.due() == 15
    assert executor.take(14) is None
    assert executor.take(15) == [r.PodSucceeded(15, "", None, "a", 0, 1, 15)]
    assert executor.due() is None


def test_backfill_runs_like_any_other_and_what_tells_nobody_to_act_is_passed_over() -> None:
    executor = Executor(RUNS)
    others = [
        decision(kind, "a")
        for kind in (DecisionKind.ADMIT, DecisionKind.FINISH, DecisionKind.CYCLE_CLOSED)
    ]
    assert shown(executor.observe([*others, decision(DecisionKind.BACKFILL, "a")], 1)) == [
        "Started a/0/1 @1"
    ]


def test_ends_of_an_instant_come_in_order_of_starts_a_job_at_a_time() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c")], 0)
    executor.observe([allocate("b", 1), allocate("b", 0), allocate("a")], 15)
    assert drain(executor) == [
        "Succeeded c/0/1 @25",
        "Succeeded b/1/1 @25, Succeeded b/0/1 @25",
        "Succeeded a/0/1 @25",
    ]


def test_no_run_time_ends_in_the_same_instant() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("zero")], 3)
    assert drain(executor) == ["Succeeded zero/0/1 @3"]


def test_who_stays_never_ends_by_itself() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("stays")], 0)
    assert executor.due() is None
    executor.observe([evict("stays")], 9)
    assert drain(executor) == ["Released stays/0/1 @9"]


def test_an_evicted_attempt_is_released_after_its_grace() -> None:
    executor = Executor(RUNS, grace_ns=4)
    executor.observe([allocate("c")], 0)
    executor.observe([evict("c")], 10)
    executor.observe([evict("c")], 12)
    assert drain(executor) == ["Released c/0/1 @14"]


@pytest.mark.parametrize("grace_ns", [0, 3])
def test_who_ends_within_the_grace_ends_well(grace_ns: int) -> None:
    executor = Executor(RUNS, grace_ns=grace_ns)
    executor.observe([allocate("a")], 0)
    executor.observe([evict("a")], 10 - grace_ns)
    assert drain(executor) == ["Succeeded a/0/1 @10"]


def test_an_eviction_of_nobody_is_nothing() -> None:
    executor = Executor(RUNS)
    assert executor.observe([evict("a", attempt=7)], 0) == []
    assert executor.due() is None


def test_a_retried_attempt_runs_the_whole_time_again() -> None:
    executor = Executor(RUNS, failing=lambda job, pod, attempt, run_ns: 4 if attempt == 1 else None)
    executor.observe([allocate("a")], 0)
    (failed,) = executor.take(4)
    assert isinstance(failed, r.PodFailed)
    executor.observe([allocate("a", attempt=2)], 6)
    assert drain(executor) == ["Succeeded a/0/2 @16"]


def test_alive_and_handled() -> None:
    executor = Executor(RUNS)
    assert executor.handled_seq("n") == -1
    executor.observe([allocate("a", cause=3), allocate("c", node="m", cause=3)], 0)
    executor.observe([evict("c", node="m", cause=8)], 1)
    assert executor.alive() == {"n": [r.AttemptRef("a", 0, 1)], "m": [r.AttemptRef("c", 0, 1)]}
    assert (executor.handled_seq("n"), executor.handled_seq("m")) == (3, 8)
    executor.take(1)
    assert executor.alive() == {"n": [r.AttemptRef("a", 0, 1)]}


# --- nodes that go away ---------------------------------------------------------------------------


def test_power_off_ends_attempts_without_a_word() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("a"), allocate("c", node="m")], 0)
    executor.leave("n", is_powered_off=True)
    executor.observe([allocate("b", cause=5), evict("a", cause=6)], 1)
    assert executor.come_back("n", 20, is_rebooted=True) == []
    assert executor.alive() == {"m": [r.AttemptRef("c", 0, 1)]}
    assert executor.handled_seq("n") == 6
    assert drain(executor) == ["Succeeded c/0/1 @25"]


def test_what_ended_while_nobody_heard_is_reported_afterwards() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("a"), allocate("c")], 0)
    executor.leave("n", is_powered_off=False)
    assert executor.take(10) == []
    assert executor.alive() == {"n": [r.AttemptRef("c", 0, 1)]}
    assert executor.come_back("n", 12, is_rebooted=False) == []
    assert executor.take(12) == [r.PodSucceeded(12, "", None, "a", 0, 1, 10)]
    assert drain(executor) == ["Succeeded c/0/1 @25"]


def test_decisions_reach_a_node_when_it_is_back() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c", cause=1)], 0)
    executor.leave("n", is_powered_off=False)
    assert executor.observe([allocate("a", cause=2), allocate("b", cause=2)], 1) == []
    assert executor.observe([evict("c", cause=3), evict("b", cause=4)], 2) == []
    assert executor.handled_seq("n") == 1
    assert executor.is_away("n")
    assert shown(executor.come_back("n", 5, is_rebooted=False)) == ["Started a/0/1 @5"]
    assert executor.handled_seq("n") == 4
    assert not executor.is_away("n")
    assert drain(executor) == ["Released c/0/1 @5", "Released b/0/1 @5", "Succeeded a/0/1 @15"]


def test_who_is_evicted_while_its_node_is_away_but_ended_before_ended_well() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("a")], 0)
    executor.leave("n", is_powered_off=False)
    executor.take(10)
    executor.observe([evict("a")], 11)
    executor.come_back("n", 12, is_rebooted=False)
    assert drain(executor) == ["Succeeded a/0/1 @12"]


def test_a_node_goes_away_once() -> None:
    executor = Executor(RUNS)
    executor.leave("n", is_powered_off=False)
    with pytest.raises(ValueError, match="'n': it is away already"):
        executor.leave("n", is_powered_off=True)

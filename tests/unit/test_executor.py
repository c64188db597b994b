"""The executor: a fold of decisions that says what starts, ends, is released, and when."""

from collections.abc import Iterable
from typing import Any

import pytest

from ganger.replay.attempts import Stretch
from ganger.replay.executor import Executor
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason

RUNS = {"a": 10, "b": 10, "c": 25, "zero": 0, "stays": -1}


SUSPEND, RESUME, NOTICE = DecisionKind.SUSPEND, DecisionKind.RESUME, DecisionKind.NOTICE


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


def test_of_what_starts_at_an_instant_ends_come_in_the_order_in_which_that_was_settled() -> None:
    executor = Executor(dict.fromkeys(RUNS, 10))
    reserve = decision(DecisionKind.RESERVE, "c", node="")
    reserve.start_ns = 15
    executor.observe([reserve], 1)
    executor.observe([decision(DecisionKind.CLAIM, "a"), allocate("b")], 15)
    executor.observe([allocate("a"), allocate("c", 1), allocate("c", 0)], 15)
    assert drain(executor) == [
        "Succeeded c/1/1 @25, Succeeded c/0/1 @25",
        "Succeeded a/0/1 @25",
        "Succeeded b/0/1 @25",
    ]


def test_a_reservation_for_another_moment_settles_nothing() -> None:
    executor = Executor(RUNS)
    reserve = decision(DecisionKind.RESERVE, "a", node="")
    reserve.start_ns = 20
    executor.observe([reserve], 1)
    executor.observe([allocate("b"), allocate("a")], 15)
    assert [fact.split()[1] for fact in drain(executor)] == ["b/0/1", "a/0/1"]


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
    executor.leave("n", 0, is_powered_off=True)
    executor.observe([allocate("b", cause=5), evict("a", cause=6)], 1)
    assert executor.come_back("n", 20, is_rebooted=True) == []
    assert executor.alive() == {"m": [r.AttemptRef("c", 0, 1)]}
    assert executor.handled_seq("n") == 6
    assert drain(executor) == ["Succeeded c/0/1 @25"]


def test_what_ended_while_nobody_heard_is_reported_afterwards() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("a"), allocate("c")], 0)
    executor.leave("n", 0, is_powered_off=False)
    assert executor.take(10) == []
    assert executor.alive() == {"n": [r.AttemptRef("c", 0, 1)]}
    assert executor.come_back("n", 12, is_rebooted=False) == []
    assert executor.take(12) == [r.PodSucceeded(12, "", None, "a", 0, 1, 10)]
    assert drain(executor) == ["Succeeded c/0/1 @25"]


def test_decisions_reach_a_node_when_it_is_back() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c", cause=1)], 0)
    executor.leave("n", 0, is_powered_off=False)
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
    executor.leave("n", 0, is_powered_off=False)
    executor.take(10)
    executor.observe([evict("a")], 11)
    executor.come_back("n", 12, is_rebooted=False)
    assert drain(executor) == ["Succeeded a/0/1 @12"]


def test_a_node_goes_away_once() -> None:
    executor = Executor(RUNS)
    executor.leave("n", 0, is_powered_off=False)
    with pytest.raises(ValueError, match="'n': it is away already"):
        executor.leave("n", 0, is_powered_off=True)


# --- pods that stop and go on, and work that is saved ---------------------------------------------


def saver(job: str) -> bool:
    """Of the jobs here, one can checkpoint."""
    return job == "c"


def test_a_suspended_attempt_keeps_what_is_left_of_its_time() -> None:
    executor = Executor(RUNS, grace_ns=2)
    executor.observe([allocate("c")], 0)
    assert executor.observe([decision(SUSPEND, "c", cause=4)], 8) == []
    assert executor.suspended_count == 0
    assert executor.take(10) == [r.PodSuspended(10, "", None, "c", 0, 1, 400, 10)]
    assert executor.suspended_count == 1
    assert executor.due() is None
    assert executor.alive() == {"n": [r.AttemptRef("c", 0, 1)]}
    assert executor.handled_seq("n") == 4
    resumed = executor.observe([decision(RESUME, "c", cause=9)], 50)
    assert resumed == [r.PodResumed(50, "", None, "c", 0, 1, 50)]
    assert (executor.suspended_count, executor.handled_seq("n")) == (0, 9)
    assert drain(executor) == ["Succeeded c/0/1 @65"]


def test_it_can_stop_again_and_again_even_in_one_instant() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c")], 0)
    for at_ns in (5, 5, 7):
        executor.observe([decision(SUSPEND, "c")], at_ns)
        assert shown(executor.take(at_ns) or ()) == [f"Suspended c/0/1 @{at_ns}"]
        executor.observe([decision(RESUME, "c")], at_ns)
    assert executor.due() == 25
    executor.observe([decision(SUSPEND, "c")], 20)
    executor.take(20)
    executor.observe([decision(RESUME, "c")], 100)
    assert drain(executor) == ["Succeeded c/0/1 @105"]


def test_who_ends_before_it_would_have_stopped_ends_well() -> None:
    executor = Executor(RUNS, grace_ns=3)
    executor.observe([allocate("a")], 0)
    executor.observe([decision(SUSPEND, "a")], 7)
    assert drain(executor) == ["Succeeded a/0/1 @10"]


def test_who_never_ends_can_be_suspended_too() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("stays")], 0)
    executor.observe([decision(SUSPEND, "stays")], 9)
    assert executor.take(9) == [r.PodSuspended(9, "", None, "stays", 0, 1, 0, 9)]
    executor.observe([decision(RESUME, "stays")], 12)
    assert executor.due() is None


def test_a_second_word_and_one_to_a_running_attempt_change_nothing() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c")], 0)
    assert executor.observe([decision(RESUME, "c")], 1) == []
    executor.observe([decision(SUSPEND, "c"), decision(SUSPEND, "c")], 5)
    assert drain(executor) == ["Suspended c/0/1 @5"]
    executor.observe([decision(SUSPEND, "c")], 6)
    assert executor.due() is None


def test_all_pods_of_a_job_stop_together() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c", 0), allocate("c", 1), allocate("b")], 0)
    executor.observe([decision(SUSPEND, "c", 0), decision(SUSPEND, "c", 1)], 10)
    assert drain(executor) == [
        "Suspended c/0/1 @10, Suspended c/1/1 @10",
        "Succeeded b/0/1 @10",
    ]


def test_a_suspended_attempt_is_evicted_at_once_and_its_work_is_saved_if_it_can_be() -> None:
    for saves, facts, end in (
        (saver, ["Released c/0/1 @30"], "Succeeded c/0/2 @55"),
        (lambda job: False, ["Released c/0/1 @30"], "Succeeded c/0/2 @65"),
    ):
        executor = Executor(RUNS, grace_ns=5, saves=saves)
        executor.observe([allocate("c")], 0)
        executor.observe([decision(SUSPEND, "c")], 5)
        executor.take(10)
        executor.observe([evict("c")], 30)
        assert executor.suspended_count == 0
        assert drain(executor) == facts
        executor.observe([allocate("c", attempt=2, node="m")], 40)
        assert drain(executor) == [end]


def test_a_warned_or_evicted_attempt_saves_and_the_next_one_goes_on_from_there() -> None:
    executor = Executor(RUNS, grace_ns=3, saves=saver)
    executor.observe([allocate("c")], 0)
    warned = executor.observe([decision(NOTICE, "c", cause=2)], 5)
    assert warned == [r.PodCheckpointed(5, "", None, "c", 0, 1, 200, 5)]
    assert executor.observe([decision(NOTICE, "c", cause=3)], 5) == []
    assert executor.handled_seq("n") == 3
    executor.observe([evict("c")], 7)
    assert executor.take(10) == [
        r.PodCheckpointed(10, "", None, "c", 0, 1, 400, 10),
        r.PodReleased(10, "", None, "c", 0, 1, 10),
    ]
    executor.observe([allocate("c", attempt=2)], 20)
    executor.observe([evict("c", attempt=2)], 22)
    executor.take(25)
    executor.observe([allocate("c", attempt=3)], 30)
    assert drain(executor) == ["Succeeded c/0/3 @40"]


def test_notice_means_nothing_to_who_cannot_save() -> None:
    executor = Executor(RUNS, saves=saver)
    executor.observe([allocate("a")], 0)
    assert executor.observe([decision(NOTICE, "a")], 5) == []
    executor.observe([evict("a")], 6)
    executor.take(6)
    executor.observe([allocate("a", attempt=2)], 7)
    assert drain(executor) == ["Succeeded a/0/2 @17"]


def test_what_a_job_saved_is_of_no_use_to_another_of_its_key() -> None:
    executor = Executor(RUNS, saves=saver)
    executor.observe([allocate("c")], 0)
    executor.observe([evict("c")], 5)
    executor.take(5)
    executor.forget("c")
    executor.observe([allocate("c", attempt=1)], 10)
    assert drain(executor) == ["Succeeded c/0/1 @35"]


def test_a_move_ends_an_attempt() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c")], 0)
    executor.observe([decision(DecisionKind.MOVE, "c")], 3)
    assert drain(executor) == ["Released c/0/1 @3"]


def test_words_wait_for_a_node_that_is_away() -> None:
    executor = Executor(RUNS, grace_ns=1)
    executor.observe([allocate("c", cause=1), allocate("b", node="m")], 0)
    executor.leave("n", 2, is_powered_off=False)
    executor.observe([decision(SUSPEND, "c", cause=5)], 3)
    executor.come_back("n", 8, is_rebooted=False)
    assert executor.handled_seq("n") == 5
    assert executor.take(9) == [r.PodSuspended(9, "", None, "c", 0, 1, 360, 9)]


def test_who_stops_while_nobody_hears_has_stopped_when_it_is_heard_again() -> None:
    executor = Executor(RUNS, grace_ns=4)
    executor.observe([allocate("c")], 0)
    executor.observe([decision(SUSPEND, "c")], 1)
    executor.leave("n", 2, is_powered_off=False)
    assert executor.take(5) == []
    assert executor.alive() == {"n": [r.AttemptRef("c", 0, 1)]}
    executor.come_back("n", 15, is_rebooted=False)
    assert executor.take(15) == [r.PodSuspended(15, "", None, "c", 0, 1, 200, 15)]
    executor.observe([decision(RESUME, "c")], 20)
    assert drain(executor) == ["Succeeded c/0/1 @40"]


def test_power_off_takes_suspended_attempts_along() -> None:
    executor = Executor(RUNS)
    executor.observe([allocate("c")], 0)
    executor.observe([decision(SUSPEND, "c")], 4)
    executor.take(4)
    executor.leave("n", 5, is_powered_off=True)
    assert (executor.suspended_count, executor.alive(), executor.due()) == (0, {}, None)


def test_facts_of_the_past_lead_to_the_same_as_what_led_to_them() -> None:
    live = Executor(RUNS, saves=saver)
    live.observe([allocate("c")], 0)
    live.observe([decision(SUSPEND, "c")], 7)
    (suspended,) = live.take(7) or ()
    (resumed,) = live.observe([decision(RESUME, "c")], 20)
    told = Executor(RUNS, saves=saver)
    told.observe([allocate("c")], 0)
    for fact, at_ns in ((suspended, 7), (resumed, 20)):
        told.recall(fact, at_ns)
    assert told.due() == live.due() == 38
    live.observe([evict("c")], 22)
    *saved, _ = live.take(22) or ()
    assert shown(saved) == ["Checkpointed c/0/1 @22"]
    told.observe([evict("c")], 22)
    told.take(22)
    again = Executor(RUNS, saves=saver)
    for fact in saved:
        again.recall(fact, 22)
    ends = []
    for executor in (live, told, again):
        executor.observe([allocate("c", attempt=2)], 30)
        ends.append(executor.due())
    assert ends == [46, 46, 46]


# --- who is told of what ran ----------------------------------------------------------------------


def test_the_watch_is_told_of_stretches_in_gaps_and_of_what_evictions_undo() -> None:
    stretches: list[Stretch] = []
    executor = Executor(RUNS, grace_ns=1, saves=saver, watch=stretches.append)
    gaps = [decision(DecisionKind.BACKFILL, job) for job in ("b", "c")]
    executor.observe([allocate("a"), *gaps], 0)
    executor.observe([decision(SUSPEND, "c"), decision(SUSPEND, "b")], 4)
    executor.take(5)
    executor.take(5)
    executor.observe([decision(RESUME, "c"), decision(RESUME, "b")], 6)
    executor.observe([evict("c"), evict("b")], 7)
    executor.take(8)
    executor.take(8)
    told = [(s.placed.job, s.from_ns, s.to_ns, s.lost_ns, s.reason) for s in stretches]
    unknown, evicted = Reason.UNKNOWN, Reason.PLACED_IN_TURN
    assert told == [
        ("b", 0, 5, 0, unknown),
        ("c", 0, 5, 0, unknown),
        ("b", 6, 8, 7, evicted),
        ("c", 6, 8, 0, evicted),
    ]


def test_the_watch_is_told_of_all_and_of_what_still_runs_if_it_wants() -> None:
    stretches: list[Stretch] = []
    executor = Executor(RUNS, watch=stretches.append, watches_all=True)
    executor.observe([allocate("a"), allocate("c")], 0)
    executor.take(10)
    executor.stop_watching(12)
    assert [(s.placed.job, s.from_ns, s.to_ns, s.lost_ns) for s in stretches] == [
        ("a", 0, 10, 0),
        ("c", 0, 12, 0),
    ]


def test_work_lost_with_a_suspended_attempt_is_told_once() -> None:
    stretches: list[Stretch] = []
    executor = Executor(RUNS, watch=stretches.append)
    executor.observe([decision(DecisionKind.BACKFILL, "c")], 0)
    executor.observe([decision(SUSPEND, "c")], 4)
    executor.take(4)
    executor.observe([evict("c")], 9)
    executor.take(9)
    assert [(s.from_ns, s.to_ns, s.lost_ns) for s in stretches] == [(0, 4, 0), (9, 9, 4)]

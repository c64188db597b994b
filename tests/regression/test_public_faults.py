"""Faults that users of other schedulers reported in public, said for this kernel: none may come.

Each test is named by what must hold; the number is that of the row in our list of such faults.
"""

from collections import Counter

import pytest

from ganger.schemas.enums import FailureKind, Phase, QueueState
from ganger.streams.kernel import invariants, snapshot
from support.builders import Cell, node, placed, policy, queue, role
from support.decision_lines import (
    adopt,
    cards,
    cordon,
    drain,
    give_back,
    job_of,
    lose,
    node_of,
    phase_of,
    places,
    queue_of,
    reserve,
    said,
    say_again,
    started_jobs,
    uncordon,
)


def test_b1_a_release_beyond_what_a_node_holds_changes_nothing() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", retries=3)
    cell.tick()
    cell.released("j")
    cell.released("j")
    cell.released("stranger")
    assert node_of(cell, "n1").free_count == 1


def test_b2_b3_guarantees_above_the_cell_do_not_stop_it() -> None:
    half = {"cards_milli": 24_000}
    cell = Cell(checks=False).start(
        queue("a", guarantee=half), queue("b", guarantee=half), *(node(f"n{i}") for i in range(4))
    )
    for number in range(250):
        cell.submit(f"a{number}", queue="a")
        cell.submit(f"b{number}", queue="b")
    copy = snapshot.fork(cell.state)
    invariants.check(copy)
    assert Counter(key[0] for key in started_jobs(cell.tick())).total() == 32


def test_b4_b45_a_queue_without_any_limits_runs_jobs_of_any_resource() -> None:
    cell = Cell().start(queue("q"), node("n1", resources=[("nic", 1)]))
    cell.submit("j", role(cards=1, resources=[("nic", 1)]))
    assert places(cell.tick()) == ["j/0@n1"]


def test_b5_pods_that_come_back_by_themselves_after_a_reboot_count_once() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=4, cards=1))
    cell.tick()
    say_again(cell, "n1", boot="boot-2", attempts=[("j", pod, 1) for pod in range(4)])
    assert queue_of(cell, "q").used[0] == 0
    cell.started("j", 0)
    assert queue_of(cell, "q").used[0] == 0


def test_b7_members_that_fail_together_are_all_counted_again() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=3, minimum=1, cards=1), retries=1)
    cell.tick()
    cell.succeeded("j", 0)
    lose(cell, "n1")
    give_back(cell, "n1", boot="boot-2")
    assert places(cell.tick()) == ["j/1@n1", "j/2@n1"]
    assert queue_of(cell, "q").used[0] == 2000


def test_b8_an_eviction_ends_a_hold_once_however_often_its_end_is_told() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=2, cards=1), retries=2)
    cell.tick()
    drain(cell, "n1")
    cell.failed("j", 0)
    cell.released("j", 0)
    cell.released("j", 1)
    cell.released("j", 1)
    assert (queue_of(cell, "q").used[0], node_of(cell, "n1").free_count) == (0, 2)


def test_b9_after_a_restart_finished_jobs_stay_finished() -> None:
    cell = Cell(checks=False).start(node("n1", 4))
    for number in range(60):
        cell.submit(f"j{number}")
    for _ in range(15):
        for key in started_jobs(cell.tick()):
            cell.succeeded(key)
    cell.state = snapshot.fork(cell.state)
    assert said(cell.tick()) == []
    assert {job.phase for job in cell.state.jobs.values()} == {Phase.SUCCEEDED}


def test_b10_an_elastic_job_scaled_below_what_is_done_is_done() -> None:
    cell = Cell().start(node("n1", 8, slots=200))
    cell.submit("j", role(replicas=100, minimum=1, milli=10))
    cell.tick()
    for pod in range(60):
        cell.succeeded("j", pod)
    cell.update("j", scale=[("worker", 50, 1)])
    for pod in range(60, 100):
        cell.released("j", pod)
    assert phase_of(cell, "j") is Phase.SUCCEEDED


def test_b11_room_from_a_scale_down_is_used_in_the_next_cycle() -> None:
    cell = Cell().start(node("n1", 4))
    cell.submit("j", role(replicas=4, minimum=1, cards=1))
    cell.tick()
    cell.submit("next", role(cards=2))
    assert places(cell.tick()) == []
    cell.update("j", scale=[("worker", 2, 1)])
    cell.released("j", 2)
    cell.released("j", 3)
    assert places(cell.tick()) == ["next/0@n1"]


def test_b12_a_quota_cut_below_use_shows_use_above_it_and_starts_nothing() -> None:
    cell = Cell().start(queue("q"), node("n1", 8))
    cell.submit("j", role(replicas=8, cards=1))
    cell.tick()
    cell.put(queue("q", capability={"cards_milli": 2000}))
    q = queue_of(cell, "q")
    assert q.used[0] - q.capability[0] == 6000
    cell.submit("k")
    assert said(cell.tick()) == []


def test_b13_in_one_cycle_the_second_queue_sees_what_the_first_took() -> None:
    cell = Cell().start(queue("a"), queue("b"), node("n1", 8))
    cell.submit("a", role(cards=8), queue="a")
    cell.submit("b", role(cards=8), queue="b")
    assert len(places(cell.tick())) == 1


def test_b14_a_node_without_pod_slots_takes_nothing() -> None:
    cell = Cell().start(node("n1", 8, slots=1), node("n2", 2))
    cell.submit("a")
    cell.submit("b")
    cell.submit("c")
    assert sorted(places(cell.tick())) == ["a/0@n2", "b/0@n2", "c/0@n1"]


@pytest.mark.parametrize(
    "never",
    [
        role(replicas=9, cards=1),
        role(replicas=20, cards=1),
        role(cards=1, models=["none"]),
        role(replicas=2, cpu=60_000),
    ],
)
def test_b16_b29_a_job_that_can_never_fit_does_not_block_one_that_fits(never: object) -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("never", never, priority=9)  # type: ignore[arg-type]
    cell.submit("small", role(replicas=3, cards=2))
    assert len(places(cell.tick())) == 3


def test_b16_a_pod_larger_than_any_node_does_not_block_those_that_fit() -> None:
    cell = Cell().start(node("n1", 8), node("n2", 8))
    cell.submit("never", role(cards=16))
    for number in range(16):
        cell.submit(f"small{number}")
    assert len(places(cell.tick())) == 16


def test_b12_b16_a_quota_cut_below_an_admitted_job_does_not_block_its_queue() -> None:
    cell = Cell().start(queue("q"), node("n1", 8), node("n2", 8))
    cell.submit("running", role(replicas=2, cards=5))
    cell.tick()
    cell.submit("large", role(cards=8))
    cell.tick()
    assert phase_of(cell, "large") is Phase.INQUEUE
    cell.put(queue("q", capability={"cards_milli": 6000}))
    cell.succeeded("running", 0)
    cell.submit("small")
    assert places(cell.tick()) == ["small/0@n2"]


def test_one_queue_does_not_fill_the_gate_before_its_equal_is_asked() -> None:
    cell = Cell().start(queue("a"), queue("b"), node("n1", 8))
    for number in range(20):
        cell.submit(f"a{number}", queue="a")
    for number in range(20):
        cell.submit(f"b{number}", queue="b")
    assert Counter(key[0] for key in started_jobs(cell.tick())) == {"a": 4, "b": 4}


def test_b17_b24_a_job_that_failed_to_start_on_the_only_node_is_not_stuck_for_ever() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", retries=1)
    cell.tick()
    cell.failed("j", failure=FailureKind.START_FAILED)
    for _ in range(100):
        cell.tick(600)
    assert job_of(cell, "j").pods


def test_b17_jobs_that_fit_start_within_one_cycle() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("big", role(cards=8))
    cell.tick()
    for key in "abcd":
        cell.submit(key, role(cards=2))
    cell.tick()
    cell.succeeded("big")
    assert started_jobs(cell.tick()) == ["a", "b", "c", "d"]


def test_b19_shares_of_a_card_never_add_up_to_more_than_the_card() -> None:
    cell = Cell().start(node("n1", 8, card_memory=24_576))
    for number in range(20):
        cell.submit(f"half{number}", role(milli=500, card_memory=12_288))
    made = cell.tick()
    assert Counter(card for (card,) in cards(made)) == dict.fromkeys(range(8), 2)
    cell.submit("third", role(milli=1, card_memory=1))
    assert places(cell.tick()) == []


def test_b20_a_placement_that_was_undone_leaves_no_trace() -> None:
    rules = policy("priority", "gang", "fair_share", "pack")
    cell = Cell().start(node("n1", 4), node("n2", 4), rules=rules)
    cell.submit("gang", role("a", 2, cards=3), role("b", 1, cards=3))
    cell.tick(cycle=False)
    free = [(n.free, n.free_slots) for n in cell.state.nodes]
    cell.tick()
    assert [(n.free, n.free_slots) for n in cell.state.nodes] == free
    cell.submit("four", role(replicas=2, cards=4))
    assert cards(cell.tick()) == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_b21_cards_that_die_under_pods_make_a_node_over_allocated_not_free() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=8, cards=1))
    cell.tick()
    say_again(cell, "n1", 8, failed=[6, 7])
    cell.state = snapshot.fork(cell.state)
    assert node_of(cell, "n1").free_count == 0
    cell.submit("k")
    assert places(cell.tick()) == []


def test_b22_cards_that_come_back_are_given_out_without_a_restart() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=8, minimum=1, cards=1))
    cell.tick()
    cell.submit("k", role(cards=4))
    cell.tick()
    for pod in range(4):
        cell.succeeded("j", pod)
    copy = snapshot.fork(cell.state)
    assert places(cell.tick()) == ["k/0@n1"]
    assert copy.nodes[0].free_count == 4


def test_b23_cards_gone_for_a_moment_evict_nobody() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=8, cards=1))
    cell.submit("share", role(milli=1))
    cell.tick()
    assert said(say_again(cell, "n1", 0)) == []
    assert said(say_again(cell, "n1", 8)) == []
    assert node_of(cell, "n1").free_count == 0


def test_b24_a_node_where_starts_fail_is_not_picked_again_and_again() -> None:
    cell = Cell().start(node("bad", 1), node("good", 8))
    cell.submit("j", retries=9)
    found = []
    for attempt in range(1, 4):
        found += [place[3] for place in placed(cell.tick())]
        cell.failed(
            "j", 0, attempt, FailureKind.START_FAILED if attempt == 1 else FailureKind.ERROR
        )
    assert found == ["bad", "good", "good"]


def test_b26_of_two_gangs_for_the_whole_cell_one_runs_and_one_waits() -> None:
    cell = Cell(checks=False).start(*(node(f"n{i}", 8) for i in range(100)))
    for key in ("a", "b"):
        cell.submit(key, role(replicas=100, cards=8))
    assert len(places(cell.tick())) == 100
    assert [phase_of(cell, key) for key in ("a", "b")] == [Phase.ALLOCATED, Phase.PENDING]


def test_b27_a_gang_that_lost_a_node_keeps_the_first_claim() -> None:
    cell = Cell().start(node("n1", 8), node("n2", 8))
    cell.submit("stranger", role(cards=8), held=True)
    cell.submit("gang", role(replicas=2, cards=8))
    cell.tick()
    cell.update("stranger", held=False)
    cell.tick()
    say_again(cell, "n2", 8, boot="boot-2")
    assert places(cell.tick()) == ["gang/1@n2"]


def test_b30_the_end_of_retries_is_said() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", retries=15)
    for attempt in range(1, 17):
        cell.tick()
        made = said(cell.failed("j", 0, attempt))
    assert made == ["FINISH j RETRY_LIMIT"]


def test_b32_jobs_queues_and_shapes_that_are_gone_leave_nothing_behind() -> None:
    cell = Cell().start(node("n1", 8))
    for number in range(30):
        cell.submit(f"j{number}", role(milli=number + 1), ttl_ns=0)
    cell.tick()
    for number in range(30):
        cell.cancel(f"j{number}")
        cell.released(f"j{number}")
    cell.tick()
    state = cell.state
    assert (state.jobs, state.job_by_key, state.shapes.jobs, state.shapes.pods) == ({}, {}, {}, {})
    assert state.indexes.ghosts == {}


def test_b34_a_retry_of_a_submission_finds_the_job() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", event_id="once")
    assert cell.submit("j", event_id="once") == []
    assert places(cell.tick()) == ["j/0@n1"]


def test_b35_a_second_cycle_before_any_report_counts_the_first_ones_decisions() -> None:
    cell = Cell().start(node("n1", 2))
    for key in "abc":
        cell.submit(key)
    assert len(places(cell.tick())) == 2
    assert places(cell.tick()) == []


def test_b36_a_failure_told_before_the_release_and_clocks_that_differ() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", retries=1)
    cell.tick(100)
    cell.now_ns -= 90 * 10**9  # the reporter's clock is behind
    cell.failed("j")
    cell.released("j")
    cell.now_ns += 90 * 10**9
    assert placed(cell.tick()) == [("j", 0, 2, "n1")]


def test_b37_the_first_cause_of_an_end_is_kept() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    cell.cancel("j")
    cell.failed("j", 0, failure=FailureKind.OUT_OF_MEMORY)
    assert said(cell.failed("j", 1)) == ["FINISH j CANCEL_REQUESTED"]


def test_b39_a_cordoned_node_that_shrank_is_never_below_nothing() -> None:
    cell = Cell().start(node("n1", 8, cpu=8000))
    cell.submit("j", role(replicas=8, cards=1, cpu=1000))
    cell.tick()
    cordon(cell, "n1")
    say_again(cell, "n1", 8, cpu=1000)
    uncordon(cell, "n1")
    cell.submit("k", role(cpu=1))
    assert places(cell.tick()) == []
    assert cell.state.total[1] == 1000


def test_b40_a_node_lost_while_a_placement_on_it_is_under_way_voids_it() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j")
    cell.tick()
    lose(cell, "n1")
    assert cell.started("j") == []
    assert queue_of(cell, "q").used[0] == 0
    assert phase_of(cell, "j") is Phase.INQUEUE


def test_b41_foreign_pods_that_come_and_go_are_counted_once_after_a_restart() -> None:
    cell = Cell().start(node("n1", 8))
    for turn in range(3):
        say_again(cell, "n1", 8, attempts=[("foreign", 0, turn + 1)])
        cell.state = snapshot.fork(cell.state)
        say_again(cell, "n1", 8)
    say_again(cell, "n1", 8, attempts=[("foreign", 0, 9)])
    adopt(cell, "foreign", 0, "n1", attempt=9)
    cell.state = snapshot.fork(cell.state)
    assert node_of(cell, "n1").free_count == 7
    cell.succeeded("foreign", 0, 9)
    assert (node_of(cell, "n1").free_count, queue_of(cell, "q").used[0]) == (8, 0)


def test_b42_b44_a_reservation_ends_by_itself_and_once() -> None:
    cell = Cell().start(node("n1"))
    reserve(cell, "r", "n1", until_s=5)
    cell.submit("j")
    cell.tick()
    assert places(cell.tick(5)) == ["j/0@n1"]
    assert said(reserve(cell, "r", cancelled=True)) == ["REJECT  RESERVATION_UNKNOWN"]


def test_b43_all_holds_end_with_their_job() -> None:
    cell = Cell().start(node("n1", 4))
    cell.submit("j", role("z", 3), role("w", 4, 2, cards=1), role("s", 1, 0, milli=500))
    cell.tick()
    cell.cancel("j")
    for pod in sorted(job_of(cell, "j").pods or {}):
        cell.released("j", pod)
    found = node_of(cell, "n1")
    assert (found.free_count, found.free_slots, found.shared) == (4, 110, {})
    assert cell.state.used[:4] == cell.state.admitted[:4] == [0, 0, 0, 0]


def test_b56_a_requeue_while_a_pod_is_ending_takes_its_use_away_once() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=2, minimum=1, cards=1), retries=3)
    cell.tick()
    cell.update("j", scale=[("worker", 1, 1)])
    assert queue_of(cell, "q").used[0] == 1000
    cell.state = snapshot.fork(cell.state)
    cell.update("j", scale=[("worker", 2, 1)])
    cell.failed("j", 1)
    assert queue_of(cell, "q").used[0] == 1000
    assert placed(cell.tick()) == [("j", 1, 2, "n1")]
    assert queue_of(cell, "q").used[0] == 2000


def test_b57_after_a_restart_what_was_launched_is_not_launched_again() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j")
    cell.tick()
    cell.state = snapshot.fork(cell.state)
    assert said(cell.tick()) == []


def test_two_jobs_never_hold_half_a_gang_each() -> None:
    cell = Cell().start(node("n1", 4), node("n2", 4))
    for key in ("a", "b"):
        cell.submit(key, role(replicas=6, cards=1))
    assert set(started_jobs(cell.tick())) == {"a"}


@pytest.mark.parametrize("stopped", ["held", "backing off", "queue draining"])
def test_an_admitted_job_that_may_not_start_keeps_nobody_out(stopped: str) -> None:
    cell = Cell().start(queue("q"), queue("x"), node("n1", 1))
    cell.submit(
        "j", queue="x", retries=1, backoff_ns=3600 * 10**9 if stopped == "backing off" else 0
    )
    cell.tick()
    cell.submit("other")
    cell.failed("j")
    if stopped == "held":
        cell.update("j", held=True)
    elif stopped == "queue draining":
        cell.put(queue("x", state=QueueState.DRAINING))
    assert places(cell.tick()) == ["other/0@n1"]

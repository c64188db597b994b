"""Nodes that are lost, come back, reboot, change, are cordoned and drained; pods not known here."""

import pytest

from ganger.schemas.enums import Phase
from support.builders import Cell, node, placed, role
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
    said,
    say_again,
    uncordon,
)


def running(*keys: str, cards_of_node: int = 8) -> Cell:
    """A cell of one node on which one-card jobs run."""
    cell = Cell().start(node("n1", cards_of_node))
    for key in keys:
        cell.submit(key)
    cell.tick()
    for key in keys:
        cell.started(key)
    return cell


def test_a_lost_node_takes_its_attempts_with_it_at_once() -> None:
    cell = running("a", "b")
    assert said(lose(cell, "n1")) == ["EVICT a/0#1@n1 NODE_LOST", "EVICT b/0#1@n1 NODE_LOST"]
    cell.put(node("n2", 8, time_ns=cell.now_ns))
    assert placed(cell.tick()) == [("a", 0, 2, "n2"), ("b", 0, 2, "n2")]


def test_a_loss_costs_no_retry() -> None:
    cell = running("a")
    lose(cell, "n1")
    cell.put(node("n2", time_ns=cell.now_ns))
    cell.tick()
    assert said(cell.failed("a", 0, 2)) == ["FINISH a RETRY_LIMIT"]
    assert job_of(cell, "a").asked == 1


def test_a_lost_node_takes_no_pods_and_is_no_capacity() -> None:
    cell = running("a")
    lose(cell, "n1")
    assert cell.state.total[:4] == [0, 0, 0, 0]
    cell.submit("b")
    assert places(cell.tick()) == []


@pytest.mark.parametrize("repeats", [1, 2])
def test_news_of_a_loss_from_a_former_intake_or_twice_changes_nothing(repeats: int) -> None:
    cell = running("a")
    if repeats == 2:
        lose(cell, "n1")
    assert lose(cell, "n1", None if repeats == 2 else cell.state.claim - 1) == []
    assert node_of(cell, "n1").is_lost == (repeats == 2)


def test_a_loss_of_an_unknown_node_is_nothing() -> None:
    assert lose(running("a"), "n9") == []


def test_returned_with_another_boot_its_old_attempts_are_gone() -> None:
    cell = running("a")
    lose(cell, "n1")
    assert said(give_back(cell, "n1", boot="boot-2")) == []
    assert node_of(cell, "n1").free_count == 8
    assert placed(cell.tick()) == [("a", 0, 2, "n1")]


def test_returned_with_the_same_boot_what_it_still_lists_holds_its_cards() -> None:
    cell = running("a")
    lose(cell, "n1")
    give_back(cell, "n1", attempts=[("a", 0, 1)])
    assert node_of(cell, "n1").free_count == 7
    assert cards(cell.tick()) == [[1]]  # the new attempt takes another card
    cell.released("a", 0, 1)
    assert node_of(cell, "n1").free_count == 7
    assert said(cell.succeeded("a", 0, 2)) == ["FINISH a ALL_PODS_SUCCEEDED"]


def test_returned_with_the_same_boot_what_it_omits_after_handling_the_eviction_is_gone() -> None:
    cell = running("a")
    lose(cell, "n1")
    evicted_at = node_of(cell, "n1").lost_seq
    give_back(cell, "n1", handled=evicted_at - 1)
    assert node_of(cell, "n1").free_count == 7  # it may not know of the eviction yet
    say_again(cell, "n1", handled=evicted_at)
    assert node_of(cell, "n1").free_count == 8


def test_a_job_cancelled_while_its_node_is_lost_ends_at_once() -> None:
    cell = running("a")
    lose(cell, "n1")
    assert said(cell.cancel("a")) == ["FINISH a CANCEL_REQUESTED"]
    give_back(cell, "n1", attempts=[("a", 0, 1)])
    assert node_of(cell, "n1").free_count == 7
    cell.released("a")
    assert node_of(cell, "n1").free_count == 8


def test_a_reboot_without_a_loss_frees_all_and_counts_use_once() -> None:
    cell = running("a", "b")
    made = say_again(cell, "n1", boot="boot-2", attempts=[("a", 0, 1)])
    assert said(made) == ["EVICT a/0#1@n1 NODE_REBOOTED", "EVICT b/0#1@n1 NODE_REBOOTED"]
    assert queue_of(cell, "q").used[0] == 0
    assert node_of(cell, "n1").unknown == (("a", 0, 1),)  # came back by itself
    assert places(cell.tick()) == []
    say_again(cell, "n1", boot="boot-2")
    assert placed(cell.tick()) == [("a", 0, 2, "n1"), ("b", 0, 2, "n1")]


def test_a_reboot_ends_what_was_being_released() -> None:
    cell = running("a")
    cell.cancel("a")
    assert said(say_again(cell, "n1", boot="boot-2")) == ["FINISH a CANCEL_REQUESTED"]


def test_cordon_stops_new_pods_only() -> None:
    cell = running("a")
    assert said(cordon(cell, "n1")) == []
    cell.submit("b")
    assert places(cell.tick()) == []
    assert phase_of(cell, "a") is Phase.RUNNING
    uncordon(cell, "n1")
    assert places(cell.tick()) == ["b/0@n1"]


def test_drain_evicts_and_the_pods_go_elsewhere_once_released() -> None:
    cell = running("a")
    cell.put(node("n2", time_ns=cell.now_ns))
    assert said(drain(cell, "n1")) == ["EVICT a/0#1@n1 NODE_DRAINED"]
    assert said(drain(cell, "n1")) == []
    assert places(cell.tick()) == []
    cell.released("a")
    assert placed(cell.tick()) == [("a", 0, 2, "n2")]
    cell.submit("whole", role(cards=8))
    assert places(cell.tick()) == []
    uncordon(cell, "n1")
    assert places(cell.tick()) == ["whole/0@n1"]


@pytest.mark.parametrize("ask", [cordon, uncordon, drain])
def test_requests_about_unknown_nodes_are_refused(ask: object) -> None:
    assert said(ask(running("a"), "n9")) == ["REJECT  NODE_UNKNOWN"]  # type: ignore[operator]


def test_a_cordon_outlives_a_reboot() -> None:
    cell = running()
    cordon(cell, "n1")
    say_again(cell, "n1", boot="boot-2")
    cell.submit("a")
    assert places(cell.tick()) == []


def test_a_failed_card_costs_only_its_pod() -> None:
    cell = running("a", "b")
    assert said(say_again(cell, "n1", failed=[1])) == ["EVICT b/0#1@n1 CARD_FAILED"]
    assert said(say_again(cell, "n1", failed=[1, 7])) == []
    cell.released("b")
    assert cards(cell.tick()) == [[2]]
    assert cell.state.total[0] == 6000


def test_a_card_that_works_again_is_used_again() -> None:
    cell = Cell().start(node("n1", 1, failed=[0]))
    cell.submit("a")
    assert places(cell.tick()) == []
    say_again(cell, "n1", 1)
    assert places(cell.tick()) == ["a/0@n1"]


def test_cards_that_are_missing_for_a_moment_evict_nobody() -> None:
    cell = running("a", "b")
    assert said(say_again(cell, "n1", 0)) == []
    assert phase_of(cell, "a") is Phase.RUNNING
    cell.succeeded("b")
    assert node_of(cell, "n1").free_count == 0
    say_again(cell, "n1", 8)
    assert node_of(cell, "n1").free_count == 7


@pytest.mark.parametrize(
    "smaller", [{"cpu": 500}, {"memory": 50}, {"slots": 1}, {"resources": [("nic", 1)]}]
)
def test_a_node_that_shrank_below_what_is_held_takes_nothing_until_it_is_back(
    smaller: dict[str, object],
) -> None:
    cell = Cell().start(node("n1", cpu=1000, memory=100, slots=9, resources=[("nic", 4)]))
    asks = {"cards": 1, "cpu": 400, "memory": 40, "resources": [("nic", 1)]}
    cell.submit("a", role(replicas=2, **asks))
    cell.tick()
    facts = {"cpu": 1000, "memory": 100, "slots": 9, "resources": [("nic", 4)]}
    assert said(say_again(cell, "n1", **(facts | smaller))) == []
    cell.submit("b", role(cards=1, cpu=100, memory=10, resources=[("nic", 1)]))
    assert places(cell.tick()) == []
    cell.succeeded("a", 0)
    cell.succeeded("a", 1)
    assert places(cell.tick()) == ["b/0@n1"]


def test_a_node_with_pods_that_are_not_known_takes_no_work_until_they_are_adopted() -> None:
    cell = Cell().start(node("n1", 8, attempts=[("old", 0, 3)]))
    cell.submit("j", role(cards=7))
    assert places(cell.tick()) == []
    assert said(adopt(cell, "old", 0, "n1", first=2, attempt=3)) == []
    assert phase_of(cell, "old") is Phase.RUNNING
    assert cards(cell.tick()) == [[0, 1, 3, 4, 5, 6, 7]]
    assert said(cell.succeeded("old", 0, 3)) == ["FINISH old ALL_PODS_SUCCEEDED"]


def test_a_node_with_pods_that_are_not_known_takes_work_once_they_end() -> None:
    cell = Cell().start(node("n1", 8, attempts=[("old", 0, 1)]))
    cell.submit("j")
    assert places(cell.tick()) == []
    say_again(cell, "n1", 8)
    assert places(cell.tick()) == ["j/0@n1"]


def test_adoptions_make_one_job_grow() -> None:
    cell = Cell().start(node("n1", 8))
    for pod in (0, 2, 1):
        assert said(adopt(cell, "old", pod, "n1", first=pod)) == []
    assert queue_of(cell, "q").used[0] == 3000
    assert said(cell.tick()) == []
    cell.succeeded("old", 0)
    cell.succeeded("old", 1)
    assert said(cell.succeeded("old", 2)) == ["FINISH old ALL_PODS_SUCCEEDED"]


def test_adopted_shares_fill_one_card() -> None:
    cell = Cell().start(node("n1", 1))
    assert said(adopt(cell, "a", 0, "n1", milli=400)) == []
    assert said(adopt(cell, "b", 0, "n1", milli=600)) == []
    assert said(adopt(cell, "c", 0, "n1", milli=1)) == ["REJECT c CARDS_TAKEN"]


def test_a_job_submitted_here_may_have_pods_that_run_already() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=3, cards=1))
    assert said(adopt(cell, "j", 1, "n1", first=5)) == []
    assert cards(cell.tick()) == [[0], [1]]
    assert sorted(job_of(cell, "j").pods or {}) == [0, 1, 2]


def test_a_job_submitted_here_has_no_pods_beyond_those_it_asked_for() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=4, cards=1))
    assert said(adopt(cell, "j", 7, "n1")) == ["REJECT j VALUE_OUT_OF_RANGE"]
    assert len(places(cell.tick())) == 4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "n9"}, "NODE_UNKNOWN"),
        ({"queue": "none"}, "QUEUE_UNKNOWN"),
        ({"pod": -1}, "VALUE_OUT_OF_RANGE"),
        ({"attempt": 0}, "VALUE_OUT_OF_RANGE"),
        ({"first": -1}, "VALUE_OUT_OF_RANGE"),
        ({"count": -1}, "VALUE_OUT_OF_RANGE"),
        ({"first": 1 << 40}, "VALUE_OUT_OF_RANGE"),
        ({"milli": -5}, "VALUE_OUT_OF_RANGE"),
        ({"cpu": -5}, "VALUE_OUT_OF_RANGE"),
        ({"first": 7}, "CARDS_TAKEN"),
        ({"first": 8}, "CARDS_TAKEN"),
        ({"milli": 500, "first": 7}, "CARDS_TAKEN"),
        ({"milli": 500, "count": 2}, "CARDS_TAKEN"),
        ({"job": "held", "pod": 0}, "POD_EXISTS"),
        ({"job": "held", "pod": 1, "count": 2}, "ROLE_UNKNOWN"),
    ],
)
def test_adoptions_that_are_refused(change: dict[str, object], reason: str) -> None:
    cell = Cell().start(node("n1", 8))
    adopt(cell, "held", 0, "n1", first=7)
    facts: dict[str, object] = {"job": "new", "pod": 0, "name": "n1"} | change
    free = node_of(cell, "n1").free
    made = adopt(cell, **facts)  # type: ignore[arg-type]
    assert said(made) == [f"REJECT {facts['job']} {reason}"]
    assert node_of(cell, "n1").free == free


def test_nothing_is_adopted_on_a_node_that_is_silent() -> None:
    cell = Cell().start(node("n1", 8))
    lose(cell, "n1")
    assert said(adopt(cell, "old", 0, "n1")) == ["REJECT old NODE_UNREACHABLE"]
    give_back(cell, "n1", attempts=[("old", 0, 1)])
    assert said(adopt(cell, "old", 0, "n1")) == []
    assert phase_of(cell, "old") is Phase.RUNNING


def test_an_attempt_given_up_with_its_lost_node_cannot_be_adopted() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("a", role(replicas=2, cpu=10))
    cell.tick()
    lose(cell, "n1")
    give_back(cell, "n1", attempts=[("a", 0, 1)])
    made = adopt(cell, "a", 0, "n1", count=0, cpu=10)
    assert said(made) == ["REJECT a POD_EXISTS"]


def test_adoption_beyond_a_submitted_job_leaves_its_other_pods_to_be_placed() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=3, minimum=1, cards=1))
    adopt(cell, "j", 5, "n1")
    assert sorted(places(cell.tick())) == ["j/0@n1", "j/1@n1", "j/2@n1"]

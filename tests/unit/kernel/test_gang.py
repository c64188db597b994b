"""Gangs: whole or not at all, minimums of roles and of the job, lost members."""

import pytest

from ganger.schemas.enums import Phase
from support.builders import Cell, node, policy, role
from support.decision_lines import (
    drain,
    job_of,
    lose,
    node_of,
    phase_of,
    places,
    queue_of,
    said,
    say_again,
)


@pytest.mark.parametrize(
    ("nodes", "roles", "minimum", "placed"),
    [
        # (cards of the nodes), (name, replicas, role minimum, cards), job minimum, pods placed
        ((4,), [("w", 4, 4, 1)], 0, 4),
        ((3,), [("w", 4, 4, 1)], 0, 0),
        ((3,), [("w", 4, 2, 1)], 0, 3),
        ((3,), [("w", 4, 0, 1)], 0, 3),
        ((3,), [("w", 4, 0, 1)], 4, 0),
        ((3,), [("w", 4, 2, 1)], 3, 3),
        ((2, 2), [("w", 4, 4, 1)], 0, 4),
        ((2, 2), [("w", 2, 2, 3)], 0, 0),
        ((4,), [("m", 1, 1, 2), ("w", 2, 2, 1)], 0, 3),
        ((3,), [("m", 1, 1, 2), ("w", 2, 2, 1)], 0, 0),
        ((3,), [("m", 1, 1, 2), ("w", 2, 1, 1)], 0, 2),
        ((3,), [("m", 1, 1, 2), ("w", 2, 0, 1)], 0, 2),
        ((3,), [("m", 1, 0, 4), ("w", 2, 0, 1)], 2, 2),
        ((2,), [("m", 1, 1, 1), ("w", 3, 0, 1)], 3, 0),
    ],
)
def test_all_or_nothing(
    nodes: tuple[int, ...], roles: list[tuple[str, int, int, int]], minimum: int, placed: int
) -> None:
    cell = Cell().start(*(node(f"n{i}", size) for i, size in enumerate(nodes)))
    made = [role(name, replicas, least, cards=size) for name, replicas, least, size in roles]
    cell.submit("j", *made, minimum=minimum)
    assert len(places(cell.tick())) == placed


def test_a_failed_attempt_at_placing_leaves_no_trace() -> None:
    free = policy("priority", "gang", "fair_share", "pack")
    cell = Cell().start(node("n1", 8), node("n2", 8), node("n3", 4), rules=free)
    cell.submit("j", role(replicas=3, cards=6))
    cell.tick()
    assert [n.free_count for n in cell.state.nodes] == [8, 8, 4]
    cell.submit("s", role(cards=8))
    assert places(cell.tick()) == ["s/0@n1"]


def test_pod_numbers_interleave_roles() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role("a", 2, cards=1), role("b", 3, cards=1))
    made = [(d.role, d.pod) for d in cell.tick() if d.pod >= 0]
    assert sorted(made) == [("a", 0), ("a", 2), ("b", 1), ("b", 3), ("b", 5)]


def test_two_gangs_that_each_need_the_whole_cell_do_not_share_it() -> None:
    cell = Cell().start(*(node(f"n{i}", 1) for i in range(10)))
    cell.submit("a", role(replicas=10, cards=1))
    cell.submit("b", role(replicas=10, cards=1))
    assert {place.split("/")[0] for place in places(cell.tick())} == {"a"}
    for pod in range(10):
        cell.succeeded("a", pod)
    assert {place.split("/")[0] for place in places(cell.tick())} == {"b"}


def test_an_elastic_job_grows_when_room_appears_and_after_new_gangs() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("elastic", role(replicas=4, minimum=1, cards=1))
    cell.tick()
    cell.submit("fresh", role(replicas=2, cards=1))
    cell.put(node("n2", 3, time_ns=cell.now_ns))
    assert places(cell.tick()) == ["fresh/0@n2", "fresh/1@n2", "elastic/2@n2"]


def test_without_the_gang_policy_an_elastic_job_grows_in_its_turn() -> None:
    # its place after it began equals the one before: the line must bear equal keys
    cell = Cell().start(node("n1", 2), rules=policy("priority", "pack"))
    cell.submit("elastic", role(replicas=4, minimum=1, cards=1))
    cell.submit("later", role(cards=1))
    assert places(cell.tick()) == ["elastic/0@n1", "elastic/1@n1"]
    cell.put(node("n2", 3, time_ns=cell.now_ns))
    assert places(cell.tick()) == ["elastic/2@n2", "elastic/3@n2", "later/0@n2"]


def test_a_lost_member_is_placed_again_and_the_others_run_on() -> None:
    cell = Cell().start(node("n1", 1), node("n2", 1), node("n3", 1))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    cell.started("j", 0)
    cell.started("j", 1)
    assert said(lose(cell, "n2")) == ["EVICT j/1#1@n2 NODE_LOST"]
    assert phase_of(cell, "j") is Phase.RUNNING
    assert said(cell.tick()) == ["ALLOCATE j/1#2@n3 PLACED_IN_TURN"]


def test_a_gang_that_lost_all_members_needs_its_whole_minimum_again() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    lose(cell, "n1")
    assert phase_of(cell, "j") is Phase.INQUEUE
    assert queue_of(cell, "q").admitted[0] == 2000
    cell.put(node("n2", 1, time_ns=cell.now_ns))
    assert places(cell.tick()) == []
    cell.put(node("n3", 1, time_ns=cell.now_ns))
    assert places(cell.tick()) == ["j/0@n2", "j/1@n3"]


def test_members_that_succeeded_count_for_the_minimum() -> None:
    cell = Cell().start(node("n1", 3))
    cell.submit("j", role(replicas=3, cards=1), retries=1)
    cell.tick()
    cell.succeeded("j", 0)
    cell.failed("j", 1)
    say_again(cell, "n1", 2)
    assert places(cell.tick()) == ["j/1@n1"]


def test_a_growing_gang_that_a_drain_takes_below_its_minimum_stands_in_line_anew() -> None:
    cell = Cell().start(node("n1", 4))
    cell.submit("j", role(replicas=6, minimum=4, cards=1))
    cell.tick()
    drain(cell, "n1")
    cell.put(node("n2", 1, time_ns=cell.now_ns))
    assert places(cell.tick()) == []  # it misses four, two can be placed: both or none
    cell.put(node("n3", 1, time_ns=cell.now_ns))
    assert places(cell.tick()) == ["j/4@n2", "j/5@n3"]


def test_pods_still_being_released_are_not_placed_twice() -> None:
    # minimum 4 of 5: two are leaving, but only one is there to be placed
    cell = Cell().start(node("n1", 2), node("n2", 2))
    cell.submit("j", role(replicas=5, minimum=4, cards=1))
    cell.tick()
    drain(cell, "n1")
    cell.put(node("n3", 8, time_ns=cell.now_ns))
    assert places(cell.tick()) == ["j/4@n3"]
    for pod in node_of(cell, "n1").pods.copy():
        cell.released("j", pod[1])
    assert len(places(cell.tick())) == 2
    assert job_of(cell, "j").roles[0].pending() == 0


def test_a_card_failure_under_an_elastic_gang_keeps_its_line_right() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=3, minimum=2, cards=1))
    cell.tick()
    assert said(say_again(cell, "n1", 2, failed=[0])) == ["EVICT j/0#1@n1 CARD_FAILED"]
    cell.released("j", 0)
    cell.put(node("n2", 1, time_ns=cell.now_ns))
    assert places(cell.tick()) == ["j/0@n2"]


def test_a_gang_below_its_minimum_comes_before_older_jobs_that_have_nothing() -> None:
    cell = Cell().start(node("n1", 8), node("n2", 8))
    cell.submit("old", role(cards=8), held=True)
    cell.submit("gang", role(replicas=2, cards=8))
    cell.tick()
    cell.update("old", held=False)
    cell.tick()
    lose(cell, "n2")
    cell.put(node("n3", 8, time_ns=cell.now_ns))
    assert places(cell.tick()) == ["gang/1@n3"]


def test_a_job_with_pods_pending_but_none_alive_is_not_done() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", role(replicas=2, minimum=1, cards=1))
    cell.tick()
    cell.started("j", 0)
    assert said(cell.succeeded("j", 0)) == []
    assert places(cell.tick()) == ["j/1@n1"]
    assert said(cell.succeeded("j", 1)) == ["FINISH j ALL_PODS_SUCCEEDED"]

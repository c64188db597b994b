"""Admission: what overcommit and capability let in, and what they must not keep out."""

import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import Phase
from support.builders import Cell, node, policy, queue, role
from support.decision_lines import (
    admitted_jobs,
    lose,
    phase_of,
    places,
    queue_of,
    started_jobs,
)


def with_factor(factor_milli: int) -> object:
    """The default rules with another overcommit factor."""
    rule = ("overcommit", {"factor_milli": str(factor_milli)})
    return policy("priority", "gang", rule, "capability", "fair_share", "pack")


@pytest.mark.parametrize(
    ("factor_milli", "waiting"), [(1000, 0), (1200, 2), (1299, 2), (1300, 3), (2000, 10)]
)
def test_overcommit_bounds_what_waits_admitted(factor_milli: int, waiting: int) -> None:
    cell = Cell().start(node("n1", 10), rules=with_factor(factor_milli))  # type: ignore[arg-type]
    for number in range(25):
        cell.submit(f"j{number}")
    made = cell.tick()
    assert len(started_jobs(made)) == 10
    assert len(admitted_jobs(made)) == waiting
    assert queue_of(cell, "q").admitted[0] == waiting * 1000


def test_only_the_resources_asked_for_are_looked_at() -> None:
    cell = Cell().start(node("n1", 1, cpu=1000), node("n2", 1, cpu=1000))
    cell.submit("cards", role(cards=1, replicas=2))
    cell.tick()
    cell.submit("cpu", role(cpu=1000))
    assert places(cell.tick()) == ["cpu/0@n1"]


def test_a_job_without_cards_is_asked_again_while_cards_are_over_committed() -> None:
    cell = Cell().start(node("n1", 2, cpu=1000), node("n2", 4, cpu=0), node("n3", 0, cpu=1000))
    cell.submit("cards", role(cards=2), role("more", cards=4))
    cell.submit("cpu", role(replicas=2, cpu=1000))
    cell.tick()
    cell.submit("next", role(replicas=1, cpu=1000))
    assert places(cell.tick()) == []
    lose(cell, "n2")  # what is used and admitted of cards is now above the limit
    assert phase_of(cell, "next") is Phase.PENDING
    cell.succeeded("cpu", 0)
    assert started_jobs(cell.tick()) == ["next"]


def test_the_minimum_counts_not_the_wish() -> None:
    cell = Cell().start(node("n1", 4))
    cell.submit("elastic", role(replicas=100, minimum=2, cards=1))
    assert len(places(cell.tick())) == 4


def test_the_smallest_start_counts_where_any_pods_will_do() -> None:
    cell = Cell().start(node("n1", 3))
    cell.submit("j", role("big", 1, 0, cards=4), role("small", 2, 0, cards=1), minimum=2)
    assert places(cell.tick()) == ["j/1@n1", "j/3@n1"]


@pytest.mark.parametrize("size", [9, 10, 20])
def test_a_gang_larger_than_the_cell_keeps_nobody_out(size: int) -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("never", role(replicas=size, cards=1))
    cell.submit("small", role(cards=8))
    assert started_jobs(cell.tick()) == ["small"]
    assert phase_of(cell, "never") is Phase.PENDING


def test_it_is_admitted_once_the_cell_has_grown() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("large", role(replicas=2, cards=8))
    assert places(cell.tick()) == []
    cell.put(node("n2", 8, time_ns=cell.now_ns))
    assert len(places(cell.tick())) == 2


STRICT = policy("priority", "gang", ("overcommit", {"into_idle": "0"}), "fair_share", "pack")
"""Overcommit as Volcano has it."""


@pytest.mark.parametrize(("rules", "starts"), [(policy(), True), (STRICT, False)])
def test_a_large_job_that_waits_does_not_keep_out_who_fits(
    rules: r.PolicyConfigured, starts: bool
) -> None:
    cell = Cell().start(node("n1", 100), rules=rules)
    cell.submit("running", role(cards=26))
    cell.tick()
    cell.submit("large", role(cards=94))
    cell.tick()
    cell.submit("small", role(cards=50))
    assert (places(cell.tick()) == ["small/0@n1"]) is starts


def test_what_is_let_in_on_idle_room_is_taken_from_it() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("running", role(cards=6))
    cell.tick()
    for number in range(20):
        cell.submit(f"j{number}")
    assert len(places(cell.tick())) == 2
    admitted = [job for job in cell.state.jobs.values() if job.phase is Phase.INQUEUE]
    assert len(admitted) == 1  # by the factor: 9.6 cards, 8 of them used


def test_demand_of_a_cancelled_job_is_given_back() -> None:
    cell = Cell().start(node("n1", 8), node("n2", 8), rules=STRICT)
    cell.submit("running", role(replicas=2, cards=5))
    cell.tick()
    cell.submit("waits", role(cards=8))
    cell.tick()
    cell.submit("small", role(cards=3))
    assert places(cell.tick()) == []
    cell.cancel("waits")
    assert places(cell.tick()) == ["small/0@n1"]


def test_a_queue_at_its_capability_does_not_keep_another_out() -> None:
    cell = Cell().start(queue("a", capability={"cards_milli": 2000}), queue("b"), node("n1", 8))
    for number in range(5):
        cell.submit(f"a{number}", queue="a")
    cell.submit("b0", queue="b")
    made = cell.tick()
    assert sorted(started_jobs(made)) == ["a0", "a1", "b0"]
    assert admitted_jobs(made) == []


def test_a_job_that_lost_all_its_pods_is_demand_again() -> None:
    cell = Cell().start(node("n1", 8), node("n2", 8))
    cell.submit("j", role(cards=8))
    cell.tick()
    cell.put(node("n3", 8, time_ns=cell.now_ns))
    lose(cell, "n1")
    assert phase_of(cell, "j") is Phase.INQUEUE
    assert cell.state.admitted[0] == 8000
    assert places(cell.tick()) == ["j/0@n2"]
    assert cell.state.admitted[0] == 0

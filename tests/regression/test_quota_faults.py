"""Faults of quota admission that users of other schedulers reported in public: none may come.

Each test is named by what must hold; the number is that of the line in our list of such faults.
"""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, VictimRule
from support.builders import Cell, placed, role
from support.quotas import CARDS, held, kueue, leaf, quota_cell

NEVER, LOWER, ANY = VictimRule.NEVER, VictimRule.LOWER_PRIORITY, VictimRule.ANY
NEWER = VictimRule.LOWER_OR_NEWER_EQUAL


def evictions(decisions: Iterable[Decision]) -> list[tuple[str, str]]:
    """Whom, for whom."""
    return [(one.job, one.for_job) for one in decisions if one.kind is DecisionKind.EVICT]


def play_out(cell: Cell, cycles: int = 30) -> list[tuple[str, str]]:
    """Cycle on, with every eviction carried out and every pod started, and nothing new.

    Returns the evictions. Every one serves a job that has started by the end, the same jobs never
    run twice in the course of it, and the last cycles decide nothing.
    """
    begin = len(cell.decisions)
    seen = []
    for _ in range(cycles):
        made = cell.tick()
        for one in made:
            if one.kind is DecisionKind.EVICT:
                cell.released(one.job, one.pod, one.attempt)
            elif one.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL):
                cell.started(one.job, one.pod, one.attempt)
        running = tuple(sorted(job.request.job for job in cell.state.jobs.values() if job.pods))
        if not seen or running != seen[-1]:
            assert running not in seen, seen
            seen.append(running)
    assert not cell.tick()
    made = cell.decisions[begin:]
    started = {job: True for job, *_ in placed(made)}
    assert all(taker in started for _, taker in evictions(made)), evictions(made)
    return evictions(made)


def cohort(*queues: r.QueueConfigured, cards: int = 0, **arguments: str) -> Cell:
    """Queues that share `cards` that are no queue's own."""
    lender = leaf("lender", {"f": cards}, parent="all")
    return quota_cell(leaf("all", {}), *queues, lender, cards=16, rules=kueue(**arguments))


def sharer(name: str, weight_milli: int = 1000, **rules: VictimRule) -> r.QueueConfigured:
    """A queue without quota of its own."""
    return replace(leaf(name, {"f": 0}, parent="all", **rules), fair_weight_milli=weight_milli)


@pytest.mark.parametrize("fair", ["final", "initial", "both"])
def test_10_nobody_takes_what_leaves_it_with_more_than_it_took_from(fair: str) -> None:
    cell = cohort(sharer("a", reclaim=ANY), sharer("b", reclaim=ANY), cards=4, fair=fair)
    cell.submit("b", role(cards=2), queue="b")
    cell.tick()
    cell.submit("a", role(cards=3), queue="a")
    assert play_out(cell) == []
    cell.succeeded("b")
    assert play_out(cell) == [] and held(cell, "a") == {("f", CARDS): 3000}


def test_11_who_gave_way_to_a_borrower_does_not_take_its_place_back() -> None:
    rules = {"reclaim": LOWER, "borrow": LOWER}
    cell = cohort(sharer("a", **rules), sharer("b", **rules), cards=4)
    cell.submit("old", role(cards=4), queue="a")
    cell.tick()
    cell.submit("new", role(cards=4), queue="b", priority=1)
    assert play_out(cell) == [("old", "new")]
    assert held(cell, "a") == {}


def test_12_queues_of_no_weight_do_not_evict_each_other() -> None:
    cell = cohort(sharer("a", 0, reclaim=ANY), sharer("b", 0, reclaim=ANY), cards=4, fair="both")
    for name in ("a", "b"):
        for number in range(3):
            cell.submit(f"{name}{number}", role(cards=4), queue=name)
    assert play_out(cell) == []
    cell.succeeded("a0")
    assert play_out(cell) == []


def test_13_nobody_is_evicted_more_often_than_there_are_jobs_above_it() -> None:
    cell = cohort(
        sharer("a", reclaim=ANY, within=NEWER, borrow=LOWER),
        sharer("b", reclaim=ANY, within=NEWER, borrow=LOWER),
        cards=4,
        fair="both",
    )
    for number in range(4):
        cell.submit(f"low{number}", role(cards=2), queue="ab"[number % 2])
    play_out(cell)
    for number in range(4):
        cell.submit(f"high{number}", role(cards=2), queue="ab"[number % 2], priority=1 + number)
    victims = [job for job, _ in play_out(cell)]
    assert all(victims.count(job) <= 4 for job in victims), victims
    assert not any(job.startswith("high") for job in victims if job in ("high3", "high2"))


@pytest.mark.parametrize("then", ["place", "quota_alone"])
def test_14_what_is_freed_early_is_not_taken_by_others(then: str) -> None:
    cell = cohort(
        leaf("a", {"f": 4}, parent="all", reclaim=ANY), sharer("b"), sharer("c"), then=then
    )
    cell.submit("b0", role(cards=2), queue="b")
    cell.submit("b1", role(cards=2), queue="b")
    cell.tick()
    cell.submit("a", role(cards=4), queue="a")
    assert sorted(evictions(cell.tick())) == [("b0", "a"), ("b1", "a")]
    cell.submit("thief", role(cards=2), queue="c", priority=9)
    cell.released("b0")
    for _ in range(3):
        assert not placed(cell.tick())
    cell.released("b1")
    cell.tick()
    assert [job for job, *_ in placed(cell.decisions)][-1] == "a"
    assert held(cell, "c") == {}


def test_15_whoever_is_handed_back_makes_no_other_victim_unlawful() -> None:
    cell = cohort(sharer("a", reclaim=ANY, within=LOWER), sharer("b"), cards=10, fair="final")
    cell.submit("own", role(cards=2), queue="a")
    cell.submit("b0", role(cards=4), queue="b")
    cell.submit("b1", role(cards=4), queue="b")
    cell.tick()
    cell.submit("taker", role(cards=3), queue="a", priority=1)
    assert play_out(cell) == []


def test_16_an_eviction_that_is_never_carried_out_leaves_nobody_stuck() -> None:
    cell = quota_cell(leaf("q", {"f": 2}, within=LOWER))
    cell.submit("deaf", role(cards=2))
    cell.tick()
    cell.submit("high", role(cards=2), priority=1)
    assert evictions(cell.tick()) == [("deaf", "high")]
    kinds = [one.kind for one in cell.tick(3600)]
    assert kinds == [DecisionKind.UNCLAIM, DecisionKind.ADMIT, DecisionKind.CLAIM]
    cell.succeeded("deaf")
    assert [job for job, *_ in placed(cell.tick())] == ["high"]

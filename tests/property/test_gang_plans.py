"""Several reservations on several nodes, against looking at each card in each second."""

import random

import pytest

from ganger.schemas.enums import DecisionKind
from support.gang_cells import (
    STARTS,
    carry_out_gangs,
    random_gangs,
    random_nodes,
    reserving,
    stays,
)
from support.node_planners import Conservative, Hybrid, Stay, starts_of
from support.timed_cells import TimedHistory, fills_break_no_promise, follow_restored

JOBS = 45
SEEDS = range(12)


def ordered(found: dict[int, Stay], limits: dict[int, int]) -> dict[int, Stay]:
    """The same, however its pods are listed."""
    return {
        number: Stay(stay.start_s, stay.start_s + limits[number], tuple(sorted(stay.spots)))
        for number, stay in found.items()
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("reserve", ["all", "2", "4"])
def test_starts_are_those_of_the_plain_planner(reserve: str, seed: int) -> None:
    """Each job starts in the same second, on the same cards."""
    chance = random.Random(seed)
    nodes = random_nodes(chance)
    jobs = random_gangs(chance, nodes, JOBS)
    cell = carry_out_gangs(reserving(reserve), nodes, jobs)
    planner = Conservative(nodes) if reserve == "all" else Hybrid(nodes, int(reserve))
    want = ordered(starts_of(planner, jobs), {job.number: job.limit_s for job in jobs})
    assert stays(cell.decisions, jobs) == want
    assert any(decision.kind is DecisionKind.RESERVE for decision in cell.decisions)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("odd", [False, True], ids=["cards", "cpu"])
def test_a_later_arrival_moves_nobodys_reserved_start_later(odd: bool, seed: int) -> None:
    chance = random.Random(seed)
    nodes = random_nodes(chance)
    jobs = random_gangs(chance, nodes, JOBS, odd=odd)
    starts_ns: dict[str, int] = {}
    moved = 0
    for decision in carry_out_gangs(reserving("all"), nodes, jobs).decisions:
        before_ns = starts_ns.get(decision.job)
        if decision.kind is DecisionKind.RESERVE and decision.count:
            assert before_ns is None or decision.start_ns < before_ns
            moved += before_ns is not None
            starts_ns[decision.job] = decision.start_ns
        elif decision.kind in STARTS and before_ns is not None:
            assert decision.time_ns <= before_ns
    assert moved


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("odd", [False, True], ids=["cards", "cpu"])
@pytest.mark.parametrize("reserve", ["all", "3"])
def test_no_start_in_a_gap_breaks_a_reservation(reserve: str, odd: bool, seed: int) -> None:
    """By the fold of decisions that audits ledgers, which knows nothing of plans."""
    chance = random.Random(seed)
    nodes = random_nodes(chance)
    jobs = random_gangs(chance, nodes, JOBS, odd=odd)
    cell = carry_out_gangs(reserving(reserve), nodes, jobs, checks=odd)
    fills_break_no_promise(cell)


@pytest.mark.parametrize("depth", [1, 3])
def test_no_more_jobs_are_booked_than_the_depth_allows(depth: int) -> None:
    chance = random.Random(depth)
    nodes = random_nodes(chance)
    jobs = random_gangs(chance, nodes, JOBS)
    booked: dict[str, None] = {}
    most = 0
    for decision in carry_out_gangs(reserving("all", depth=str(depth)), nodes, jobs).decisions:
        if decision.kind is DecisionKind.RESERVE:
            booked[decision.job] = None
        elif decision.kind in (*STARTS, DecisionKind.CLAIM, DecisionKind.UNRESERVE):
            booked.pop(decision.job, None)
        most = max(most, len(booked))
    assert most == depth


@pytest.mark.parametrize("overruns", [False, True], ids=["in-time", "overrun"])
@pytest.mark.parametrize(("reserve", "depth"), [("all", "4"), ("2", "1")])
def test_who_goes_on_from_a_snapshot_decides_the_same(
    reserve: str, depth: str, overruns: bool
) -> None:
    """What is kept from pass to pass, to ask less, changes no decision."""
    policy = reserving(reserve, depth=depth)
    history = TimedHistory(policy, 5, (4, 4, 2), overruns=overruns)
    follow_restored(history, steps=60, seed=1)
    assert any(decision.kind is DecisionKind.RESERVE for decision in history.cell.decisions)

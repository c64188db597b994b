"""Spot work beside main jobs: nothing is kept for it, and no more of it makes way than is used."""

from msgspec.structs import replace

from ganger.schemas.enums import DecisionKind
from support.builders import SECOND, Cell, node, role, submission
from support.lent_cells import lent_policy
from support.taking import evicted
from support.timed_cells import STARTS, ask, go


def test_no_cards_are_reserved_for_spot_work_that_waits() -> None:
    cell = Cell().start(node("n", 8), rules=lent_policy())
    ask(cell, "long", 6, 1000)
    go(cell)
    ask(cell, "wide", 8, 100, spot=True)
    assert not any(one.kind is DecisionKind.RESERVE for one in go(cell))
    ask(cell, "narrow", 2, 5000, spot=True)
    assert [one.job for one in go(cell) if one.kind in STARTS] == ["narrow"]
    ask(cell, "main", 8, 100)
    reserved = [one.job for one in go(cell) if one.kind is DecisionKind.RESERVE]
    assert list(dict.fromkeys(reserved)) == ["main"]


def test_spot_work_leaves_for_a_main_job_once_it_runs_and_not_before() -> None:
    cell = Cell().start(node("n", 8), rules=lent_policy())
    ask(cell, "spot", 8, 1000, spot=True)
    (fill,) = cell.tick()
    assert (fill.kind, fill.protect_ns) == (DecisionKind.BACKFILL, 0)
    ask(cell, "main", 8, 100)
    assert evicted(cell.tick(100)) == []
    cell.started("spot")
    assert evicted(cell.tick()) == [("spot", 0)]
    cell.released("spot")
    assert [one.job for one in go(cell) if one.kind in STARTS] == ["main"]


def test_of_those_on_one_node_only_they_leave_whose_cards_are_used() -> None:
    cell = Cell().start(node("n0", 8), node("n1", 8), rules=lent_policy())
    ask(cell, "long", 8, 1000)
    go(cell)
    made = submission("head", role(replicas=3, cards=4), time_ns=cell.now_ns)
    cell.put(replace(made, runtime_estimate_ns=50 * SECOND))
    go(cell)
    for job in ("one", "other"):
        ask(cell, job, 4, 5000, spot=True)
    assert [one.job for one in go(cell) if one.kind in STARTS] == ["one", "other"]
    cell.succeeded("long")
    assert len(evicted(cell.tick())) == 1

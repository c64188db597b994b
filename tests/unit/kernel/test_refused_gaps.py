"""Who refuses gaps has none: neither as spot work nor when it goes on elsewhere."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import BackfillPreference, DecisionKind, Tier
from support.builders import Cell, node
from support.decision_lines import cordon
from support.lent_cells import lent_policy
from support.timed_cells import STARTS, ask, go

REFUSE = BackfillPreference.REFUSE


def test_spot_work_that_refuses_gaps_starts_in_its_turn() -> None:
    cell = Cell().start(node("n", 8), rules=lent_policy())
    ask(cell, "spot", 2, 100, spot=True, backfill=REFUSE)
    (fill,) = [one for one in go(cell) if one.kind in STARTS]
    assert (fill.kind, fill.tier) == (DecisionKind.ALLOCATE, Tier.MAIN)


def test_a_suspended_job_that_refuses_by_now_is_not_moved_into_another_gap() -> None:
    cell = Cell().start(node("n", 8), node("other", 8), rules=lent_policy())
    cordon(cell, "other")
    ask(cell, "long", 6, 1000)
    go(cell)
    ask(cell, "head", 8, 50)
    go(cell)
    ask(cell, "gap", 2, 5000, can_checkpoint=True, accepts_suspend=True)
    assert [one.job for one in go(cell) if one.kind is DecisionKind.BACKFILL] == ["gap"]
    cell.succeeded("long")
    assert any(one.kind is DecisionKind.SUSPEND for one in go(cell))
    now_ns = cell.now_ns
    cell.put(r.PodSuspended(now_ns, "", None, "gap", 0, 1, 500, now_ns))
    go(cell)
    wish = r.JobUpdateRequested(now_ns, "", None, "gap", "me", None, None, ())
    cell.put(replace(wish, backfill=REFUSE))
    cell.put(r.NodeUncordoned(now_ns, "", None, "other", "me"))
    kinds = [one.kind for one in go(cell) + go(cell) if one.job == "gap"]
    assert DecisionKind.BACKFILL not in kinds
    assert DecisionKind.ALLOCATE in kinds

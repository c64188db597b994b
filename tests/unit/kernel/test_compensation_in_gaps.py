"""Who lost work in a gap is offered gaps first, and has its turn last."""

from msgspec.structs import replace

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from support.builders import SECOND, Cell, node, role, submission
from support.lent_cells import lent_policy
from support.timed_cells import STARTS, go


def test_who_lost_work_in_a_gap_is_offered_the_next_one_first() -> None:
    ways = {"evict_after_ns": "100s", "floor_ns": "10s", "ceiling_ns": "60s"}
    cell = Cell().start(node("n0", 4), node("n1", 4), rules=lent_policy(yielding=ways))

    def ask(job: str, run_s: int, pods: int = 1) -> None:
        made = submission(job, role(cards=4, replicas=pods), time_ns=cell.now_ns)
        cell.put(replace(made, runtime_estimate_ns=run_s * SECOND))

    def told(after_s: int = 1) -> list[Decision]:
        return [one for one in go(cell, after_s) if one.kind in (*STARTS, DecisionKind.EVICT)]

    ask("long", 10_000)
    told()
    ask("head", 50, pods=2)
    ask("gap", 500)
    told()
    cell.succeeded("long")
    assert [(one.kind, one.job) for one in told(150)] == [(DecisionKind.EVICT, "gap")]
    ask("later", 700)
    cell.released("gap")
    told()
    ask("wide", 50, pods=2)
    ask("main", 400)
    cell.succeeded("head", 0)
    assert [one.job for one in told()] == ["later"]
    cell.succeeded("head", 1)
    made = told()
    assert [one.job for one in made] == ["gap"]  # not "main", which stands before it in line
    cell.succeeded("later")
    assert [one.job for one in told()] == ["main"]
    cell.succeeded("main")
    cell.succeeded("gap", attempt=2)
    assert [one.job for one in told()] == ["wide", "wide"]  # in turn, with all that came free

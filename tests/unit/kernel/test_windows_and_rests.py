"""Who was suspended, and who is thought to be quick, does not run into what is reserved either."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.streams.presets.loader import load_policy
from support.builders import GENESIS, SECOND, Cell, node
from support.decision_lines import cordon
from support.lent_cells import lent_policy
from support.timed_cells import STARTS, ask, go

COMES_BACK = (DecisionKind.RESUME, *STARTS)


def come(made: list[Decision]) -> list[tuple[str, str]]:
    return [(one.job, one.node) for one in made if one.kind in COMES_BACK]


def maintain(cell: Cell, name: str, after_s: int, until_s: int) -> None:
    start, end = cell.now_ns + after_s * SECOND, cell.now_ns + until_s * SECOND
    made = r.ReservationRequested(cell.now_ns, "", None, name, "me", (name,), 0, start, end, False)
    cell.put(replace(made, is_maintenance=True))


def resting(*others: str) -> Cell:
    """A cell in which `gap` rests on `n`, with half a minute to run, and `head` runs there."""
    nodes = [node(name, 8) for name in ("n", *others)]
    cell = Cell().start(*nodes, rules=lent_policy())
    for other in others:
        cordon(cell, other)
    ask(cell, "long", 6, 20)
    go(cell)
    ask(cell, "head", 8, 50)
    go(cell)
    ask(cell, "gap", 2, 30, can_checkpoint=True, accepts_suspend=True)
    assert come(go(cell)) == [("gap", "n")]
    cell.succeeded("long")
    go(cell)
    now_ns = cell.now_ns
    cell.put(r.PodSuspended(now_ns, "", None, "gap", 0, 1, 500, now_ns))
    assert come(go(cell)) == [("head", "n")]
    return cell


def test_a_suspended_job_does_not_go_on_where_it_would_run_into_maintenance() -> None:
    cell = resting()
    maintain(cell, "n", 20, 40)
    cell.succeeded("head")
    assert come(go(cell)) == []
    assert come(go(cell, 38)) == []
    assert come(go(cell)) == [("gap", "n")]


def test_nor_is_it_moved_to_where_it_would() -> None:
    cell = resting("other")
    maintain(cell, "other", 20, 40)
    cell.put(r.NodeUncordoned(cell.now_ns, "", None, "other", "me"))
    assert come(go(cell)) == []
    assert come(go(cell, 38)) == []
    assert come(go(cell)) == [("gap", "other")]


def test_what_a_job_declares_counts_though_its_like_were_quick() -> None:
    cell = Cell().start(node("n", 8), rules=replace(load_policy("xirang"), time_ns=GENESIS))
    for number in range(3):
        ask(cell, f"quick-{number}", 1, 100)
        go(cell)
        cell.now_ns += 5 * SECOND
        cell.succeeded(f"quick-{number}")
    maintain(cell, "n", 50, 80)
    ask(cell, "like", 1, 100)
    assert come(go(cell)) == []
    assert come(go(cell, 79)) == [("like", "n")]

"""Margins that are learnt: when they are made anew, how long they are, and who counts on them."""

import pytest
from msgspec.structs import replace

from ganger.replay.promises import PromiseCheck
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, LimitAction
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.step import step
from support.builders import SECOND, Cell, node, role, submission
from support.timed_cells import go, timed_policy


def started(**settings: str) -> Cell:
    """A node of eight cards under EASY that judges by predictions and their margin."""
    policy = timed_policy("hpc-easy", margin="learnt", estimates="predicted", **settings)
    judges = (r.Argument("timed", "true"), r.Argument("judge", "estimate"))
    rules = replace(policy, actions=(policy.actions[0], r.ActionConfig("backfill", judges)))
    return Cell().start(node("n", 8), rules=rules)


def ask(cell: Cell, job: str, cards: int, declared_s: int, user: str, **more: object) -> None:
    made = submission(job, role(cards=cards), user=user, time_ns=cell.now_ns)
    said = replace(made, runtime_estimate_ns=declared_s * SECOND, **more)  # type: ignore[arg-type]
    cell.put(said)


def ends(cell: Cell, job: str, after_s: int) -> None:
    cell.now_ns += after_s * SECOND
    cell.succeeded(job)


def learnt() -> Cell:
    """`gap` waits since before two runs of others have taught a margin of twenty seconds."""
    cell = started()
    runs = [*[("b", 1)] * 8, ("a", 4)]
    for number, (user, cards) in enumerate(runs):
        ask(cell, f"run-{number}", cards, 50, user)
        go(cell, 0)
        ends(cell, f"run-{number}", 10)
    for job, cards, user in (("long", 4, "c"), ("mid", 2, "d"), ("x1", 1, "b"), ("x2", 1, "b")):
        ask(cell, job, cards, 100, user)
    go(cell, 0)
    ask(cell, "head", 8, 50, "e")
    ask(cell, "gap", 4, 90, "a")
    go(cell, 1)
    ends(cell, "x1", 29)
    ends(cell, "x2", 0)
    go(cell, 0)
    ends(cell, "mid", 55)  # `long` has fifteen seconds left by its limit, and `head` waits for it
    return cell


def test_nobody_is_let_into_a_gap_by_a_margin_that_holds_no_more() -> None:
    cell = learnt()
    assert not [one for one in go(cell, 0) if one.kind is DecisionKind.BACKFILL]


def test_a_cell_restored_after_more_was_learnt_of_margins_decides_the_same() -> None:
    cell = learnt()
    other = snapshot.decode(snapshot.encode(cell.state))
    cell.tick(0)
    step(other, other.next_seq, cell.records[-1])
    assert other.chain == cell.state.chain


@pytest.mark.parametrize(
    ("settings", "wish", "margin_s"),
    [
        ({}, LimitAction.UNKNOWN, 20),  # plans count by the limit
        ({"expect": "estimate"}, LimitAction.UNKNOWN, 40),
        ({"expect": "estimate"}, LimitAction.END, 20),
        ({"expect": "estimate", "end_at_limit": "yes"}, LimitAction.UNKNOWN, 20),
        ({"expect": "estimate", "end_at_limit": "yes"}, LimitAction.LET_RUN, 40),
    ],
)
def test_a_margin_ends_at_the_limit_at_which_the_job_counts_as_ended(
    settings: dict[str, str], wish: LimitAction, margin_s: int
) -> None:
    """Eighty seconds are expected, half of that is added as long as little is known."""
    cell = started(**settings)
    ask(cell, "run", 1, 0, "a")
    go(cell, 0)
    ends(cell, "run", 80)
    ask(cell, "long", 6, 900, "b")
    ask(cell, "head", 7, 10, "b")
    go(cell, 0)
    ask(cell, "gap", 1, 0, "a", time_limit_ns=100 * SECOND, on_limit=wish)
    (fill,) = [one for one in go(cell, 0) if one.kind is DecisionKind.BACKFILL]
    assert (fill.job, fill.estimate_ns) == ("gap", 80 * SECOND)
    assert fill.margin_ns == margin_s * SECOND


@pytest.mark.parametrize(("expect", "limit_s"), [("limit", 100), ("estimate", 200)])
def test_no_start_beside_a_reservation_breaks_it(expect: str, limit_s: int) -> None:
    cell = started(expect=expect)
    ask(cell, "run", 1, 100, "a")
    go(cell, 0)
    ends(cell, "run", 100)  # so of its like 100 s are expected, and 50 s of margin
    for job, cards, declared_s, user in (
        ("long", 5, 300, "l"),
        ("mid", 2, 101, "m"),
        ("head", 7, 10, "h"),
        ("early", 1, limit_s, "a"),  # in the gap, and counted on to end in 100 s
    ):
        ask(cell, job, cards, declared_s, user)
        go(cell, 0)
    ends(cell, "long", 10)
    go(cell, 0)
    ask(cell, "late", 1, 500, "z")  # beside the reservation
    go(cell, 0)
    decided: list[list[Decision]] = [[] for _ in cell.records]
    for decision in cell.decisions:
        decided[decision.cause_seq].append(decision)
    assert [d.job for d in cell.decisions if d.kind is DecisionKind.BACKFILL] == ["early", "late"]
    check = PromiseCheck()
    check.check(cell.records, decided)
    assert not check.violations, check.first

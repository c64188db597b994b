"""A cell restored from a snapshot runs its actions, and passes over time, when the other does."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import LimitScope
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.step import step
from support.builders import SECOND, Cell, node, queue, role, submission
from support.lent_cells import lent_policy
from support.timed_cells import go, timed_policy


def fitting(rules: r.PolicyConfigured) -> r.PolicyConfigured:
    return replace(rules, settings=(*rules.settings, r.Argument("passes", "fitting")))


def ask(cell: Cell, job: str, cards: int, user: str = "u", priority: int = 0) -> None:
    made = submission(job, role(cards=cards), user=user, priority=priority, time_ns=cell.now_ns)
    cell.put(replace(made, runtime_estimate_ns=10 * SECOND))


def decides_the_same_restored(cell: Cell, *asked: tuple[str, int, str, int]) -> bool:
    """Whether it does so now, once more has been asked for."""
    other = snapshot.decode(snapshot.encode(cell.state))
    seen = len(cell.records)
    for one in asked:
        ask(cell, *one)
    cell.tick()
    for record in cell.records[seen:]:
        step(other, other.next_seq, record)
    return other.chain == cell.state.chain


@pytest.mark.parametrize("ends", ["cancel", "hold"])
def test_a_job_that_fits_nowhere_waits_no_more(ends: str) -> None:
    cell = Cell().start(node("n", 4), rules=lent_policy())
    cell.submit("wide", role(cards=8))
    cell.tick()
    if ends == "cancel":
        cell.cancel("wide")
    else:
        cell.update("wide", held=True)
    cell.tick()
    assert decides_the_same_restored(cell)


def limited(rules: r.PolicyConfigured) -> Cell:
    """`first` of user `u` has started; `second` waits at the gate for what `u` may have at most."""
    limit = r.Limit(LimitScope.USER, "", "cards_milli", 4000)
    cell = Cell().start(node("n", 8), queue("q", limits=(limit,)), rules=rules)
    for job in ("first", "second"):
        ask(cell, job, 4)
        go(cell, 0)
    assert cell.state.indexes.gate.limited and cell.state.indexes.gate.count == 1
    return cell


def test_who_waits_is_stopped_by_a_limit() -> None:
    assert decides_the_same_restored(limited(lent_policy()))


def test_who_does_not_fit_comes_where_another_is_stopped_by_a_limit() -> None:
    cell = limited(fitting(lent_policy()))
    ask(cell, "head", 4, "v")
    go(cell, 0)
    assert decides_the_same_restored(cell, ("urgent", 4, "w", 1))


def test_a_job_is_cancelled_behind_which_others_are_booked() -> None:
    cell = Cell().start(node("n", 8), rules=fitting(timed_policy("hpc-conservative")))
    for job, cards in (("runs", 4), ("ends", 4), ("waits", 8), ("behind", 8)):
        ask(cell, job, cards)
        go(cell, 0)
    cell.succeeded("ends")
    go(cell, 1)
    assert len(cell.state.bookings) == 2
    cell.cancel("waits")
    assert decides_the_same_restored(cell)


def test_nothing_calls_for_a_pass_where_gaps_are_tuned() -> None:
    cell = Cell().start(node("n", 8), rules=fitting(lent_policy()))
    for job, cards in (("runs", 4), ("waits", 8)):
        ask(cell, job, cards)
        go(cell, 0)
    go(cell, 1)
    assert not cell.state.stirred
    assert decides_the_same_restored(cell)

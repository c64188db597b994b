"""The eviction right: spent by evictions, back with progress, and never otherwise."""

import pytest

from ganger.schemas.enums import FailureKind, QueueState
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.progress import may_evict, restore, spend
from support.builders import Cell, node, policy, queue, role
from support.decision_lines import cordon, job_of, lose, say_again, uncordon


def cell_of_two() -> tuple[Cell, Job, Job]:
    """Jobs `a` of queue q and `b` of queue other run, `w` and `x` wait behind them."""
    cell = Cell().start(queue("q"), queue("other"), node("n1", 2))
    cell.submit("a")
    cell.submit("b", queue="other", retries=3)
    cell.tick()
    cell.started("a")
    cell.started("b")
    cell.submit("w")
    cell.submit("x", queue="other")
    return cell, job_of(cell, "a"), job_of(cell, "b")


def test_everybody_begins_with_the_right() -> None:
    cell, a, _ = cell_of_two()
    assert may_evict(cell.state, a) and may_evict(cell.state, job_of(cell, "w"))


def test_taker_and_victim_lose_it_until_something_ends() -> None:
    cell, a, b = cell_of_two()
    spend(cell.state, b, by=a)
    spend(cell.state, a, by=a)
    invariants.check(cell.state)
    assert not may_evict(cell.state, a) and not may_evict(cell.state, b)
    cell.tick()
    cell.submit("late")
    assert not may_evict(cell.state, a) and not may_evict(cell.state, b)
    assert may_evict(cell.state, job_of(cell, "late"))


@pytest.mark.parametrize(
    ("ends", "returned"),
    [("w", "ab"), ("x", "b")],
)
def test_an_end_in_the_own_queue_or_the_others_gives_it_back(ends: str, returned: str) -> None:
    cell, a, b = cell_of_two()
    spend(cell.state, a, by=a)
    spend(cell.state, b, by=a)
    cell.cancel(ends)
    found = [name for name, job in (("a", a), ("b", b)) if may_evict(cell.state, job)]
    assert "".join(found) == returned


def test_an_end_in_a_third_queue_gives_nothing_back() -> None:
    cell, a, _ = cell_of_two()
    cell.put(queue("third"))
    cell.submit("c", queue="third")
    spend(cell.state, a, by=a)
    cell.cancel("c")
    assert not may_evict(cell.state, a)


def test_the_end_of_an_own_pod_gives_it_back_but_not_that_of_an_evicted_one() -> None:
    cell, _, b = cell_of_two()
    spend(cell.state, b, by=b)
    cell.failed("b", 0, failure=FailureKind.ERROR)
    assert b.right == ()
    cell.tick()
    cell.update("b", scale=[("worker", 2, 1)])
    cell.tick()
    lone = job_of(cell, "b")
    spend(cell.state, lone, by=lone)
    cell.update("x", priority=1)  # of another job
    assert not may_evict(cell.state, lone)


def test_a_pod_that_was_told_to_end_may_fail_without_giving_it_back() -> None:
    cell, a, _ = cell_of_two()
    cell.put(queue("q", state=QueueState.EVICTING))
    spend(cell.state, a, by=job_of(cell, "w"))
    cell.failed("a", 0)
    assert a.right and not may_evict(cell.state, a)


def test_what_an_operator_does_gives_it_back() -> None:
    changes = (
        lambda cell: cell.put(queue("q", weight=2)),
        lambda cell: cell.put(policy("priority", "pack")),
        lambda cell: cell.put(node("n2", 1)),
        lambda cell: say_again(cell, "n1", 4),
        lambda cell: uncordon(cell, "n1"),
        lambda cell: cell.update("a", priority=1),
    )
    for change in changes:
        cell, a, _ = cell_of_two()
        cordon(cell, "n1")
        spend(cell.state, a, by=a)
        change(cell)
        assert may_evict(cell.state, a)


def test_what_takes_capacity_or_is_refused_gives_nothing_back() -> None:
    cell, a, _ = cell_of_two()
    cell.put(node("n2", 1))
    spend(cell.state, a, by=a)
    lose(cell, "n2")
    cordon(cell, "n1")
    say_again(cell, "n1", 2, labels=[("zone", "a")])
    cell.put(policy("nonsense"))
    cell.put(queue("q", weight=-1))
    assert not may_evict(cell.state, a)


def test_a_right_goes_through_a_snapshot() -> None:
    cell, a, b = cell_of_two()
    before = cell.digest
    spend(cell.state, a, by=b)
    assert cell.digest != before
    copy = snapshot.fork(cell.state)
    assert copy.jobs[a.seq].right == a.right == (cell.state.progress, 0, b.queue, 0)
    assert not may_evict(copy, copy.jobs[a.seq])
    restore(cell.state, a)
    assert cell.digest == before


def test_ends_are_counted_where_they_happen() -> None:
    cell = Cell().start(queue("top"), queue("leaf", parent="top"), node("n1", 2))
    cell.submit("j", role(cards=1), queue="leaf")
    cell.tick()
    cell.succeeded("j")
    progress = {q.config.queue: q.progress for q in cell.state.queues}
    assert progress["leaf"] == 1 and progress["top"] == 0
    assert snapshot.encode(snapshot.fork(cell.state)) == snapshot.encode(cell.state)


def test_a_right_spent_in_the_future_is_a_bug() -> None:
    cell, a, _ = cell_of_two()
    a.right = (cell.state.progress + 1, 0, -1, 0)
    cell.state.touch(a)
    with pytest.raises(invariants.InvariantViolation, match="eviction right of a"):
        invariants.check(cell.state)

"""What is remembered of failed attempts to place never keeps out a job that would fit."""

from ganger.schemas import records as r
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.step import step
from support.builders import Cell, node, placed, queue, role
from support.watched import WatchedCell


def tick_as_restored(cell: Cell) -> tuple[list[tuple[str, int, int, str]], ...]:
    """Placements of the next cycle: of the cell, and of one restored from its bytes before."""
    other = snapshot.fork(cell.state)
    mine = placed(cell.tick())
    theirs = placed(step(other, other.next_seq, cell.records[-1]))
    return mine, theirs


def test_stopped_by_a_limit_and_by_room_wakes_for_room() -> None:
    """One role is at its queue's capability, the other lacks room: room is enough to start."""
    cell = WatchedCell()
    far = node("far", 0, cpu=64_000)
    cell.start(queue("q", capability={"cards_milli": 1000}), node("a", 4, cpu=0), far)
    cell.put(r.NodeCordoned(cell.now_ns, "", None, "far", "ops"))
    cell.submit("j", role("card", 2, 0, cards=1), role("core", 2, 0, cpu=4000), minimum=2)
    assert placed(cell.tick()) == []
    cell.put(node("b", 0, cell.now_ns, cpu=4000))
    mine, theirs = tick_as_restored(cell)
    assert mine == theirs
    assert [one[0] for one in mine].count("j") == 2


def test_a_job_that_lost_a_small_pod_asks_again() -> None:
    """It failed to grow by a large pod; a small one that came back fits into what is free."""
    cell = WatchedCell()
    cell.start(node("a", 1), node("b", 1), node("c", 1))
    cell.submit("j", role("large", 1, 0, cards=2), role("small", 2, 1, cards=1), minimum=2)
    assert placed(cell.tick()) == [("j", 1, 1, "a"), ("j", 3, 1, "b")]
    assert placed(cell.tick()) == []
    cell.put(r.NodeDrained(cell.now_ns, "", None, "a", "ops", 0))
    cell.released("j", 1)
    mine, theirs = tick_as_restored(cell)
    assert mine == theirs == [("j", 1, 2, "c")]

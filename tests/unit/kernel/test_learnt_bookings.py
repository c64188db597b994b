"""Conservative backfill on one node: a booking is for as long as was expected when it was made.

Who is booked counts as to run so long, whatever was learnt since, and from when it begins; so a
cell that was restored from a snapshot has the same plan.
"""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support.builders import SECOND, Cell, node, role, submission
from support.timed_cells import STARTS, go, timed_policy


def ask(cell: Cell, job: str, cards: int, declared_s: int = 0) -> None:
    """A job of one pod comes, and a cycle runs."""
    made = submission(job, role(cards=cards), time_ns=cell.now_ns)
    cell.put(replace(made, runtime_estimate_ns=declared_s * SECOND))
    go(cell, 0)


def ends(cell: Cell, job: str, after_s: int) -> None:
    cell.now_ns += after_s * SECOND
    cell.succeeded(job)


def predicting() -> Cell:
    rules = timed_policy("hpc-conservative", estimates="predicted")
    return Cell().start(node("n", 8), rules=rules)


def learnt() -> Cell:
    """`next` and `last` were booked for ten seconds each; runs are longer by now."""
    cell = predicting()
    ask(cell, "first", 1)
    ends(cell, "first", 10)
    ask(cell, "old", 4)
    cell.now_ns += 30 * SECOND
    ask(cell, "young", 4)
    cell.now_ns += SECOND
    ask(cell, "next", 8)
    ask(cell, "last", 8)
    ends(cell, "old", 4)
    go(cell, 0)
    return cell


def restored(cell: Cell) -> State:
    return snapshot.decode(snapshot.encode(cell.state))


def follow(cell: Cell, other: State, *after_s: int) -> None:
    """Both decide the same at moments to come."""
    for wait_s in after_s:
        seen = len(cell.records)
        go(cell, wait_s)
        for record in cell.records[seen:]:
            step(other, other.next_seq, record)
        assert other.chain == cell.state.chain


def test_who_is_booked_behind_another_begins_when_that_one_ends() -> None:
    first, second = sorted(learnt().state.bookings.values(), key=lambda one: one.start_ns)
    assert first.until_ns - first.start_ns == 10 * SECOND
    assert first.until_ns == second.start_ns


def test_a_booked_job_counts_as_to_run_as_long_as_it_was_booked() -> None:
    cell = learnt()
    ends(cell, "young", 1)
    (start,) = [d for d in go(cell, 0) if d.kind in STARTS]
    assert (start.job, start.estimate_ns) == ("next", 10 * SECOND)
    (booking,) = cell.state.bookings.values()
    assert booking.start_ns == start.time_ns + 10 * SECOND


def test_a_cell_restored_after_more_was_learnt_decides_the_same() -> None:
    cell = learnt()
    follow(cell, restored(cell), 0, 5, 60, 60)


def test_who_was_booked_before_anything_was_known_is_expected_to_end() -> None:
    cell = predicting()
    ask(cell, "first", 4)
    ask(cell, "other", 4, 20)
    ask(cell, "next", 8)
    ends(cell, "first", 10)
    go(cell, 0)
    ask(cell, "last", 8)
    ends(cell, "other", 5)
    go(cell, 0)
    other = restored(cell)
    ask(cell, "more", 8)
    for record in cell.records[other.next_seq :]:
        step(other, other.next_seq, record)
    assert other.chain == cell.state.chain
    follow(cell, other, 0, 5, 60)


def test_who_starts_late_ends_later_than_it_was_booked() -> None:
    """The cycle comes five seconds after the moment that `next` was booked for."""
    cell = Cell().start(node("n", 8), rules=timed_policy("hpc-conservative"))
    for job, run_s in (("first", 50), ("next", 10), ("last", 10)):
        ask(cell, job, 8, run_s)
    ends(cell, "first", 50)
    other = restored(cell)
    made = cell.tick(5)
    assert [d.job for d in made if d.kind in STARTS] == ["next"]
    moved = [d for d in made if d.kind is DecisionKind.RESERVE]
    assert [(d.job, d.start_ns) for d in moved] == [("last", cell.now_ns + 10 * SECOND)]
    step(other, other.next_seq, cell.records[-1])
    assert other.chain == cell.state.chain


def test_who_says_otherwise_while_it_is_booked_counts_by_that_once_it_runs() -> None:
    cell = Cell().start(node("n", 8), rules=timed_policy("hpc-conservative"))
    for job, run_s in (("first", 50), ("next", 10), ("last", 10)):
        ask(cell, job, 8, run_s)
    said = r.JobUpdateRequested(cell.now_ns, "", None, "next", "me", None, None, ())
    cell.put(replace(said, runtime_estimate_ns=30 * SECOND))
    ends(cell, "first", 45)
    go(cell, 0)
    began_ns = cell.now_ns
    follow(cell, restored(cell), 0, 5, 6)
    (booking,) = cell.state.bookings.values()
    assert booking.start_ns == began_ns + 30 * SECOND

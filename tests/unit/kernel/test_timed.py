"""Run times in the kernel: limits, estimates that were outlived, reservations of nodes ahead."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, LimitAction, Phase
from ganger.schemas.reasons import Reason
from support import builders as b
from support.decision_lines import phase_of
from support.timed_cells import STARTS, timed_policy

S = b.SECOND


def submit(cell: b.Cell, job: str, cards: int, run_s: int, **more: object) -> None:
    """A job of one pod that says it runs so long."""
    made = b.submission(job, b.role(cards=cards), time_ns=cell.now_ns)
    cell.put(replace(made, runtime_estimate_ns=run_s * S, **more))  # type: ignore[arg-type]


def starts(cell: b.Cell, after_s: int = 0) -> list[str]:
    """Jobs that start in a cycle; they are reported running at once."""
    found = [d.job for d in cell.tick(after_s) if d.kind in STARTS]
    for job in found:
        cell.started(job)
    return found


def test_a_job_is_ended_at_its_limit_where_it_or_the_policy_says_so() -> None:
    for setting, wish, is_ended in (
        ("yes", LimitAction.UNKNOWN, True),
        ("yes", LimitAction.LET_RUN, False),
        ("no", LimitAction.UNKNOWN, False),
        ("no", LimitAction.END, True),
    ):
        rules = timed_policy("hpc-easy", end_at_limit=setting)
        cell = b.Cell().start(b.node("n"), rules=rules)
        submit(cell, "a", 4, 5, time_limit_ns=10 * S, on_limit=wish)
        assert starts(cell) == ["a"]
        assert not cell.tick(9)
        told = [(d.kind, d.reason, d.asked, d.limit) for d in cell.tick(1)]
        evicted = (DecisionKind.EVICT, Reason.TIME_LIMIT, 10 * S, 10 * S)
        assert told == ([evicted] if is_ended else [])
        if is_ended:
            cell.released("a")
            assert phase_of(cell, "a") is Phase.FAILED


def test_the_reservation_moves_when_a_job_outlives_what_was_expected() -> None:
    cell = b.Cell().start(b.node("n"), rules=timed_policy("hpc-easy"))
    submit(cell, "a", 6, 10)
    assert starts(cell) == ["a"]
    submit(cell, "head", 8, 5)
    told = [d for d in cell.tick(1) if d.kind is DecisionKind.RESERVE]
    began_ns = cell.now_ns - S
    assert [(d.job, d.start_ns, d.asked, d.limit) for d in told] == [
        ("head", began_ns + 10 * S, 8_000, 8_000)
    ]
    submit(cell, "c", 2, 40)
    assert starts(cell, 1) == []  # it would end after the head's start
    submit(cell, "d", 9, 1)  # never fits, so it stands in nobody's way
    made = cell.tick(9)
    moved = [(d.start_ns, d.reason) for d in made if d.kind is DecisionKind.RESERVE]
    # nothing says how long it still takes, so a minute at least
    assert moved == [(cell.now_ns + 60 * S, Reason.RESERVED_MOVED)]
    filled = [(d.job, d.reason, d.asked, d.limit) for d in made if d.kind in STARTS]
    assert filled == [("c", Reason.SAFE_IN_GAP, 40 * S, 60 * S)]


def test_nobody_starts_where_it_would_run_into_a_reservation_of_the_node() -> None:
    cell = b.Cell().start(b.node("n0", 4), b.node("n1", 4), rules=timed_policy("hpc-easy"))
    begin_ns = cell.now_ns + 20 * S
    cell.put(
        r.ReservationRequested(
            cell.now_ns, "", None, "service", "me", ("n0",), 0, begin_ns, begin_ns + 50 * S, False
        )
    )
    submit(cell, "long", 4, 30)
    submit(cell, "short", 4, 15)
    submit(cell, "late", 4, 30)
    made = cell.tick(1)
    placed = {d.job: d.node for d in made if d.kind in STARTS}
    assert placed == {"long": "n1", "short": "n0"}
    told = [d for d in made if d.kind is DecisionKind.RESERVE]
    assert [(d.job, d.node, d.start_ns) for d in told] == [("late", "n1", cell.now_ns + 30 * S)]

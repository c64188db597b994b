"""The phase tables: every pair."""

import pytest

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import ENDED, LIVE
from ganger.streams.kernel.jobs.lifecycle import JOB_MOVES, POD_MOVES, WAITING, move_job, move_pod
from support.builders import Cell, node
from support.decision_lines import job_of

P = Phase

JOBS = """
            PENDING INQUEUE ALLOCATED RUNNING SUSPENDED RELEASING SUCCEEDED FAILED CANCELLED
PENDING        -       x        x        x        -         -         x        x       x
INQUEUE        x       -        x        x        -         x         x        x       x
ALLOCATED      -       x        -        x        x         x         x        x       x
RUNNING        -       x        -        -        x         x         x        x       x
SUSPENDED      -       x        x        x        -         x         x        x       x
RELEASING      -       -        -        -        -         -         x        x       x
SUCCEEDED      -       -        -        -        -         -         -        -       -
FAILED         -       -        -        -        -         -         -        -       -
CANCELLED      -       -        -        -        -         -         -        -       -
"""

PODS = """
            ALLOCATED RUNNING RELEASING SUSPENDED SUCCEEDED FAILED EVICTED
ALLOCATED       -        x        x         -         x        x      x
RUNNING         -        -        x         -         x        x      x
RELEASING       -        -        -         x         x        x      x
SUSPENDED       x        -        x         -         x        x      x
"""


def pairs(table: str) -> list[tuple[Phase, Phase, bool]]:
    """(before, after, allowed) of every cell of a table."""
    head, *rows = [line.split() for line in table.strip().splitlines()]
    return [
        (P[row[0]], P[after], mark == "x")
        for row in rows
        for after, mark in zip(head, row[1:], strict=True)
    ]


def placed() -> Cell:
    """A cell with one job of one pod, placed."""
    cell = Cell(checks=False).start(node("n1", 1))
    cell.submit("j")
    cell.tick()
    return cell


@pytest.mark.parametrize(("before", "after", "allowed"), pairs(JOBS))
def test_phases_of_jobs(before: Phase, after: Phase, allowed: bool) -> None:
    cell = placed()
    job = job_of(cell, "j")
    job.phase = before
    count = cell.state.waiting_count
    if not allowed:
        with pytest.raises(AssertionError):
            move_job(cell.state, job, after)
        assert (job.phase, cell.state.waiting_count) == (before, count)
        return
    move_job(cell.state, job, after)
    assert job.phase is after
    assert cell.state.waiting_count - count == (after in WAITING) - (before in WAITING)
    assert job in cell.state.dirty


@pytest.mark.parametrize(("before", "after", "allowed"), pairs(PODS))
def test_phases_of_attempts(before: Phase, after: Phase, allowed: bool) -> None:
    cell = placed()
    job = job_of(cell, "j")
    pod = (job.pods or {})[0]
    pod.phase = before
    if not allowed:
        with pytest.raises(AssertionError):
            move_pod(cell.state, job, pod, after)
        assert pod.phase is before
        return
    move_pod(cell.state, job, pod, after)
    assert pod.phase is after
    assert (job if pod.is_untold else pod) in cell.state.dirty


def test_the_tables_here_are_whole() -> None:
    assert {before for before, _, _ in pairs(JOBS)} == set(JOB_MOVES)
    assert {before for before, _, _ in pairs(PODS)} == set(POD_MOVES)
    for moves, table in ((JOB_MOVES, JOBS), (POD_MOVES, PODS)):
        said = {(before, after) for before, after, allowed in pairs(table) if allowed}
        assert said == {(b, a) for b, after in moves.items() for a in after}


def test_ended_jobs_and_live_attempts_are_named_rightly() -> None:
    assert all(JOB_MOVES[phase] == () for phase in ENDED)
    assert set(POD_MOVES) <= set(LIVE)

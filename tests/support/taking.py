"""Jobs that take from others: a cycle whose placements run, and whom it evicts."""

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from support.builders import Cell


def start(cell: Cell) -> list[Decision]:
    """A cycle; what it places runs."""
    said = cell.tick()
    for one in said:
        if one.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL):
            cell.started(one.job, one.pod, one.attempt)
    return said


def evicted(said: list[Decision]) -> list[tuple[str, int]]:
    """Whom, by pod."""
    return [(one.job, one.pod) for one in said if one.kind is DecisionKind.EVICT]

"""Time-division zones: when the nodes of a revocable zone take pods that named it.

A zone is open in the intervals of its record, each from its first moment to, and without, its last.
One that is not configured, or no more, is closed.
"""

from bisect import bisect_right

from ganger.schemas.parts import Interval
from ganger.schemas.records import ZoneConfigured
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

ANY = "*"
"""Stands in a role for whatever zone is open."""


def is_open(state: State, zone: str, at_ns: int | None = None) -> bool:
    """Whether a zone is open at a moment; none: at this one. O(log of its intervals)."""
    record = state.zones.get(zone)
    if record is None:
        return False
    now_ns = state.clock_ns if at_ns is None else at_ns
    place = _begun(record, now_ns)
    return place > 0 and now_ns < record.open[place - 1].to_ns


def next_edge(record: ZoneConfigured, now_ns: int) -> int | None:
    """When a zone opens or closes next, after a moment; none: never."""
    place = _begun(record, now_ns)
    if place and now_ns < record.open[place - 1].to_ns:
        return record.open[place - 1].to_ns
    return record.open[place].from_ns if place < len(record.open) else None


def watch(state: State, record: ZoneConfigured) -> None:
    """Ask to be called when the zone opens or closes next."""
    at_ns = next_edge(record, state.clock_ns)
    if at_ns is not None:
        state.indexes.timers.at(at_ns, Wake.ZONE)


def has_edge(state: State, at_ns: int) -> bool:
    """Whether any zone opens or closes at a moment."""
    return any(next_edge(record, at_ns - 1) == at_ns for record in state.zones.values())


def turned(state: State) -> None:
    """Some zone has opened or closed, or its times were changed: jobs may be asked again."""
    indexes = state.indexes
    indexes.gate_grew = indexes.zero_grew = True
    indexes.evict_epoch += 1
    indexes.rankings = None
    for waiting in (indexes.gate, indexes.inqueue):
        waiting.wake_all()


def _begun(record: ZoneConfigured, now_ns: int) -> int:
    """How many of its intervals have begun by a moment."""
    return bisect_right(record.open, now_ns, key=_start)


def _start(span: Interval) -> int:
    return span.from_ns

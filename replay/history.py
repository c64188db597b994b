"""The state at any point of the past: the nearest snapshot before it, and the records since."""

from msgspec import Struct

from ganger.replay.reader import Progress, Streams, fold, initial_state, records, tell_nobody
from ganger.streams.checkpoint import Checkpoint, SnapshotStore, pack, unpack
from ganger.streams.kernel.snapshot import SnapshotUnreadable
from ganger.streams.kernel.state import State
from ganger.streams.log.protocol import LogReader
from ganger.streams.payloads import read_decision

SNAPSHOT_AFTER_COUNT = 50_000
"""A replay this long, about a second, ends with a snapshot, where there is a store to keep it."""


class AtSeq(Struct, frozen=True):
    """After the record of this seq."""

    seq: int


class AtTime(Struct, frozen=True):
    """Before the first record that was appended later than this, UTC nanoseconds since 1970."""

    time_ns: int


class AtOffset(Struct, frozen=True):
    """The same, counted from the time of the ledger's first record."""

    offset_ns: int


Point = AtSeq | AtTime | AtOffset | None
"""A point of a ledger; none is its end."""


class PointOutside(Exception):
    """A point that the ledger does not reach, or that lies before its beginning."""


def resolve(ledger: LogReader, point: Point) -> int:
    """The seq before which all records count at a point, from 1 to `end()`.

    For a time, O(records before it).

    Raises:
        PointOutside: no record counts there, or the seq is not reached yet.
        LogCorrupt: what is stored does not check.
    """
    end = ledger.end()
    if end == 0:
        raise PointOutside("the ledger holds no record yet")
    if point is None:
        return end
    if isinstance(point, AtSeq):
        if not 0 <= point.seq < end:
            raise PointOutside(f"seq {point.seq}: the ledger holds seq 0 to {end - 1}")
        return point.seq + 1
    first_ns = next(record.time_ns for _, record in records(ledger, 0, 1))
    time_ns = point.time_ns if isinstance(point, AtTime) else first_ns + point.offset_ns
    found = next((seq for seq, r in records(ledger, 0, end) if r.time_ns > time_ns), end)
    if found == 0:
        raise PointOutside(f"time {time_ns} ns: the ledger begins at {first_ns} ns")
    return found


def state_at(
    streams: Streams,
    next_seq: int,
    snapshots: SnapshotStore | None = None,
    on_progress: Progress = tell_nobody,
) -> State:
    """The state that the records below `next_seq` lead to.

    Args:
        streams: the ledger.
        next_seq: first record that does not count, at most the ledger's end.
        snapshots: where to find a shortcut and to leave one; without, all is replayed.
        on_progress: told how many records were covered since it was last called.

    Raises:
        LedgerCut: the ledger does not begin at seq 0.
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record has no known schema.
    """
    found = _newest_checkpoint(streams, next_seq, snapshots)
    state, position = found or Checkpoint(initial_state(streams.ledger), 0)
    on_progress(state.next_seq)
    replayed = next_seq - state.next_seq
    position += fold(state, streams.ledger, next_seq, on_progress)
    if snapshots is not None and replayed >= SNAPSHOT_AFTER_COUNT:
        snapshots.save(next_seq, pack(state, position))
    return state


def _newest_checkpoint(
    streams: Streams, next_seq: int, snapshots: SnapshotStore | None
) -> Checkpoint | None:
    """The newest checkpoint up to `next_seq` that fits the ledger."""
    found = None if snapshots is None else snapshots.newest(next_seq)
    while snapshots is not None and found is not None:
        seq, data = found
        try:
            checkpoint = unpack(data)
        except (ValueError, SnapshotUnreadable):
            checkpoint = None
        if checkpoint is not None and _fits(checkpoint, seq, streams):
            return checkpoint
        found = snapshots.newest(seq - 1)
    return None


def _fits(checkpoint: Checkpoint, seq: int, streams: Streams) -> bool:
    """Whether the ledger's last decision before the checkpoint carries the checkpoint's chain."""
    state, position = checkpoint
    if (state.cell, state.next_seq) != (streams.ledger.cell, seq):
        return False
    return any(
        read_decision(place, payload).chain == state.chain
        for first, payloads in streams.decisions.read_groups(max(position - 1, 0), position)
        for place, payload in enumerate(payloads, first)
    )

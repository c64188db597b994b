"""The state at any point of the past: the nearest snapshot before it, and the records since."""

from msgspec import Struct

from ganger.replay.reader import Progress, Streams, fold, initial_state, records, tell_nobody
from ganger.streams.checkpoint import Checkpoint, SnapshotStore, pack, unpack
from ganger.streams.kernel.snapshot import SnapshotUnreadable
from ganger.streams.kernel.state import State
from ganger.streams.log.protocol import LogReader
from ganger.streams.payloads import read_decision

SNAPSHOT_AFTER_COUNT = 10_000
"""A replay this long, a fifth of a second, ends with a snapshot, where there is a store to keep it:
who asks about a moment asks about it again."""


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


class PointBefore(PointOutside):
    """A time before the ledger's first record.

    Attributes:
        time_ns: the time.
        first_ns: that of the first record.
    """

    def __init__(self, time_ns: int, first_ns: int) -> None:
        super().__init__(f"time {time_ns} ns: the ledger begins at {first_ns} ns")
        self.time_ns = time_ns
        self.first_ns = first_ns


class Place(Struct, frozen=True):
    """Where a point of a ledger is.

    Attributes:
        next_seq: first record that does not count, from 1 to the ledger's end.
        at_ns: the time asked for; that of the last record that counts where none was.
        last_ns: time of the last record that counts.
        is_beyond: a time was asked for that is later than the ledger's last record.
    """

    next_seq: int
    at_ns: int
    last_ns: int
    is_beyond: bool = False


def locate(ledger: LogReader, point: Point) -> Place:
    """Where a point is. For a time, O(records before it).

    Raises:
        PointOutside: no record counts there, or the seq is not reached yet.
        LogCorrupt: what is stored does not check.
    """
    end = ledger.end()
    if end == 0:
        raise PointOutside("the ledger holds no record yet")
    if point is None or isinstance(point, AtSeq):
        seq = end - 1 if point is None else point.seq
        if not 0 <= seq < end:
            raise PointOutside(f"seq {seq}: the ledger holds seq 0 to {end - 1}")
        last_ns = time_of(ledger, seq)
        return Place(seq + 1, last_ns, last_ns)
    first_ns = time_of(ledger, 0)
    time_ns = point.time_ns if isinstance(point, AtTime) else first_ns + point.offset_ns
    last_ns = first_ns
    for seq, record in records(ledger, 0, end):
        if record.time_ns > time_ns:
            if seq == 0:
                raise PointBefore(time_ns, first_ns)
            return Place(seq, time_ns, last_ns)
        last_ns = record.time_ns
    return Place(end, time_ns, last_ns, time_ns > last_ns)


def time_of(ledger: LogReader, seq: int) -> int:
    """The time of one record, UTC nanoseconds since 1970. O(one segment).

    Raises:
        LogCorrupt: what is stored does not check.
    """
    return next(record.time_ns for _, record in records(ledger, seq, seq + 1))


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

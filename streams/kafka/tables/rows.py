"""Frames of rows: what a cell's owner publishes, and which frames a table may still take in.

A frame says as of which record of the ledger its rows are (`seq`) and which owner says so
(`epoch`). One that is older than the table is let go, so frames may be read again and tables end
the same. Owners that were replaced may still publish: their frames have a lower epoch. That is
sound under two conditions, which the owner keeps:

* it publishes the rows up to a snapshot's seq before it saves the snapshot, and after a restore the
  rows that changed since the snapshot, in at least one frame, an empty one too;
* it publishes nothing any more once it reads another's OwnerClaimed in the ledger.
"""

from collections.abc import Iterable

from ganger.schemas.encoding import encode_row
from ganger.schemas.rows import RowChange, RowsChanged
from ganger.streams.tables.changes import Change

FRAME_BYTES_MAX = 256 << 10
"""Most bytes of a frame: small against Kafka's limit of a message, large against its overhead."""

_HEAD_BYTES_MAX = 64  # of a frame, its cell's name aside
_CHANGE_BYTES_MAX = 16  # of a change, its key and row aside

Version = tuple[int, int]
"""Epoch and seq: how new a frame or a table is."""

NEVER: Version = (-1, -1)
"""The version of a table that knows nothing of a cell."""


def frames(cell: str, epoch: int, seq: int, time_ns: int, changes: Iterable[Change]) -> list[bytes]:
    """Payloads that say these changes, in order; one without rows if there are none.

    Args:
        cell: the cell.
        epoch: seq of the owner's OwnerClaimed.
        seq: the last record of the ledger that the rows show.
        time_ns: clock of the owner, UTC nanoseconds since 1970.
        changes: as `RowChanges` gives them.

    Returns:
        Payloads of at most `FRAME_BYTES_MAX`, but for a single row that is larger by itself.
    """
    payloads: list[bytes] = []
    rows: list[RowChange] = []
    room = limit = FRAME_BYTES_MAX - _HEAD_BYTES_MAX - len(cell.encode())
    for table, key, row in changes:
        data = b"" if row is None else encode_row(row)
        size = _CHANGE_BYTES_MAX + len(key.encode()) + len(data)
        if size > room and rows:
            payloads.append(encode_row(RowsChanged(cell, epoch, seq, time_ns, tuple(rows))))
            rows, room = [], limit
        rows.append(RowChange(table, key, data))
        room -= size
    if rows or not payloads:
        payloads.append(encode_row(RowsChanged(cell, epoch, seq, time_ns, tuple(rows))))
    return payloads


def version_of(frame: RowsChanged) -> Version:
    """How new the frame's rows are. Frames of one take are equally new."""
    return frame.epoch, frame.seq


def entry_key(cell: str, key: str) -> bytes:
    """The key of a row in a table's topic."""
    return f"{cell}/{key}".encode()


def mark_key(cell: str) -> bytes:
    """The key under which a table's topic says how far the table is for a cell: no row's key."""
    return entry_key(cell, "")


def mark_of(frame: RowsChanged) -> bytes:
    """What stands there after the frame: its head."""
    return encode_row(RowsChanged(frame.cell, frame.epoch, frame.seq, frame.time_ns, ()))


Entry = tuple[bytes, bytes | None]
"""Key and value of a table's topic; none: the row is gone."""


def entries_of(
    frame: RowsChanged, versions: dict[str, Version], tables: Iterable[str]
) -> dict[str, list[Entry]]:
    """What a frame changes in each table, the table's mark last.

    The mark comes after the rows, so a table whose frame was only written in part is still as old
    as before and takes the frame in again.

    Args:
        frame: a frame of one cell.
        versions: how new each table is for that cell; those missing know nothing of it. Raised to
            what the frame brings.
        tables: all tables. Each is marked by every frame that it is not too new for.

    Returns:
        Entries in order for each table to be changed; nothing for a frame that is older than all.
    """
    version = version_of(frame)
    found: dict[str, list[Entry]] = {
        table: [] for table in tables if version >= versions.get(table, NEVER)
    }
    for change in frame.rows:
        if change.table in found:
            entry = entry_key(frame.cell, change.key), change.row or None
            found[change.table].append(entry)
    for table, entries in found.items():
        entries.append((mark_key(frame.cell), mark_of(frame)))
        versions[table] = version
    return found

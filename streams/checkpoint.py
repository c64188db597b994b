"""What is saved beside a snapshot of the state, so that both logs can be entered at it.

A checkpoint at `seq` holds the state after all records below `seq`, and how many decisions these
caused. It is a shortcut: the ledger alone gives the same state, so a checkpoint that does not fit
is left aside. Bytes: magic, format, number of decisions (u64, little-endian), then the state's
own.
"""

import struct
from typing import NamedTuple, Protocol

from ganger.streams.kernel import snapshot
from ganger.streams.kernel.snapshot import SnapshotUnreadable
from ganger.streams.kernel.state import State

_HEAD = struct.Struct("<4sHxxQ")
_MAGIC = b"GCKP"
_FORMAT = 1


class SnapshotStore(Protocol):
    """Keeps checkpoints of one ledger. May forget any of them at any time."""

    def save(self, seq: int, data: bytes) -> None:
        """Keep the checkpoint at `seq`, instead of one that is there already."""

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        """The intact checkpoint with the highest seq that is at most `at_or_before`."""


class Checkpoint(NamedTuple):
    """A state, and the position in the decisions' log of the first decision after it."""

    state: State
    position: int


def pack(state: State, position: int) -> bytes:
    """The bytes of a checkpoint. Equal states, equal bytes."""
    return _HEAD.pack(_MAGIC, _FORMAT, position) + snapshot.encode(state)


def unpack(data: bytes) -> Checkpoint:
    """The checkpoint that `pack` wrote.

    Raises:
        SnapshotUnreadable: other bytes, or those of another version; take an older one, or none.
    """
    if len(data) < _HEAD.size:
        raise SnapshotUnreadable(f"{len(data)} bytes; the head alone has {_HEAD.size}")
    magic, version, position = _HEAD.unpack_from(data)
    if (magic, version) != (_MAGIC, _FORMAT):
        raise SnapshotUnreadable(f"it begins with {magic!r}, format {version}; delete it")
    return Checkpoint(snapshot.decode(data[_HEAD.size :]), position)

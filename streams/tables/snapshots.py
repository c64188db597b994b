"""Snapshots of kernel state in the store: a shortcut past the replay of a ledger's beginning.

Keys: `s`, seq, number of the chunk; chunk 0 is the header. A snapshot that does not check is
deleted and an older one is taken; none is as good as any, only slower.
"""

import struct
from hashlib import sha256

from msgspec import MsgspecError, Struct, msgpack

from ganger.streams.tables.store import Item, Store

CHUNK_BYTES = 1 << 20
"""A snapshot is written in pieces, so that a batch stays within the write buffer."""

SNAPSHOT_COUNT_MAX = 16
"""When there are more, every second of the older half goes: near the end they lie close."""

_PREFIX = b"s"
_KEY = struct.Struct(">cQI")


class _Header(Struct, frozen=True):
    """Chunk 0: what the other chunks must make together."""

    size_bytes: int
    sha256: bytes
    chunk_count: int


class Snapshots:
    """The snapshots of one ledger."""

    def __init__(self, store: Store) -> None:
        """Use the snapshots in an open store; it stays the caller's to close."""
        self._store = store

    def save(self, seq: int, data: bytes) -> None:
        """Keep the state that the records below `seq` lead to, safe against a `kill -9`.

        Args:
            seq: the state's `next_seq`, the first record that is not in it.
            data: the state's bytes.
        """
        chunks = [data[begin : begin + CHUNK_BYTES] for begin in range(0, len(data), CHUNK_BYTES)]
        for number, chunk in enumerate(chunks, 1):
            self._store.write(0, [(_key(seq, number), chunk)])
        header = _Header(len(data), sha256(data).digest(), len(chunks))
        self._store.write(seq, [(_key(seq, 0), msgpack.encode(header))])
        self._thin()
        self._store.seal()

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        """The latest good snapshot whose seq is at most this, as (seq, data), or none."""
        for seq in reversed(self.seqs()):
            if seq <= at_or_before:
                data = self._load(seq)
                if data is not None:
                    return seq, data
                self.delete(seq)
        return None

    def seqs(self) -> list[int]:
        """Seqs of all snapshots, ascending."""
        with self._store.scan(_PREFIX) as rows:
            found = [_KEY.unpack(key) for key, _ in rows]
        return [seq for _, seq, number in found if number == 0]

    def delete(self, seq: int) -> None:
        """Forget a snapshot."""
        prefix = _key(seq, 0)[:-4]
        with self._store.scan(prefix) as rows:
            items: list[Item] = [(key, None) for key, _ in rows]
        self._store.write(0, items)

    def _load(self, seq: int) -> bytes | None:
        raw = self._store.get(_key(seq, 0))
        if raw is None:
            return None
        try:
            header = msgpack.decode(raw, type=_Header)
        except MsgspecError:
            return None
        chunks = [self._store.get(_key(seq, n)) or b"" for n in range(1, header.chunk_count + 1)]
        data = b"".join(chunks)
        if len(data) != header.size_bytes or sha256(data).digest() != header.sha256:
            return None
        return data

    def _thin(self) -> None:
        seqs = self.seqs()
        if len(seqs) > SNAPSHOT_COUNT_MAX:
            for seq in seqs[1 : SNAPSHOT_COUNT_MAX // 2 : 2]:
                self.delete(seq)


def _key(seq: int, number: int) -> bytes:
    return _KEY.pack(_PREFIX, seq, number)

"""All rows of one moment, kept in the store so that the newest tables are read without a replay.

Keys: `t`, name of the table, number of the row; the row `T` says of which moment they are.
"""

import struct
from collections.abc import Iterator

from msgspec import Struct, msgpack

from ganger.schemas.rows import Row
from ganger.streams.kernel.state import State
from ganger.streams.tables.rows import TABLES
from ganger.streams.tables.store import Item, Store

BATCH_COUNT_MAX = 4096
"""Rows per batch: bounds memory."""

_PREFIX = b"t"
_MOMENT_KEY = b"T"
_NUMBER = struct.Struct(">Q")


class Moment(Struct, frozen=True):
    """The state that the rows show: after all records below `seq`, at `clock_ns`."""

    seq: int
    clock_ns: int


class Projection:
    """The tables of one ledger at one moment."""

    def __init__(self, store: Store) -> None:
        """Use the rows in an open store; it stays the caller's to close."""
        self._store = store

    def moment(self) -> Moment | None:
        """Of which moment all rows are; none if there are none."""
        raw = self._store.get(_MOMENT_KEY)
        return None if raw is None else msgpack.decode(raw, type=Moment)

    def replace(self, state: State) -> None:
        """Put the rows of a state in the place of all others. O(rows)."""
        self._store.write(0, [(_MOMENT_KEY, None)])
        for name, (_, rows_of) in TABLES.items():
            count = 0
            batch: list[Item] = []
            for count, row in enumerate(rows_of(state), 1):
                batch.append((_key(name, count - 1), msgpack.encode(row)))
                if len(batch) >= BATCH_COUNT_MAX:
                    self._store.write(0, batch)
                    batch = []
            with self._store.scan(_prefix(name), _NUMBER.pack(count)) as old:
                batch += [(key, None) for key, _ in old]
            self._store.write(0, batch)
        moment = Moment(state.next_seq, state.clock_ns)
        self._store.write(moment.seq, [(_MOMENT_KEY, msgpack.encode(moment))])
        self._store.seal()

    def rows(self, name: str) -> Iterator[Row]:
        """Rows of a table, in its order."""
        kind, _ = TABLES[name]
        with self._store.scan(_prefix(name)) as rows:
            for _, value in rows:
                yield msgpack.decode(value, type=kind)


def _prefix(name: str) -> bytes:
    return _PREFIX + name.encode() + b"\0"


def _key(name: str, number: int) -> bytes:
    return _prefix(name) + _NUMBER.pack(number)

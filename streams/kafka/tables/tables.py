"""The tables `cards`, `nodes`, `queues` and `jobs`: Faust's, in RocksDB, with compacted changelogs.

Faust keeps, assigns and recovers them; what it would cost to assign rows one by one (a store's
write, a send and a second write for each) is gone round. A frame's rows are sent to the changelogs
by ganger's own producer; once they are safe there they are put into the stores in one batch, by the
very function that Faust's recovery uses. So a store never holds what its changelog lacks, a
changelog may hold more, and recovery is what closes the gap.

Nothing stops a worker that has lost a partition, and does not know it yet, from writing what it had
on its way. Offsets tell: only one worker writes, so its entries follow each other without a gap.
What stands in a gap is another's. Older than the table, it may hide newer rows, and these are sent
again (`repair`); newer, it is this worker that is late, and it must end.

What stands in a changelog can be read by any client: key `CELL/KEY`, value the row in Confluent's
wire format; under `CELL/` a `RowsChanged` without rows says how far the table is.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import faust
from confluent_kafka import Message
from faust.exceptions import ConsistencyError
from faust.types import TP

from ganger.schemas.codec import decode_row
from ganger.schemas.errors import PayloadCorrupt, PayloadRefused
from ganger.schemas.rows import CardRow, JobRow, NodeRow, QueueRow, Row, RowsChanged
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import ROWS, TABLE_TOPICS
from ganger.streams.kafka.tables.rows import NEVER, Entry, Version, entries_of, mark_key, version_of
from ganger.streams.kafka.wire.acks import Acks, Pending
from ganger.streams.kafka.wire.envelope import FixedIds, Framing, headers
from ganger.streams.kafka.wire.outlet import Outlet
from ganger.streams.kafka.wire.partition import Partition

TABLES = tuple(TABLE_TOPICS)

_RECORDS = {"cards": CardRow, "nodes": NodeRow, "queues": QueueRow, "jobs": JobRow}
_STORE = {
    "driver": "rocksdict",
    # Faust's defaults are 2 GiB and 64 MiB, for each table and partition.
    "block_cache_size": 8 << 20,
    "write_buffer_size": 4 << 20,
    "max_open_files": 64,
}
REPAIR_HEADER = "ganger_repair"
"""On entries that were sent again because a late worker had hidden them."""

_UNSAFE_MAX = 64  # frames on their way: at most 16 MiB of rows
_WAIT_S = 0.002
_REPAIR_WAIT_S = 0.1

_log = logging.getLogger(__name__)

_CHANGELOG_BUFFER_COUNT = 1 << 17  # as Faust's own: nothing commits what is read from a changelog


def is_of_store(error: BaseException | None) -> bool:
    """Whether an error is one of RocksDB's, which come as plain exceptions, or says that a store is
    ahead of its changelog. It is to be deleted: the changelogs hold all there is.
    """
    return type(error) is Exception or isinstance(error, ConsistencyError)


class RowTables:
    """The tables of the partitions that a worker has. One thread uses it: the event loop's."""

    def __init__(
        self,
        app: faust.App,
        outlet: Outlet,
        settings: KafkaSettings,
        on_late: Callable[[str], None],
        on_broken: Callable[[Exception], None],
    ) -> None:
        """Declare the tables; the topics must be there.

        Args:
            app: whose tables they are, made with `store="rocksdb://"`.
            outlet: where changelogs are written; whoever owns it polls it.
            settings: how to read what others wrote there.
            on_late: called with the reason when another worker is found to be further in a table
                of this one's; should end the process.
            on_broken: called when a store takes nothing any more, as on a full disk; should end
                the process. Faust's recovery would go on for ever.
        """
        self._on_late = on_late
        self._app = app
        self._settings = settings
        self.tables = {table: _declared(app, table) for table in TABLES}
        for table in self.tables.values():
            table.apply_changelog_batch = _telling(table.apply_changelog_batch, on_broken)
        self._outlet = outlet
        self._versions: dict[tuple[int, str], dict[str, Version]] = {}  # what was sent last
        self._partitions: frozenset[int] = frozenset()
        self._next: dict[tuple[str, int], int] = {}  # offset after the last entry of a changelog
        self._gaps: list[tuple[str, int, int, int]] = []  # table, partition, begin, end
        self._assignment = 0
        self._unsafe_count = 0
        app.on_partitions_revoked.connect(self._pause, weak=False)
        app.on_partitions_assigned.connect(self._pause, weak=False)
        app.on_rebalance_complete.connect(self._resume, weak=False)

    @property
    def unsafe_count(self) -> int:
        """Frames that were sent and are not stored yet."""
        return self._unsafe_count

    @property
    def has_gaps(self) -> bool:
        """Whether others wrote into a changelog, so that `repair` has to be called."""
        return bool(self._gaps)

    def has(self, partition: int) -> bool:
        """Whether frames of this partition may be copied: it is assigned, its tables recovered."""
        return partition in self._partitions

    def assign(self, partitions: Iterable[int]) -> None:
        """Begin anew with these partitions, whose stores are as their changelogs are.

        What is on its way is stored by nobody: its frames were not acknowledged, so whoever has the
        partitions now reads them again.
        """
        self._partitions = frozenset(partitions)
        self._assignment += 1
        self._versions = {}
        self._next = {}
        self._gaps = []
        self._unsafe_count = 0

    async def _pause(self, *_: object, **__: object) -> None:
        self.assign(())

    async def _resume(self, *_: object, **__: object) -> None:
        assignment = self._app.consumer.assignment()
        self.assign(place.partition for place in assignment if place.topic == ROWS)

    def copy(self, frame: RowsChanged, partition: int, on_stored: Callable[[], None]) -> None:
        """Bring a frame's rows into the tables.

        Args:
            frame: the next one of its partition.
            partition: of the topic of rows, and so of all changelogs.
            on_stored: called when every row is in its changelog and its store; at once where the
                frame changes nothing. Never called for a frame that `assign` gave up.
        """
        versions = self._versions_of(partition, frame.cell)
        found = entries_of(frame, versions, TABLES)
        if not found:
            on_stored()
            return
        copy = _Copy(self, len(found), self._assignment, on_stored)
        self._unsafe_count += 1
        for table, entries in found.items():
            self._send(copy, table, partition, frame, entries)

    async def repair(self) -> None:
        """Send again what others may have hidden, unless this worker is the late one.

        Nothing may be on its way, and nothing is copied meanwhile: the gaps stay until all is done.

        Raises:
            LogUnreachable: what they wrote cannot be read.
        """
        assert not self._unsafe_count
        assignment = self._assignment
        for gap in self._gaps:
            # A broker that is away must not keep the loop from turning.
            found = await asyncio.get_running_loop().run_in_executor(None, self._written_in, *gap)
            if assignment != self._assignment:
                return
            table, partition, _, _ = gap
            reasons = [self._lateness(table, partition, message) for message in found]
            if any(reasons):
                self._on_late(next(filter(None, reasons)))
                return
            for key in dict.fromkeys(message.key() or b"" for message in found):
                self._outlet.send(
                    TABLE_TOPICS[table],
                    partition,
                    key,
                    self._db(table, partition).get(key),
                    [(REPAIR_HEADER, b"")],
                    _Repaired(self, table, partition),
                )
        self._gaps = []

    def _written_in(self, table: str, partition: int, begin: int, end: int) -> list[Message]:
        """What stands in a stretch of a changelog."""
        changelog = Partition(self._settings, TABLE_TOPICS[table], partition)
        try:
            return [m for messages in changelog.read(begin, end) for m in messages]
        finally:
            changelog.close()

    def _lateness(self, table: str, partition: int, message: Message) -> str:
        """Why this worker is late: another's mark is newer than its table. Else nothing."""
        value = message.value()
        mark = decode_row(value) if value is not None else None
        if isinstance(mark, RowsChanged):
            ours = self._version(table, partition, mark.cell)
            if version_of(mark) > ours:
                return (
                    f"{TABLE_TOPICS[table]}/{partition}: at offset {message.offset()} another "
                    f"worker is at {version_of(mark)}, this one at {ours}: the partition is lost"
                )
        return ""

    def rows(self, table: str, partition: int) -> Iterator[tuple[str, Row]]:
        """What a table's store holds of a partition: `CELL/KEY` and row, by key.

        Marks are left out.
        """
        for key, value in self._store(table)._visible_items(self._db(table, partition)):
            row = decode_row(value)
            if isinstance(row, Row):
                yield key.decode(), row

    def _send(
        self, copy: "_Copy", table: str, partition: int, frame: RowsChanged, entries: list[Entry]
    ) -> None:
        topic = TABLE_TOPICS[table]
        told = headers(
            _RECORDS[table].__name__, frame.cell, f"{frame.epoch}/{frame.seq}", frame.time_ns
        )
        last = len(entries) - 1
        for position, (key, value) in enumerate(entries):
            on_delivered = None
            if position == last:
                on_delivered = _Delivered(copy, table, partition, entries)
            self._outlet.send(topic, partition, key, value, told, on_delivered)

    def _store_entries(
        self, table: str, partition: int, entries: list[Entry], last_offset: int
    ) -> None:
        """Put entries into a store, as read from the changelog where the last has this offset."""
        place = TP(TABLE_TOPICS[table], partition)
        begin = self._next.get((table, partition))
        if begin is None:
            persisted = self.tables[table].persisted_offset(place)
            begin = 0 if persisted is None else persisted + 1
        first = last_offset - len(entries) + 1
        if first > begin:
            self._gaps.append((table, partition, begin, first))
        self._next[table, partition] = last_offset + 1
        written = [_Written(place, key, value, last_offset) for key, value in entries]
        self.tables[table].apply_changelog_batch(written)

    def _versions_of(self, partition: int, cell: str) -> dict[str, Version]:
        versions = self._versions.get((partition, cell))
        if versions is None:
            versions = {table: self._version(table, partition, cell) for table in TABLES}
            self._versions[partition, cell] = versions
        return versions

    def _version(self, table: str, partition: int, cell: str) -> Version:
        value = self._db(table, partition).get(mark_key(cell))
        mark = None if value is None else decode_row(value)
        return version_of(mark) if isinstance(mark, RowsChanged) else NEVER

    def _store(self, table: str) -> Any:
        return self.tables[table].data

    def _db(self, table: str, partition: int) -> Any:
        # Faust's stores are asked by key for the partition of the event under way; a cell's rows
        # are of one partition, named here.
        return self._store(table)._db_for_partition(partition)


def copy_rows(
    app: faust.App,
    tables: RowTables,
    acks: Acks,
    framing: Framing | None = None,
    on_copied: Callable[[RowsChanged], None] = lambda frame: None,
) -> Any:
    """The agent that copies frames from the topic of rows into the tables.

    Whoever runs the app commits what `acks` says, and lets it forget when partitions come or go.

    Args:
        app: the tables' own.
        tables: where the rows go.
        acks: told which messages are done.
        framing: of the frames on the wire; by default ganger's fixed ids.
        on_copied: told of each frame whose rows are in the tables.
    """
    wire = framing or FixedIds()
    topic = app.topic(
        ROWS,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=app.conf.topic_partitions,
        acks=False,  # Faust acknowledges what it skips at a rebalance
        allow_empty=True,
    )

    @app.agent(topic, concurrency=1, name=f"{app.conf.id}-rows")
    async def copy(stream: Any) -> None:
        async for event in stream.noack().events():
            message = event.message
            place = (ROWS, message.partition)
            if not tables.has(message.partition) or not acks.admits(place, message.offset):
                continue  # of a partition that was taken away; or it came before, or comes again
            pending = acks.open(place, message.offset)
            frame = _frame(wire, event.value, message)
            if frame is None:
                pending.done()
                continue
            tables.copy(frame, message.partition, partial(_copied, pending, frame, on_copied))
            while tables.has_gaps or tables.unsafe_count > _UNSAFE_MAX:
                await asyncio.sleep(_WAIT_S)

    @app.task
    async def repair() -> None:
        while not app.should_stop:
            await asyncio.sleep(_REPAIR_WAIT_S)
            if tables.has_gaps and not tables.unsafe_count:
                await tables.repair()

    return copy


def _copied(pending: Pending, frame: RowsChanged, told: Callable[[RowsChanged], None]) -> None:
    pending.done()
    told(frame)


def _frame(framing: Framing, payload: bytes | None, message: Any) -> RowsChanged | None:
    """The frame of a message; None, and a line in the log, for what no ganger wrote."""
    try:
        frame = decode_row(framing.incoming(payload or b""))
    except (PayloadCorrupt, PayloadRefused) as error:
        _log.warning("%s/%d/%d: no frame: %s", ROWS, message.partition, message.offset, error)
        return None
    return frame if isinstance(frame, RowsChanged) else None


class _Copy:
    """A frame on its way into some tables."""

    __slots__ = ("assignment", "left", "on_stored", "owner")

    def __init__(
        self, owner: RowTables, left: int, assignment: int, on_stored: Callable[[], None]
    ) -> None:
        self.owner = owner
        self.left = left
        self.assignment = assignment
        self.on_stored = on_stored


class _Delivered:
    """What is to be done once the last entry of a frame is in a table's changelog."""

    __slots__ = ("_copy", "_entries", "_partition", "_table")

    def __init__(self, copy: _Copy, table: str, partition: int, entries: list[Entry]) -> None:
        self._copy = copy
        self._table = table
        self._partition = partition
        self._entries = entries

    def __call__(self, offset: int) -> None:
        copy = self._copy
        owner = copy.owner
        if copy.assignment != owner._assignment:
            return
        owner._store_entries(self._table, self._partition, self._entries, offset)
        copy.left -= 1
        if not copy.left:
            owner._unsafe_count -= 1
            copy.on_stored()


class _Repaired:
    """Notes where an entry that was sent again stands."""

    __slots__ = ("_assignment", "_owner", "_place")

    def __init__(self, owner: RowTables, table: str, partition: int) -> None:
        self._owner = owner
        self._place = (table, partition)
        self._assignment = owner._assignment

    def __call__(self, offset: int) -> None:
        if self._assignment == self._owner._assignment:
            self._owner._next[self._place] = offset + 1


class _Written:
    """An entry as Faust's stores take it in: an event that is its own message."""

    __slots__ = ("key", "offset", "partition", "tp", "value")

    def __init__(self, tp: TP, key: bytes, value: bytes | None, offset: int) -> None:
        self.tp = tp
        self.partition = tp.partition
        self.key = key
        self.value = value
        self.offset = offset

    @property
    def message(self) -> "_Written":
        return self


def _telling(
    apply: Callable[[Iterable[Any]], None], on_broken: Callable[[Exception], None]
) -> Callable[[Iterable[Any]], None]:
    """The same, with word of what fails."""

    def apply_and_tell(batch: Iterable[Any]) -> None:
        try:
            apply(batch)
        except Exception as error:
            if is_of_store(error):
                on_broken(error)
            raise

    return apply_and_tell


def _declared(app: faust.App, table: str) -> Any:
    """Faust's table over the changelog that ganger has created."""
    changelog = app.topic(
        TABLE_TOPICS[table],
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=app.conf.topic_partitions,
        compacting=True,
        deleting=False,
        acks=False,
        internal=True,
        allow_empty=True,
        maxsize=_CHANGELOG_BUFFER_COUNT,
    )
    return app.Table(
        table,
        key_type=bytes,
        value_type=bytes,
        partitions=app.conf.topic_partitions,
        changelog_topic=changelog,
        options=dict(_STORE),  # Faust takes the driver out of it
    )

"""Snapshots of a cell's state, on the owner's disk and in a compacted topic for whoever is next.

A snapshot on Kafka is a run of chunks and, when all of them are acknowledged, a header with their
size and hash: a saving that was cut off has no header and is no snapshot. Keys are CELL/SEQ/CHUNK,
chunk 0 is the header. What does not check is passed over for an older one.

With the state goes a bookmark of the decisions' partition, so that a restart counts decisions from
there and not from the first one.
"""

import logging
import struct
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import time_ns
from typing import TypeVar

from msgspec import MsgspecError, Struct, msgpack

from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import SNAPSHOTS
from ganger.streams.kafka.log.aside import Aside
from ganger.streams.kafka.log.ledger import Bookmark, KafkaDecisions
from ganger.streams.kafka.wire.envelope import headers
from ganger.streams.kafka.wire.partition import Partition, offset_of
from ganger.streams.kafka.wire.publisher import Publisher
from ganger.streams.log.errors import LedgerLost
from ganger.streams.log.protocol import LogReader
from ganger.streams.tables.snapshots import Snapshots
from ganger.streams.tables.store import Store, StoreFailed

CHUNK_BYTES = 512 << 10
"""Half of what brokers take as a message by default."""

KEPT_COUNT = 3
"""Snapshots in the topic; the chunks of older ones are deleted by compaction."""

_FIRST_WINDOW = 16
_BOOKMARK = struct.Struct("<4sHxxQQqq")
_MAGIC = b"GBMK"
_FORMAT = 1

_Answer = TypeVar("_Answer")

log = logging.getLogger("ganger.worker")


class Header(Struct, frozen=True):
    """Chunk 0 of a snapshot: what the other chunks must make together."""

    size_bytes: int
    sha256: bytes
    chunk_count: int


class TopicSnapshots:
    """A cell's snapshots in its partition of `ganger.snapshots`. Implements `SnapshotStore`.

    The partition is read from its end backwards, in windows, and no further than is needed.
    """

    def __init__(self, settings: KafkaSettings, placement: Placement, publisher: Publisher) -> None:
        """Name a cell's snapshots. Nothing is asked yet; the publisher stays the caller's."""
        self.partition = Partition(settings, SNAPSHOTS, placement.partition)
        self._cell = placement.cell
        self._publisher = publisher
        self._offsets: dict[tuple[int, int], int] = {}  # by seq and chunk; -1: deleted
        self._headers: dict[int, Header] = {}
        self._begin = self._end = -1  # offsets between which all is known
        self._low = 0

    def save(self, seq: int, data: bytes) -> None:
        """Keep a snapshot, and delete all but the newest `KEPT_COUNT`. Waits for both.

        Raises:
            PublishingStopped: it may be there or not.
        """
        for _ in self.saving(seq, data):
            continue

    def saving(self, seq: int, data: bytes) -> Iterator[None]:
        """Do what `save` does, in pieces of some milliseconds."""
        self._refresh()
        chunks = [data[begin : begin + CHUNK_BYTES] for begin in range(0, len(data), CHUNK_BYTES)]
        for number, chunk in enumerate(chunks, 1):
            self._send(seq, number, chunk)
            yield
        self._thin(seq)
        self._publisher.flush()
        # The last record of all: who looks for the newest snapshot finds it at once.
        header = Header(len(data), sha256(data).digest(), len(chunks))
        self._send(seq, 0, msgpack.encode(header))
        self._publisher.flush()

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        """The latest good snapshot whose seq is at most this, as (seq, data), or none.

        Raises:
            LogUnreachable: no broker answered, or nothing came for too long.
        """
        self._refresh()
        passed: set[int] = set()
        while True:
            for seq in sorted(self._headers, reverse=True):
                if seq <= at_or_before and seq not in passed:
                    data = self._load(seq)
                    if data is not None:
                        return seq, data
                    passed.add(seq)
            if not self._look_back():
                return None

    def newest_seq(self) -> int | None:
        """Seq of the latest snapshot, whether its chunks check or not; none if there is none."""
        self._refresh()
        while not self._headers:
            if not self._look_back():
                return None
        return max(self._headers)

    def close(self) -> None:
        """Give up the connections."""
        self.partition.close()

    def _send(self, seq: int, number: int, value: bytes | None) -> None:
        key = f"{self._cell}/{seq}/{number}"
        self._publisher.send(
            SNAPSHOTS,
            self.partition.number,
            key.encode(),
            value,
            headers("SnapshotChunk", self._cell, key, time_ns()),
        )

    def _thin(self, saving: int) -> None:
        """Delete what is older than the newest ones, with the one that is being saved among them.

        The first time this reads the partition back to its beginning.
        """
        while self._look_back():
            continue
        kept = sorted({*self._headers, saving}, reverse=True)[:KEPT_COUNT]
        for seq, number in sorted(self._offsets):
            if seq < kept[-1] and self._offsets[seq, number] >= 0:
                self._send(seq, number, None)
        # All is known from the partition's beginning, so nothing older can come up again.
        self._offsets = {key: offset for key, offset in self._offsets.items() if offset >= 0}

    def _refresh(self) -> None:
        """Take in what came since the last look; at the first one, a window at the end."""
        low, high = self.partition.watermarks()
        if self._end < 0:
            self._begin = max(low, high - _FIRST_WINDOW)
            self._end = self._begin
        self._low = low
        for key, offset, value in self._entries(self._end, high):
            self._offsets[key] = offset if value is not None else -1
            self._take_header(key, value)
        self._end = max(high, self._end)

    def _look_back(self) -> bool:
        """Take in an earlier window, twice as long as all known; whether there was one."""
        if self._begin <= self._low:
            return False
        begin = max(self._low, self._begin - 2 * max(self._end - self._begin, _FIRST_WINDOW))
        found = {key: (offset, value) for key, offset, value in self._entries(begin, self._begin)}
        for key, (offset, value) in found.items():
            if key not in self._offsets:
                self._offsets[key] = offset if value is not None else -1
                self._take_header(key, value)
        self._begin = begin
        return True

    def _take_header(self, key: tuple[int, int], value: bytes | None) -> None:
        seq, number = key
        if number != 0:
            return
        self._headers.pop(seq, None)
        if value is not None:
            header = _header_of(value)
            if header is not None:
                self._headers[seq] = header

    def _entries(self, begin: int, end: int) -> Iterator[tuple[tuple[int, int], int, bytes | None]]:
        """((seq, chunk), offset, value) of the cell's records between two offsets.

        Chunks other than headers come as an empty value: they are read again when asked for.
        """
        for messages in self.partition.read(begin, end):
            for message in messages:
                key = self._key_of(message.key())
                if key is not None:
                    value = message.value()
                    yield key, offset_of(message), value if value is None or key[1] == 0 else b""

    def _key_of(self, key: bytes | None) -> tuple[int, int] | None:
        cell, _, rest = (key or b"").partition(b"/")
        seq, _, number = rest.partition(b"/")
        if cell != self._cell.encode() or not (seq.isdigit() and number.isdigit()):
            return None
        return int(seq), int(number)

    def _load(self, seq: int) -> bytes | None:
        """The data of a snapshot, if all of its chunks are there and check."""
        header = self._headers[seq]
        wanted: dict[int, int] = {}
        for number in range(1, header.chunk_count + 1):
            while (seq, number) not in self._offsets and self._look_back():
                continue
            offset = self._offsets.get((seq, number), -1)
            if offset < 0:
                return None
            wanted[offset] = number
        chunks: dict[int, bytes] = {}
        if wanted:
            for messages in self.partition.read(min(wanted), max(wanted) + 1):
                for message in messages:
                    number = wanted.get(offset_of(message), 0)
                    if number and self._key_of(message.key()) == (seq, number):
                        chunks[number] = message.value() or b""
        data = b"".join(chunks.get(number, b"") for number in range(1, header.chunk_count + 1))
        if len(data) != header.size_bytes or sha256(data).digest() != header.sha256:
            return None
        return data


class LayeredSnapshots(Closing):
    """Snapshots of an owned cell: its own disk first, the topic where that knows more.

    A disk that refuses is told and done without: what is saved goes into the topic all the same,
    and each saving tries the disk anew.

    Implements `SnapshotStore`. A snapshot beyond the ledger's end means that Kafka lost records:
    whoever asks for the newest one is refused then, so that the cell does not go on in an older
    state as if nothing had happened.
    """

    def __init__(
        self,
        folder: Path,
        ledger: LogReader,
        decisions: KafkaDecisions,
        publisher: Publisher,
        topic: TopicSnapshots,
        *,
        topic_every: int = 1,
    ) -> None:
        """Open the cell's store on the disk, if it can be had.

        Args:
            folder: the store's own; made if missing.
            ledger: the cell's.
            decisions: the cell's; what `newest` returns has set them to its bookmark.
            publisher: flushed before each saving, so that no snapshot knows what is not safe.
            topic: the topic's snapshots.
            topic_every: each so many savings one goes to the topic as well, the first included.

        Raises:
            StoreBusy: another process has the folder's store open.
        """
        self._folder = folder
        self._ledger = ledger
        self._decisions = decisions
        self._publisher = publisher
        self._topic = topic
        self._topic_every = topic_every
        self._saving_count = 0
        self._store: Store | None = None
        self._ask(Snapshots.seqs, list[int]())

    def save(self, seq: int, data: bytes) -> None:
        """Keep a snapshot on the disk, and each `topic_every` times in the topic.

        Raises:
            PublishingStopped: something sent before is not safe, or the topic's may not be there.
            StoreFailed: the disk refuses; the topic has it.
        """
        self._publisher.flush()
        whole = _marked(self._decisions.bookmark(), data)
        failure = self._keep(seq, whole)
        if self._is_for_topic(failure):
            self._topic.save(seq, whole)
        self._saving_count += 1
        if failure is not None:
            raise failure

    def saving(self, seq: int, make: Callable[[], bytes]) -> Generator[None, None, int]:
        """Keep a snapshot while the owner goes on; in pieces, with waits between them.

        Args:
            seq: the state's.
            make: gives the data of the state as it is now; called in a forked process.

        Returns:
            Bytes of the snapshot.

        Raises:
            PublishingStopped: something sent before is not safe, or the topic's may not be there.
            StoreFailed: the disk refuses; the topic has it.
            AsideFailed: there is no data.
        """
        self._publisher.flush()
        bookmark = self._decisions.bookmark()
        with Aside(make) as aside:
            while (data := aside.poll()) is None:
                yield
        whole = _marked(bookmark, data)
        with ThreadPoolExecutor(1, "ganger-snapshot") as writer:
            kept = writer.submit(self._keep, seq, whole)
            while not kept.done():
                yield
        failure = kept.result()
        if self._is_for_topic(failure):
            yield from self._topic.saving(seq, whole)
        self._saving_count += 1
        if failure is not None:
            raise failure
        return len(data)

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        """The latest good snapshot whose seq is at most this, as (seq, data), or none.

        The decisions count from its bookmark afterwards, or from the first one where there is none.

        Raises:
            LedgerLost: a snapshot is newer than the ledger's end.
            LogUnreachable: no broker answered.
        """
        self._check_not_lost()
        while True:
            found = self._newest_of_both(at_or_before)
            if found is None:
                self._decisions.resume(None)
                return None
            seq, whole = found
            bookmark, data = _unmarked(whole)
            if bookmark is not None:
                self._decisions.resume(bookmark)
                return seq, data
            at_or_before = seq - 1

    def close(self) -> None:
        """Seal and close the store on the disk; the topic's stays the caller's.

        Raises:
            StoreFailed: it is closed; what was written since the last saving is lost.
        """
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _open(self) -> Snapshots:
        """The snapshots on the disk."""
        if self._store is None:
            # One that knows more than the ledger is evidence; it must not be emptied unseen.
            self._store = Store(self._folder, _Endless(self._ledger))
        return Snapshots(self._store)

    def _keep(self, seq: int, whole: bytes) -> StoreFailed | None:
        """Keep a snapshot on the disk; what was wrong with it, if it refuses."""
        try:
            self._open().save(seq, whole)
        except StoreFailed as error:
            # RocksDB takes nothing any more after an error, until it is opened anew.
            with suppress(StoreFailed):
                self.close()
            return error
        return None

    def _ask(self, ask: Callable[[Snapshots], _Answer], otherwise: _Answer) -> _Answer:
        """Ask the disk; where it does not answer, say so and go on without it."""
        try:
            return ask(self._open())
        except StoreFailed as error:
            log.error("store_failed cell=%s why=%r", self._ledger.cell, str(error))
            with suppress(StoreFailed):
                self.close()
            return otherwise

    def _is_for_topic(self, failure: StoreFailed | None) -> bool:
        return failure is not None or self._saving_count % self._topic_every == 0

    def _newest_of_both(self, at_or_before: int) -> tuple[int, bytes] | None:
        local = self._ask(lambda snapshots: snapshots.newest(at_or_before), None)
        latest = self._topic.newest_seq()
        if local is not None and (latest is None or latest <= local[0]):
            return local
        published = self._topic.newest(at_or_before)
        if local is not None and (published is None or published[0] <= local[0]):
            return local
        return published

    def _check_not_lost(self) -> None:
        local = self._ask(Snapshots.seqs, list[int]())
        known = max(*local, self._topic.newest_seq() or 0, 0)
        end = self._ledger.end()
        if known > end:
            raise LedgerLost(f"ledger of cell {self._ledger.cell}", known, end, "a snapshot")


class _Endless:
    """A ledger whose end is beyond anything that a store can know of it."""

    def __init__(self, ledger: LogReader) -> None:
        self._ledger = ledger

    @property
    def cell(self) -> str:
        return self._ledger.cell

    @property
    def fingerprint(self) -> bytes:
        return self._ledger.fingerprint

    @property
    def arguments(self) -> bytes:
        return self._ledger.arguments

    @property
    def first_seq(self) -> int:
        return self._ledger.first_seq

    def end(self) -> int:
        return 1 << 63

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        return self._ledger.read_groups(from_seq, to_seq)


def _header_of(value: bytes) -> Header | None:
    try:
        return msgpack.decode(value, type=Header)
    except MsgspecError:
        return None


def _marked(bookmark: Bookmark, data: bytes) -> bytes:
    """A snapshot's data behind the bookmark that belongs to it."""
    return _BOOKMARK.pack(_MAGIC, _FORMAT, *bookmark) + data


def _unmarked(whole: bytes) -> tuple[Bookmark | None, bytes]:
    """Bookmark and data; no bookmark where the bytes are of another form."""
    if len(whole) < _BOOKMARK.size:
        return None, b""
    magic, version, *parts = _BOOKMARK.unpack_from(whole)
    if (magic, version) != (_MAGIC, _FORMAT):
        return None, b""
    return Bookmark(*parts), whole[_BOOKMARK.size :]

"""A cell's two streams on Kafka, read through the protocol that replay asks: `LogReader`.

In the ledger a record's offset is its seq. In the decisions a record may stand twice: two owners
of a cell can overlap, and both write the same bytes. Copies are told by the decision's id and left
out, so position p is the p-th distinct decision, as in a directory.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ganger.schemas.decision_ids import INDEX_BITS, decision_number, number_reader
from ganger.schemas.errors import PayloadCorrupt, SchemaUnknown
from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import DECISIONS, LEDGER
from ganger.streams.kafka.wire.partition import GROUP_RECORDS_MAX, Partition
from ganger.streams.log.errors import LedgerLost, PartitionCorrupt
from ganger.streams.log.layout import LogIdentity, Stream, extend_chain

COPIES_WINDOW = 8 * GROUP_RECORDS_MAX
"""Newest decisions whose bytes are kept, to hold a copy against: more than two owners can be apart
that write in groups of `GROUP_RECORDS_MAX`."""

_BREAK_EVERY = 2 * GROUP_RECORDS_MAX


class Bookmark(NamedTuple):
    """A place in a partition of decisions, between two distinct ones.

    Attributes:
        position: distinct decisions before it.
        offset: of the record that comes next.
        last_seq: cause of the last decision before it; -1 where there is none.
        last_index: its index; -1 likewise.
    """

    position: int
    offset: int
    last_seq: int
    last_index: int


BEGINNING = Bookmark(0, 0, -1, -1)


class _PartitionLog(Closing):
    """What ledger and decisions have in common: who they are, and the partition they are in."""

    def __init__(
        self, settings: KafkaSettings, placement: Placement, topic: str, stream: Stream
    ) -> None:
        self.partition = Partition(settings, topic, placement.partition)
        self._identity = LogIdentity(
            stream, placement.cell, placement.fingerprint, placement.arguments
        )
        self._key = placement.cell.encode()
        self._chain = self._identity.seed()
        self._chain_end = 0
        self._is_closed = False

    @property
    def identity(self) -> LogIdentity:
        """Stream, cell, fingerprint and arguments."""
        return self._identity

    @property
    def cell(self) -> str:
        """Name of the cell whose records these are."""
        return self._identity.cell

    @property
    def fingerprint(self) -> bytes:
        """The schema ids in use, as the cell was placed with."""
        return self._identity.fingerprint

    @property
    def arguments(self) -> bytes:
        """A run's arguments as the cell was placed with; empty for a live cell."""
        return self._identity.arguments

    def end(self) -> int:
        """Seq that the next record will get."""
        raise NotImplementedError

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield records as `LogReader.read_groups` says."""
        raise NotImplementedError

    def chain(self) -> bytes:
        """The record hash chain at `end()`, worked out by reading what was not read for it yet."""
        self._check_open()
        for first_seq, group in self.read_groups(self._chain_end):
            self._chain = extend_chain(self._chain, group)
            self._chain_end = first_seq + len(group)
        return self._chain

    def close(self) -> None:
        """Give up the connections."""
        self._is_closed = True
        self.partition.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError(f"{self.partition.place}: the log is closed. Open it anew.")

    def _check_begin(self, from_seq: int, first_seq: int) -> None:
        if from_seq < first_seq:
            raise ValueError(
                f"from_seq: {from_seq} is below {first_seq}, the oldest record that "
                f"{self.partition.place} keeps. Read from there, or use a ledger that was not cut."
            )


class KafkaLedger(_PartitionLog):
    """The ledger of a cell in its partition of `ganger.ledger`. Implements `LogReader`.

    Readings check that no offset is missing, that each record has the cell as its key, and the
    broker's CRC of every batch.
    """

    def __init__(self, settings: KafkaSettings, placement: Placement) -> None:
        """Name a cell's ledger. Nothing is asked yet."""
        super().__init__(settings, placement, LEDGER, Stream.LEDGER)
        self._first_seq: int | None = None

    @property
    def first_seq(self) -> int:
        """Seq of the oldest record kept, as it was when first asked; above 0 if it was cut.

        Raises:
            LogUnreachable: no broker answered.
        """
        if self._first_seq is None:
            self._check_open()
            self._first_seq = self.partition.watermarks()[0]
        return self._first_seq

    def end(self) -> int:
        """Seq that the next record will get, asked anew at each call.

        Raises:
            LogUnreachable: no broker answered.
            TopicMissing: the topic is not there.
        """
        self._check_open()
        low, high = self.partition.watermarks()
        self._first_seq = low
        return high

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield records as `LogReader.read_groups` says, at most 1,024 at a time.

        Raises:
            LogUnreachable: no broker answered, or nothing came for too long.
            PartitionCorrupt: what is stored is no ledger of this cell, or not all of it.
        """
        end = self.end()
        begin = self.first_seq if from_seq is None else from_seq
        self._check_begin(begin, self.first_seq)
        if to_seq is not None:
            end = min(end, to_seq)
        return self.partition.records(begin, end, self._key)


class DecisionScan:
    """A pass over the decisions partition that counts what is not a copy.

    Attributes:
        position: distinct decisions so far.
        offset: record that comes next.
        last: id of the newest decision; -1 before the first.
    """

    __slots__ = ("_before", "_kept", "_last_offset", "last", "offset", "place", "position")

    def __init__(self, place: Path, bookmark: Bookmark) -> None:
        self.place = place
        self.position = bookmark.position
        self.offset = bookmark.offset
        self.last = decision_number(bookmark.last_seq, bookmark.last_index)
        # Place before the newest decision, so that who enters there meets that decision.
        self._last_offset = bookmark.offset
        self._before = self.last
        self._kept: dict[int, tuple[int, int, bytes]] = {}

    def clone(self) -> "DecisionScan":
        """The same pass, to be led on apart from this one."""
        twin = DecisionScan(self.place, self.bookmark())
        twin.position, twin.offset, twin.last = self.position, self.offset, self.last
        twin._last_offset, twin._before = self._last_offset, self._before
        twin._kept = self._kept.copy()
        return twin

    def bookmark(self) -> Bookmark:
        """The place before the newest decision."""
        if not self._kept:
            return Bookmark(self.position, self.offset, *_parts_of(self.last))
        return Bookmark(self.position - 1, self._last_offset, *_parts_of(self._before))

    def here(self) -> Bookmark:
        """The place reached."""
        return Bookmark(self.position, self.offset, *_parts_of(self.last))

    def take(self, cell: str, payloads: list[bytes]) -> list[bytes]:
        """Those of the next records that are no copies.

        Raises:
            PartitionCorrupt: one is no decision of the cell, or a copy differs.
        """
        fresh: list[bytes] = []
        self.take_into(fresh, cell, payloads)
        return fresh

    def take_into(self, fresh: list[bytes], cell: str, payloads: list[bytes]) -> None:
        """The same; when it raises, all before the record that it names have been taken."""
        kept, last, position, offset = self._kept, self.last, self.position, self.offset
        number_of = number_reader(cell)
        try:
            for payload in payloads:
                number = number_of(payload)
                if number > last:
                    self._before, self._last_offset = last, offset
                    kept[number] = (position, offset, payload)
                    fresh.append(payload)
                    last = number
                    position += 1
                elif number in kept and kept[number][2] != payload:
                    raise self._differing(number, offset, position)
                offset += 1
        except (PayloadCorrupt, SchemaUnknown) as error:
            raise PartitionCorrupt(
                *(self.place, position, offset, f"it is no decision of this cell: {error}"),
                "Stop whoever else writes to this topic, and copy the cell to a fresh partition.",
            ) from None
        finally:
            self.last, self.position, self.offset = last, position, offset
        if len(kept) > 2 * COPIES_WINDOW:
            for number in list(kept)[:-COPIES_WINDOW]:
                del kept[number]

    def position_of(self, number: int) -> int | None:
        """Position of a decision met lately."""
        found = self._kept.get(number)
        return None if found is None else found[0]

    def _differing(self, number: int, offset: int, position: int) -> PartitionCorrupt:
        cause_seq, index = _parts_of(number)
        first = self._kept[number][1]
        return PartitionCorrupt(
            self.place,
            position,
            offset,
            f"decision {index} of seq {cause_seq} stands at offset {first} and, with other bytes, "
            f"at offset {offset}",
            "Two owners decided otherwise: compare their versions of ganger, and `ganger verify` "
            "says which of the two the ledger leads to.",
        )


class KafkaDecisions(_PartitionLog):
    """The decisions of a cell in its partition of `ganger.decisions`. Implements `LogReader`.

    A position is not an offset, so it is found by counting, from the nearest place that is known:
    the beginning, a bookmark, where an earlier reading ended, and places that it passed.
    """

    def __init__(self, settings: KafkaSettings, placement: Placement) -> None:
        """Name a cell's decisions. Nothing is asked yet."""
        super().__init__(settings, placement, DECISIONS, Stream.DECISIONS)
        self._breaks: list[Bookmark] = []
        self._tail = DecisionScan(self.partition.place, BEGINNING)
        self.resume(None)

    @property
    def first_seq(self) -> int:
        """Always 0: positions are counted from the first decision."""
        return 0

    def end(self) -> int:
        """How many distinct decisions there are. Reads those that came since it was last called.

        Raises:
            LogUnreachable: no broker answered, or nothing came for too long.
            PartitionCorrupt: a record is no decision of the cell, or a copy differs.
            LedgerLost: the partition ends before a place that was read once.
        """
        self._check_open()
        self._advance(self._high())
        return self._tail.position

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield distinct decisions as `LogReader.read_groups` says; a seq is a position.

        Raises:
            LogUnreachable: no broker answered, or nothing came for too long.
            PartitionCorrupt: a record is no decision of the cell, or a copy differs.
            LedgerLost: the partition ends before a place that was read once.
        """
        self._check_open()
        begin = 0 if from_seq is None else from_seq
        self._check_begin(begin, 0)
        return self._read(begin, to_seq, self._high())

    def bookmark(self) -> Bookmark:
        """A place near the end from which `resume` goes on: before the newest decision."""
        self.end()
        return self._tail.bookmark()

    def resume(self, bookmark: Bookmark | None) -> None:
        """Forget what was counted, and count from a bookmark of this partition; none: from 0.

        The bookmark is believed. Who resumes compares the decision behind it with what it knows.
        """
        begin = BEGINNING if bookmark is None else bookmark
        self._breaks = sorted({BEGINNING, begin})
        self._tail = DecisionScan(self.partition.place, begin)
        # A bookmark is made before a decision that stands there.
        self._floor = 0 if begin == BEGINNING else begin.offset + 1

    def _high(self) -> int:
        high = self.partition.watermarks()[1]
        known = max(self._tail.offset, self._floor)
        if high < known:
            raise LedgerLost(str(self.partition.place), known, high, "a snapshot or a reading")
        return high

    def _advance(self, high: int) -> None:
        """Count on to an offset."""
        for _ in self._scanned(self._tail, high):
            pass

    def _read(self, begin: int, to_seq: int | None, high: int) -> Iterator[tuple[int, list[bytes]]]:
        if to_seq is not None and begin >= to_seq:
            return
        scan = self._start(begin)
        for first, fresh in self._scanned(scan, high):
            end = first + len(fresh)
            if end > begin:
                stop = end if to_seq is None else min(end, to_seq)
                yield max(first, begin), fresh[max(begin - first, 0) : stop - first]
            if to_seq is not None and end >= to_seq:
                break
        # Only now: while it went on, nobody else might move it.
        if scan.offset > self._tail.offset:
            self._tail = scan

    def _scanned(self, scan: DecisionScan, high: int) -> Iterator[tuple[int, list[bytes]]]:
        """Lead a scan on to an offset; (position, distinct decisions) of each batch with any."""
        records = self.partition.records(scan.offset, high, self._key)
        while True:
            try:
                _, payloads = next(records)
            except StopIteration:
                return
            except PartitionCorrupt as error:
                raise PartitionCorrupt(
                    error.file, scan.position, error.offset, error.what, error.remedy
                ) from None
            first = scan.position
            fresh: list[bytes] = []
            try:
                scan.take_into(fresh, self.cell, payloads)
            except PartitionCorrupt:
                if fresh:
                    yield first, fresh
                raise
            self._note(scan)
            if fresh:
                yield first, fresh

    def _note(self, scan: DecisionScan) -> None:
        """Keep where a scan is, if that is far from what is known."""
        if scan.position >= self._breaks[-1].position + _BREAK_EVERY:
            self._breaks.append(scan.here())

    def _start(self, position: int) -> DecisionScan:
        """A scan of its own at the last place known that is not behind a position."""
        if self._tail.position <= position:
            return self._tail.clone()
        place = bisect_right(self._breaks, (position, 1 << 63, 0, 0)) - 1
        return DecisionScan(self.partition.place, self._breaks[place])


class KafkaStreams:
    """Both streams of a cell on Kafka, for reading: what replay asks for.

    Attributes:
        ledger: records.
        decisions: decisions, copies left out.
    """

    def __init__(self, settings: KafkaSettings, placement: Placement) -> None:
        """Name a cell's streams. Nothing is asked yet."""
        self.ledger = KafkaLedger(settings, placement)
        self.decisions = KafkaDecisions(settings, placement)

    def close(self) -> None:
        """Give up the connections."""
        self.ledger.close()
        self.decisions.close()


def _parts_of(number: int) -> tuple[int, int]:
    if number < 0:
        return -1, -1
    return number >> INDEX_BITS, number & ((1 << INDEX_BITS) - 1)

"""Reads a log of segment files: with no writer, beside one, and for the writer itself.

Reading goes up to the mark and never past it. It always starts at a place whose chain is known
(the head of a segment, or where the last reading ended) unless it is asked to begin in the middle
of a segment; then the records skipped, and those up to the next segment, are checked by CRC and
seq alone.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from ganger.streams.log.cursor import SegmentCursor, list_segments, segment_path
from ganger.streams.log.errors import LogCorrupt
from ganger.streams.log.layout import LogIdentity, Mark, Position, Stream
from ganger.streams.log.mark import read_mark
from ganger.streams.log.tail import scan_tail


class SegmentReader:
    """A log of segment files, read. Implements `LogReader`; needs no lock and writes nothing."""

    def __init__(
        self, folder: Path, stream: Stream, mark_source: Callable[[], Mark] | None = None
    ) -> None:
        """Open the log in `folder`.

        Args:
            folder: holds the segments and the mark of one stream.
            stream: the stream that it must be.
            mark_source: tells how far records are acknowledged; by default the mark file does.

        Raises:
            LogCorrupt: the mark or the first segment's header does not check.
        """
        self._folder = folder
        self._stream = stream
        self._mark = mark_source or self._stored_mark
        # Where the last reading came to its end, so that following a live log costs only what is
        # new. One attribute, replaced whole: readings in two threads can at worst waste it.
        self._reached: Position | None = None
        first_seq = read_mark(folder, stream).mark.first_seq
        with SegmentCursor(folder, first_seq) as cursor:
            self._identity = cursor.header.identity
            if self._identity.stream is not stream:
                raise cursor.corrupt(
                    f"it is of the {self._identity.stream.folder} stream, "
                    f"found in the folder of the {stream.folder} stream"
                )
            self._first_seq = first_seq
        self._mark()

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
        """The schema ids in use, in the bytes that the creator gave."""
        return self._identity.fingerprint

    @property
    def arguments(self) -> bytes:
        """A run's arguments as the creator gave them; empty where there are none."""
        return self._identity.arguments

    @property
    def first_seq(self) -> int:
        """Seq of the oldest record kept."""
        return self._first_seq

    def end(self) -> int:
        """Seq that the next record will get; read anew from the mark at each call."""
        return self._mark().position.seq

    def chain(self) -> bytes:
        """The record hash chain at `end()`."""
        return self._mark().position.chain

    def chain_at(self, seq: int) -> bytes:
        """The record hash chain at `seq`, where a reading from the first record has ended.

        Raises:
            ValueError: none has ended there, or it is no end of a group.
        """
        if seq == 0:
            return self._identity.seed()
        reached = self._reached
        if reached is None or reached.seq != seq or not reached.chain:
            raise ValueError(f"seq: no reading from the first record ended at {seq}; read to there")
        return reached.chain

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield records as `LogReader.read_groups` says.

        A reading from `first_seq` to `end()` checks everything that is stored up to the mark, and
        the chain against the mark's.
        """
        mark = self._mark()
        begin = self._first_seq if from_seq is None else from_seq
        end = mark.position.seq if to_seq is None else min(to_seq, mark.position.seq)
        if begin < self._first_seq:
            raise ValueError(
                f"from_seq: {begin} is below {self._first_seq}, the oldest record that "
                f"{self._folder} keeps. Read from there, or use a ledger that was not cut."
            )
        return self._read(mark, begin, end)

    def check_sealed(self, to_seq: int) -> int:
        """Check headers, seals and their chains of the segments that end at or below `to_seq`.

        Cost: two small readings per segment, whatever its size.

        Returns:
            First seq of the segment that holds `to_seq`: up to there all was checked.

        Raises:
            LogCorrupt: a segment is missing, or a header or seal does not check.
        """
        mark = self._mark()
        segments = self._segments(mark)
        last = max(bisect_right(segments, to_seq) - 1, 0)
        before: Position | None = None
        for first_seq in segments[: last + 1]:
            with SegmentCursor(self._folder, first_seq, self._identity) as cursor:
                cursor.check_follows(before)
                if first_seq != segments[last]:
                    cursor.seek_seal()
                    before = cursor.position
        return segments[last]

    def _read(self, mark: Mark, begin: int, end: int) -> Iterator[tuple[int, list[bytes]]]:
        goal = mark.position
        reached = self._reached
        is_followed = reached is not None and reached.seq == begin
        if begin > end or (begin == end and (end < goal.seq or is_followed)):
            return
        segments = self._segments(mark)
        index = bisect_right(segments, begin) - 1
        last = len(segments) - 1
        before: Position | None = None
        while True:
            with SegmentCursor(self._folder, segments[index], self._identity) as cursor:
                cursor.check_follows(before)
                if before is None:
                    self._start(cursor, begin)
                is_last = index == last
                if is_last:
                    cursor.check_holds(goal)
                limit = goal.offset if is_last else cursor.size
                # Not `seq < end` alone: a full reading also looks at the seals and at the mark.
                while cursor.seq < end or (end == goal.seq and not is_last):
                    seq = cursor.seq
                    group = cursor.next_group(limit)
                    if group is None:
                        if is_last:
                            raise cursor.corrupt("the segment is sealed before the mark")
                        break
                    if seq < begin or cursor.seq > end:
                        group = group[max(begin - seq, 0) : end - seq]
                        seq = max(begin, seq)
                    if group:
                        yield seq, group
                if is_last and end == goal.seq:
                    cursor.check_at(goal)
                before = cursor.position
            if is_last or (before.seq >= end and end != goal.seq):
                break
            index += 1
        if before.seq == end:
            self._reached = before

    def _start(self, cursor: SegmentCursor, begin: int) -> None:
        """Move a cursor at the head of the segment that holds `begin` as near as can be proved."""
        reached = self._reached
        if reached is not None and reached.seq == cursor.seq:
            cursor.check_follows(reached)
        elif reached is not None and cursor.seq < reached.seq <= begin:
            cursor.seek(reached)
        elif begin > cursor.seq:
            cursor.forget_chain()

    def _segments(self, mark: Mark) -> list[int]:
        """First seqs of the segments from the log's first to the mark's."""
        goal = mark.position.segment
        segments = [seq for seq in list_segments(self._folder) if mark.first_seq <= seq <= goal]
        for needed in (mark.first_seq, goal):
            if needed not in segments:
                raise LogCorrupt(
                    segment_path(self._folder, needed), needed, 0, "the segment is missing"
                )
        return segments

    def _stored_mark(self) -> Mark:
        reading = read_mark(self._folder, self._stream)
        if reading.is_whole:
            return reading.mark
        # The slot that does not check may have held a newer mark: all whole frames count.
        end = scan_tail(self._folder, self._identity, reading).end
        return Mark(reading.mark.counter, reading.mark.first_seq, end)

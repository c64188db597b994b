"""The writer of a log of segment files.

A group is one frame. `append` writes it, syncs it, sets the mark and syncs that; then it is
acknowledged. Everything before the mark is never written again; everything behind it may be cut
and written anew. The caller holds the ledger's lock: one log has one writer.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ganger.streams.closing import Closing
from ganger.streams.log.cursor import segment_path
from ganger.streams.log.errors import LedgerFailed, LedgerFull
from ganger.streams.log.files import create_file, sync_data, sync_folder, write_at
from ganger.streams.log.layout import (
    SEAL_BYTES,
    Header,
    LogIdentity,
    Mark,
    Position,
    Seal,
    Stream,
    extend_chain,
    pack_frame,
    pack_header,
    pack_seal,
)
from ganger.streams.log.mark import MARK_FILE, MarkReading, create_mark, read_mark, write_mark
from ganger.streams.log.reader import SegmentReader
from ganger.streams.log.tail import scan_tail

# A segment is what is archived, hashed and read in one go.
SEGMENT_BYTES_DEFAULT = 64 << 20

# `resume` wants to see room for a group of a thousand records and its segment's bookkeeping.
RESUME_BYTES = 4 << 20

# A segment that is being made. It gets its name when it is whole.
_NEXT_SEGMENT_FILE = "next.tmp"

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a log for writing found beyond its mark.

    Attributes:
        kept_count: records that were written but whose appender may never have been told.
        cut_bytes: bytes cut from the end: a frame or a seal that was never finished.
        file: the file that was cut, or would have been.
        offset: where it ends now.
        what: why the bytes were no record; empty if none were cut.
    """

    kept_count: int
    cut_bytes: int
    file: Path
    offset: int
    what: str


class SegmentLog(Closing):
    """A log of segment files, open for writing. Implements `Log`."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        *,
        segment_bytes: int = SEGMENT_BYTES_DEFAULT,
        check_from_seq: int | None = None,
    ) -> None:
        """Check a log, settle what a crash left beyond its mark, and open it for writing.

        Cost: O(records from `check_from_seq`) + O(segments).

        Args:
            folder: the log's folder.
            stream: the stream that it must be.
            segment_bytes: a segment that would grow beyond this is sealed; one group fits always.
            check_from_seq: records below it are vouched for by the caller (by a snapshot whose
                chain it compares); of their segments only headers and seals are checked. By
                default every record is checked.

        Raises:
            LogCorrupt: something does not check. Nothing was changed.
            LedgerFailed: what was settled could not be synced.
        """
        self._folder = folder
        self._stream = stream
        self._segment_bytes = segment_bytes
        reading = read_mark(folder, stream)
        # Acknowledged: up to here and no further do readers see.
        self._mark = reading.mark
        # Where the next frame goes: the mark's position, or the head of a segment just begun.
        self._place = reading.mark.position
        self._reader = SegmentReader(folder, stream, lambda: self._mark)
        self._refusal: LedgerFull | LedgerFailed | None = None
        # Frames in the segment of `_place`.
        self._frame_count = 0
        self._fd = -1
        self._mark_fd = -1
        self._check(check_from_seq)
        try:
            self.recovery = self._recover(reading)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, folder: Path, identity: LogIdentity) -> None:
        """Make an empty log in `folder`, which must be empty, and sync it.

        Raises:
            ValueError: the identity is too large for a header.
            OSError: the log may exist in part.
        """
        header = Header(identity, 0, identity.seed())
        data = pack_header(header)
        create_file(segment_path(folder, 0), data)
        create_mark(folder, identity.stream, Mark(0, 0, Position(0, 0, len(data), header.chain)))
        sync_folder(folder)

    @property
    def identity(self) -> LogIdentity:
        """Stream, cell, fingerprint and arguments."""
        return self._reader.identity

    @property
    def cell(self) -> str:
        """Name of the cell whose records these are."""
        return self._reader.cell

    @property
    def fingerprint(self) -> bytes:
        """The schema ids in use, in the bytes that the creator gave."""
        return self._reader.fingerprint

    @property
    def arguments(self) -> bytes:
        """A run's arguments as the creator gave them; empty where there are none."""
        return self._reader.arguments

    @property
    def first_seq(self) -> int:
        """Seq of the oldest record kept."""
        return self._reader.first_seq

    @property
    def is_full(self) -> bool:
        """Whether appending is refused until `resume`."""
        return isinstance(self._refusal, LedgerFull)

    def end(self) -> int:
        """Seq that the next record will get."""
        self._check_usable()
        return self._mark.position.seq

    def chain(self) -> bytes:
        """The record hash chain at `end()`."""
        self._check_usable()
        return self._reader.chain()

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield records as `LogReader.read_groups` says; acknowledged ones only."""
        self._check_usable()
        return self._reader.read_groups(from_seq, to_seq)

    def append(self, payloads: Sequence[bytes]) -> int:
        """Store a group as `Log.append` says: two syncs, and three more when a segment is sealed.

        Raises:
            ValueError: the log is closed, or the group is larger than `FRAME_BYTES_MAX`.
            LedgerFull: no room; nothing was written.
            LedgerFailed: the system did not confirm a write.
        """
        self._check_usable()
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        seq = self._place.seq
        if not payloads:
            return seq
        frame = pack_frame(seq, payloads)
        try:
            if self._is_segment_full(len(frame)):
                self._roll()
            write_at(self._fd, frame, self._place.offset)
        except OSError as error:
            raise self._refuse(error) from error
        place = self._place
        chain = extend_chain(self._place.chain, payloads)
        self._sync_segment()
        self._acknowledge(
            Position(seq + len(payloads), place.segment, place.offset + len(frame), chain)
        )
        self._frame_count += 1
        return seq

    def resume(self) -> None:
        """Take groups again after `LedgerFull`, if there is room for `RESUME_BYTES`.

        Raises:
            LedgerFull: there is not; the log stays read-only.
            LedgerFailed: the system refuses in another way.
        """
        self._check_usable()
        if self._refusal is None:
            return
        offset = self._place.offset
        try:
            os.posix_fallocate(self._fd, offset, RESUME_BYTES)
            os.ftruncate(self._fd, offset)
        except OSError as error:
            raise self._refuse(error) from error
        self._refusal = None

    def close(self) -> None:
        """Close the files. Nothing is written: a process that is killed leaves the same bytes."""
        for fd in (self._fd, self._mark_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._mark_fd = -1

    def _check(self, check_from_seq: int | None) -> None:
        """Check everything up to the mark, and count the frames of the mark's segment."""
        first_seq = self.first_seq if check_from_seq is None else check_from_seq
        begin = self._reader.check_sealed(first_seq)
        for seq, _ in self._reader.read_groups(begin):
            if seq >= self._place.segment:
                self._frame_count += 1

    def _recover(self, reading: MarkReading) -> Recovery:
        """Keep whole frames beyond the mark, cut what is torn, and make the mark say so."""
        marked = reading.mark.position
        tail = scan_tail(self._folder, self.identity, reading)
        end = tail.end
        path = segment_path(self._folder, end.segment)
        cut_bytes = tail.size - end.offset
        try:
            (self._folder / _NEXT_SEGMENT_FILE).unlink(missing_ok=True)
            self._mark_fd = os.open(self._folder / MARK_FILE, os.O_WRONLY | os.O_CLOEXEC)
            self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            if cut_bytes:
                os.ftruncate(self._fd, end.offset)
            # Frames that a killed process wrote may be in memory only.
            os.fsync(self._fd)
            sync_folder(self._folder)
        except OSError as error:
            raise self._fail(path, error) from error
        if end.segment != marked.segment:
            self._frame_count = 0
        self._frame_count += tail.frame_count
        self._place = end
        if end != marked or not reading.is_whole:
            self._acknowledge(end)
        return Recovery(end.seq - marked.seq, cut_bytes, path, end.offset, tail.what)

    def _is_segment_full(self, frame_bytes: int) -> bool:
        place = self._place
        is_empty = place.seq == place.segment
        return not is_empty and place.offset + frame_bytes + SEAL_BYTES > self._segment_bytes

    def _roll(self) -> None:
        """Seal the segment and begin the next.

        The next one is made first, under another name, so that whatever finds no room does so
        while the seal still lies beyond the mark, where it can be cut. The seal is final when the
        next segment has its name.
        """
        place = self._place
        header = pack_header(Header(self.identity, place.seq, self._place.chain))
        next_file = self._folder / _NEXT_SEGMENT_FILE
        create_file(next_file, header)
        record_count = place.seq - place.segment
        seal = pack_seal(place.seq, Seal(record_count, self._frame_count, self._place.chain))
        write_at(self._fd, seal, place.offset)
        self._sync_segment()
        path = segment_path(self._folder, place.seq)
        os.rename(next_file, path)
        try:
            sync_folder(self._folder)
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._fail(path, error) from error
        os.close(self._fd)
        self._fd = fd
        self._place = Position(place.seq, place.seq, len(header), place.chain)
        self._frame_count = 0

    def _sync_segment(self) -> None:
        try:
            sync_data(self._fd)
        except OSError as error:
            raise self._fail(segment_path(self._folder, self._place.segment), error) from error

    def _acknowledge(self, reached: Position) -> None:
        mark = Mark(self._mark.counter + 1, self._mark.first_seq, reached)
        try:
            write_mark(self._mark_fd, self._stream, mark)
        except OSError as error:
            raise self._fail(self._folder / MARK_FILE, error) from error
        self._mark = mark
        self._place = reached

    def _refuse(self, error: OSError) -> LedgerFull | LedgerFailed:
        """Undo a write that failed; the error to raise now and from now on."""
        path = segment_path(self._folder, self._place.segment)
        if error.errno not in _NO_ROOM:
            return self._fail(path, error)
        try:
            os.ftruncate(self._fd, self._place.offset)
            (self._folder / _NEXT_SEGMENT_FILE).unlink(missing_ok=True)
        except OSError as second:
            return self._fail(path, second)
        self._refusal = LedgerFull(path, str(error))
        return self._refusal

    def _fail(self, path: Path, error: OSError) -> LedgerFailed:
        self._refusal = LedgerFailed(path, str(error))
        return self._refusal

    def _check_usable(self) -> None:
        if self._fd < 0:
            raise ValueError(f"{self._folder}: the log is closed. Open it anew.")
        if isinstance(self._refusal, LedgerFailed):
            raise self._refusal.with_traceback(None)

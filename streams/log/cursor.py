"""Reads one segment file forward and believes nothing that it has not checked."""

import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self
from zlib import crc32

from ganger.streams.log.errors import LogCorrupt, TornFrame
from ganger.streams.log.layout import (
    FRAME_HEAD,
    HEADER_FIXED_BYTES,
    SEAL_BYTES,
    Header,
    LogIdentity,
    Position,
    Seal,
    extend_chain,
    header_size,
    unpack_group,
    unpack_header,
    unpack_seal,
)

# One read call fetches many small frames; a frame that is larger is read past the buffer.
_BUFFER_BYTES = 256 << 10

_SUFFIX = ".seg"
_NAME_DIGITS = 20


def segment_path(folder: Path, first_seq: int) -> Path:
    """The file of the segment whose first record is `first_seq`."""
    return folder / f"{first_seq:0{_NAME_DIGITS}d}{_SUFFIX}"


def list_segments(folder: Path) -> list[int]:
    """First seqs of all segment files in `folder`, ascending. Other files are not looked at.

    Raises:
        LogCorrupt: the folder is missing, or a name ends like a segment's but is none.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
    except FileNotFoundError:
        raise LogCorrupt(folder, 0, 0, "the folder is missing") from None
    for name in names:
        digits = name.removesuffix(_SUFFIX)
        if len(digits) != _NAME_DIGITS or not (digits.isascii() and digits.isdigit()):
            raise LogCorrupt(
                folder / name,
                0,
                0,
                f"a segment is named by {_NAME_DIGITS} digits and {_SUFFIX}",
                "Move the file elsewhere.",
            )
    return [int(name.removesuffix(_SUFFIX)) for name in names]


def read_header(file: BinaryIO, path: Path, first_seq: int) -> Header:
    """Header at the start of an open segment, the file then stands at its first frame.

    Raises:
        LogCorrupt: it does not check, or names another first seq than the file's name.
    """
    fixed = file.read(HEADER_FIXED_BYTES)
    try:
        header = unpack_header(fixed + file.read(header_size(fixed) - len(fixed)))
    except ValueError as error:
        raise LogCorrupt(path, first_seq, 0, str(error)) from None
    if header.first_seq != first_seq:
        raise LogCorrupt(
            path, first_seq, 0, f"the header says that it begins at seq {header.first_seq}"
        )
    return header


class SegmentCursor:
    """A place in one segment, moved forward frame by frame.

    Attributes:
        path: the segment file.
        header: its header.
        seq: record that comes next.
        offset: byte at which the next frame begins.
        chain: chain before `seq`; empty if it is not known and not checked.
        size: bytes of the file when it was opened.
    """

    __slots__ = ("_file", "_frame_count", "chain", "header", "offset", "path", "seq", "size")

    def __init__(self, folder: Path, first_seq: int, identity: LogIdentity | None = None) -> None:
        """Open a segment and stand at its first record, with the chain of its header.

        Args:
            folder: the log's folder.
            first_seq: the segment's first record, which is its name.
            identity: the log that it must belong to; None takes it from the header.

        Raises:
            LogCorrupt: the file is missing, or its header does not check.
        """
        self.path = segment_path(folder, first_seq)
        try:
            self._file = open(self.path, "rb", buffering=_BUFFER_BYTES)  # noqa: SIM115
        except FileNotFoundError:
            raise LogCorrupt(self.path, first_seq, 0, "the segment is missing") from None
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self.header = read_header(self._file, self.path, first_seq)
            if identity is not None and self.header.identity != identity:
                raise LogCorrupt(
                    self.path, first_seq, 0, f"it belongs to another log: {self.header.identity}"
                )
            if first_seq == 0 and self.header.chain != self.header.identity.seed():
                raise LogCorrupt(self.path, 0, 0, "its chain is not the seed of its own header")
        except BaseException:
            self._file.close()
            raise
        self.seq = first_seq
        self.offset = self._file.tell()
        self.chain = self.header.chain
        # None once frames were skipped: then the seal's count of frames cannot be compared.
        self._frame_count: int | None = 0

    @property
    def position(self) -> Position:
        """The place as a value."""
        return Position(self.seq, self.header.first_seq, self.offset, self.chain)

    def seek(self, position: Position) -> None:
        """Go on from a place in this segment that was checked before."""
        assert position.segment == self.header.first_seq
        self._file.seek(position.offset)
        self.seq = position.seq
        self.offset = position.offset
        self.chain = position.chain
        self._frame_count = None

    def forget_chain(self) -> None:
        """Check no chain up to the end of this segment; CRCs and seqs are still checked."""
        self.chain = b""

    def next_group(self, limit: int) -> list[bytes] | None:
        """Records of the frame at `offset`, or None if it is the seal. Moves past the frame.

        Args:
            limit: byte that the frame must not go beyond.

        Raises:
            TornFrame: these bytes are no whole frame. The cursor has not moved.
            LogCorrupt: it is a frame, but not the one that comes here.
        """
        head = self._file.read(FRAME_HEAD.size)
        if len(head) < FRAME_HEAD.size or self.offset + FRAME_HEAD.size > limit:
            raise self._torn(f"no room for a frame before byte {min(limit, self.size)}")
        crc, size, first_seq, count = FRAME_HEAD.unpack(head)
        if size < FRAME_HEAD.size or self.offset + size > limit:
            raise self._torn(f"frame of {size} bytes does not end before byte {limit}")
        body = self._file.read(size - FRAME_HEAD.size)
        found = crc32(body, crc32(head[4:]))
        if found != crc:
            raise self._torn(f"frame CRC is {found:08x}, stored is {crc:08x}")
        if first_seq != self.seq:
            raise self.corrupt(f"the frame says that it begins at seq {first_seq}")
        try:
            if count == 0:
                seal = unpack_seal(body)
                self._check_seal(seal)
                self.chain = seal.chain
                payloads = None
            else:
                payloads = unpack_group(count, body)
        except ValueError as error:
            raise self.corrupt(str(error)) from None
        self.offset += size
        self.seq += count
        if payloads is not None:
            if self.chain:
                self.chain = extend_chain(self.chain, payloads)
            if self._frame_count is not None:
                self._frame_count += 1
        return payloads

    def seek_seal(self) -> None:
        """Go to the seal without reading frames, taking its count and chain for granted.

        Raises:
            LogCorrupt: the file does not end with a seal that checks.
        """
        offset = self.size - SEAL_BYTES
        if offset < self.offset:
            raise self.corrupt("the segment is too short to be sealed")
        self._file.seek(offset)
        head = self._file.read(FRAME_HEAD.size)
        body = self._file.read()
        crc, size, next_seq, count = FRAME_HEAD.unpack(head)
        self.offset = offset
        if crc32(body, crc32(head[4:])) != crc or size != SEAL_BYTES or count:
            raise self.corrupt("the segment does not end with a seal that checks")
        seal = unpack_seal(body)
        self.seq += seal.record_count
        self.chain = seal.chain
        if self.seq != next_seq:
            raise self.corrupt(f"the seal says that the next segment begins at seq {next_seq}")
        self.offset = self.size

    def _check_seal(self, seal: Seal) -> None:
        record_count = self.seq - self.header.first_seq
        if seal.record_count != record_count:
            raise self.corrupt(f"the seal counts {seal.record_count} records, not {record_count}")
        if self._frame_count is not None and seal.frame_count != self._frame_count:
            raise self.corrupt(
                f"the seal counts {seal.frame_count} frames, not {self._frame_count}"
            )
        if self.chain and seal.chain != self.chain:
            raise self.corrupt("the seal's chain is not that of the records before it")
        if self.offset + SEAL_BYTES != self.size:
            raise self.corrupt(f"the seal ends before the file does, at byte {self.size}")

    def check_follows(self, before: Position | None) -> None:
        """Check that this segment, just opened, goes on where the one before it ended.

        Args:
            before: the end of the segment before; None checks nothing.

        Raises:
            LogCorrupt: records are missing between them, or the chain differs.
        """
        if before is None:
            return
        if self.seq != before.seq:
            missing = segment_path(self.path.parent, before.seq)
            raise LogCorrupt(
                missing, before.seq, 0, f"the segment is missing; the next begins at seq {self.seq}"
            )
        if before.chain and self.chain != before.chain:
            raise self.corrupt("its chain is not that of the segment before it")

    def check_holds(self, goal: Position) -> None:
        """Check that the file is long enough to hold everything before `goal`.

        Raises:
            LogCorrupt: it is shorter.
        """
        if self.size < goal.offset:
            raise LogCorrupt(
                self.path,
                self.seq,
                self.size,
                f"the file ends at byte {self.size}; the mark says that records are acknowledged "
                f"up to byte {goal.offset}, seq {goal.seq}",
            )

    def check_at(self, goal: Position) -> None:
        """Check that the records read so far end exactly at `goal`.

        Raises:
            LogCorrupt: seq, offset or chain differ.
        """
        if self.offset != goal.offset or self.seq != goal.seq:
            raise self.corrupt(
                f"the mark says that seq {goal.seq} comes next, at byte {goal.offset}"
            )
        if self.chain and self.chain != goal.chain:
            raise self.corrupt("the mark's chain is not that of the records before it")

    def corrupt(self, what: str) -> LogCorrupt:
        """The error for something wrong at this place."""
        return LogCorrupt(self.path, self.seq, self.offset, what)

    def _torn(self, what: str) -> TornFrame:
        return TornFrame(self.path, self.seq, self.offset, what)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

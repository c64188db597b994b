"""The bytes of a log on disk, and nothing but bytes: no file is touched here.

docs/ledger-format.md describes the same to the byte. All integers are little-endian. A CRC is
zlib's CRC-32 and stands over every byte of its unit, dead ones too, so that one flipped bit
anywhere in a unit is seen.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from itertools import accumulate, pairwise
from zlib import crc32

FORMAT_VERSION = 1

SEGMENT_MAGIC = b"GANGERSG"
MARK_MAGIC = b"GANGERMK"

# Largest header: arguments that describe a cluster node by node fit, a flipped length is caught.
HEADER_BYTES_MAX = 16 << 20
# Largest frame: well inside u32, and small enough to be read and checked in one piece.
FRAME_BYTES_MAX = 256 << 20

# A slot has a block of its own: a disk replaces a sector of 512 bytes whole or not at all.
MARK_SLOT_BYTES = 512
MARK_SLOTS = 2

_CRC = struct.Struct("<I")
# magic, format, stream, header bytes, cell bytes, fingerprint bytes, arguments bytes, first seq,
# chain; then cell, fingerprint, arguments, CRC
_HEADER = struct.Struct("<8sIIIIIIQ32s")
# CRC over the rest of the frame, bytes of the whole frame, first seq, count
FRAME_HEAD = struct.Struct("<IIQI")
# records in the segment, frames in the segment, chain after them
_SEAL_BODY = struct.Struct("<QQ32s")
# magic, format, stream, counter, first seq of the log, next seq, segment's first seq, offset, chain
_MARK = struct.Struct("<8sIIQQQQQ32s")

HEADER_FIXED_BYTES = _HEADER.size
SEAL_BYTES = FRAME_HEAD.size + _SEAL_BODY.size


class Stream(IntEnum):
    """Which of a cell's two streams a log holds. The name is also the folder's."""

    LEDGER = 1
    DECISIONS = 2

    @property
    def folder(self) -> str:
        """Folder of this stream inside a ledger's directory."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """What makes two logs different although their records are equal. It seeds the chain.

    Attributes:
        stream: ledger or decisions.
        cell: name of the cell.
        fingerprint: the schema ids in use, in any canonical bytes.
        arguments: a run's arguments in canonical bytes; may be empty.
    """

    stream: Stream
    cell: str
    fingerprint: bytes = b""
    arguments: bytes = b""

    def seed(self) -> bytes:
        """Chain before record 0: SHA-256 over the identity, each part after its length."""
        cell = self.cell.encode()
        sizes = struct.pack(
            "<8sIIIII",
            SEGMENT_MAGIC,
            FORMAT_VERSION,
            self.stream,
            len(cell),
            len(self.fingerprint),
            len(self.arguments),
        )
        return sha256(sizes + cell + self.fingerprint + self.arguments).digest()


def extend_chain(chain: bytes, payloads: Sequence[bytes]) -> bytes:
    """Chain after these records: h = SHA-256(h + record), record by record.

    How records are grouped makes no difference.
    """
    digest = sha256
    for payload in payloads:
        chain = digest(chain + payload).digest()
    return chain


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two records.

    Attributes:
        seq: record that comes next.
        segment: first seq of the segment file, which is also its name.
        offset: byte in that file.
        chain: chain before `seq`; empty if not known, as where reading began amid a segment.
    """

    seq: int
    segment: int
    offset: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Header:
    """Start of a segment file.

    Attributes:
        identity: the log that the segment belongs to.
        first_seq: its first record.
        chain: chain before that record.
    """

    identity: LogIdentity
    first_seq: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """High-water mark: everything before it is acknowledged.

    Attributes:
        counter: grows by one with each writing; its parity is the slot.
        first_seq: oldest record kept.
        position: where the next frame goes.
    """

    counter: int
    first_seq: int
    position: Position


@dataclass(frozen=True, slots=True)
class Seal:
    """End of a segment that never changes again.

    Attributes:
        record_count: records in the segment.
        frame_count: frames that hold them, the seal not counted.
        chain: chain after the last record.
    """

    record_count: int
    frame_count: int
    chain: bytes


def pack_header(header: Header) -> bytes:
    """Bytes of a segment's header.

    Raises:
        ValueError: cell, fingerprint and arguments are larger than `HEADER_BYTES_MAX` together.
    """
    identity = header.identity
    cell = identity.cell.encode()
    parts = (cell, identity.fingerprint, identity.arguments)
    size = _HEADER.size + sum(map(len, parts)) + _CRC.size
    if size > HEADER_BYTES_MAX:
        raise ValueError(
            f"arguments: cell, fingerprint and arguments make a header of {size} bytes; the most "
            f"is {HEADER_BYTES_MAX}. Put what is large into records instead."
        )
    fixed = _HEADER.pack(
        SEGMENT_MAGIC,
        FORMAT_VERSION,
        identity.stream,
        size,
        *map(len, parts),
        header.first_seq,
        header.chain,
    )
    body = fixed + b"".join(parts)
    return body + _CRC.pack(crc32(body))


def header_size(fixed: bytes) -> int:
    """Bytes of the whole header, told from its first `HEADER_FIXED_BYTES`.

    Raises:
        ValueError: these bytes cannot begin a header that this version reads.
    """
    if len(fixed) < _HEADER.size:
        raise ValueError(f"only {len(fixed)} bytes where a header begins with {_HEADER.size}")
    magic, version, _, size, cell, fingerprint, arguments, _, _ = _HEADER.unpack(fixed)
    if magic != SEGMENT_MAGIC:
        raise ValueError(f"begins with {magic!r}, not with {SEGMENT_MAGIC!r}")
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version}; this ganger reads version {FORMAT_VERSION}")
    if size != _HEADER.size + cell + fingerprint + arguments + _CRC.size:
        raise ValueError(f"header lengths disagree: {size} bytes in all")
    if size > HEADER_BYTES_MAX:
        raise ValueError(f"header of {size} bytes; the most is {HEADER_BYTES_MAX}")
    return int(size)


def unpack_header(data: bytes) -> Header:
    """Header from exactly its bytes.

    Raises:
        ValueError: the bytes do not check.
    """
    size = header_size(data[: _HEADER.size])
    if len(data) != size:
        raise ValueError(f"header of {size} bytes ends after {len(data)}")
    (stored,) = _CRC.unpack_from(data, size - _CRC.size)
    found = crc32(data[: -_CRC.size])
    if stored != found:
        raise ValueError(f"header CRC is {found:08x}, stored is {stored:08x}")
    _, _, stream, _, *sizes, first_seq, chain = _HEADER.unpack_from(data)
    ends = list(accumulate(sizes, initial=_HEADER.size))
    cell, fingerprint, arguments = (data[begin:end] for begin, end in pairwise(ends))
    identity = LogIdentity(Stream(stream), cell.decode(), fingerprint, arguments)
    return Header(identity, first_seq, chain)


def pack_frame(first_seq: int, payloads: Sequence[bytes]) -> bytes:
    """Bytes of the frame that holds these records; at least one.

    Raises:
        ValueError: the frame would be larger than `FRAME_BYTES_MAX`.
    """
    count = len(payloads)
    sizes = struct.pack(f"<{count}I", *map(len, payloads))
    return _frame(first_seq, count, sizes + b"".join(payloads))


def pack_seal(next_seq: int, seal: Seal) -> bytes:
    """Bytes of a seal: a frame that holds no record."""
    return _frame(next_seq, 0, _SEAL_BODY.pack(seal.record_count, seal.frame_count, seal.chain))


def _frame(first_seq: int, count: int, body: bytes) -> bytes:
    size = FRAME_HEAD.size + len(body)
    if size > FRAME_BYTES_MAX:
        raise ValueError(
            f"payloads: {count} records make a frame of {size} bytes; the most is "
            f"{FRAME_BYTES_MAX}. Append them in smaller groups."
        )
    head = FRAME_HEAD.pack(0, size, first_seq, count)[_CRC.size :]
    return b"".join((_CRC.pack(crc32(body, crc32(head))), head, body))


def unpack_group(count: int, body: bytes) -> list[bytes]:
    """Records of a frame, from all its bytes after the head.

    Raises:
        ValueError: the records' lengths do not add up to the body.
    """
    begin = 4 * count
    if begin > len(body):
        raise ValueError(f"{count} records in a frame body of {len(body)} bytes")
    sizes = struct.unpack_from(f"<{count}I", body)
    ends = list(accumulate(sizes, initial=begin))
    if ends[-1] != len(body):
        raise ValueError(f"records end at byte {ends[-1]} of a frame body of {len(body)} bytes")
    return [body[begin:end] for begin, end in pairwise(ends)]


def unpack_seal(body: bytes) -> Seal:
    """Seal from the bytes after a frame head whose count is 0.

    Raises:
        ValueError: the body has another size than a seal's.
    """
    if len(body) != _SEAL_BODY.size:
        raise ValueError(f"seal of {len(body)} bytes instead of {_SEAL_BODY.size}")
    return Seal(*_SEAL_BODY.unpack(body))


def pack_mark(stream: Stream, mark: Mark) -> bytes:
    """The block of one mark slot, `MARK_SLOT_BYTES` long; its place is `counter % MARK_SLOTS`."""
    position = mark.position
    assert position.chain, "a mark is set only where the chain is known"
    fields = _MARK.pack(
        MARK_MAGIC,
        FORMAT_VERSION,
        stream,
        mark.counter,
        mark.first_seq,
        position.seq,
        position.segment,
        position.offset,
        position.chain,
    )
    block = fields.ljust(MARK_SLOT_BYTES - _CRC.size, b"\0")
    return block + _CRC.pack(crc32(block))


def unpack_mark(stream: Stream, slot: int, block: bytes) -> Mark | None:
    """Mark in a slot's block, or None if the block does not check."""
    if len(block) != MARK_SLOT_BYTES:
        return None
    (stored,) = _CRC.unpack_from(block, MARK_SLOT_BYTES - _CRC.size)
    if stored != crc32(block[: -_CRC.size]):
        return None
    magic, version, kind, counter, first_seq, seq, segment, offset, chain = _MARK.unpack_from(block)
    if (magic, version, kind) != (MARK_MAGIC, FORMAT_VERSION, stream):
        return None
    if counter % MARK_SLOTS != slot:
        return None
    return Mark(counter, first_seq, Position(seq, segment, offset, chain))

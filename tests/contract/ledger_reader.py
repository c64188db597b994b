"""A reader of one log of a ledger, written from docs/ledger-format.md and the standard library.

`python ledger_reader.py DIR/ledger` prints the number of records and the chain.
"""

import hashlib
import pathlib
import struct
import sys
import zlib


def check(condition: object, what: str) -> None:
    if not condition:
        raise SystemExit(f"damaged: {what}")


def crc_of_all_before(block: bytes) -> bool:
    return zlib.crc32(block[:-4]) == struct.unpack("<I", block[-4:])[0]


def read_mark(folder: pathlib.Path) -> tuple:
    """First seq, next seq, segment, offset, chain of the newest slot; do both slots check."""
    data = (folder / "mark").read_bytes()
    slots = []
    for index in (0, 1):
        block = data[512 * index : 512 * index + 512]
        if len(block) == 512 and crc_of_all_before(block):
            magic, version, _, counter, *rest = struct.unpack_from("<8sIIQQQQQ32s", block)
            if magic == b"GANGERMK" and version == 1 and counter % 2 == index:
                slots.append((counter, rest))
    check(slots, "neither slot of the mark checks")
    return (*max(slots)[1], len(slots) == 2)


def read_header(data: bytes, name: str) -> tuple[int, bytes, bytes]:
    """(header's bytes, chain, what must be equal in all segments)."""
    check(len(data) >= 76, f"{name}: no header")
    magic, version, stream, size, c, f, a, first_seq, chain = struct.unpack_from("<8s6IQ32s", data)
    check(magic == b"GANGERSG" and version == 1, f"{name}: not a segment of version 1")
    check(size == 76 + c + f + a <= len(data), f"{name}: header lengths")
    check(crc_of_all_before(data[:size]), f"{name}: header CRC")
    check(first_seq == int(name[:20]), f"{name}: first seq {first_seq}")
    identity = struct.pack("<8s5I", magic, 1, stream, c, f, a) + data[72 : size - 4]
    check(first_seq or chain == hashlib.sha256(identity).digest(), f"{name}: seed")
    return size, chain, identity


def frame_at(data: bytes, offset: int) -> tuple[bytes, int, int] | None:
    """(frame's bytes, seq, count) if a whole frame begins there, else None."""
    crc, size, seq, count = struct.unpack("<IIQI", data[offset : offset + 20].rjust(20, b"\0"))
    frame = data[offset : offset + size]
    is_whole = 20 <= size == len(frame) and zlib.crc32(frame[4:]) == crc
    return (frame, seq, count) if is_whole else None


def read_log(folder: pathlib.Path) -> tuple[int, list[bytes], bytes]:
    """(seq of the first record, all records, chain after them)."""
    seq, next_seq, last, mark_offset, mark_chain, is_whole = read_mark(folder)
    first_seq, chain, identity, records = seq, None, None, []
    while True:
        path = folder / f"{seq:020d}.seg"
        check(path.exists(), f"{path.name} is missing")
        data, begin, frames = path.read_bytes(), seq, 0
        offset, header_chain, header_identity = read_header(data, path.name)
        check(chain in (None, header_chain), f"{path.name}: chain of the header")
        check(identity in (None, header_identity), f"{path.name}: another log")
        chain, identity = header_chain, header_identity
        while True:
            if begin == last and offset == mark_offset:
                check(
                    (seq, chain) == (next_seq, mark_chain), f"{path.name}: seq or chain at the mark"
                )
                if is_whole:
                    return first_seq, records, chain
            if not is_whole and seq >= next_seq and begin >= last and offset == len(data):
                return first_seq, records, chain
            frame = frame_at(data, offset)
            check(frame and frame[1] == seq, f"{path.name}: frame at byte {offset}, seq {seq}")
            (frame, _, count), offset = frame, offset + len(frame[0])
            if count == 0:
                break
            at = 20 + 4 * count
            check(at <= len(frame), f"{path.name}: count before byte {offset}")
            for size in struct.unpack_from(f"<{count}I", frame, 20):
                records.append(frame[at : at + size])
                chain = hashlib.sha256(chain + records[-1]).digest()
                at += size
            check(at == len(frame), f"{path.name}: lengths before byte {offset}")
            seq, frames = seq + count, frames + 1
        sealed = struct.unpack_from("<QQ32s", frame, 20)
        check(sealed == (seq - begin, frames, chain), f"{path.name}: seal")
        check(offset == len(data), f"{path.name}: bytes after the seal")


if __name__ == "__main__":
    found = read_log(pathlib.Path(sys.argv[1]))
    print(len(found[1]), found[2].hex())

"""Damage of every kind at every place: refused, or without any effect on what is read."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from ganger.streams.log.cursor import SegmentCursor, list_segments, segment_path
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import LogCorrupt
from ganger.streams.log.layout import SEAL_BYTES

Found = tuple[list[bytes], bytes, str, bytes]


def build(path: Path) -> None:
    """A small ledger: three segments in each stream, groups of one to three records."""
    with LedgerDirectory.create(
        path, "cell", arguments=b"{}", fingerprint=b"ids", segment_bytes=320
    ) as directory:
        for number in range(12):
            group = [f"{number}:{index}".encode() * 3 for index in range(number % 3 + 1)]
            directory.ledger.append(group)
            directory.decisions.append(group[::-1])
    for stream in ("ledger", "decisions"):
        assert len(list_segments(path / stream)) >= 3


def read(path: Path) -> list[Found]:
    readers = LedgerDirectory.open_reader(path)
    return [
        (
            [record for _, group in log.read_groups() for record in group],
            log.chain(),
            log.cell,
            log.arguments,
        )
        for log in (readers.ledger, readers.decisions)
    ]


def recover(path: Path, copy: Path) -> list[Found]:
    """Open a copy for writing, then read it."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    with LedgerDirectory.open(copy) as directory:
        for log in (directory.ledger, directory.decisions):
            assert log.recovery.kept_count >= 0
    return read(copy)


def outcome(use: Callable[..., list[Found]], *paths: Path) -> list[Found] | LogCorrupt:
    """What was found, or how it was refused."""
    try:
        return use(*paths)
    except LogCorrupt as error:
        return error


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def test_every_byte_of_every_file_flipped(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    build(path)
    whole = read(path)
    refused = harmless = 0
    for file in files_of(path):
        data = file.read_bytes()
        for offset in range(len(data)):
            flipped = bytearray(data)
            flipped[offset] ^= 1 << offset % 8
            file.write_bytes(flipped)
            found = outcome(read, path)
            if isinstance(found, LogCorrupt):
                assert found.file == file, (file, offset, found)
                assert found.seq <= len(whole[0][0])
                refused += 1
            else:
                assert found == whole, (file, offset)
                assert file.name in ("mark", "LOCK"), (file, offset)
                harmless += 1
        file.write_bytes(data)
    # Either slot of a mark can stand in for the other, and the lock's pid is only for a message.
    assert harmless == 2 * 1024 + (path / "LOCK").stat().st_size
    assert refused > 1000


def test_every_seventh_byte_flipped_before_opening_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    build(path)
    whole = read(path)
    for file in files_of(path):
        data = file.read_bytes()
        for offset in range(0, len(data), 7):
            flipped = bytearray(data)
            flipped[offset] ^= 0x20
            file.write_bytes(flipped)
            found = outcome(recover, path, tmp_path / "copy")
            if isinstance(found, LogCorrupt):
                assert found.file.name == file.name, (file, offset, found)
            else:
                assert found == whole, (file, offset)
        file.write_bytes(data)


@pytest.mark.parametrize("filler", [b"", b"\0", b"\xff"], ids=["short", "zeroes", "ones"])
def test_every_segment_cut_at_every_byte(tmp_path: Path, filler: bytes) -> None:
    """A file that ends early, or whose end was never written, is below the mark everywhere."""
    path = tmp_path / "whole"
    build(path)
    folder = path / "ledger"
    for seq in list_segments(folder):
        file = segment_path(folder, seq)
        data = file.read_bytes()
        for size in range(len(data)):
            file.write_bytes(data[:size] + filler * (len(data) - size))
            if file.read_bytes() == data:
                continue
            with pytest.raises(LogCorrupt) as caught:
                read(path)
            assert caught.value.file == file
            if size % 5 == 0:
                with pytest.raises(LogCorrupt):
                    recover(path, tmp_path / "copy")
        file.write_bytes(data)


@pytest.mark.parametrize("filler", [b"", b"\0", b"\xff"], ids=["short", "zeroes", "ones"])
def test_the_newest_group_cut_at_every_byte_before_it_was_acknowledged(
    tmp_path: Path, filler: bytes
) -> None:
    path = tmp_path / "whole"
    build(path)
    before = read(path)
    folder = path / "ledger"
    mark = (folder / "mark").read_bytes()
    file = segment_path(folder, list_segments(folder)[-1])
    acknowledged = file.stat().st_size
    with LedgerDirectory.open(path) as directory:
        directory.ledger.append([b"the newest", b"group"])
    after = read(path)
    (folder / "mark").write_bytes(mark)
    data = file.read_bytes()
    for size in range(acknowledged, len(data) + 1):
        file.write_bytes(data[:size] + filler * (len(data) - size))
        assert read(path) == before
        assert recover(path, tmp_path / "copy") == (after if size == len(data) else before)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    build(path)
    whole = read(path)
    for file in files_of(path):
        data = file.read_bytes()
        file.unlink()
        if file.name == "LOCK":
            assert read(path) == whole
        else:
            with pytest.raises(LogCorrupt, match="missing") as caught:
                read(path)
            assert caught.value.file == file
            with pytest.raises(LogCorrupt):
                recover(path, tmp_path / "copy")
        file.write_bytes(data)


def test_segments_exchanged_or_of_another_log_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    build(path)
    first, second, *_ = list_segments(path / "ledger")
    one, two = (segment_path(path / "ledger", seq) for seq in (first, second))
    other = segment_path(path / "decisions", list_segments(path / "decisions")[0])
    contents = one.read_bytes(), two.read_bytes()
    for new in (contents[::-1], (contents[0],) * 2, (other.read_bytes(), contents[1])):
        one.write_bytes(new[0])
        two.write_bytes(new[1])
        with pytest.raises(LogCorrupt):
            read(path)


@pytest.mark.parametrize("stream", ["ledger", "decisions"])
def test_an_older_copy_of_a_segment_is_refused(tmp_path: Path, stream: str) -> None:
    """Whole frames that check, but fewer than were acknowledged: only the mark can tell."""
    path = tmp_path / "whole"
    build(path)
    file = segment_path(path / stream, list_segments(path / stream)[-1])
    older = file.read_bytes()
    with LedgerDirectory.open(path) as directory:
        directory.ledger.append([b"new"])
        directory.decisions.append([b"new"])
    file.write_bytes(older)
    with pytest.raises(LogCorrupt, match="the file ends at byte"):
        read(path)
    with pytest.raises(LogCorrupt, match="the file ends at byte"):
        recover(path, tmp_path / "copy")


def forge(file: Path, at: int, old: bytes, new: bytes) -> None:
    """Rewrite the frame at byte `at` with other content of the same size and a CRC that checks."""
    data = file.read_bytes()
    (size,) = struct.unpack_from("<I", data, at + 4)
    rest = data[at + 4 : at + size]
    assert rest.count(old) == 1 and len(old) == len(new)
    rest = rest.replace(old, new)
    file.write_bytes(data[:at] + struct.pack("<I", crc32(rest)) + rest + data[at + size :])


def first_frame(folder: Path, index: int) -> tuple[Path, int, list[bytes]]:
    """File of a segment, where its first frame begins, and that frame's records."""
    with SegmentCursor(folder, list_segments(folder)[index]) as cursor:
        begin = cursor.offset
        group = cursor.next_group(cursor.size)
        assert group
        return cursor.path, begin, group


def test_a_record_exchanged_with_its_crc_is_found_by_the_chain_of_the_seal(tmp_path: Path) -> None:
    build(tmp_path)
    file, begin, group = first_frame(tmp_path / "ledger", 0)
    forge(file, begin, group[0], b"x" * len(group[0]))
    with pytest.raises(LogCorrupt, match="the seal's chain is not that of the records") as caught:
        read(tmp_path)
    assert caught.value.file == file


def test_a_record_exchanged_with_its_crc_and_seal_is_found_by_the_next_header(
    tmp_path: Path,
) -> None:
    build(tmp_path)
    folder = tmp_path / "ledger"
    file, begin, group = first_frame(folder, 0)
    forged = b"x" * len(group[0])
    forge(file, begin, group[0], forged)
    with SegmentCursor(folder, 0) as cursor:
        seal_at = cursor.size - SEAL_BYTES
        while cursor.offset < seal_at:
            cursor.next_group(cursor.size)
        chain = cursor.chain
    forge(file, seal_at, file.read_bytes()[-32:], chain)
    second = segment_path(folder, list_segments(folder)[1])
    for use in (read, lambda path: LedgerDirectory.open(path, check_from_seq=10**6)):
        with pytest.raises(LogCorrupt, match="chain is not that of the segment before") as caught:
            use(tmp_path)
        assert caught.value.file == second


def test_a_record_exchanged_with_its_crc_is_found_by_the_chain_of_the_mark(tmp_path: Path) -> None:
    build(tmp_path)
    file, begin, group = first_frame(tmp_path / "ledger", -1)
    forge(file, begin, group[0], b"x" * len(group[0]))
    for use in (read, LedgerDirectory.open):
        with pytest.raises(LogCorrupt, match="the mark's chain is not that of the records"):
            use(tmp_path)


@pytest.mark.parametrize(("field", "what"), [(20, "records"), (28, "frames")])
def test_a_seal_that_counts_wrong_is_refused(tmp_path: Path, field: int, what: str) -> None:
    build(tmp_path)
    file = segment_path(tmp_path / "ledger", 0)
    seal = file.read_bytes()[-SEAL_BYTES:]
    count_and_rest = seal[field:]
    forged = bytes([count_and_rest[0] + 1]) + count_and_rest[1:]
    forge(file, file.stat().st_size - SEAL_BYTES, count_and_rest, forged)
    with pytest.raises(LogCorrupt, match=f"the seal counts .* {what}"):
        read(tmp_path)

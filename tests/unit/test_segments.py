"""The segment log and its directory: rolling, recovery, the lock, creating, failing."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.streams.log.cursor import list_segments, segment_path
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import (
    LedgerBusy,
    LedgerExists,
    LedgerFailed,
    LedgerFull,
    LogCorrupt,
    NotALedger,
)
from ganger.streams.log.layout import (
    MARK_SLOT_BYTES,
    LogIdentity,
    Mark,
    Position,
    Stream,
    extend_chain,
    pack_frame,
    pack_mark,
)
from ganger.streams.log.mark import read_mark
from ganger.streams.log.protocol import HashKeeper, LogReader

IDENTITY = LogIdentity(Stream.LEDGER, "cell", b"ids", b"{}")


def records_of(log: LogReader, from_seq: int | None = None) -> list[bytes]:
    return [record for _, group in log.read_groups(from_seq) for record in group]


def record(number: int) -> bytes:
    return f"record {number:4d}".encode() * 4


def build(path: Path, count: int, segment_bytes: int = 500) -> list[bytes]:
    """A ledger of `count` records in groups of two, and as many decisions."""
    records = [record(number) for number in range(count)]
    with LedgerDirectory.create(path, "cell", segment_bytes=segment_bytes) as directory:
        for at in range(0, count, 2):
            directory.ledger.append(records[at : at + 2])
            directory.decisions.append(records[at : at + 2])
    return records


def newest_segment(folder: Path) -> Path:
    return segment_path(folder, list_segments(folder)[-1])


# ---- segments


def test_segments_keep_to_their_size_and_hold_every_record(tmp_path: Path) -> None:
    records = build(tmp_path, 40)
    segments = list_segments(tmp_path / "ledger")
    assert len(segments) > 5
    assert all(segment_path(tmp_path / "ledger", seq).stat().st_size <= 500 for seq in segments)
    assert records_of(LedgerDirectory.open_reader(tmp_path).ledger) == records


def test_a_group_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    groups = [[b"a"], [b"b" * 2000], [b"c"], [b"d"]]
    with LedgerDirectory.create(tmp_path, "cell", segment_bytes=500) as directory:
        for group in groups:
            directory.ledger.append(group)
        assert list(directory.ledger.read_groups()) == list(enumerate(groups))
    assert list_segments(tmp_path / "ledger") == [0, 1, 2]


def test_a_sealed_segment_never_changes(tmp_path: Path) -> None:
    build(tmp_path, 40)
    folder = tmp_path / "ledger"
    sealed = {seq: segment_path(folder, seq).read_bytes() for seq in list_segments(folder)[:-1]}
    with LedgerDirectory.open(tmp_path, segment_bytes=300) as directory:
        for number in range(40, 80):
            directory.ledger.append([record(number)])
    assert {seq: segment_path(folder, seq).read_bytes() for seq in sealed} == sealed


def test_a_group_too_large_for_a_frame_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ganger.streams.log.layout.FRAME_BYTES_MAX", 100)
    with LedgerDirectory.create(tmp_path, "cell") as directory:
        with pytest.raises(
            ValueError, match=r"payloads: 2 records make a frame of .* smaller groups"
        ):
            directory.ledger.append([b"x" * 50, b"y" * 50])
        assert directory.ledger.append([b"x"]) == 0


def test_arguments_too_large_for_a_header_name_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"arguments: .* Put what is large into records"):
        LedgerDirectory.create(tmp_path, "cell", arguments=bytes(17 << 20))
    with LedgerDirectory.create(tmp_path, "cell", arguments=bytes(15 << 20)) as directory:
        assert len(directory.ledger.arguments) == 15 << 20


@pytest.mark.parametrize("check_from_seq", [None, 0, 7, 25, 39, 40])
def test_reopening_goes_on_where_the_log_ended(tmp_path: Path, check_from_seq: int | None) -> None:
    records = build(tmp_path, 40)
    for number in range(40, 60):
        with LedgerDirectory.open(
            tmp_path, segment_bytes=500, check_from_seq=check_from_seq
        ) as directory:
            assert directory.ledger.append([record(number)]) == number
            records.append(record(number))
            assert directory.ledger.recovery.kept_count == 0
            assert directory.ledger.recovery.cut_bytes == 0
    log = LedgerDirectory.open_reader(tmp_path).ledger
    assert records_of(log) == records


def test_records_below_a_snapshot_are_not_read_but_their_segments_are_joined(
    tmp_path: Path,
) -> None:
    build(tmp_path, 40)
    folder = tmp_path / "ledger"
    second = segment_path(folder, list_segments(folder)[1])
    data = bytearray(second.read_bytes())
    data[150] ^= 1
    second.write_bytes(data)
    with pytest.raises(LogCorrupt, match="CRC"):
        LedgerDirectory.open(tmp_path)
    LedgerDirectory.open(tmp_path, check_from_seq=30).close()
    second.unlink()
    with pytest.raises(LogCorrupt, match="missing"):
        LedgerDirectory.open(tmp_path, check_from_seq=30)


def test_a_reader_follows_a_live_writer_across_segments(tmp_path: Path) -> None:
    with LedgerDirectory.create(tmp_path, "cell", segment_bytes=300) as directory:
        reader = LedgerDirectory.open_reader(tmp_path).ledger
        seen: list[bytes] = []
        for number in range(50):
            directory.ledger.append([record(number)])
            assert reader.end() == number + 1
            if number % 3 == 0:
                seen += records_of(reader, len(seen))
                assert len(seen) == number + 1
        assert reader.chain() == directory.ledger.chain()


def test_a_reader_sees_nothing_beyond_the_mark(tmp_path: Path) -> None:
    records = build(tmp_path, 10)
    with newest_segment(tmp_path / "ledger").open("ab") as file:
        file.write(pack_frame(10, [b"not acknowledged"]))
    assert records_of(LedgerDirectory.open_reader(tmp_path).ledger) == records


def test_the_chain_is_known_where_a_reading_from_the_first_record_ended(tmp_path: Path) -> None:
    records = build(tmp_path, 10)
    ledger = LedgerDirectory.open_reader(tmp_path).ledger
    assert isinstance(ledger, HashKeeper)
    seed = ledger.identity.seed()
    assert ledger.chain_at(0) == seed
    with pytest.raises(ValueError, match="no reading"):
        ledger.chain_at(10)
    for end in (4, 10):
        assert len([record for _, group in ledger.read_groups(0, end) for record in group]) == end
        assert ledger.chain_at(end) == extend_chain(seed, records[:end])
    assert ledger.chain_at(10) == ledger.chain()


def test_a_ledger_that_was_cut_begins_above_zero(tmp_path: Path) -> None:
    records = build(tmp_path, 40)
    folder = tmp_path / "ledger"
    first, *_ = list_segments(folder)
    cut = list_segments(folder)[3]
    mark = read_mark(folder, Stream.LEDGER).mark
    slots = [Mark(mark.counter + 2 + turn, cut, mark.position) for turn in range(2)]
    slots.sort(key=lambda each: each.counter % 2)
    (folder / "mark").write_bytes(b"".join(pack_mark(Stream.LEDGER, each) for each in slots))
    # Files below the first seq are left over from the cut, and no part of the log.
    log = LedgerDirectory.open_reader(tmp_path).ledger
    assert records_of(log) == records[cut:]
    segment_path(folder, first).unlink()
    assert (log.first_seq, log.end()) == (cut, 40)
    with pytest.raises(ValueError, match=f"from_seq: 0 is below {cut}"):
        log.read_groups(0)
    with LedgerDirectory.open(tmp_path) as directory:
        assert directory.ledger.append([b"x"]) == 40
        assert records_of(directory.ledger) == [*records[cut:], b"x"]


# ---- recovery


@pytest.mark.parametrize("tail", [b"\0" * 300, b"garbage" * 9, b"x"])
def test_torn_bytes_beyond_the_mark_are_cut_and_reported(tmp_path: Path, tail: bytes) -> None:
    records = build(tmp_path, 10)
    path = newest_segment(tmp_path / "ledger")
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with LedgerDirectory.open(tmp_path) as directory:
        recovery = directory.ledger.recovery
        assert (recovery.kept_count, recovery.cut_bytes) == (0, len(tail))
        assert (recovery.file, recovery.offset) == (path, len(whole))
        assert recovery.what
        assert records_of(directory.ledger) == records
    assert path.read_bytes() == whole


def test_whole_frames_beyond_the_mark_are_kept_and_what_follows_is_cut(tmp_path: Path) -> None:
    records = build(tmp_path, 10)
    path = newest_segment(tmp_path / "ledger")
    frames = pack_frame(10, [b"a", b"b"]) + pack_frame(12, [b"c"])
    torn = pack_frame(13, [b"d" * 40])[:-1]
    path.write_bytes(path.read_bytes() + frames + torn)
    with LedgerDirectory.open(tmp_path) as directory:
        recovery = directory.ledger.recovery
        assert (recovery.kept_count, recovery.cut_bytes) == (3, len(torn))
        assert directory.ledger.append([b"e"]) == 13
    log = LedgerDirectory.open_reader(tmp_path).ledger
    assert records_of(log) == [*records, b"a", b"b", b"c", b"e"]


@pytest.mark.parametrize("seq", [0, 9, 11])
def test_a_whole_frame_that_does_not_continue_is_refused(tmp_path: Path, seq: int) -> None:
    build(tmp_path, 10)
    path = newest_segment(tmp_path / "ledger")
    path.write_bytes(path.read_bytes() + pack_frame(seq, [b"a"]))
    with pytest.raises(LogCorrupt, match=f"begins at seq {seq}") as caught:
        LedgerDirectory.open(tmp_path)
    assert (caught.value.file, caught.value.seq) == (path, 10)
    assert "records below seq 10 are intact" in caught.value.remedy


def test_a_segment_that_does_not_continue_is_refused(tmp_path: Path) -> None:
    build(tmp_path, 10)
    folder = tmp_path / "ledger"
    path = newest_segment(folder)
    segment_path(folder, 999).write_bytes(path.read_bytes())
    with pytest.raises(LogCorrupt, match="no seal, yet a segment follows"):
        LedgerDirectory.open(tmp_path)


def test_a_slot_and_a_frame_torn_together_are_refused(tmp_path: Path) -> None:
    build(tmp_path, 10)
    folder = tmp_path / "ledger"
    newest = read_mark(folder, Stream.LEDGER).mark.counter % 2
    mark = bytearray((folder / "mark").read_bytes())
    mark[newest * MARK_SLOT_BYTES] ^= 1
    (folder / "mark").write_bytes(mark)
    path = newest_segment(folder)
    path.write_bytes(path.read_bytes()[:-1])
    for use in (LedgerDirectory.open, LedgerDirectory.open_reader):
        with pytest.raises(LogCorrupt, match="a slot of mark does not check"):
            use(tmp_path)


def test_recovery_heals_a_damaged_slot(tmp_path: Path) -> None:
    records = build(tmp_path, 10)
    folder = tmp_path / "ledger"
    for slot in range(2):
        mark = bytearray((folder / "mark").read_bytes())
        mark[slot * MARK_SLOT_BYTES + 20] ^= 1
        (folder / "mark").write_bytes(mark)
        assert not read_mark(folder, Stream.LEDGER).is_whole
        assert records_of(LedgerDirectory.open_reader(tmp_path).ledger) == records
        with LedgerDirectory.open(tmp_path) as directory:
            assert records_of(directory.ledger) == records
        assert read_mark(folder, Stream.LEDGER).is_whole


def test_an_empty_ledgers_mark_is_checked_too(tmp_path: Path) -> None:
    LedgerDirectory.create(tmp_path, "cell").close()
    folder = tmp_path / "ledger"
    position = read_mark(folder, Stream.LEDGER).mark.position
    forged = Position(0, 0, position.offset, b"\1" * 32)
    slots = (pack_mark(Stream.LEDGER, Mark(turn, 0, forged)) for turn in range(2))
    (folder / "mark").write_bytes(b"".join(slots))
    with pytest.raises(LogCorrupt, match="chain"):
        records_of(LedgerDirectory.open_reader(tmp_path).ledger)
    with pytest.raises(LogCorrupt, match="chain"):
        LedgerDirectory.open(tmp_path)


def test_streams_of_two_ledgers_are_not_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        LedgerDirectory.create(tmp_path / name, name).close()
    (tmp_path / "one/decisions").rename(tmp_path / "away")
    with pytest.raises(LogCorrupt, match="the folder is missing"):
        LedgerDirectory.open(tmp_path / "one")
    (tmp_path / "two/decisions").rename(tmp_path / "one/decisions")
    for use in (LedgerDirectory.open, LedgerDirectory.open_reader):
        with pytest.raises(LogCorrupt, match="cell 'two' differs from the ledger's 'one'"):
            use(tmp_path / "one")


# ---- the lock


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with LedgerDirectory.create(tmp_path, "cell"):
        with pytest.raises(
            LedgerBusy, match=f"process {os.getpid()} .* open the ledger for reading"
        ):
            LedgerDirectory.open(tmp_path)
        code = (
            "import sys, pathlib\n"
            "from ganger.streams.log.directory import LedgerDirectory\n"
            "from ganger.streams.log.errors import LedgerBusy\n"
            "try:\n"
            "    LedgerDirectory.open(pathlib.Path(sys.argv[1]))\n"
            "except LedgerBusy as busy:\n"
            "    print(busy.pid)\n"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert int(answer) == os.getpid()
    LedgerDirectory.open(tmp_path).close()


def test_a_ledger_that_is_refused_leaves_no_lock(tmp_path: Path) -> None:
    build(tmp_path, 10)
    mark = tmp_path / "decisions/mark"
    data = mark.read_bytes()
    mark.unlink()
    with pytest.raises(LogCorrupt):
        LedgerDirectory.open(tmp_path)
    mark.write_bytes(data)
    LedgerDirectory.open(tmp_path).close()


# ---- creating and finding


def test_creating_twice_is_refused(tmp_path: Path) -> None:
    records = build(tmp_path, 4)
    with pytest.raises(LedgerExists, match="Open it, or name an empty folder"):
        LedgerDirectory.create(tmp_path, "cell")
    assert records_of(LedgerDirectory.open_reader(tmp_path).ledger) == records


def test_creating_never_throws_decisions_away(tmp_path: Path) -> None:
    build(tmp_path, 4)
    (tmp_path / "ledger").rename(tmp_path / "elsewhere")
    for use in (LedgerDirectory.open, lambda path: LedgerDirectory.create(path, "cell")):
        with pytest.raises(LogCorrupt, match="the folder is missing"):
            use(tmp_path)
    assert list_segments(tmp_path / "decisions")


@pytest.mark.parametrize("use", [LedgerDirectory.open, LedgerDirectory.open_reader])
def test_a_folder_that_is_no_ledger_says_so_and_stays_as_it_is(tmp_path: Path, use) -> None:
    with pytest.raises(NotALedger, match="there is no such directory"):
        use(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NotALedger, match="there is no ledger here"):
        use(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_stray_file_is_ignored_unless_it_claims_to_be_a_segment(tmp_path: Path) -> None:
    records = build(tmp_path, 10)
    (tmp_path / "ledger/notes.txt").write_text("mine")
    assert records_of(LedgerDirectory.open_reader(tmp_path).ledger) == records
    (tmp_path / "ledger/7.seg").write_text("mine")
    with pytest.raises(LogCorrupt, match=r"named by 20 digits .* Move the file elsewhere"):
        LedgerDirectory.open(tmp_path)


# ---- a system that refuses


@pytest.mark.parametrize("sync", ["fdatasync", "fsync"])
def test_a_failed_sync_is_never_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    build(tmp_path, 10)
    directory = LedgerDirectory.open(tmp_path, segment_bytes=300)
    calls: list[int] = []

    def fail(fd: int) -> None:
        calls.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, sync, fail)
    # The first sync of this append is that of the frame, or of the next segment's header.
    with pytest.raises(LedgerFailed, match=r"Input/output error.*Stop this process"):
        directory.ledger.append([b"x" * 300])
    assert len(calls) == 1
    for use in (
        lambda: directory.ledger.append([b"y"]),
        directory.ledger.read_groups,
        directory.ledger.end,
        directory.ledger.resume,
    ):
        with pytest.raises(LedgerFailed):
            use()
    assert len(calls) == 1
    monkeypatch.undo()
    directory.close()
    with LedgerDirectory.open(tmp_path) as again:
        assert records_of(again.ledger)[:10] == [record(number) for number in range(10)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("room_bytes", range(0, 420, 20))
def test_no_room_at_any_byte_of_an_append_that_rolls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, room_bytes: int
) -> None:
    """An append that must roll writes a header, a seal and a frame; each may find no room."""
    records = build(tmp_path, 10, segment_bytes=10_000)
    directory = LedgerDirectory.open(tmp_path, segment_bytes=300)
    before = newest_segment(tmp_path / "ledger").read_bytes()
    room, pwrite = room_bytes, os.pwrite

    def pwrite_into_room(fd: int, data: bytes, offset: int) -> int:
        nonlocal room
        if len(data) == MARK_SLOT_BYTES:
            return pwrite(fd, data, offset)
        if room == 0:
            raise OSError(number, os.strerror(number))
        written = pwrite(fd, data[:room], offset)
        room -= written
        return written

    monkeypatch.setattr(os, "pwrite", pwrite_into_room)
    for _ in range(2):
        with pytest.raises(LedgerFull, match="Free space, then resume"):
            directory.ledger.append([b"z" * 400])
    assert directory.is_full
    assert records_of(directory.ledger) == records
    monkeypatch.undo()
    assert not (tmp_path / "ledger/next.tmp").exists()
    if len(list_segments(tmp_path / "ledger")) == 1:
        assert newest_segment(tmp_path / "ledger").read_bytes() == before
    directory.resume()
    assert not directory.is_full
    assert directory.ledger.append([b"z" * 400]) == 10
    directory.close()
    with LedgerDirectory.open(tmp_path) as again:
        assert records_of(again.ledger) == [*records, b"z" * 400]


def test_resume_wants_to_see_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LedgerDirectory.create(tmp_path, "cell")

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", refuse)
        full.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(LedgerFull):
            directory.ledger.append([b"a"])
        with pytest.raises(LedgerFull):
            directory.resume()
        assert directory.is_full
    directory.resume()
    size = newest_segment(tmp_path / "ledger").stat().st_size
    assert directory.ledger.append([b"a"]) == 0
    assert newest_segment(tmp_path / "ledger").stat().st_size - size == len(pack_frame(0, [b"a"]))
    directory.close()

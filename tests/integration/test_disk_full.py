"""A disk that is full, really: a small file system where one can be mounted, else a size limit."""

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import LedgerFull
from ganger.streams.log.protocol import LogReader
from support.disks import fill, mounted

DISK_MIB = 12
RECORD_BYTES = 1000
GROUP = 64


def record(number: int) -> bytes:
    return f"{number:>{RECORD_BYTES}}".encode()


def group_at(seq: int) -> list[bytes]:
    return [record(number) for number in range(seq, seq + GROUP)]


def check_records(log: LogReader, end: int) -> None:
    assert log.end() == end
    for seq, group in log.read_groups():
        assert group == [record(number) for number in range(seq, seq + len(group))]


def append_until_full(directory: LedgerDirectory) -> int:
    """Append until there is no room; seq up to which groups were acknowledged."""
    log = directory.ledger
    for _ in range(DISK_MIB * (1 << 20) // RECORD_BYTES):
        try:
            log.append(group_at(log.end()))
        except LedgerFull:
            return log.end()
    raise AssertionError(f"{DISK_MIB} MiB took more than {log.end()} records of {RECORD_BYTES} B")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted tmpfs of `DISK_MIB`."""
    mount = tmp_path / "mount"
    mount.mkdir()
    with mounted(mount, DISK_MIB):
        yield mount


@pytest.fixture
def file_size_limit() -> Iterator[int]:
    """No file may grow beyond 2 MiB; the signal that says so is ignored, so writes fail."""
    limit = 2 << 20
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 64 << 20])
def test_a_full_disk_makes_the_log_read_only_until_there_is_room(
    small_disk: Path, segment_bytes: int
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6 << 20))
    directory = LedgerDirectory.create(small_disk / "led", "cell", segment_bytes=segment_bytes)
    end = append_until_full(directory)
    assert end > 1000
    assert directory.is_full
    check_records(directory.ledger, end)
    check_records(LedgerDirectory.open_reader(small_disk / "led").ledger, end)
    with pytest.raises(LedgerFull):
        directory.resume()
    with pytest.raises(LedgerFull):
        directory.ledger.append([b"x"])
    ballast.unlink()
    directory.resume()
    assert directory.ledger.append(group_at(end)) == end
    check_records(directory.ledger, end + GROUP)
    assert append_until_full(directory) > end + GROUP
    directory.close()


def test_a_ledger_opens_on_a_full_disk(small_disk: Path) -> None:
    with LedgerDirectory.create(small_disk / "led", "cell", segment_bytes=1 << 20) as directory:
        end = append_until_full(directory)
    fill(small_disk / "filler")
    with LedgerDirectory.open(small_disk / "led") as directory:
        check_records(directory.ledger, end)
        with pytest.raises(LedgerFull, match="Free space, then resume"):
            directory.ledger.append([bytes(1 << 20)])
        check_records(directory.ledger, end)


def test_a_file_that_may_not_grow_makes_the_log_read_only(
    tmp_path: Path, file_size_limit: int
) -> None:
    directory = LedgerDirectory.create(tmp_path / "led", "cell")
    end = append_until_full(directory)
    assert 0 < end * RECORD_BYTES < file_size_limit
    check_records(directory.ledger, end)
    with pytest.raises(LedgerFull):
        directory.resume()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size_limit * 8, hard))
    directory.resume()
    assert directory.ledger.append(group_at(end)) == end
    check_records(directory.ledger, end + GROUP)
    directory.close()
    with LedgerDirectory.open(tmp_path / "led") as again:
        assert again.ledger.recovery.cut_bytes == 0
        check_records(again.ledger, end + GROUP)
    assert soft == file_size_limit

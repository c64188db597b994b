"""The reader written from docs/ledger-format.md alone finds what ganger's own reader finds."""

import random
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import LogError
from ganger.streams.log.protocol import LogReader

SCRIPT = Path(__file__).with_name("ledger_reader.py")
read_log = runpy.run_path(str(SCRIPT))["read_log"]


def build(path: Path, seed: int) -> None:
    """A ledger with some segments in both streams, from random groups."""
    source = random.Random(seed)
    with LedgerDirectory.create(
        path, f"cell-{seed}", arguments=source.randbytes(seed), segment_bytes=600
    ) as directory:
        for _ in range(seed * 4):
            for log in (directory.ledger, directory.decisions):
                log.append([source.randbytes(source.randrange(50)) for _ in range(seed % 5)])


def records_of(log: LogReader) -> list[bytes]:
    return [record for _, group in log.read_groups() for record in group]


@pytest.mark.parametrize("seed", range(8))
def test_both_readers_find_the_same(tmp_path: Path, seed: int) -> None:
    build(tmp_path, seed)
    readers = LedgerDirectory.open_reader(tmp_path)
    for name, log in (("ledger", readers.ledger), ("decisions", readers.decisions)):
        assert read_log(tmp_path / name) == (log.first_seq, records_of(log), log.chain())


def test_it_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    build(tmp_path, 7)
    log = LedgerDirectory.open_reader(tmp_path).ledger
    command = [sys.executable, "-I", str(SCRIPT), str(tmp_path / "ledger")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert answer.split() == [str(log.end()), log.chain().hex()]
    assert len(SCRIPT.read_text().splitlines()) < 100


def test_both_readers_judge_one_altered_byte_alike(tmp_path: Path) -> None:
    build(tmp_path, 3)
    whole = read_log(tmp_path / "ledger")
    for file in sorted((tmp_path / "ledger").iterdir()):
        data = file.read_bytes()
        for offset in range(0, len(data), 3):
            file.write_bytes(data[:offset] + bytes([data[offset] ^ 0x10]) + data[offset + 1 :])
            try:
                found = read_log(tmp_path / "ledger")
            except SystemExit:
                found = None
            try:
                log = LedgerDirectory.open_reader(tmp_path).ledger
                own = (log.first_seq, records_of(log), log.chain())
            except LogError:
                own = None
            assert found == own, (file.name, offset)
            assert found in (None, whole), (file.name, offset)
        file.write_bytes(data)

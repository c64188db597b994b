"""kill -9 of a process that appends, at random moments, over and over on one ledger."""

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.protocol import LogReader

KILLS = int(os.environ.get("GANGER_KILLS", "20"))

# Appends for ever and says so, group by group, after the log has acknowledged it.
WRITER = """
import pathlib, sys
from ganger.streams.log.directory import LedgerDirectory
with LedgerDirectory.open(pathlib.Path(sys.argv[1]), segment_bytes=20_000) as directory:
    while True:
        for log in (directory.ledger, directory.decisions):
            seq = log.end()
            log.append([b"record %d" % number for number in range(seq, seq + 1 + seq % 7)])
        print(directory.ledger.end(), directory.decisions.end(), flush=True)
"""


def kill_after(path: Path, line_count: int) -> tuple[int, int]:
    """Run a writer, kill it once it has said so many lines; the last line that it said whole."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        said = b""
        while said.count(b"\n") < line_count:
            readable, _, _ = select.select([writer.stdout], [], [], 60)
            assert readable, "the writer is stuck"
            read = os.read(writer.stdout.fileno(), 4096)
            assert read, "the writer ended by itself"
            said += read
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read()
    ledger_end, decisions_end = said[: said.rindex(b"\n")].splitlines()[-1].split()
    return int(ledger_end), int(decisions_end)


def check(log: LogReader, acknowledged: int) -> int:
    """All records are what their seq says they are, and none that was acknowledged is missing."""
    for seq, group in log.read_groups():
        assert group == [b"record %d" % number for number in range(seq, seq + len(group))]
    assert log.end() >= acknowledged
    return log.end()


def test_no_acknowledged_record_is_lost_however_often_the_writer_is_killed(tmp_path: Path) -> None:
    source = random.Random(KILLS)
    LedgerDirectory.create(tmp_path, "cell").close()
    ends = (0, 0)
    for _ in range(KILLS):
        acknowledged = kill_after(tmp_path, source.randrange(1, 60))
        assert all(now > before for now, before in zip(acknowledged, ends, strict=True))
        readers = LedgerDirectory.open_reader(tmp_path)
        check(readers.ledger, acknowledged[0])
        check(readers.decisions, acknowledged[1])
        with LedgerDirectory.open(tmp_path) as directory:
            ends = (
                check(directory.ledger, acknowledged[0]),
                check(directory.decisions, acknowledged[1]),
            )
    assert len(list((tmp_path / "ledger").glob("*.seg"))) > 1

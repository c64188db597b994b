"""The demo as a user calls it: it verifies what it did, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.kafka import KafkaBroker

DEMO = (sys.executable, "-m", "ganger.services.demo", "--jobs", "12")
PATIENCE_S = 200

pytestmark = pytest.mark.usefixtures("kafka")  # skipped where there is none


@pytest.fixture
def environment(kafka: KafkaBroker, tmp_path: Path) -> dict[str, str]:
    """That of a call whose temporary folder is the test's."""
    return {**os.environ, "TMPDIR": str(tmp_path)}


def left_behind(folder: Path) -> Iterator[str]:
    """Processes that name the folder in their command line."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if str(folder) in words:
                    yield words


def test_the_demo_verifies_its_cell(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        DEMO, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("FINISH ") == 12
    assert "all equal" in done.stdout
    assert re.search(r"every decision was recomputed from the ledger and is equal\n$", done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert list(left_behind(tmp_path)) == []


def test_an_interrupted_demo_stops_what_it_started(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        DEMO, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        for line in demo.stdout:
            if "a worker and the nodes start" in line:
                break
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(PATIENCE_S) == 130, demo.stderr.read()
    assert list(tmp_path.iterdir()) == []
    assert list(left_behind(tmp_path)) == []

"""The command as a process: exit codes, pipes, signals, hash seeds."""

import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.small_ledger import build

SECONDS_MAX = 120
TRACE = Path(__file__).parents[2] / "replay" / "samples" / "philly-2000.csv.gz"
COMMAND = [sys.executable, "-c", "from ganger.services.cli import main; main(prog_name='ganger')"]


def call(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*options.pop("command", COMMAND), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("run") / "ledger"
    done = call("simulate", TRACE, "--nodes", "16x8", "--ledger", path, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return path, json.loads(done.stdout)


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_verify_in_another_process(run: tuple[Path, dict[str, Any]], seed: str) -> None:
    path, summary = run
    done = call("verify", path, "--json", env={**os.environ, "PYTHONHASHSEED": seed})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mismatches"] == 0
    assert {key: found[key] for key in ("records", "decisions", "digest", "chain")} == {
        key: summary[key] for key in ("records", "decisions", "digest", "chain")
    }


def test_the_past_of_a_run(run: tuple[Path, dict[str, Any]]) -> None:
    path, summary = run
    started = call("log", path, "--kind", "PodStarted", "--json").stdout.splitlines()
    one = json.loads(started[len(started) // 2])
    why = json.loads(call("why", path, one["job"], "--at", one["seq"], "--json").stdout)
    assert why["phase"] in ("RUNNING", "ALLOCATED")
    assert one["node"] in {pod["node"] for pod in why["pods"]}
    cards = json.loads(call("state", path, "cards", "--at", one["seq"], "--json").stdout)["cards"]
    assert len(cards) == 128
    held = {owner["job"] for card in cards for owner in card["owners"]}
    assert one["job"] in held
    ended = json.loads(call("why", path, one["job"], "--json").stdout)
    assert ended["phase"] == "SUCCEEDED"
    jobs = json.loads(call("state", path, "jobs", "--json").stdout)
    assert jobs["seq"] == summary["records"] - 1


def test_a_reader_that_stops_early(run: tuple[Path, dict[str, Any]]) -> None:
    path, _ = run
    with subprocess.Popen(
        [*COMMAND, "log", str(path), "--decisions"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "OwnerClaimed" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(SECONDS_MAX) == 141


def test_without_assertions_it_does_not_run(tmp_path: Path) -> None:
    build(tmp_path)
    command = [sys.executable, "-O", *COMMAND[1:]]
    done = call("verify", tmp_path, command=command)
    assert done.returncode == 2
    assert "python -O" in done.stderr


def test_an_interrupted_run_goes_on(tmp_path: Path, run: tuple[Path, dict[str, Any]]) -> None:
    _, wanted = run
    words = ["simulate", str(TRACE), "--nodes", "16x8", "--ledger", str(tmp_path / "run"), "--json"]
    mark = tmp_path / "run" / "ledger" / "mark"
    with subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs tests in the background ignores it, and so would the command.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        # Not before the ledger is there: the command has imported everything and is at work.
        while not mark.exists() and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    verified = call("verify", tmp_path / "run", "--json")
    assert verified.returncode == 0
    left = json.loads(verified.stdout)["records"]
    done = call(*words)
    assert done.returncode == 0, done.stderr
    assert f"holds {left:,} records of this run, which did not finish" in done.stderr or not left
    found = json.loads(done.stdout)
    for key in ("records", "decisions", "digest", "chain", "utilisation"):
        assert found[key] == wanted[key]


def test_a_full_disk_costs_the_store_and_not_the_answer(tmp_path: Path) -> None:
    build(tmp_path)
    wanted = [call(*words).stdout for words in (["state", tmp_path], ["why", tmp_path, "twin"])]
    shutil.rmtree(tmp_path / "store")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)); "
    command = [*COMMAND[:2], limit + COMMAND[2]]
    for words, answer in zip((["state", tmp_path], ["why", tmp_path, "twin"]), wanted, strict=True):
        done = call(*words, command=command)
        assert done.returncode == 0, done.stderr
        assert done.stdout == answer
        assert "the store failed" in done.stderr


TERMINAL_COLUMNS = 60


def on_a_terminal(*words: object) -> list[str]:
    """Lines that a command prints where stdout is a narrow terminal."""
    reading, terminal = pty.openpty()
    size = struct.pack("HHHH", 24, TERMINAL_COLUMNS, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    with subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    ) as process:
        os.close(terminal)
        parts = []
        # Linux ends the reading of a terminal that nobody has open any more with an error.
        with suppress(OSError):
            while part := os.read(reading, 1 << 16):
                parts.append(part)
        os.close(reading)
        assert process.wait(SECONDS_MAX) == 0
    return b"".join(parts).decode().splitlines()


@pytest.mark.parametrize(
    "words", [["why", "gang"], ["why", "twin"], ["log", "--decisions"], ["state", "jobs"]]
)
def test_lines_fit_the_terminal_and_are_whole_in_a_pipe(tmp_path: Path, words: list[str]) -> None:
    build(tmp_path)
    verb, *rest = words
    shown = on_a_terminal(verb, tmp_path, *rest)
    assert len(shown) > 5
    assert max(map(len, shown)) <= TERMINAL_COLUMNS
    piped = call(verb, tmp_path, *rest).stdout.splitlines()
    assert max(map(len, piped)) > TERMINAL_COLUMNS
    if verb != "state":
        # No word is lost by folding.
        assert "".join(shown).replace(" ", "") == "".join(piped).replace(" ", "")


def test_the_verbs_are_listed() -> None:
    done = call("--help")
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in ("simulate", "verify", "log", "state", "why"))
    assert call("--version").stdout.startswith("ganger, version ")
    assert call("prove").returncode == 2

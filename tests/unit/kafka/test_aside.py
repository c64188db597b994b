"""Bytes made in a forked process: given, refused when it fails, and nothing is left behind."""

import errno
import os
import resource
import signal
from pathlib import Path
from time import sleep

import pytest

from ganger.streams.kafka.log.aside import Aside, AsideFailed


def wait(aside: Aside) -> bytes:
    """The bytes; the process is given as long as it takes."""
    while (found := aside.poll()) is None:
        sleep(0.001)
    return found


@pytest.mark.parametrize("data", [b"", b"x", bytes(3 << 20)])
def test_the_bytes_come(data: bytes) -> None:
    with Aside(lambda: data) as aside:
        assert wait(aside) == data


def test_they_are_those_of_the_moment_of_the_fork() -> None:
    state = {"value": 1}
    with Aside(lambda: str(state).encode()) as aside:
        state["value"] = 2
        assert wait(aside) == b"{'value': 1}"


def test_a_failure_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> bytes:
        raise ValueError("no such state")

    with Aside(fail) as aside, pytest.raises(AsideFailed, match="ended with 1"):
        wait(aside)
    assert "no such state" in capfd.readouterr().err


def test_a_want_of_room_is_told() -> None:
    def too_much() -> bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        return b"x" * 11

    with Aside(too_much) as aside, pytest.raises(AsideFailed, match="is there memory"):
        wait(aside)


def test_a_want_of_processes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(AsideFailed, match="no process can be made"):
        Aside(lambda: b"x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_that_outlives_its_maker_disturbs_nobody(tmp_path: Path) -> None:
    go_on, pid = tmp_path / "go-on", tmp_path / "pid"

    def slow() -> bytes:
        pid.write_text(str(os.getpid()))
        while not go_on.exists():
            sleep(0.001)
        return b"old" * 1000

    killed = os.fork()
    if not killed:
        Aside(slow)
        signal.pause()
    while not pid.exists() or not pid.read_text():
        sleep(0.001)
    os.kill(killed, signal.SIGKILL)
    os.waitpid(killed, 0)

    def new() -> bytes:
        go_on.touch()
        while Path(f"/proc/{pid.read_text()}").exists() and not _is_zombie(pid.read_text()):
            sleep(0.001)
        return b"new"

    with Aside(new) as aside:
        assert wait(aside) == b"new"


def _is_zombie(pid: str) -> bool:
    """Whether a process has ended, and only nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_killed_process_is_told() -> None:
    def kill() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    with Aside(kill) as aside, pytest.raises(AsideFailed, match="with -9"):
        wait(aside)


def test_it_ends_with_who_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"

    def loiter() -> bytes:
        path.write_text(str(os.getpid()))
        signal.pause()
        return b""

    aside = Aside(loiter)
    while not path.exists() or not path.read_text():
        sleep(0.001)
    aside.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)
    aside.close()


def test_it_holds_none_of_our_files(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("wb") as lock:
        number = lock.fileno()

        def is_open() -> bytes:
            try:
                os.fstat(number)
            except OSError:
                return b"no"
            return b"yes"

        with Aside(is_open) as aside:
            assert wait(aside) == b"no"

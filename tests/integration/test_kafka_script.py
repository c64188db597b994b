"""infra/kafka/kafka refuses wrong calls with the remedy, and can be called by many at once."""

import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.kafka import KafkaBroker
from support.kafka_watcher import SCRIPT


def call(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "a command is missing"),
        ("restart", "no such command: restart"),
        ("start --broker 1", "no such option: --broker"),
        ("start --brokers 2", "--brokers is 1 or 3, not 2"),
        ("start --port 80", "--port is a number from 1024 to 65533, not 80"),
        ("start --set retention", "--set is KEY=VALUE, not retention"),
        ("start --data", "--data needs a value"),
        ("status --port 2000", "status takes no --port"),
        ("wipe all", "wipe does not take all"),
        ("kill", "kill needs the number of a broker"),
    ],
)
def test_wrong_calls_are_named(words: str, message: str) -> None:
    done = call(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"kafka: {message}; see: kafka --help\n"


def test_help_is_the_head_of_the_script() -> None:
    done = call("--help")
    assert done.returncode == 0
    assert "kafka start [--brokers 1|3] [--port P]" in done.stdout
    assert done.stdout.endswith("2 wrong call, 3 Java or Maven is missing.\n")


def test_missing_java_has_a_code_of_its_own(tmp_path: Path) -> None:
    done = call("start", "--data", tmp_path / "kafka", JAVA_HOME=str(tmp_path))
    assert done.returncode == 3
    assert f"found no {tmp_path}/bin/java; install Java 17 or newer" in done.stderr


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    done = call("fetch", JAVA_HOME=str(tmp_path))
    assert done.returncode == 3
    assert f"{java} is version 11; install Java 17 or newer" in done.stderr


def test_without_a_cluster_there_is_nothing_to_stop(tmp_path: Path) -> None:
    for words in (["stop"], ["kill", "1"], ["status"]):
        done = call(*words, "--data", tmp_path / "none")
        assert done.returncode == 1
        assert f"no cluster in {tmp_path}/none" in done.stderr
    assert call("wipe", "--data", tmp_path / "none").returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_wipe_leaves_what_is_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("years of work")
    assert call("wipe", "--data", tmp_path).returncode == 0
    assert (tmp_path / "thesis").read_text() == "years of work"


# The shared broker is asked for where a call gets past the search for Java.


def test_a_folder_that_cannot_be_written_is_named(kafka: KafkaBroker) -> None:
    done = call("start", "--data", "/dev/null/kafka")
    assert done.returncode == 1
    assert "cannot write /dev/null/kafka; name another folder with --data" in done.stderr


def test_a_port_that_is_taken_is_named(kafka: KafkaBroker, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = call("start", "--data", tmp_path / "kafka", "--port", str(port))
    assert done.returncode == 1
    assert f"port {port} is not free" in done.stderr and "another --port" in done.stderr
    assert not (tmp_path / "kafka").exists()


def test_callers_at_the_same_time_get_one_cluster(kafka: KafkaBroker, tmp_path: Path) -> None:
    data = tmp_path / "kafka"
    try:
        with ThreadPoolExecutor(3) as threads:
            done = list(threads.map(lambda _: call("start", "--data", data), range(3)))
        assert [(one.returncode, one.stderr) for one in done] == [(0, "")] * 3
        assert len({one.stdout for one in done}) == 1
        port = done[0].stdout.strip().rpartition(":")[2]
        assert call("status", "--data", data).stdout.startswith(f"broker 1 up, port {port}, ")
        other = call("start", "--data", data, "--brokers", "3")
        assert other.returncode == 1
        assert f"the cluster in {data} has 1 brokers, not 3; wipe it" in other.stderr
    finally:
        assert call("wipe", "--data", data).returncode == 0
    assert list(tmp_path.iterdir()) == []

"""Real Kafka brokers for tests, as a pytest plugin over infra/kafka/kafka.

`kafka` is one broker that all tests of a run share, started by the first test that asks for it, in
whichever worker process that runs. `kafka_cluster` makes clusters of a test's own, for tests that
kill brokers. Everything lies in one folder of the run; the run's process deletes it at its end, and
a watcher does so if that process was killed.
"""

import fcntl
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import kafka_watcher
from support.kafka_watcher import SCRIPT, wipe_all

REQUIRE = "GANGER_REQUIRE_KAFKA"
"""Environment: `1` makes missing Java or Maven an error instead of a skip."""

_RUN = "GANGER_TEST_KAFKA_RUN"  # process id and folder of the run, for its worker processes
_MISSING = 3  # exit code of the script: Java or Maven is missing
_MISSING_WORDS = "no Kafka to test with: "
_START_TIMEOUT_S = 280  # below the timeout of a test; a first start may fetch jars


class KafkaMissing(Exception):
    """Java or Maven is not installed; the message names which and the remedy."""


@dataclass(frozen=True)
class KafkaBroker:
    """The broker that tests share: use names of your own on it, and never stop it."""

    bootstrap: str
    """`127.0.0.1:PORT`, with commas between several."""


@dataclass(frozen=True)
class KafkaCluster(KafkaBroker):
    """A cluster that one test has for itself. Brokers are numbered from 1."""

    data: Path

    def kill(self, broker: int = 1) -> None:
        """SIGKILL one broker; returns when its process is gone."""
        _script("kill", str(broker), "--data", self.data)

    def stop(self, broker: int | None = None) -> None:
        """SIGTERM one broker or all; returns when their processes are gone."""
        _script("stop", *([] if broker is None else [str(broker)]), "--data", self.data)

    def start(self) -> None:
        """Start what is down, with its old port and data; returns when it serves."""
        _script("start", "--data", self.data)

    def status(self) -> str:
        """What `kafka status` prints: one line a broker."""
        return _call("status", "--data", self.data).stdout

    def wipe(self) -> None:
        """Kill every broker and delete their data."""
        _script("wipe", "--data", self.data)


@dataclass(frozen=True)
class _Run:
    """The clusters of one pytest run."""

    pid: int
    folder: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes of the run out. Holds a watcher to be there once it returns."""
        with open(self.folder / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            watched = self.folder / "watched"
            if not watched.exists():
                program = [sys.executable, kafka_watcher.__file__, str(self.pid), str(self.folder)]
                subprocess.run(program, check=True)
                watched.touch()
            yield

    def shared(self) -> KafkaBroker:
        """The broker of the run, started unless it runs."""
        with self.locked():
            bootstrap = _script("start", "--data", self.folder / "shared").strip()
        return KafkaBroker(bootstrap)

    def cluster(self, brokers: int, settings: Sequence[str]) -> KafkaCluster:
        """A new cluster with a folder of its own."""
        with self.locked():
            data = Path(tempfile.mkdtemp(prefix="cluster-", dir=self.folder))
        arguments = [word for setting in settings for word in ("--set", setting)]
        output = _script("start", "--data", data, "--brokers", str(brokers), *arguments)
        return KafkaCluster(output.strip(), data)


@contextmanager
def own_cluster(brokers: int = 1, settings: Sequence[str] = ()) -> Iterator[KafkaCluster]:
    """A cluster for a program that is no run of pytest; it ends with it, however that ends."""
    folder = Path(tempfile.mkdtemp(prefix="ganger-kafka-"))
    try:
        yield _Run(os.getpid(), folder).cluster(brokers, settings)
    finally:
        wipe_all(folder)


def _call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_START_TIMEOUT_S,
        check=False,
    )


def _script(*arguments: str | Path) -> str:
    """The output of one call of infra/kafka/kafka. Raises what it says if it fails."""
    done = _call(*arguments)
    if done.returncode == _MISSING:
        raise KafkaMissing(done.stderr.strip().removeprefix("kafka: "))
    if done.returncode:
        raise RuntimeError(f"infra/kafka/kafka {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def skipped_where_missing() -> Iterator[None]:
    """Skip the test where Java or Maven is missing, or fail it if the environment requires them."""
    try:
        yield
    except KafkaMissing as missing:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but {missing}", pytrace=False)
        pytest.skip(f"{_MISSING_WORDS}{missing}")


def _run() -> _Run:
    pid, _, folder = os.environ[_RUN].partition(":")
    return _Run(int(pid), Path(folder))


# --- Fixtures ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka() -> KafkaBroker:
    """The broker that all tests of the run share."""
    with skipped_where_missing():
        return _run().shared()


@pytest.fixture
def kafka_cluster() -> Iterator[Callable[..., KafkaCluster]]:
    """`kafka_cluster(brokers=1, settings=("key=value",))`: clusters that end with the test."""
    made = []

    def make(brokers: int = 1, settings: Sequence[str] = ()) -> KafkaCluster:
        with skipped_where_missing():
            made.append(_run().cluster(brokers, settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.wipe()


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """`unique_name("jobs")`: a topic, group or cell name that no other test of the run gets."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    return lambda stem: f"{stem}-{test}-{worker}-{next(_numbers)}"


_numbers = itertools.count()


# --- The run's beginning and end, in the process that the user started --------------------------


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="ganger-kafka-")
        os.environ[_RUN] = f"{os.getpid()}:{folder}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and _RUN in os.environ:
        wipe_all(_run().folder)
        del os.environ[_RUN]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [
        report.longrepr[2].partition(_MISSING_WORDS)[2]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and _MISSING_WORDS in report.longrepr[2]
    ]
    if reasons:
        text = f"KAFKA WAS NOT TESTED: {len(reasons)} tests skipped; {reasons[0]}"
        terminalreporter.write_line(text, red=True, bold=True)

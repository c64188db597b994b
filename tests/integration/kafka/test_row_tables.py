"""Tables over Kafka: exact under kills, recovered by Faust, readable by any client."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from ganger.schemas.codec import decode_row
from ganger.schemas.rows import Row
from ganger.streams.kafka.cluster import admin
from ganger.streams.kafka.cluster.cells import place_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import ROWS, TABLE_TOPICS
from ganger.streams.kafka.tables.rows import frames, mark_of
from ganger.streams.kafka.tables.table_reader import read_table
from ganger.streams.kafka.wire.publisher import Publisher
from ganger.streams.kernel.state import State
from ganger.streams.tables.rows import TABLES
from support.chaos import CHAIN, run_seed
from support.kafka import KafkaCluster
from support.row_follower import Follower, rows_of

PARTITIONS = 2
CELL = "chaos"
_PATIENCE_S = 120.0


def until(is_so: Callable[[], bool], what: str) -> None:
    """Look again and again."""
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Stage:
    """A Kafka, frames of a cell under faults on it, and workers that copy them."""

    def __init__(self, bootstrap: str, folder: Path, seed: int) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.settings = KafkaSettings(bootstrap, {})
        admin.create(self.settings, partitions=PARTITIONS)
        self.partition = place_cell(self.settings, CELL).partition
        self.publisher = Publisher(self.settings, name="frames", on_failure=pytest.fail)
        self.records = run_seed(seed, 60, check_every=1000).cell.records
        self.follower = Follower(State(CELL, CHAIN))
        self.sent: list[bytes] = []
        self.workers: list[subprocess.Popen[bytes]] = []

    def send(self, payload: bytes) -> None:
        self.publisher.send(ROWS, self.partition, CELL.encode(), payload, [])
        self.sent.append(payload)

    def live(self, until_seq: int, chance: random.Random) -> None:
        """The cell goes on, its changes are published in a rhythm of their own."""
        follower = self.follower
        while (seq := follower.state.next_seq) < until_seq:
            follower.follow(self.records[seq : seq + chance.randint(1, 9)])
            changes = follower.changes.take(follower.state)
            last = follower.state.next_seq - 1
            for payload in frames(CELL, follower.state.epoch, last, last, changes):
                self.send(payload)
        self.publisher.flush()

    def start(self, name: str) -> subprocess.Popen[bytes]:
        worker = Path(__file__).parents[2] / "support" / "row_worker.py"
        arguments = [self.bootstrap, str(self.folder / name), str(PARTITIONS)]
        process = subprocess.Popen([sys.executable, worker, *arguments], stderr=subprocess.DEVNULL)
        self.workers.append(process)
        return process

    def offset(self, name: str) -> int:
        path = self.folder / f"{name}.offset"
        return int(path.read_text()) if path.exists() else 0

    def wait_for(self, name: str, offset: int) -> None:
        until(lambda: self.offset(name) >= offset, f"{name} is at {self.offset(name)} < {offset}")

    def read(self) -> dict[tuple[str, str], Row]:
        """All tables as any client reads them."""
        return {
            (table, key): row
            for table in TABLES
            for key, row in read_table(self.settings, table, CELL)[0].items()
        }

    def held(self, name: str) -> dict[tuple[str, str], Row]:
        """All tables as the worker's stores have them."""
        asked, told = self.folder / f"{name}.ask", self.folder / f"{name}.rows"
        asked.touch()
        until(lambda: not asked.exists(), f"{name} does not answer")
        rows = msgspec.msgpack.decode(told.read_bytes(), type=list[tuple[str, str, bytes]])
        return {
            (table, key.removeprefix(f"{CELL}/")): self._row(value) for table, key, value in rows
        }

    def _row(self, value: bytes) -> Row:
        row = decode_row(value)
        assert isinstance(row, Row)
        return row

    def check(self, name: str) -> None:
        want = rows_of(self.follower.state)
        assert self.read() == want
        assert self.held(name) == want

    def close(self) -> None:
        for process in self.workers:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


@pytest.fixture
def stage(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> Iterator[Callable[[int], Stage]]:
    made: list[Stage] = []

    def make(seed: int) -> Stage:
        made.append(Stage(kafka_cluster().bootstrap, tmp_path, seed))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_tables_are_exact_under_kills_and_recover_from_nothing(
    stage: Callable[[int], Stage],
) -> None:
    play = stage(401)
    chance = random.Random(401)
    total = len(play.records)
    for part in range(1, 5):
        process = play.start("w1")
        play.live(total * part // 5, chance)
        goal = chance.randint(play.offset("w1"), len(play.sent))
        play.wait_for("w1", max(1, goal))
        process.kill()
        process.wait()
        # somebody who was replaced still publishes what it had
        for payload in chance.sample(play.sent, 3):
            play.send(payload)
    play.live(total, chance)
    process = play.start("w1")
    play.wait_for("w1", len(play.sent))
    play.check("w1")
    process.kill()
    process.wait()

    subprocess.run(["rm", "-rf", play.folder / "w1"], check=True)
    play.start("w1")
    play.send(play.sent[-1])
    play.publisher.flush()
    play.wait_for("w1", len(play.sent))
    play.check("w1")


def test_what_a_late_worker_writes_is_put_right(stage: Callable[[int], Stage]) -> None:
    """A worker that lost its partition writes, late, rows that were newer rows since."""
    play = stage(402)
    chance = random.Random(402)
    play.start("w1")
    play.live(len(play.records) // 2, chance)
    play.wait_for("w1", len(play.sent))
    old, mark = read_table(play.settings, "cards", CELL)
    assert old and mark is not None
    play.live(len(play.records) * 3 // 4, chance)
    play.wait_for("w1", len(play.sent))
    frame = frames(CELL, mark.epoch, mark.seq, 0, [("cards", key, old[key]) for key in old])
    for change in decode_row(frame[0]).rows:  # type: ignore[attr-defined]
        key = f"{CELL}/{change.key}".encode()
        play.publisher.send(TABLE_TOPICS["cards"], play.partition, key, change.row, [])
    key = f"{CELL}/".encode()
    play.publisher.send(TABLE_TOPICS["cards"], play.partition, key, mark_of(mark), [])
    play.publisher.flush()
    assert play.read() != rows_of(play.follower.state)
    play.live(len(play.records), chance)
    play.wait_for("w1", len(play.sent))
    until(lambda: play.read() == rows_of(play.follower.state), "the changelog is not put right")
    play.check("w1")


def test_a_worker_that_finds_newer_rows_ends(stage: Callable[[int], Stage]) -> None:
    play = stage(403)
    chance = random.Random(403)
    process = play.start("w1")
    play.live(len(play.records) // 2, chance)
    play.wait_for("w1", len(play.sent))
    _, mark = read_table(play.settings, "jobs", CELL)
    assert mark is not None
    newer = msgspec.structs.replace(mark, epoch=mark.epoch + 1_000, seq=mark.seq + 1_000)
    key = f"{CELL}/".encode()
    play.publisher.send(TABLE_TOPICS["jobs"], play.partition, key, mark_of(newer), [])
    play.publisher.flush()
    play.live(len(play.records), chance)
    until(lambda: process.poll() is not None, "the late worker goes on")

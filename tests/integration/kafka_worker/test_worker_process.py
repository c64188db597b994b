"""`ganger worker` as a process: how it starts, ends, and goes on with what cannot be run."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ganger.services.client import JobSpec
from ganger.services.client import Producer as Client
from ganger.streams.kafka.cluster.admin import create
from ganger.streams.kafka.cluster.cells import find_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import LEDGER, TOPICS
from ganger.streams.kafka.log.ledger import KafkaStreams
from ganger.streams.payloads import read_record
from support.kafka import KafkaCluster
from support.kafka_fleet import COMMAND, Fleet
from support.kafka_worlds import PATIENCE_S, finished, running

STOP_S = 15.0
ON_THEIR_WAY = 8  # a Tick, and what nodes said meanwhile


def submit(settings: KafkaSettings, cell: str, job: str) -> None:
    with Client(settings, cell) as client:
        client.submit(JobSpec(job, queue="q", estimate="1s"))


def kinds(settings: KafkaSettings, cell: str) -> list[str]:
    """Types of the ledger's records."""
    streams = KafkaStreams(settings, find_cell(settings, cell))
    try:
        return [
            type(read_record(seq, payload)).__name__
            for first, group in streams.ledger.read_groups()
            for seq, payload in enumerate(group, first)
        ]
    finally:
        streams.close()


def test_a_worker_ends_in_order_and_goes_on_where_it_was(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with running(settings, tmp_path, ["north"]) as fleet:
        fleet.simulate("north")
        submit(settings, "north", "j1")
        fleet.until("j1 ends", lambda: finished(settings, "north") == ["j1"], PATIENCE_S)
        worker = fleet.workers["w1"]
        began = monotonic()
        assert worker.stop() == 0
        assert monotonic() - began < STOP_S
        worker.start()
        submit(settings, "north", "j2")
        fleet.until("j2 ends", lambda: finished(settings, "north") == ["j1", "j2"], PATIENCE_S)
        replayed = re.search(r"cell_restored .* replayed=(\d+) ", worker.log())
        assert replayed is not None
        assert int(replayed[1]) <= ON_THEIR_WAY, "it left a snapshot"
        assert kinds(settings, "north").count("OwnerClaimed") == 2


def test_a_killed_worker_goes_on_from_the_ledger(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with running(settings, tmp_path, ["north"]) as fleet:
        fleet.simulate("north")
        submit(settings, "north", "j1")
        fleet.until("j1 ends", lambda: finished(settings, "north") == ["j1"], PATIENCE_S)
        fleet.workers["w1"].kill()
        submit(settings, "north", "j2")
        fleet.until("j2 ends", lambda: finished(settings, "north") == ["j1", "j2"], PATIENCE_S)
        fleet.stop_workers()


def test_a_cell_that_cannot_be_read_is_refused_and_another_goes_on(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with running(settings, tmp_path, ["bad", "good"]) as fleet:
        fleet.simulate("good")
        vandal = Producer(settings.client())
        place = find_cell(settings, "bad").partition
        vandal.produce(LEDGER, b"\0\0\0\0\1junk", b"bad", place)
        assert vandal.flush(30) == 0
        worker = fleet.workers["w1"]
        fleet.until("it is refused", lambda: "event=cell_refused" in worker.log(), PATIENCE_S)
        submit(settings, "bad", "j1")
        submit(settings, "good", "j1")
        fleet.until("j1 ends", lambda: finished(settings, "good") == ["j1"], PATIENCE_S)
        worker.kill()
        submit(settings, "good", "j2")
        fleet.until("j2 ends", lambda: finished(settings, "good") == ["j1", "j2"], PATIENCE_S)
        assert "event=cell_refused cell=bad seq=" in worker.log()
        assert worker.crashes == []
        fleet.stop_workers()


def test_a_kafka_that_is_made_anew_begins_anew(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with running(settings, tmp_path, ["north"]) as fleet:
        fleet.simulate("north")
        submit(settings, "north", "j1")
        fleet.until("j1 ends", lambda: finished(settings, "north") == ["j1"], PATIENCE_S)
        worker = fleet.workers["w1"]
        assert worker.stop() == 0
        assert fleet.nodes["north"].stop() == 0
        admin = AdminClient(settings.client())
        for deleted in admin.delete_topics(list(TOPICS)).values():
            deleted.result(PATIENCE_S)
        fleet.until(
            "they are gone",
            lambda: not TOPICS.keys() & admin.list_topics(timeout=10).topics.keys(),
            PATIENCE_S,
        )
    with running(settings, tmp_path, ["north"]) as fleet:  # on the same folder
        fleet.simulate("north")
        submit(settings, "north", "j2")
        fleet.until("j2 ends", lambda: finished(settings, "north") == ["j2"], PATIENCE_S)
        worker = fleet.workers["w1"]
        assert worker.crashes == []
        assert "event=data_deleted" in worker.log()
        fleet.stop_workers()


def test_a_cell_that_is_placed_later_is_run_without_a_restart(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with running(settings, tmp_path, ["north"]) as fleet:
        fleet.place("south")
        submit(settings, "south", "j1")  # at once: it must not count as of an unknown cell
        fleet.until("south is run", lambda: "south" in fleet.claimed(), PATIENCE_S)
        fleet.until(
            "its job is there", lambda: "JobSubmitRequested" in kinds(settings, "south"), PATIENCE_S
        )
        assert fleet.workers["w1"].starts == 1
        fleet.stop_workers()


def test_a_worker_that_slept_past_its_session_does_no_harm(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with running(settings, tmp_path, ["north"]) as fleet:
        fleet.simulate("north")
        sleeper, heir = fleet.workers["w1"], fleet.worker("w2")
        fleet.until("w2 is there", lambda: "event=owns" in heir.log(), PATIENCE_S)
        owner = sleeper if sleeper.cells() else heir
        other = heir if owner is sleeper else sleeper
        owner.signal(signal.SIGSTOP)
        fleet.until("another runs the cell", lambda: other.cells() == {"north"}, PATIENCE_S)
        submit(settings, "north", "j1")
        fleet.until("j1 ends", lambda: finished(settings, "north") == ["j1"], PATIENCE_S)
        owner.signal(signal.SIGCONT)
        submit(settings, "north", "j2")
        fleet.until("j2 ends", lambda: finished(settings, "north") == ["j1", "j2"], PATIENCE_S)
        fleet.until("one runs it", lambda: one_owner(fleet), PATIENCE_S)
        fleet.stop_workers()
    done = subprocess.run(
        [*COMMAND, "verify", f"kafka://{settings.bootstrap}/north"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def one_owner(fleet: Fleet) -> bool:
    """Whether exactly one worker says that it runs the cell."""
    return sum("north" in worker.cells() for worker in fleet.workers.values()) == 1


# ---- calls that cannot be ------------------------------------------------------------------------


def call(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "worker", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_topics_that_are_missing(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    bootstrap = kafka_cluster().bootstrap
    done = call("--kafka", bootstrap, "--data", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ganger topics create --kafka " + bootstrap in done.stderr
    assert "Traceback" not in done.stderr


def test_two_workers_on_one_folder(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    create(settings, partitions=2, cells=["north"])
    with Fleet(settings, tmp_path) as fleet:
        worker = fleet.worker("w1", tmp_path / "data")
        fleet.until("it starts", lambda: "event=worker_starts" in worker.log(), PATIENCE_S)
        done = call("--kafka", settings.bootstrap, "--data", tmp_path / "data", "--id", "w2")
        assert done.returncode == 2
        assert "another worker runs on" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kafka", "not an address"), "HOST:PORT"),
        (("--kafka", "127.0.0.1:1", "--id", "a b"), "--id"),
        (("--kafka", "127.0.0.1:1", "--id", ""), "--id"),
        (("--kafka", "127.0.0.1:1", "--silence", "0s"), "--silence"),
    ],
)
def test_calls_that_cannot_be(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = call(*words, "--data", tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_that_is_away_is_no_wrong_call(tmp_path: Path) -> None:
    done = call("--kafka", "127.0.0.1:1", "--data", tmp_path)
    assert done.returncode == 1, "a supervisor tries again"
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr

"""A worker whose disk is full: it says so, stays away, and goes on when there is room."""

from collections.abc import Callable
from pathlib import Path

from ganger.services.client import JobSpec
from ganger.services.client import Producer as Client
from ganger.streams.kafka.cluster.settings import KafkaSettings
from support.disks import fill, mounted
from support.kafka import KafkaCluster
from support.kafka_fleet import Fleet
from support.kafka_worlds import PATIENCE_S, finished, running

DISK_MIB = 96


def test_a_full_disk_ends_a_worker_that_stays_away_until_there_is_room(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    data = tmp_path / "data-w1"
    data.mkdir()
    with mounted(data, DISK_MIB), running(settings, tmp_path, ["north"]) as fleet:
        worker = fleet.workers["w1"]
        fleet.simulate("north")
        jobs = submit(settings, 20)
        fleet.until("they end", lambda: set(finished(settings, "north")) >= jobs, PATIENCE_S)
        fill(data / "filler")
        jobs |= submit(settings, 200, first=20)
        fleet.until("it gives up", lambda: worker.crashes, PATIENCE_S)
        assert worker.crashes[0] == 70
        said = worker.log_path.with_name("w1.1.log").read_text()
        assert "tables_deleted why=" in said
        assert "No space left on device" in said
        fleet.until("it is refused", lambda: len(worker.crashes) > 1, PATIENCE_S)
        assert worker.crashes[1] == 1
        refusal = worker.log_path.with_name("w1.2.log").read_text()
        assert "MiB free and a worker needs 64 MiB" in refusal
        assert "Traceback" not in refusal
        (data / "filler").unlink()
        jobs |= submit(settings, 20, first=220)  # those before may be over already
        fleet.until("they end", lambda: set(finished(settings, "north")) == jobs, PATIENCE_S)
        end(fleet)


def submit(settings: KafkaSettings, count: int, first: int = 0) -> set[str]:
    """Submit jobs that are over soon; their keys."""
    jobs = [f"j{number}" for number in range(first, first + count)]
    with Client(settings, "north") as client:
        for job in jobs:
            client.submit(JobSpec(job, queue="q", estimate="1s"))
    return set(jobs)


def end(fleet: Fleet) -> None:
    """Before the disk goes away."""
    fleet.stop_workers()
    fleet.close()

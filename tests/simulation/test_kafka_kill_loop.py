"""The short form of `kafka_kill_loop`: a few kills of workers, one of the broker, one pause."""

from collections.abc import Callable
from pathlib import Path

from simulation.kafka_kill_loop import Plan, loop

from support.kafka import KafkaCluster


def test_nothing_is_lost_doubled_or_changed(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    plan = Plan(worker_kills=6, broker_kills=1, pauses=1, cells=("north", "east"), rate=10.0)
    report = loop(kafka_cluster(), tmp_path, plan)
    assert (report.worker_kills, report.broker_kills, report.pauses) == (6, 1, 1)
    assert report.jobs > 0
    assert report.events >= report.jobs

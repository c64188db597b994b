"""Cells on a Kafka with workers that run them, ready for jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ganger.services.client import Producer as Client
from ganger.streams.kafka.cluster.cells import find_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.log.ledger import KafkaStreams
from ganger.streams.payloads import read_decision
from ganger.streams.presets.loader import load_policy
from support.builders import queue
from support.kafka_fleet import Fleet

PATIENCE_S = 90.0
"""How long to wait for what takes some seconds on an idle machine."""


@contextmanager
def running(settings: KafkaSettings, folder: Path, cells: list[str]) -> Iterator[Fleet]:
    """Topics, cells with a policy and a queue, and a worker that runs them."""
    with Fleet(settings, folder) as fleet:
        fleet.make_topics(cells, 2)
        fleet.worker("w1")
        for cell in cells:
            with Client(settings, cell) as client:
                client.configure_policy(load_policy())
                client.configure_queue(queue("q"))
        fleet.until("all cells are run", lambda: fleet.claimed() == set(cells), PATIENCE_S)
        yield fleet


def finished(settings: KafkaSettings, cell: str) -> list[str]:
    """Jobs that have ended, in order."""
    streams = KafkaStreams(settings, find_cell(settings, cell))
    try:
        return [
            decision.job
            for first, group in streams.decisions.read_groups()
            for position, payload in enumerate(group, first)
            if (decision := read_decision(position, payload)).kind.name == "FINISH"
        ]
    finally:
        streams.close()

"""A Kafka of the test's own with a fleet on it: workers share one group for all cells there are."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ganger.streams.kafka.cluster.settings import KafkaSettings
from support.kafka import KafkaCluster
from support.kafka_fleet import Fleet


@pytest.fixture
def cluster(kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    """One broker."""
    return kafka_cluster()


@pytest.fixture
def fleet(cluster: KafkaCluster, tmp_path: Path) -> Iterator[Fleet]:
    """No process yet."""
    with Fleet(KafkaSettings(cluster.bootstrap), tmp_path) as fleet:
        yield fleet

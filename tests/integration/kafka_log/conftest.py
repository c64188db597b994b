"""One broker for these tests, with more partitions than others need, and a cell for each."""

from collections.abc import Callable

import pytest

from ganger.streams.kafka.cluster.settings import KafkaSettings
from support.kafka import _run, skipped_where_missing
from support.kafka_cells import KafkaCell, make_topics, new_cell


@pytest.fixture(scope="session")
def settings() -> KafkaSettings:
    """A broker with topics."""
    with skipped_where_missing():
        found = KafkaSettings(_run().cluster(1, ()).bootstrap)
    make_topics(found)
    return found


@pytest.fixture
def cell(settings: KafkaSettings, unique_name: Callable[[str], str]) -> KafkaCell:
    """A placed cell without a record."""
    return new_cell(settings, unique_name("cell"))

"""Cells on a broker of a real Kafka: each test places its own and writes what it likes there."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from ganger.schemas.encoding import encode_record
from ganger.schemas.records import Record
from ganger.streams.kafka.cluster.admin import Admin
from ganger.streams.kafka.cluster.cells import Placement, place_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import CELLS, DECISIONS, LEDGER, SNAPSHOTS, TOPICS
from ganger.streams.kafka.log.ledger import KafkaDecisions, KafkaLedger
from ganger.streams.kafka.log.logs import DecisionLog, LedgerLog
from ganger.streams.kafka.log.snapshots import TopicSnapshots
from ganger.streams.kafka.wire.publisher import Publisher

PARTITIONS = 96
"""More than all tests that place a cell on one broker."""

_TOPICS = (CELLS, LEDGER, DECISIONS, SNAPSHOTS)


def make_topics(settings: KafkaSettings) -> None:
    """Make the topics of a cell's own records, no others: partitions cost time."""
    admin = Admin(settings)
    specs = [TOPICS[name] for name in _TOPICS if name not in admin.topics()]
    admin.create(specs, PARTITIONS, 1)
    admin.settle({spec.name: spec.partition_count(PARTITIONS) for spec in specs})


@dataclass(eq=False)
class KafkaCell:
    """One cell and its partitions."""

    settings: KafkaSettings
    placement: Placement
    failures: list[str] = field(default_factory=list)

    @cached_property
    def publisher(self) -> Publisher:
        return self.new_publisher()

    def new_publisher(self) -> Publisher:
        return Publisher(self.settings, name="test", on_failure=self.failures.append)

    def ledger(self) -> KafkaLedger:
        return KafkaLedger(self.settings, self.placement)

    def ledger_log(self) -> LedgerLog:
        return LedgerLog(self.settings, self.placement, self.publisher)

    def decisions(self) -> KafkaDecisions:
        return KafkaDecisions(self.settings, self.placement)

    def decision_log(self) -> DecisionLog:
        return DecisionLog(self.settings, self.placement, self.publisher)

    def snapshots(self) -> TopicSnapshots:
        return TopicSnapshots(self.settings, self.placement, self.publisher)

    def write(
        self, topic: str, payloads: Iterable[bytes | None], key: bytes | None = None
    ) -> list[int]:
        """Write straight into the cell's partition of a topic; the offsets."""
        offsets: list[int] = []
        name = self.placement.cell.encode() if key is None else key
        for payload in payloads:
            self.publisher.send(topic, self.placement.partition, name, payload, [], offsets.append)
        self.publisher.flush()
        return offsets

    def feed(self, records: Iterable[Record]) -> list[int]:
        """Append records to the ledger as intake does; their seqs."""
        return self.write(LEDGER, [encode_record(record) for record in records])


def new_cell(
    settings: KafkaSettings,
    name: str,
    *,
    fingerprint: bytes | None = None,
    arguments: bytes = b"",
) -> KafkaCell:
    """Place a cell that no other test has; the topics are there."""
    return KafkaCell(
        settings, place_cell(settings, name, fingerprint=fingerprint, arguments=arguments)
    )

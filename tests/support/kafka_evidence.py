"""Everything that a Kafka holds of a cell, read back and held against an uninterrupted fold.

Nothing here trusts the workers: decisions are read raw, ids and bytes compared, and the fold runs
in this process over logs in memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from ganger.schemas.decision_ids import decision_head
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.records import JobSubmitRequested, Record
from ganger.schemas.rows import Row
from ganger.streams.checkpoint import unpack
from ganger.streams.engine import Engine
from ganger.streams.kafka.cluster.admin import topic_ids
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import (
    CONTROL,
    DEAD_LETTERS,
    DECISIONS,
    INPUTS,
    JOBS,
    PODS,
    ROWS,
)
from ganger.streams.kafka.log.ledger import KafkaDecisions, KafkaLedger
from ganger.streams.kafka.log.snapshots import LayeredSnapshots, TopicSnapshots
from ganger.streams.kafka.tables.table_reader import read_table
from ganger.streams.kafka.wire.envelope import SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TOPIC
from ganger.streams.kafka.wire.partition import Partition
from ganger.streams.kafka.wire.publisher import Publisher
from ganger.streams.kafka.worker.app import GROUP
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.payloads import read_decision, read_record
from ganger.streams.tables.rows import TABLES, key_of

Place = tuple[str, int, int]
"""Topic (its name, or its id), partition, offset."""

_ANSWER_S = 20.0


@dataclass
class CellFold:
    """A cell's ledger folded in this process, as far as it was read.

    Attributes:
        event_ids: those of its records.
        sources: where its records stood before: topic id, partition, offset.
        finished: jobs that a decision ended.
        refused: decisions that refused a job.
    """

    settings: KafkaSettings
    placement: Placement
    event_ids: set[str] = field(default_factory=set)
    sources: set[Place] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    refused: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        place = self.placement
        self._logs = [
            MemoryLog(LogIdentity(stream, place.cell, place.fingerprint, place.arguments))
            for stream in (Stream.LEDGER, Stream.DECISIONS)
        ]
        self.engine = Engine.create(self._logs[0], self._logs[1])
        self._ledger = KafkaLedger(self.settings, place)

    @property
    def state(self) -> State:
        return self.engine.state

    def advanced(self) -> Self:
        """The fold, up to the ledger's end as of now."""
        for first_seq, payloads in self._ledger.read_groups(self.state.next_seq):
            records, decisions = self.engine.follow(first_seq, payloads)
            for record in records:
                self.event_ids.add(record.event_id)
                if record.source is not None:
                    source = record.source
                    self.sources.add((source.topic, source.partition, source.offset))
            self._note(first_seq, records, decisions)
        return self

    def _note(
        self, first_seq: int, records: Sequence[Record], decisions: Iterable[Decision]
    ) -> None:
        for decision in decisions:
            if decision.kind is DecisionKind.FINISH:
                self.finished.add(decision.job)
            elif decision.kind is DecisionKind.REJECT:
                cause = records[decision.cause_seq - first_seq]
                if isinstance(cause, JobSubmitRequested):
                    self.refused.append(decision)

    def decisions(self) -> list[bytes]:
        """What the ledger leads to."""
        return [payload for _, group in self._logs[1].read_groups(0) for payload in group]

    def table_defects(self) -> list[str]:
        """Where a table, as its changelog has it, is not the state's rows; as far as was folded."""
        defects = []
        for table, (_, rows_of) in TABLES.items():
            found, _ = read_table(self.settings, table, self.placement.cell)
            defects += row_defects(table, found, rows_of(self.state))
        return defects

    def close(self) -> None:
        self._ledger.close()


def row_defects(table: str, found: dict[str, Row], wanted: Iterable[Row]) -> list[str]:
    """Where the rows of a table are not those that they should be."""
    expected = {key_of(row): row for row in wanted}
    return [
        f"{table}/{key}: the table has {found.get(key)}, the state {expected.get(key)}"
        for key in sorted(expected.keys() | found.keys())
        if found.get(key) != expected.get(key)
    ]


@dataclass(frozen=True)
class Published:
    """The decisions of a cell as they stand on Kafka: distinct ones in order, and the copies."""

    payloads: list[bytes]
    copies: int


def published(settings: KafkaSettings, placement: Placement) -> Published:
    """Read the partition raw, and check ids and copies.

    Raises:
        AssertionError: an id is not higher than all before it, and no copy either; or a copy
            differs from what it is a copy of.
    """
    partition = Partition(settings, DECISIONS, placement.partition)
    by_id: dict[tuple[int, int], bytes] = {}
    newest, copies = (-1, -1), 0
    try:
        low, high = partition.watermarks()
        assert low == 0
        for offset, payload in _payloads(partition, high, placement.cell.encode()):
            head = decision_head(payload)
            identity = head.cause_seq, head.index
            place = f"{partition.place}/{offset}: decision {identity}"
            assert head.cell == placement.cell, f"{place} is of cell {head.cell}"
            if identity in by_id:
                assert by_id[identity] == payload, f"{place} differs from its first copy"
                copies += 1
            else:
                assert identity > newest, f"{place} comes after {newest}"
                by_id[identity], newest = payload, identity
    finally:
        partition.close()
    return Published(list(by_id.values()), copies)


def _payloads(partition: Partition, end: int, key: bytes) -> Iterable[tuple[int, bytes]]:
    for first, payloads in partition.records(0, end, key):
        yield from enumerate(payloads, first)


def check_decisions(fold: CellFold) -> Published:
    """Hold what was published against what the ledger leads to.

    Raises:
        AssertionError: it is not the same, byte for byte.
    """
    found = published(fold.settings, fold.placement)
    computed = fold.decisions()
    pairs = enumerate(zip(found.payloads, computed, strict=False))
    for position, (recorded, wanted) in pairs:
        assert recorded == wanted, (
            f"{fold.placement.cell}: decision {position} is {read_decision(position, recorded)}, "
            f"the ledger leads to {read_decision(position, wanted)}"
        )
    assert len(found.payloads) == len(computed), fold.placement.cell
    return found


def saved_digest(fold: CellFold, folder: Path) -> bytes:
    """The digest to which the newest snapshot on Kafka leads, and the ledger's records after it.

    Args:
        fold: of the whole ledger.
        folder: an empty one, for a store of its own.
    """
    settings, placement = fold.settings, fold.placement
    ledger, decisions = KafkaLedger(settings, placement), KafkaDecisions(settings, placement)
    publisher = Publisher(settings, name="evidence", on_failure=lambda why: None)
    topic = TopicSnapshots(settings, placement, publisher)
    with LayeredSnapshots(folder, ledger, decisions, publisher, topic) as snapshots:
        found = snapshots.newest(fold.state.next_seq)
    assert found is not None, f"{placement.cell}: no snapshot was saved"
    state = unpack(found[1]).state
    for first_seq, payloads in ledger.read_groups(state.next_seq, fold.state.next_seq):
        for seq, payload in enumerate(payloads, first_seq):
            step(state, seq, read_record(seq, payload))
    for log in (ledger, decisions, topic):
        log.close()
    return seal(state)


# --- The inputs ----------------------------------------------------------------------------------


def lags(settings: KafkaSettings, partitions: int) -> dict[tuple[str, int], int]:
    """What the workers' group has not committed yet, where there is anything."""
    consumer = Consumer(settings.client(**{"group.id": GROUP, "enable.auto.commit": False}))
    places = [TopicPartition(topic, n) for topic in (*INPUTS, ROWS) for n in range(partitions)]
    found = {}
    try:
        for answer in consumer.committed(places, timeout=_ANSWER_S):
            low, high = consumer.get_watermark_offsets(answer, timeout=_ANSWER_S)
            lag = high - (answer.offset if answer.offset >= 0 else low)
            if lag:
                found[answer.topic, answer.partition] = lag
    finally:
        consumer.close()
    return found


def lost_inputs(
    settings: KafkaSettings, partitions: int, sources: set[Place]
) -> dict[str, list[Place]]:
    """Messages of jobs, pods and control that are neither in a ledger nor a dead letter.

    Heartbeats are left out: one that says nothing new leads to no record.
    """
    buried = dead_letters(settings, partitions)
    ids = topic_ids(settings, [JOBS, PODS, CONTROL])
    lost: dict[str, list[Place]] = {}
    for topic, topic_id in ids.items():
        for number in range(partitions):
            partition = Partition(settings, topic, number)
            low, high = partition.watermarks()
            partition.close()
            missing = [
                (topic, number, offset)
                for offset in range(low, high)
                if (topic_id, number, offset) not in sources
                and (topic, number, offset) not in buried
            ]
            if missing:
                lost[topic] = lost.get(topic, []) + missing
    return lost


def dead_letters(settings: KafkaSettings, partitions: int) -> set[Place]:
    """Where the messages stood that were refused."""
    found = set()
    for number in range(partitions):
        partition = Partition(settings, DEAD_LETTERS, number)
        low, high = partition.watermarks()
        for messages in partition.read(low, high):
            for message in messages:
                said = dict(message.headers() or [])
                topic, place, offset = (
                    str(said[name], "ascii")  # type: ignore[arg-type]
                    for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET)
                )
                found.add((topic, int(place), int(offset)))
        partition.close()
    return found

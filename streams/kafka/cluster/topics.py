"""Every topic of ganger, declared once: what it carries, how it is cut, kept and keyed.

`admin` creates and checks topics from this table, `asyncapi` describes them from it, and whoever
produces or consumes takes names and limits from here.
"""

from enum import Enum

from msgspec import Struct

from ganger.schemas.codec import PAYLOAD_BYTES_MAX
from ganger.schemas.records import RECORD_TYPES

HEARTBEATS = "ganger.heartbeats"
JOBS = "ganger.jobs"
PODS = "ganger.pods"
CONTROL = "ganger.control"
LEDGER = "ganger.ledger"
DECISIONS = "ganger.decisions"
ROWS = "ganger.rows"
DEAD_LETTERS = "ganger.dlq"
SNAPSHOTS = "ganger.snapshots"
CELLS = "ganger.cells"

INPUTS: tuple[str, ...] = (HEARTBEATS, JOBS, PODS, CONTROL)
"""Topics that outsiders write to."""

TABLE_TOPICS: dict[str, str] = {
    table: f"ganger.table.{table}" for table in ("cards", "nodes", "queues", "jobs")
}
"""Changelog topic of each table, by the table's name."""

PARTITIONS_DEFAULT = 16
"""Partitions of a topic with one partition per cell: the most cells that one Kafka holds."""

REPLICATION_DEFAULT = 3
"""Copies of each partition, where there are as many brokers."""

INPUT_BYTES_MAX = PAYLOAD_BYTES_MAX + 12
"""Kafka's own default for `max.message.bytes`: a payload of 1 MiB and a batch's overhead."""

MESSAGE_BYTES_MAX = 2 * PAYLOAD_BYTES_MAX
"""For what is made from inputs: a ledger record carries its source on top, a dead letter its error
headers. Producers need `message.max.bytes` of this, too."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_FOREVER = -1
_MIB = 1 << 20


class Partitions(Enum):
    """How a topic is cut."""

    CELLS = "cells"
    """One partition per cell, as many as the ledger's topic has."""

    ONE = "one"


class Cleanup(Enum):
    """What Kafka removes; the value is `cleanup.policy`."""

    DELETE = "delete"
    COMPACT = "compact"


class Key(Enum):
    """What the key of a topic's messages is."""

    CELL = "cell"
    ENTITY = "cell/entity"
    SNAPSHOT = "cell/seq/chunk"
    ANY = "that of the original"


class TopicSpec(Struct, frozen=True):
    """One topic.

    Attributes:
        name: the topic's name on Kafka.
        description: what it is for, one sentence.
        partitions: how it is cut.
        cleanup: what is removed.
        retention_ms: age at which whole segments are deleted; -1: never. Not used by compaction.
        key: what the key is.
        records: names of the records it carries, in `schemas`; empty: bytes of another kind.
        message_bytes_max: largest batch that the broker takes.
        segment_bytes: size of a segment file.
        segment_ms: age at which a segment is closed, so that it can be deleted or compacted.
        is_stamped_by_broker: the broker's clock dates messages, so no producer's wrong clock can
            make Kafka delete them at once, or never.
        settings: further settings of the topic.
    """

    name: str
    description: str
    partitions: Partitions
    cleanup: Cleanup
    retention_ms: int
    key: Key
    records: tuple[str, ...]
    message_bytes_max: int = MESSAGE_BYTES_MAX
    segment_bytes: int = 256 * _MIB
    segment_ms: int = 7 * _DAY_MS
    is_stamped_by_broker: bool = True
    settings: dict[str, str] = {}

    def partition_count(self, cells: int) -> int:
        """Partitions of this topic on a Kafka whose ledger has `cells` of them."""
        return cells if self.partitions is Partitions.CELLS else 1


def topic_configs(spec: TopicSpec, replication: int) -> dict[str, str]:
    """A topic's settings as Kafka names and spells them.

    Args:
        spec: the topic.
        replication: copies of each partition. From three on, a write needs two of them: it
            survives one broker, and so does the topic. With fewer, nothing can be asked for that
            would not stop all writes when one broker is gone.
    """
    return {
        "cleanup.policy": spec.cleanup.value,
        "retention.ms": str(spec.retention_ms),
        "retention.bytes": "-1",
        "max.message.bytes": str(spec.message_bytes_max),
        "segment.bytes": str(spec.segment_bytes),
        "segment.ms": str(spec.segment_ms),
        "min.insync.replicas": "2" if replication >= REPLICATION_DEFAULT else "1",
        "unclean.leader.election.enable": "false",
        "compression.type": "producer",
        "message.timestamp.type": "LogAppendTime" if spec.is_stamped_by_broker else "CreateTime",
        **spec.settings,
    }


def _input(name: str, description: str, *records: str) -> TopicSpec:
    return TopicSpec(
        name=name,
        description=description,
        partitions=Partitions.CELLS,
        cleanup=Cleanup.DELETE,
        retention_ms=7 * _DAY_MS,
        key=Key.CELL,
        records=records,
        message_bytes_max=INPUT_BYTES_MAX,
        segment_ms=_DAY_MS,
    )


def _table(table: str, record: str, what: str) -> TopicSpec:
    # Compacted only: Faust's recovery from a changelog whose head was deleted ends normally with
    # an incomplete table.
    return TopicSpec(
        name=TABLE_TOPICS[table],
        description=f"Changelog of the table `{table}`: {what}.",
        partitions=Partitions.CELLS,
        cleanup=Cleanup.COMPACT,
        retention_ms=_FOREVER,
        key=Key.ENTITY,
        records=(record,),
        segment_bytes=64 * _MIB,
        segment_ms=_DAY_MS,
        is_stamped_by_broker=False,
        settings={"min.cleanable.dirty.ratio": "0.3"},
    )


_LEDGER_RECORDS = tuple(
    kind.__name__ for kind in RECORD_TYPES if kind.__name__ != "NodeHeartbeat"
)  # intake turns heartbeats into NodeChanged, NodeLost and NodeReturned

_SPECS: tuple[TopicSpec, ...] = (
    _input(HEARTBEATS, "Node agents say what nodes have and run.", "NodeHeartbeat"),
    _input(
        *(JOBS, "Services submit, change and cancel jobs."),
        *("JobSubmitRequested", "JobUpdateRequested", "JobCancelRequested"),
    ),
    _input(
        *(PODS, "Executors report what became of pods."),
        *("PodStarted", "PodProgressed", "PodCheckpointed", "PodSucceeded"),
        *("PodFailed", "PodReleased", "PodAdopted", "PodSuspended", "PodResumed"),
    ),
    _input(
        *(CONTROL, "Operators configure queues, policy, reservations and nodes."),
        *("QueueConfigured", "PolicyConfigured", "NodeCordoned", "NodeUncordoned"),
        *("NodeDrained", "ReservationRequested", "FlagEnabled"),
        *("FlavorConfigured", "ZoneConfigured"),
    ),
    TopicSpec(
        name=LEDGER,
        description="The ledgers: one partition is one cell, an offset is a seq, kept whole.",
        partitions=Partitions.CELLS,
        cleanup=Cleanup.DELETE,
        retention_ms=_FOREVER,
        key=Key.CELL,
        records=_LEDGER_RECORDS,
    ),
    TopicSpec(
        name=DECISIONS,
        description="What the kernel decided, by (cell, seq of the cause, index); copies are equal "
        "byte for byte.",
        partitions=Partitions.CELLS,
        cleanup=Cleanup.DELETE,
        retention_ms=_FOREVER,
        key=Key.CELL,
        records=("Decision",),
    ),
    TopicSpec(
        name=ROWS,
        description="Rows that changed, in frames, for the tables; the cells' owners publish them.",
        partitions=Partitions.CELLS,
        cleanup=Cleanup.DELETE,
        retention_ms=_DAY_MS,
        key=Key.CELL,
        records=("RowsChanged",),
        segment_ms=_HOUR_MS,
    ),
    TopicSpec(
        name=DEAD_LETTERS,
        description="Inputs that were refused: their bytes, and the reason in headers.",
        partitions=Partitions.CELLS,
        cleanup=Cleanup.DELETE,
        retention_ms=30 * _DAY_MS,
        key=Key.ANY,
        records=(),
        segment_ms=_DAY_MS,
    ),
    TopicSpec(
        name=SNAPSHOTS,
        description="States of cells in chunks, shortcuts on the way through their ledgers.",
        partitions=Partitions.CELLS,
        cleanup=Cleanup.COMPACT,
        retention_ms=_FOREVER,
        key=Key.SNAPSHOT,
        records=(),
        segment_bytes=64 * _MIB,
        segment_ms=_HOUR_MS,
        settings={"min.cleanable.dirty.ratio": "0.3"},
    ),
    # Not compacted: the first placement counts, and compaction keeps the last one of a key.
    TopicSpec(
        name=CELLS,
        description="Which partition is which cell's; the first placement of each counts.",
        partitions=Partitions.ONE,
        cleanup=Cleanup.DELETE,
        retention_ms=_FOREVER,
        key=Key.CELL,
        records=("CellPlaced",),
    ),
    _table("cards", "CardRow", "one row per card"),
    _table("nodes", "NodeRow", "one row per node"),
    _table("queues", "QueueRow", "one row per queue"),
    _table("jobs", "JobRow", "one row per job"),
)

TOPICS: dict[str, TopicSpec] = {spec.name: spec for spec in _SPECS}
"""Every topic, by name."""

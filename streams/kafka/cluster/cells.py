"""Which partition is which cell's, as the topic `ganger.cells` says.

The topic has one partition and is kept whole. It is folded in order of offset: a record places its
cell unless the cell has a partition already, or the partition a cell. So of two administrators who
place at once the first in the topic has it, every reader agrees on who that was, and the other
finds out by reading back and takes the next free partition.
"""

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from msgspec import Struct

from ganger.schemas.codec import decode_row
from ganger.schemas.encoding import encode_row
from ganger.schemas.registry import fingerprint as schemas_fingerprint
from ganger.schemas.rows import CellPlaced
from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.errors import (
    BrokerUnreachable,
    CellElsewhere,
    CellUnknown,
    NoFreePartition,
    SettingsBad,
    TopicMissing,
)
from ganger.streams.kafka.cluster.failures import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Troubles,
    is_passing,
    patiently,
)
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import CELLS, LEDGER, MESSAGE_BYTES_MAX
from ganger.streams.kafka.wire.envelope import headers

CELL_CHARS_MAX = 100

_POLL_SECONDS = 0.1
_BATCH_COUNT = 500
# The client goes on by itself after each of them.
_NOT_WORTH_STOPPING = (
    KafkaError._PARTITION_EOF,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
)


class Placement(Struct, frozen=True):
    """A cell and its partition.

    Attributes:
        cell: name of the cell.
        partition: its partition of every topic that has one per cell.
        fingerprint: the schemas that its chains begin with, 32 bytes.
        arguments: a run's arguments that its chains begin with; empty for a live cell.
    """

    cell: str
    partition: int
    fingerprint: bytes
    arguments: bytes


class PlacementWatch(Closing):
    """The placements as they are, kept up to date by `refresh`. Belongs to one thread.

    Attributes:
        by_cell: placement of each cell.
        by_partition: the same by partition.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        """Reads the topic to its end as of now.

        Raises:
            TopicMissing: there is no such topic.
            KafkaFailed: see its other subclasses.
        """
        self.by_cell: dict[str, Placement] = {}
        self.by_partition: dict[int, Placement] = {}
        self._settings = settings
        self._troubles = Troubles(settings)
        self._next = 0
        self._consumer = Consumer(
            settings.client(
                **self._troubles.options(),
                **{
                    "group.id": "ganger-cells",  # asked for by the client; nothing is committed
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
                },
            )
        )
        try:
            self.partitions = _partitions(self._consumer, settings, self._troubles)
            low, _ = self._watermarks()
            self._next = low
            self._consumer.assign([TopicPartition(CELLS, 0, low)])
            self.read_to_end()
        except BaseException:
            self._consumer.close()
            raise

    def refresh(self) -> list[Placement]:
        """Takes in what has arrived, without waiting; new placements.

        Raises:
            KafkaFailed: the topic cannot be read on.
        """
        return self._fold(self._consumer.consume(_BATCH_COUNT, 0))

    def read_to_end(self) -> list[Placement]:
        """Takes in all that the topic holds now; new placements.

        Raises:
            KafkaFailed: it cannot be read, or not in time.
        """
        _, end = self._watermarks()
        found: list[Placement] = []
        deadline = time.monotonic() + ANSWER_SECONDS
        while self._next < end:
            # consume(n, t) would wait the whole t unless n records come.
            first = self._consumer.poll(_POLL_SECONDS)
            if first is not None:
                found += self._fold([first, *self._consumer.consume(_BATCH_COUNT, 0)])
                deadline = time.monotonic() + ANSWER_SECONDS
            elif time.monotonic() > deadline:
                raise BrokerUnreachable(
                    self._settings.bootstrap, f"reading {CELLS}", f"stopped before offset {end}"
                )
        return found

    def placement(self, cell: str) -> Placement:
        """Where a cell is.

        Raises:
            CellUnknown: nowhere, as far as was read.
        """
        try:
            return self.by_cell[cell]
        except KeyError:
            known = ", ".join(sorted(self.by_cell)) or "none"
            raise CellUnknown(self._settings.bootstrap, cell, known) from None

    def free_partition(self) -> int | None:
        """The lowest partition without a cell."""
        free = (p for p in range(self.partitions) if p not in self.by_partition)
        return next(free, None)

    def close(self) -> None:
        """Give up the consumer."""
        self._consumer.close()

    def _watermarks(self) -> tuple[int, int]:
        try:
            return patiently(
                lambda: self._consumer.get_watermark_offsets(
                    TopicPartition(CELLS, 0), timeout=ANSWER_SECONDS
                )
            )
        except KafkaException as error:
            raise self._troubles.failure(f"reading {CELLS}", error) from error

    def _fold(self, messages: Iterable[Message]) -> list[Placement]:
        new = []
        for message in messages:
            error = message.error()
            if error is not None:
                if is_passing(error) or error.code() in _NOT_WORTH_STOPPING:
                    continue
                raise self._troubles.failure(f"reading {CELLS}", error)
            self._next = (message.offset() or 0) + 1
            placed = _placed(message.value())
            if placed is None or placed.partition >= self.partitions or placed.partition < 0:
                continue  # not of ganger, or of a topic cut otherwise: it places nothing
            if not is_cell_name(placed.cell):
                continue  # whoever wrote it: workers would leave their folder
            if placed.cell in self.by_cell or placed.partition in self.by_partition:
                continue
            place = Placement(placed.cell, placed.partition, placed.fingerprint, placed.arguments)
            self.by_cell[place.cell] = self.by_partition[place.partition] = place
            new.append(place)
        return new


def read_placements(settings: KafkaSettings) -> dict[str, Placement]:
    """Every cell's placement as of now, by cell.

    Raises:
        TopicMissing: the topics were not created.
        KafkaFailed: see its other subclasses.
    """
    with PlacementWatch(settings) as watch:
        return watch.by_cell


def find_cell(settings: KafkaSettings, cell: str) -> Placement:
    """One cell's placement as of now.

    Raises:
        CellUnknown: it has none.
        KafkaFailed: see its other subclasses.
    """
    with PlacementWatch(settings) as watch:
        return watch.placement(cell)


def place_cell(
    settings: KafkaSettings,
    cell: str,
    *,
    fingerprint: bytes | None = None,
    arguments: bytes = b"",
) -> Placement:
    """Give a cell the lowest free partition, unless it has one. Can be repeated.

    Args:
        settings: the Kafka that holds the topics.
        cell: name of the cell: letters, digits and `._-`.
        fingerprint: what its chains begin with; by default the schemas of this version, and for a
            cell that is placed already whatever it was placed with.
        arguments: likewise.

    Returns:
        Where the cell is now.

    Raises:
        SettingsBad: no name for a cell.
        CellElsewhere: it was placed with another fingerprint or other arguments.
        NoFreePartition: all are taken.
        KafkaFailed: see its other subclasses.
    """
    _check_name(cell)
    with PlacementWatch(settings) as watch:
        while cell not in watch.by_cell:
            partition = watch.free_partition()
            if partition is None:
                raise NoFreePartition(cell, watch.partitions)
            mark = schemas_fingerprint() if fingerprint is None else fingerprint
            _publish(settings, CellPlaced(cell, partition, mark, arguments))
            watch.read_to_end()
        placed = watch.by_cell[cell]
    if fingerprint not in (None, placed.fingerprint):
        raise CellElsewhere(cell, placed.partition, "fingerprint")
    if arguments != placed.arguments and (arguments or fingerprint is not None):
        raise CellElsewhere(cell, placed.partition, "arguments")
    return placed


def is_cell_name(cell: str) -> bool:
    """Whether a cell may be called so: the name is part of keys, and of a folder's path."""
    return (
        0 < len(cell) <= CELL_CHARS_MAX
        and cell not in (".", "..")
        and all(char.isascii() and (char.isalnum() or char in "._-") for char in cell)
    )


def _check_name(cell: str) -> None:
    if not is_cell_name(cell):
        raise SettingsBad(
            "cell",
            f"{cell[:40]!r} of {len(cell)} characters is no name of a cell",
            f"give 1 to {CELL_CHARS_MAX} letters, digits, dots, underscores and hyphens, "
            "but neither . nor ..",
        )


def _partitions(consumer: Consumer, settings: KafkaSettings, troubles: Troubles) -> int:
    """Partitions of the ledger's topic, once it and that of the cells are found to be there."""
    counts = {}
    for topic in (CELLS, LEDGER):
        try:
            found = consumer.list_topics(topic, timeout=CONNECT_SECONDS).topics[topic]
        except KafkaException as error:
            consumer.poll(0)  # lets the client tell what it knows of the cause
            raise troubles.failure("connecting", error) from error
        if found.error is not None:
            if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing(settings.bootstrap, topic)
            raise troubles.failure(f"looking for {topic}", found.error)
        counts[topic] = len(found.partitions)
    return counts[LEDGER]


def _placed(payload: bytes | None) -> CellPlaced | None:
    """What a record of the topic says; None if it is nothing of ganger's."""
    try:
        found = decode_row(payload or b"")
    except (ValueError, LookupError):
        return None
    return found if isinstance(found, CellPlaced) else None


def _publish(settings: KafkaSettings, placed: CellPlaced) -> None:
    """Append a placement and wait for it to be kept."""
    troubles = Troubles(settings)
    producer = Producer(
        settings.client(
            **troubles.options(),
            **{
                # Not idempotent, which costs half a second at first: a copy places nothing.
                "acks": "all",
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "delivery.timeout.ms": int(ANSWER_SECONDS * 1000),
            },
        )
    )
    failures: list[KafkaError] = []
    producer.produce(
        CELLS,
        encode_row(placed),
        placed.cell.encode(),
        partition=0,
        headers=headers("CellPlaced", placed.cell, f"{placed.cell}/placed", time.time_ns()),
        on_delivery=lambda error, _: failures.append(error) if error is not None else None,
    )
    left = producer.flush(2 * ANSWER_SECONDS)
    if failures or left:
        error = failures[0] if failures else TimeoutError("not acknowledged in time")
        raise troubles.failure(f"placing {placed.cell}", error)

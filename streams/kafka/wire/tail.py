"""The ends of the ledgers of owned cells, followed as they grow.

One consumer of no group, told its offsets, commits nothing. It waits for the first record only and
takes what is there: `consume(n, t)` of librdkafka would wait the whole time.
"""

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ganger.streams.kafka.cluster.errors import KafkaFailed
from ganger.streams.kafka.cluster.failures import Troubles
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import LEDGER, MESSAGE_BYTES_MAX

BATCH_RECORDS_MAX = 2000
"""Records taken at once. Decisions, Ticks and rows of other cells wait no longer than for these."""

_LOST = (
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
"""Nothing to wait out: the ledger is not what it was."""


class TailBroken(KafkaFailed):
    """A ledger cannot be followed any more. The process should end and restore anew."""


class Arrivals(NamedTuple):
    """Records of one partition, in order; `keys` and `payloads` pairwise."""

    first_seq: int
    keys: list[bytes | None]
    payloads: list[bytes | None]


class LedgerTail:
    """Follows partitions of the ledgers' topic; one thread uses it."""

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        """Follows nothing yet.

        Args:
            settings: how to reach Kafka.
            name: client id, as the brokers' logs show it.
        """
        self._troubles = Troubles(settings)
        self._followed: dict[int, int] = {}
        self._consumer = Consumer(
            settings.client(
                **self._troubles.options(),
                **{
                    "client.id": name,
                    "group.id": "ganger-tail",  # asked for by the client, never joined
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_committed",
                    "allow.auto.create.topics": False,
                    "fetch.wait.max.ms": 100,
                    "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
                    "queued.max.messages.kbytes": 16 << 10,
                },
            )
        )

    def follow(self, partition: int, next_seq: int) -> None:
        """Read a partition from a seq on."""
        if partition in self._followed:
            self.leave(partition)
        self._followed[partition] = next_seq
        self._consumer.incremental_assign([TopicPartition(LEDGER, partition, next_seq)])

    def leave(self, partition: int) -> None:
        """Read a partition no more."""
        if self._followed.pop(partition, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(LEDGER, partition)])

    def take(self, timeout_s: float) -> dict[int, Arrivals]:
        """What has come by partition; waits only while nothing has, and no longer than told.

        Raises:
            TailBroken: a partition does not have the seq that is due.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return {}
        arrivals: dict[int, Arrivals] = {}
        for message in (first, *self._consumer.consume(BATCH_RECORDS_MAX - 1, 0)):
            error = message.error()
            if error is None:
                self._sort(message, arrivals)
            elif error.code() in _LOST or error.fatal():
                cause = self._troubles.failure("following the ledger", error)
                raise TailBroken(f"partition {message.partition()}: {cause}")
        return arrivals

    def end(self, partition: int, timeout_s: float) -> int:
        """Seq that the next record of a partition will get, asked of its leader.

        Raises:
            KafkaException: no answer in time.
        """
        place = TopicPartition(LEDGER, partition)
        return int(self._consumer.get_watermark_offsets(place, timeout=timeout_s)[1])

    def close(self) -> None:
        """Give up the connections."""
        self._consumer.close()

    def _sort(self, message: Message, arrivals: dict[int, Arrivals]) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None  # of a message without an error
        due = self._followed.get(partition)
        if due is None or offset < due:
            return  # left meanwhile, or fetched twice
        found = arrivals.get(partition)
        if found is None:
            found = arrivals[partition] = Arrivals(offset, [], [])
        if offset != due:
            raise TailBroken(
                f"partition {partition}: seq {due} is due and {offset} came: the ledgers' topic "
                "was compacted, or written by transactions"
            )
        self._followed[partition] = offset + 1
        found.keys.append(message.key())
        found.payloads.append(message.value())

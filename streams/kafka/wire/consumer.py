"""Partitions read from numeric offsets, in batches, by no consumer group.

Nothing is committed: where a reader stands is its owner's to remember. A read waits for the first
message only, then takes what is there; `consume(n, t)` of librdkafka would wait the whole time.
"""

from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.errors import KafkaFailed, TopicMissing
from ganger.streams.kafka.cluster.failures import Troubles
from ganger.streams.kafka.cluster.settings import KafkaSettings

_GROUP = "ganger-reader"  # asked for by the client, never joined

_CUT = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_MISSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)

_PLACE = tuple[str, int]
"""Topic and partition."""


class PartitionCut(KafkaFailed):
    """Messages that a reader has not seen are gone, or were never there."""

    def __init__(self, topic: str, partition: int, offset: int, cause: str) -> None:
        super().__init__(
            f"{topic}/{partition}: offset {offset} cannot be read ({cause}). The topic was cut or "
            "made anew: begin from its beginning or its end"
        )


class Arrival(NamedTuple):
    """One message as it stands in its partition; `timestamp_ms` is when the broker took it."""

    topic: str
    partition: int
    offset: int
    value: bytes
    timestamp_ms: int


class PartitionReader(Closing):
    """Reads some partitions, each in order; one thread uses it.

    Attributes:
        offsets: next offset of each place (topic, partition) that `read` has not given out.
    """

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        """Reads nothing until `assign`.

        Args:
            settings: how to reach Kafka.
            name: what brokers call this client in their logs.
        """
        self.offsets: dict[_PLACE, int] = {}
        self._bootstrap = settings.bootstrap
        self._troubles = Troubles(settings)
        self._consumer = Consumer(
            settings.client(
                **self._troubles.options(),
                **{
                    "client.id": name,
                    "group.id": _GROUP,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_committed",
                    "allow.auto.create.topics": False,
                },
            )
        )

    def assign(self, offsets: Mapping[_PLACE, int]) -> None:
        """Read these places from now on, each from its offset."""
        self.offsets = dict(offsets)
        self._consumer.assign(
            [
                TopicPartition(topic, partition, offset)
                for (topic, partition), offset in offsets.items()
            ]
        )

    def read(self, count_max: int, timeout_s: float) -> list[Arrival]:
        """What has arrived, at most so much; waits only while there is nothing.

        Raises:
            PartitionCut: a place does not have its offset.
            TopicMissing: there is no such topic or partition.
            KafkaFailed: Kafka refuses the reading.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        messages = [first]
        if count_max > 1:
            messages += self._consumer.consume(count_max - 1, 0)
        arrivals = []
        offsets = self.offsets
        for message in messages:
            error = message.error()
            if error is not None:
                self._judge(message.topic(), message.partition(), error)
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            # librdkafka gives all three for a message without an error
            assert topic is not None and partition is not None and offset is not None
            offsets[topic, partition] = offset + 1
            value = message.value() or b""
            arrivals.append(Arrival(topic, partition, offset, value, message.timestamp()[1]))
        return arrivals

    def close(self) -> None:
        """Give the connections up."""
        self._consumer.close()

    def _judge(self, topic: str | None, partition: int | None, error: KafkaError) -> None:
        """Raise for what does not pass; the client tries everything else again by itself."""
        place = topic or "", partition or 0
        if error.code() in _CUT:
            offset = self.offsets.get(place, OFFSET_BEGINNING)
            raise PartitionCut(*place, offset, error.str())
        if error.code() in _MISSING:
            raise TopicMissing(self._bootstrap, place[0])
        is_passing = error.retriable() or error.code() < 0  # below 0: the client's own
        if error.fatal() or not is_passing:
            raise self._troubles.failure(f"reading {place[0]}/{place[1]}", error)

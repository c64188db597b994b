"""Partitions read from numeric offsets, in batches, by no consumer group.

Nothing is committed: where a reader stands is its owner's to remember. A read waits for the first
message only, then takes what is there; `consume(n, t)` of librdkafka would wait the whole time.

Consumers of all clients can stop at a partition in silence. So a reader that has nothing left asks
the brokers now and then whether it should have.
"""

from collections.abc import Mapping
from time import monotonic
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.errors import KafkaFailed, TopicMissing
from ganger.streams.kafka.cluster.failures import Troubles
from ganger.streams.kafka.cluster.settings import KafkaSettings

LOOK_SECONDS = 10.0
"""Between two questions whether a place holds more than was read. Who finds the same message
waiting twice has stopped: three times what a fetch takes at the very most, by Kafka's defaults."""

_ANSWER_SECONDS = 1.0
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


class ReaderStands(KafkaFailed):
    """A place holds messages and the client does not fetch them. A new reader does."""

    def __init__(self, topic: str, partition: int, offset: int, end: int) -> None:
        super().__init__(
            f"{topic}/{partition}: offset {offset} is there, as all up to {end}, and has not been "
            f"fetched for {LOOK_SECONDS:g} s. Start again"
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
        self._looked = monotonic()
        self._come: dict[_PLACE, int] = {}  # how far the client has come: messages, or the end
        self._before: dict[_PLACE, int] = {}  # the same at the last look
        self._behind: dict[_PLACE, int] = {}  # where more was to be had then
        self._consumer = Consumer(
            settings.client(
                **self._troubles.options(),
                **{
                    "client.id": name,
                    "group.id": _GROUP,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_committed",
                    "allow.auto.create.topics": False,
                },
            )
        )

    def assign(self, offsets: Mapping[_PLACE, int]) -> None:
        """Read these places from now on, each from its offset."""
        self.offsets = dict(offsets)
        self._come = dict(offsets)
        self._consumer.assign(
            [
                TopicPartition(topic, partition, offset)
                for (topic, partition), offset in offsets.items()
            ]
        )

    def read(self, count_max: int, timeout_s: float) -> list[Arrival]:
        """What has arrived, at most so much; waits only while there is nothing new, and it may be
        that nothing but the end of a place is.

        Raises:
            PartitionCut: a place does not have its offset.
            TopicMissing: there is no such topic or partition.
            ReaderStands: the client has stopped at a place.
            KafkaFailed: Kafka refuses the reading.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            self._look()
            return []
        messages = [first]
        if count_max > 1:
            messages += self._consumer.consume(count_max - 1, 0)
        arrivals = []
        offsets = self.offsets
        for message in messages:
            error = message.error()
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._judge(topic, partition, error)
                continue
            # librdkafka gives all three for a message without an error, and for an end
            assert topic is not None and partition is not None and offset is not None
            if error is not None:
                self._come[topic, partition] = offset  # behind marks of transactions, if any
                continue
            self._come[topic, partition] = offsets[topic, partition] = offset + 1
            value = message.value() or b""
            arrivals.append(Arrival(topic, partition, offset, value, message.timestamp()[1]))
        if len(messages) < count_max:
            self._look()
        return arrivals

    def close(self) -> None:
        """Give the connections up."""
        self._consumer.close()

    def _look(self) -> None:
        """Nothing is left of what the client has fetched: is there more where it stands?"""
        now = monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        before, behind = self._before, self._behind
        self._looked, self._before, self._behind = now, self._come.copy(), {}
        for place, offset in self._come.items():
            if offset < 0 or before.get(place) != offset:
                continue
            try:
                asked = TopicPartition(*place)
                end = self._consumer.get_watermark_offsets(asked, timeout=_ANSWER_SECONDS)[1]
            except KafkaException:
                continue  # no broker answers: the client fetches when one does
            if end > offset and behind.get(place) == offset:
                raise ReaderStands(*place, offset, end)
            if end > offset:
                self._behind[place] = offset

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

"""How far partitions go, and where a group stands in them: asked of the brokers when needed."""

from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ganger.streams.kafka.cluster.failures import Troubles, patiently
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.wire.acks import Place

ANSWER_S = 5.0
"""Longest wait for an answer."""


class PartitionEnds:
    """Asks the brokers; belongs to one thread."""

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        """Asks nothing yet; nobody joins the group."""
        self._consumer = Consumer(
            settings.client(
                **Troubles(settings).options(),
                **{
                    "group.id": group,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_uncommitted",  # as Faust reads
                    "fetch.wait.max.ms": 50,
                },
            )
        )

    def end(self, place: Place) -> int:
        """Offset that the next message will get.

        Raises:
            KafkaException: no answer.
        """
        return self._bounds(place)[1]

    def committed(self, places: list[Place]) -> dict[Place, int]:
        """Offset from which the group reads on; the oldest, if it never committed.

        Raises:
            KafkaException: no answer.
        """
        asked = [TopicPartition(*place) for place in places]
        found = {}
        answers = patiently(lambda: self._consumer.committed(asked, timeout=ANSWER_S), ANSWER_S)
        for answer in answers:
            place = answer.topic, answer.partition
            found[place] = answer.offset if answer.offset >= 0 else self._bounds(place)[0]
        return found

    def first_from(self, place: Place, offset: int) -> int:
        """The first offset, from one on, that has a message; the partition's end where none has.

        Raises:
            KafkaException: no answer.
        """
        end = self.end(place)
        self._consumer.assign([TopicPartition(*place, offset)])
        deadline = monotonic() + ANSWER_S
        try:
            while monotonic() < deadline:
                message = self._consumer.poll(deadline - monotonic())
                if message is None:
                    break
                error = message.error()
                if error is None:
                    return int(message.offset() or 0)
                if error.code() == KafkaError._PARTITION_EOF:
                    return end
        finally:
            self._consumer.unassign()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _bounds(self, place: Place) -> tuple[int, int]:
        asked = TopicPartition(*place)
        found = patiently(
            lambda: self._consumer.get_watermark_offsets(asked, timeout=ANSWER_S), ANSWER_S
        )
        return int(found[0]), int(found[1])

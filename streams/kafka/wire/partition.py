"""One partition of a topic, read by offset: bounded, in batches, and never waiting for ever.

The consumer belongs to no group that anybody else knows: it is told its offset, commits nothing,
and sees acknowledged records only. Whatever is between the offsets asked for and those that came
is an error here, unless the topic is a compacted one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from ganger.streams.kafka.cluster.errors import TopicMissing
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.log.errors import LogUnreachable, PartitionCorrupt

GROUP_RECORDS_MAX = 1024
"""Most records that come in one batch."""

TIMEOUT_S = 15.0
"""Wall time without a record or an answer after which reading is given up. A broker that died is
replaced by another one within 9 seconds, Kafka's default session of brokers."""

_SLICE_S = 0.5
_PAUSE_S = 0.1
_QUIET_LOG_LEVEL = 0  # what goes wrong comes as an error, with more to say

_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_OUT_OF_RANGE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
_NO_RECORD = "it has no record: the topic was compacted, or written by transactions"
_PASSING = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.GROUP_AUTHORIZATION_FAILED,  # the client asks for a coordinator; we need none
)
"""What librdkafka tries again by itself; only silence for too long makes an error of them."""


def offset_of(message: Message) -> int:
    """Offset of a message that came from a broker, or that one has acknowledged."""
    offset = message.offset()
    assert offset is not None
    return offset


class Partition:
    """One partition, for reading. Several readings may be under way at a time, in one thread."""

    def __init__(
        self, settings: KafkaSettings, topic: str, number: int, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Name a partition. Nothing is asked yet.

        Args:
            settings: how to reach Kafka.
            topic: the topic's name.
            number: of the partition.
            timeout_s: wall time without an answer after which a call fails.
        """
        self.topic = topic
        self.number = number
        self._settings = settings
        self._timeout_s = timeout_s
        self._idle: list[Consumer] = []
        self._complaint = ""
        self._is_closed = False

    @property
    def place(self) -> Path:
        """TOPIC/PARTITION, as errors name it."""
        return Path(self.topic, str(self.number))

    def watermarks(self) -> tuple[int, int]:
        """Offset of the oldest record, and the offset that comes after the last acknowledged one.

        Raises:
            LogUnreachable: no broker answered.
            TopicMissing: the topic is not there.
            PartitionCorrupt: the topic is, the partition is not.
        """
        with self._consumer() as consumer:
            return self._watermarks(consumer)

    def read(self, begin: int, end: int) -> Iterator[list[Message]]:
        """Yield the records from offset `begin` to before `end`, at most 1,024 at a time.

        Where the topic is compacted, some offsets have no record.

        Raises:
            LogUnreachable: nothing came for too long.
            PartitionCorrupt: records were deleted that had still to be read.
        """
        if begin >= end:
            return
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(self.topic, self.number, begin)])
            try:
                yield from self._batches(consumer, begin, end)
            finally:
                if not self._is_closed:
                    consumer.unassign()

    def records(self, begin: int, end: int, key: bytes) -> Iterator[tuple[int, list[bytes]]]:
        """Yield (offset of the first, values) where every offset has a record with this key.

        Raises:
            LogUnreachable: nothing came for too long.
            PartitionCorrupt: an offset without a record, another key, or a record without a value.
        """
        expected = begin
        for messages in self.read(begin, end):
            count = len(messages)
            keys = [message.key() for message in messages]
            found = [message.value() for message in messages]
            values = [value for value in found if value is not None]
            if (
                offset_of(messages[-1]) != expected + count - 1  # they ascend
                or keys.count(key) != count
                or len(values) != count
            ):
                good, what = _first_bad(expected, messages, key)
                if good:
                    yield expected, values[:good]
                raise self._corrupt(expected + good, what)
            yield expected, values
            expected += count
        if expected < end:
            raise self._corrupt(expected, _NO_RECORD)

    def close(self) -> None:
        """Give up the connections. Readings under way end with an error."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def unreachable(self, doing: str, cause: str = "") -> LogUnreachable:
        """The error for no answer while `doing`."""
        why = self._settings.scrubbed(cause or self._complaint) or "no answer"
        return LogUnreachable(
            str(self.place),
            f"{doing}: {self._settings.bootstrap}: {why}, for {self._timeout_s:g} s",
            "Check that the brokers run, and that a broker leads this partition; then call again",
        )

    def _watermarks(self, consumer: Consumer) -> tuple[int, int]:
        deadline = monotonic() + self._timeout_s
        while True:
            try:
                found = consumer.get_watermark_offsets(
                    TopicPartition(self.topic, self.number), timeout=self._timeout_s
                )
            except KafkaException as error:
                cause = error.args[0]
            else:
                if found is not None and OFFSET_INVALID not in found:
                    return int(found[0]), int(found[1])
                cause = None
            if cause is not None and cause.code() not in _PASSING:
                self._check_exists(consumer)  # the client calls a leader it does not know missing
            if monotonic() > deadline:
                text = "" if cause is None else cause.str()
                raise self.unreachable("asking where it ends", text)
            consumer.poll(_PAUSE_S)

    def _check_exists(self, consumer: Consumer) -> None:
        """Say so if the broker does not know the topic or the partition."""
        try:
            found = consumer.list_topics(self.topic, timeout=self._timeout_s).topics[self.topic]
        except KafkaException as error:
            raise self.unreachable("looking for it", error.args[0].str()) from None
        if found.error is not None and found.error.code() in _MISSING:
            raise TopicMissing(self._settings.bootstrap, self.topic)
        if found.error is None and self.number not in found.partitions:
            raise PartitionCorrupt(
                *(self.place, 0, 0, f"the topic has no partition {self.number}"),
                "Compare the topics with `ganger topics check`.",
            )

    def _batches(self, consumer: Consumer, begin: int, end: int) -> Iterator[list[Message]]:
        place = begin
        deadline = monotonic() + self._timeout_s
        while place < end:
            # Never `consume(n, timeout)`: it waits the whole time unless all n come.
            first = consumer.poll(_SLICE_S)
            if first is None:
                if monotonic() > deadline:
                    raise self.unreachable(f"reading from offset {place}")
                continue
            found = [first]
            found += consumer.consume(min(GROUP_RECORDS_MAX, end - place) - 1, 0)
            messages = found
            # Records without a gap have no room for anything else between them.
            if found[-1].error() or offset_of(found[-1]) != place + len(found) - 1:
                messages = [message for message in found if message.error() is None]
            if messages:
                place = offset_of(messages[-1]) + 1
                if place > end:
                    messages = [message for message in messages if offset_of(message) < end]
                if messages:
                    yield messages
                deadline = monotonic() + self._timeout_s
            if len(messages) != len(found) and self._is_at_end(found, place, end):
                return

    def _is_at_end(self, found: list[Message], place: int, end: int) -> bool:
        """Whether the partition's end came; an error for everything that will not pass."""
        for message in found:
            error = message.error()
            if error is None or error.code() in _PASSING:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                # A new leader may for a moment know less than the one before it.
                if offset_of(message) >= end:
                    return True
            elif error.code() in _OUT_OF_RANGE:
                raise PartitionCorrupt(
                    self.place,
                    place,
                    place,
                    f"there is no record at offset {place} any more",
                    "It was cut below, or lost its end. Restore it from a copy of the ledger.",
                )
            elif error.code() in _MISSING:
                raise TopicMissing(self._settings.bootstrap, self.topic)
            else:
                raise self.unreachable(f"reading from offset {place}", error.str())
        return False

    def _corrupt(self, offset: int, what: str) -> PartitionCorrupt:
        remedy = (
            f"Nothing but ganger may write to {self.topic}; compare it with `ganger topics check`. "
            "Copy what is before this offset to a fresh partition."
        )
        return PartitionCorrupt(self.place, offset, offset, what, remedy)

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        """A consumer that nobody else uses meanwhile."""
        if self._is_closed:
            raise ValueError(f"{self.place}: it is closed. Open it anew.")
        consumer = self._idle.pop() if self._idle else self._connect()
        is_sound = False
        try:
            yield consumer
            is_sound = True
        except GeneratorExit:  # whoever read has enough
            is_sound = True
            raise
        finally:
            if is_sound and not self._is_closed:
                self._idle.append(consumer)
            else:
                consumer.close()

    def _connect(self) -> Consumer:
        return Consumer(
            self._settings.client(
                **{
                    "group.id": "ganger-reader",  # asked for by the client, never joined
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_committed",
                    "check.crcs": True,
                    "fetch.wait.max.ms": 100,
                    # Once its queue is full the client waits this long; by default a second, in
                    # which the queue was read empty long ago.
                    "fetch.queue.backoff.ms": 5,
                    "log_level": _QUIET_LOG_LEVEL,
                    "error_cb": self._on_error,
                }
            )
        )

    def _on_error(self, error: KafkaError) -> None:
        self._complaint = error.str()


def _first_bad(expected: int, messages: list[Message], key: bytes) -> tuple[int, str]:
    """How many messages are as they must be, and what is wrong with the one after them."""
    for good, message in enumerate(messages):
        if offset_of(message) != expected + good:
            return good, _NO_RECORD
        if message.key() != key:
            return good, f"the key is {message.key()!r}, not {key!r}: a record of somebody else"
        if message.value() is None:
            return good, "the record has no value"
    raise AssertionError("all messages are as they must be")

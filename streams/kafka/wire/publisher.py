"""The one way of ganger to write to Kafka: an idempotent producer that never leaves a gap.

Order within a partition is the order of `send`. A record that could not be delivered stops the
producer for good: those after it are not written, `on_failure` is called, and the process is
expected to end there. Whoever starts next finds out what was written by reading.
"""

from collections.abc import Callable
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import MESSAGE_BYTES_MAX
from ganger.streams.kafka.wire.envelope import Headers
from ganger.streams.kafka.wire.partition import offset_of

DELIVERY_TIMEOUT_S = 30.0
"""Wall time without any acknowledgement after which publishing has failed: three times what it
takes to replace a broker that died, by Kafka's defaults."""

FLUSH_TIMEOUT_S = 4 * DELIVERY_TIMEOUT_S
"""A flush that goes on for longer than this has failed although some records arrive."""

LINGER_MS = 2
"""How long a record waits for others to go with it, where nobody says otherwise."""

_QUEUE_KBYTES_MAX = 64 << 10
_SLICE_S = 0.25
_QUIET_LOG_LEVEL = 0  # what goes wrong comes as an error, with more to say


class PublishingStopped(Exception):
    """A record was not delivered, now or before: nothing more is written. End the process."""


class Publisher:
    """An idempotent producer for all partitions that a process writes to. One thread uses it.

    Attributes:
        failure: why it has stopped; empty while it has not.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        name: str,
        on_failure: Callable[[str], None],
        linger_ms: int = LINGER_MS,
    ) -> None:
        """Make the producer, at the process's start: the first acknowledgement of a new one takes
        half a second longer.

        Args:
            settings: how to reach Kafka.
            name: client id, as the brokers' logs show it.
            on_failure: called once with what went wrong; may end the process.
            linger_ms: how long a record waits for others to go with it.
        """
        self.failure = ""
        self._complaint = ""
        self._progress_at = monotonic()
        self._settings = settings
        self._on_failure = on_failure
        self._producer = Producer(
            settings.client(
                **{
                    "client.id": name,
                    "enable.idempotence": True,
                    # Else the records behind a lost one would be delivered. It does not hold for
                    # those that the client gives up after a time, so it never does: `_check` looks
                    # at the time, and then nothing is written any more.
                    "enable.gapless.guarantee": True,
                    "delivery.timeout.ms": 0,
                    "acks": "all",
                    "linger.ms": linger_ms,
                    "message.max.bytes": MESSAGE_BYTES_MAX,
                    "queue.buffering.max.kbytes": _QUEUE_KBYTES_MAX,
                    "log_level": _QUIET_LOG_LEVEL,
                    "error_cb": self._on_error,
                }
            )
        )
        self._producer.poll(0)

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivered: Callable[[int], None] | None = None,
    ) -> None:
        """Hand a record over; it is safe once `on_delivered` is called with its offset.

        A `partition` of -1 leaves the choice to the producer's partitioner. Deliveries are reported
        in `poll`, `flush` or a later `send`. Where the queue is full this waits.

        Raises:
            PublishingStopped: a record was not delivered, this one or one before.
        """
        report = self._on_delivery if on_delivered is None else self._telling(on_delivered)
        if not len(self._producer):
            self._progress_at = monotonic()
        while True:
            self._check()
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=report,
                    headers=headers,
                )
                return
            except BufferError:
                self._producer.poll(_SLICE_S)
                self._check_progress()
            except KafkaException as error:
                self._fail(f"{topic}/{partition}: {error.args[0].str()}")

    def poll(self, timeout_s: float = 0.0) -> int:
        """Serve what was reported about deliveries; the number of reports.

        Raises:
            PublishingStopped: a record was not delivered.
        """
        served = self._producer.poll(timeout_s)
        self._check_progress()
        return served

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until every record sent is safe.

        Raises:
            PublishingStopped: one is not, or not yet.
        """
        deadline = monotonic() + timeout_s
        while self._producer.flush(_SLICE_S):
            self._check_progress()
            if monotonic() > deadline:
                self._fail(f"{len(self._producer)} records wait after {timeout_s:g} s")
        self._check()

    def pending_count(self) -> int:
        """Records sent and not yet reported about."""
        return len(self._producer)

    def _telling(
        self, on_delivered: Callable[[int], None]
    ) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            self._on_delivery(error, message)
            if error is None:
                on_delivered(offset_of(message))

        return report

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._progress_at = monotonic()
        else:
            self._fail(f"{message.topic()}/{message.partition()}: {error.str()}")

    def _on_error(self, error: KafkaError) -> None:
        self._complaint = error.str()  # passes, or silence for too long makes a failure of it
        if error.fatal():
            self._fail(error.str())

    def _fail(self, what: str) -> None:
        if self.failure:
            return
        self.failure = self._settings.scrubbed(what)
        # Nothing that waits may be written after what was lost.
        self._producer.purge()
        self._on_failure(self.failure)

    def _check_progress(self) -> None:
        silent_s = monotonic() - self._progress_at
        if len(self._producer) and silent_s > DELIVERY_TIMEOUT_S:
            why = self._complaint or "no answer"
            self._fail(f"{len(self._producer)} records wait, none was acknowledged: {why}")
        self._check()

    def _check(self) -> None:
        if self.failure:
            raise PublishingStopped(
                f"{self.failure}. A record was not delivered; end this process and start again"
            )

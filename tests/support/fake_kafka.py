"""Stand-ins for what a worker's parts talk to: a producer, and the ends of ledgers."""

from collections.abc import Callable
from typing import NamedTuple

from ganger.schemas.codec import decode_record
from ganger.schemas.records import Record
from ganger.streams.kafka.cluster.topics import DEAD_LETTERS, LEDGER
from ganger.streams.kafka.wire.envelope import Headers


class Sent(NamedTuple):
    """A record that was handed over."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    on_delivered: Callable[[int], None] | None


class FakeOutlet:
    """An outlet whose deliveries come when a test says so.

    Attributes:
        sent: everything, in order.
    """

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.flushes = 0
        self._waiting: list[tuple[int, Sent]] = []
        self._ends: dict[tuple[str, int], int] = {}

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivered: Callable[[int], None] | None = None,
    ) -> None:
        sent = Sent(topic, partition, key, value, headers, on_delivered)
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        self.sent.append(sent)
        self._waiting.append((offset, sent))

    def poll(self, timeout_s: float = 0.0) -> int:
        return 0

    def pending_count(self) -> int:
        return len(self._waiting)

    def flush(self, timeout_s: float = 0.0) -> None:
        self.flushes += 1
        self.deliver()

    def deliver(self, count: int | None = None) -> None:
        """Report so many deliveries, by default all."""
        served = self._waiting[:count]
        self._waiting = self._waiting[len(served) :]
        for offset, sent in served:
            if sent.on_delivered is not None:
                sent.on_delivered(offset)

    def of(self, topic: str) -> list[Sent]:
        """What went to a topic."""
        return [sent for sent in self.sent if sent.topic == topic]

    def records(self) -> list[Record]:
        """Records that went to ledgers."""
        return [decode_record(sent.value or b"") for sent in self.of(LEDGER)]

    def letters(self) -> list[tuple[str, bytes | None]]:
        """Dead letters: class of the defect, and the value."""
        return [
            (_text(dict(sent.headers)["ganger.error.class"]), sent.value)
            for sent in self.of(DEAD_LETTERS)
        ]


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)

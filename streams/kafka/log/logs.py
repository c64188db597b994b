"""The writers of a cell's partitions: logs that an engine, or a copy, appends to.

A group is written whole or the process ends: records that were not acknowledged stop the publisher
(`publisher`), and what of a group stands in the partition then, the next start finds by reading.
"""

from collections.abc import Iterator, Sequence

from ganger.schemas.codec import decode_record
from ganger.schemas.decision_ids import decision_head, decision_number
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.log.ledger import COPIES_WINDOW, KafkaDecisions, KafkaLedger
from ganger.streams.kafka.wire.envelope import Headers, headers
from ganger.streams.kafka.wire.publisher import Publisher, PublishingStopped
from ganger.streams.log.errors import PartitionCorrupt, PartitionFailed
from ganger.streams.payloads import UNREADABLE

_UNCOUNTED_MAX = COPIES_WINDOW // 2
"""Decisions under way at a time: those that another owner may have written in between must be in
the window in which copies are compared."""


class DecisionLog(KafkaDecisions):
    """The decisions of a cell, written by its owner. Implements `Log`.

    Another owner, one that does not know yet that it is none any more, may write the same decisions
    in between. They are copies; positions do not count them, whoever wrote first.
    """

    def __init__(self, settings: KafkaSettings, placement: Placement, publisher: Publisher) -> None:
        """Name a cell's decisions. The publisher stays the caller's."""
        super().__init__(settings, placement)
        self._publisher = publisher
        self._sent: list[bytes] = []  # and not counted yet
        self._offsets: list[int] = []  # of the first of those, as far as they are acknowledged

    def append(self, payloads: Sequence[bytes]) -> int:
        """Publish decisions in order; the position of the first, once all are acknowledged.

        Raises:
            PartitionFailed: they may be there or not. The process should stop.
            PartitionCorrupt: what another owner wrote in between is not the same.
        """
        if not payloads:
            return self.end()
        self._send(payloads)
        self.settle()
        head = decision_head(payloads[0])
        return self._position(decision_number(head.cause_seq, head.index))

    def settle(self) -> None:
        """Wait until all that was published is acknowledged, and count it.

        Raises:
            PartitionFailed: it may be there or not. The process should stop.
            PartitionCorrupt: what another owner wrote in between is not the same.
        """
        self._check_open()
        if self._sent:
            try:
                self._publisher.flush()
            except PublishingStopped as error:
                raise PartitionFailed(self.partition.place, str(error)) from error
            self._count_acknowledged()
            if self._sent:
                raise PartitionFailed(
                    self.partition.place, f"{len(self._sent)} decisions are not acknowledged"
                )

    def end(self) -> int:
        """How many distinct decisions there are, published ones included."""
        self.settle()
        return super().end()

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield distinct decisions, published ones included."""
        self.settle()
        return super().read_groups(from_seq, to_seq)

    def _send(self, payloads: Sequence[bytes]) -> None:
        """Publish in order. Waits only where more is under way than can be told from copies."""
        self._check_open()
        partition, key, cell = self.partition, self.cell.encode(), self.cell
        for payload in payloads:
            if len(self._sent) >= _UNCOUNTED_MAX:
                self.settle()
            head = decision_head(payload)
            envelope = headers(
                "Decision", cell, f"{cell}/{head.cause_seq}/{head.index}", head.time_ns
            )
            try:
                self._publisher.send(
                    *(partition.topic, partition.number, key, payload, envelope),
                    self._offsets.append,
                )
            except PublishingStopped as error:
                raise PartitionFailed(partition.place, str(error)) from error
            self._sent.append(payload)

    def _count_acknowledged(self) -> None:
        """Count what is acknowledged, and what others wrote before it."""
        offsets, tail = self._offsets, self._tail
        if not offsets:
            return
        count = len(offsets)
        if offsets[0] == tail.offset and offsets[-1] - offsets[0] == count - 1:
            tail.take(self.cell, self._sent[:count])
            self._note(tail)
        else:
            self._advance(offsets[-1] + 1)
        del self._sent[:count], offsets[:count]

    def _position(self, number: int) -> int:
        """Position of a decision that was just published."""
        found = self._tail.position_of(number)
        if found is not None:
            return found
        # Older than the window: an owner that was away for long writes again what others wrote.
        for first, group in self.read_groups(0):
            for position, payload in enumerate(group, first):
                head = decision_head(payload)
                if decision_number(head.cause_seq, head.index) == number:
                    return position
        raise AssertionError(f"decision {number:x} was published and is not there")


class LiveDecisionLog(DecisionLog):
    """The same for an owner of many cells: `append` does not wait.

    What it returns is safe after `settle`, as every other call makes sure first. Until then a crash
    can lose it, and the next owner publishes it again, from the ledger.
    """

    def append(self, payloads: Sequence[bytes]) -> int:
        """Publish decisions in order; the position of the first, if no other owner is at work.

        Raises:
            PartitionFailed: those published before may be there or not. The process should stop.
            PartitionCorrupt: what another owner wrote in between is not the same.
        """
        self._check_open()
        self._publisher.poll()
        self._count_acknowledged()
        first = self._tail.position + len(self._sent)
        self._send(payloads)
        return first


class LedgerLog(KafkaLedger):
    """A ledger written by one writer alone, as a copy is. Implements `Log`.

    Not for live cells: there everybody appends who has read something.
    """

    def __init__(self, settings: KafkaSettings, placement: Placement, publisher: Publisher) -> None:
        """Name a cell's ledger. The publisher stays the caller's."""
        super().__init__(settings, placement)
        self._publisher = publisher
        self._next_seq: int | None = None

    def append(self, payloads: Sequence[bytes]) -> int:
        """Append a group; the seq of its first record, once all are acknowledged.

        Raises:
            PartitionFailed: the records may be there or not. The process should stop.
            PartitionCorrupt: somebody else appends to the same ledger.
        """
        self._check_open()
        if self._next_seq is None:
            self._next_seq = self.end()
        first = self._next_seq
        if not payloads:
            return first
        offsets: list[int] = []
        partition, key = self.partition, self.cell.encode()
        try:
            for seq, payload in enumerate(payloads, first):
                envelope = _record_headers(self.cell, seq, payload)
                self._publisher.send(
                    partition.topic, partition.number, key, payload, envelope, offsets.append
                )
            self._publisher.flush()
        except PublishingStopped as error:
            raise PartitionFailed(partition.place, str(error)) from error
        for offset, expected in zip(offsets, range(first, first + len(payloads)), strict=True):
            if offset != expected:
                raise PartitionCorrupt(
                    self.partition.place,
                    expected,
                    offset,
                    f"the record for seq {expected} came to offset {offset}: somebody else writes",
                    "Stop the workers and clients of this cell; its partition cannot be used.",
                )
        self._next_seq = first + len(payloads)
        return first


def _record_headers(cell: str, seq: int, payload: bytes) -> Headers:
    """The headers of a ledger's record; of bytes that are none, those of nothing in particular."""
    try:
        record = decode_record(payload)
    except UNREADABLE:
        return headers("Record", cell, f"{cell}/{seq}", 0)
    return headers(type(record).__name__, cell, f"{cell}/{seq}", record.time_ns)

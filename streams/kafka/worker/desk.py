"""Where inputs are received: each message becomes ledger records or a dead letter.

The intake of all cells on this worker, with no Faust in it: it is handed messages one by one, and
says which of them may be committed. Messages of jobs, pods and control may be of any cell and go
straight into that cell's ledger. Heartbeats are heard by the cell's owner alone, who knows which
nodes are silent: in another partition than the cell's they are forwarded, and on a cell that is not
taken over yet they wait.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import NamedTuple

from msgspec.structs import replace

from ganger.schemas.codec import PAYLOAD_BYTES_MAX, decode_untrusted
from ganger.schemas.encoding import encode_record
from ganger.schemas.errors import PayloadRefused
from ganger.schemas.records import (
    NodeChanged,
    NodeHeartbeat,
    NodeReturned,
    Record,
    Source,
)
from ganger.streams.intake import NOT_AN_INPUT, InputRefused, Intake
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.topics import (
    DEAD_LETTERS,
    HEARTBEATS,
    INPUTS,
    LEDGER,
    MESSAGE_BYTES_MAX,
    TOPICS,
)
from ganger.streams.kafka.wire.acks import Acks, Pending
from ganger.streams.kafka.wire.envelope import (
    SOURCE_HEADER,
    FixedIds,
    Framing,
    SourceHeaderBad,
    dead_letter_headers,
    headers,
    read_source,
    source_header,
)
from ganger.streams.kafka.wire.outlet import Outlet

HELD_BYTES_MAX = 32 << 20
"""Heartbeats of one cell that wait for its takeover. Beyond, the oldest are let go: a node says the
same again, or something newer, with its next one."""

MISSING_KEY = "missing_key"
BAD_KEY = "bad_key"
UNKNOWN_CELL = "unknown_cell"
MISSING_VALUE = "missing_value"
WRONG_TOPIC = "wrong_topic"
BAD_SOURCE = "bad_source"

CUT_HEADER = "ganger.error.cut_from_bytes"
"""On a dead letter that had to be cut, as one that was compressed when it came: its full size."""

_TIMED_EVERY = 50
_ROOM_BYTES = 64 << 10  # for the headers and the frame of a dead letter
_KINDS: dict[str, frozenset[str]] = {topic: frozenset(TOPICS[topic].records) for topic in INPUTS}
_ANYWHERE = frozenset(name for names in _KINDS.values() for name in names)
_HEADERS_BYTES_MAX = 32 << 10

MessageHeaders = Iterable[tuple[str, bytes | None]]


class Message(NamedTuple):
    """A message of an input topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: MessageHeaders


class _Refused(Exception):
    """A message goes to the dead letters."""

    def __init__(self, error_class: str, detail: str) -> None:
        super().__init__(error_class, detail)
        self.error_class = error_class
        self.detail = detail


class _Ear:
    """The heartbeats of a cell that this worker owns, or will own once it is restored."""

    def __init__(self) -> None:
        self.intake: Intake | None = None
        self.is_deaf = False  # the cell is refused: nobody would believe what it heard
        self.held: deque[tuple[Message, Pending]] = deque()
        self.held_bytes = 0

    def hold(self, message: Message, pending: Pending) -> None:
        """Keep a message until the cell is taken over."""
        self.held.append((message, pending))
        self.held_bytes += len(message.value or b"")
        while self.held_bytes > HELD_BYTES_MAX:
            oldest, its_pending = self.held.popleft()
            self.held_bytes -= len(oldest.value or b"")
            its_pending.done()

    def release(self) -> list[tuple[Message, Pending]]:
        """What was held, in order."""
        held = list(self.held)
        self.held.clear()
        self.held_bytes = 0
        return held


class Counts:
    """What a desk did since its process began; for metrics, and for who waits in tests."""

    def __init__(self) -> None:
        self.messages: dict[str, int] = dict.fromkeys(INPUTS, 0)
        self.records = 0
        self.dead_letters: dict[tuple[str, str], int] = {}  # by topic and class of the defect
        self.forwarded = 0


class Desk:
    """The intake of a worker. One thread uses it.

    Attributes:
        acks: which messages are done with.
        counts: what it did.
        closings: how often it was closed.
    """

    def __init__(
        self,
        name: str,
        outlet: Outlet,
        topic_ids: Mapping[str, str],
        clock_ns: Callable[[], int],
        acks: Acks,
        framing: Framing | None = None,
        appended: Callable[[float], None] | None = None,
    ) -> None:
        """A desk that is closed and owns no cell.

        Args:
            name: the worker's, for records that name their intake.
            outlet: where records and dead letters go, in order.
            topic_ids: Kafka's id of each input topic.
            clock_ns: the time, UTC in ns.
            acks: where messages are opened.
            framing: for payloads with ids of a schema registry; by default ids are the fixed ones.
            appended: told now and then how long (s) a record took to be acknowledged.
        """
        self.acks = acks
        self.counts = Counts()
        self._outlet = outlet
        self._placements: dict[str, Placement] = {}
        self._topic_ids = topic_ids
        self._clock_ns = clock_ns
        self._appended = appended
        self._framing = FixedIds() if framing is None else framing
        self._intake = Intake("", name)  # judges what is no heartbeat; remembers nothing
        self._ears: dict[int, _Ear] = {}
        self._unplaced: deque[tuple[Message, Pending]] = deque()
        self._is_open = False
        self.closings = 0

    # ---- whose heartbeats ------------------------------------------------------------------------

    def close(self) -> None:
        """Partitions are being given out anew: take nothing, since all that is not committed comes
        again. What was heard of nodes is kept.
        """
        self._is_open = False
        self.closings += 1
        self.acks.forget()
        self._unplaced.clear()
        for ear in self._ears.values():
            ear.release()

    def assign(self, partitions: Iterable[int]) -> None:
        """Heartbeats will come from these partitions; cells may be taken over from now on."""
        self._ears = {number: self._ears.get(number) or _Ear() for number in partitions}

    def open(self) -> None:
        """Messages come from now on.

        Silence counts from now: nobody was heard while the desk was closed.
        """
        now_ns = self._clock_ns()
        for ear in self._ears.values():
            if ear.intake is not None:
                ear.intake.listen_from(now_ns)
        self._is_open = True

    def adopt(self, partition: int, intake: Intake) -> None:
        """The cell of a partition is taken over, by an intake whose claim is in its ledger."""
        ear = self._ears.get(partition)
        if ear is None:
            return  # taken away meanwhile
        ear.intake = intake
        ear.is_deaf = False
        intake.listen_from(self._clock_ns())
        for message, pending in ear.release():
            self._handle(message, pending, is_last_try=False)

    def orphan(self, partition: int, is_refused: bool) -> None:
        """The cell of a partition is owned here no more, or cannot be run at all.

        Heartbeats of a refused cell are let go; of another they wait for the next takeover.
        """
        ear = self._ears.get(partition)
        if ear is None:
            return
        ear.intake = None
        ear.is_deaf = is_refused
        if is_refused:
            for _, pending in ear.release():
                pending.done()

    def silence(self) -> int:
        """Tell the ledgers of nodes that fell silent; how many. To be called every second or so."""
        if not self._is_open:
            return 0
        count = 0
        for cell, placement in self._placements.items():
            ear = self._ears.get(placement.partition)
            if ear is None or ear.intake is None:
                continue
            now_ns = self._clock_ns()
            for record in ear.intake.silence(now_ns):
                event_id = f"{cell}/lost/{record.time_ns}/{count}"
                self._append(cell, placement, record, event_id, None)
                count += 1
        return count

    # ---- messages --------------------------------------------------------------------------------

    def take(self, message: Message) -> None:
        """Handle a message; messages of a partition in their order."""
        if not self._is_open:
            return  # comes again
        place = message.topic, message.partition
        if not self.acks.admits(place, message.offset):
            return  # it was taken, or comes again after those before it
        pending = self.acks.open(place, message.offset)
        self.counts.messages[message.topic] += 1
        self._handle(message, pending, is_last_try=False)

    @property
    def unplaced_count(self) -> int:
        """Messages that wait because their cell is not known, or not yet."""
        return len(self._unplaced)

    def place(self, placements: Iterable[Placement]) -> None:
        """Cells have these partitions. Call `settle_unplaced` next."""
        self._placements.update({placement.cell: placement for placement in placements})

    def settle_unplaced(self, count: int) -> None:
        """Handle what waited for its cell, in order.

        Args:
            count: of the first so many, all placements have been read since they came: if their
                cell is still unknown, there is none.
        """
        waiting = list(self._unplaced)
        self._unplaced.clear()
        for number, (message, pending) in enumerate(waiting):
            self._handle(message, pending, is_last_try=number < count)

    def _handle(self, message: Message, pending: Pending, *, is_last_try: bool) -> None:
        try:
            cell = _cell_of(message.key)
            placement = self._placements.get(cell)
            if placement is None:
                if not is_last_try:
                    self._unplaced.append((message, pending))
                    return
                raise _Refused(UNKNOWN_CELL, f"{cell[:100]!r} is placed in no partition")
            if message.topic != HEARTBEATS:
                self._enter(cell, placement, message, pending)
            elif message.partition != placement.partition:
                self._forward(message, placement, pending)
            elif not self._hear(cell, placement, message, pending):
                return
        except PayloadRefused as refused:
            self._bury(message, pending, refused.refusal.value, refused.detail)
        except (InputRefused, _Refused) as refused:
            self._bury(message, pending, refused.error_class, refused.detail)
        pending.done()

    def _enter(self, cell: str, placement: Placement, message: Message, pending: Pending) -> None:
        """A message that is no heartbeat into its cell's ledger."""
        now_ns = self._clock_ns()
        record = self._decode(message)
        place = (self._topic_ids[message.topic], message.partition, message.offset)
        for index, found in enumerate(self._intake.accept(record, now_ns)):
            self._append_from(cell, placement, found, Source(*place, index), pending)

    def _hear(self, cell: str, placement: Placement, message: Message, pending: Pending) -> bool:
        """A heartbeat in its cell's partition; False: it has to wait."""
        ear = self._ears.get(placement.partition)
        if ear is None or (ear.intake is None and not ear.is_deaf):
            if ear is not None:
                ear.hold(message, pending)
            return False
        source = self._source_of(message)
        record = self._decode(message)
        assert isinstance(record, NodeHeartbeat)
        if ear.intake is None:
            return True
        index = -1
        for found in ear.intake.accept(record, self._clock_ns()):
            assert isinstance(found, (NodeChanged, NodeReturned))
            index += 1
            # The place inside the frame: after a crash fewer records may come of the same frame,
            # and each must be told from those that came before.
            while record.reports[index].node != found.report.node:
                index += 1
            self._append_from(cell, placement, found, replace(source, index=index), pending)
        return True

    def _forward(self, message: Message, placement: Placement, pending: Pending) -> None:
        """A heartbeat to its cell's partition, whatever it holds; its owner will judge."""
        if message.value is None:
            raise _Refused(MISSING_VALUE, "the message has no value")
        source = Source(self._topic_ids[HEARTBEATS], message.partition, message.offset, 0)
        kept = [(name, value) for name, value in message.headers if name != SOURCE_HEADER]
        if _size(message.key, kept) > _HEADERS_BYTES_MAX:
            kept = []
        if len(message.value) > PAYLOAD_BYTES_MAX:
            raise _Refused("too_large", f"{len(message.value)} bytes; {PAYLOAD_BYTES_MAX} at most")
        pending.expect()
        self.counts.forwarded += 1
        self._outlet.send(
            HEARTBEATS,
            placement.partition,
            message.key,
            message.value,
            [*kept, source_header(source)],
            pending.done,
        )

    def _source_of(self, message: Message) -> Source:
        """Where a heartbeat stood first."""
        topic_id = self._topic_ids[HEARTBEATS]
        try:
            origin = read_source(list(message.headers))
        except SourceHeaderBad as error:
            raise _Refused(BAD_SOURCE, str(error)) from error
        if origin is None:
            return Source(topic_id, message.partition, message.offset, 0)
        if origin.topic != topic_id or origin.partition == message.partition:
            raise _Refused(
                BAD_SOURCE,
                f"{SOURCE_HEADER} names partition {origin.partition} of topic id {origin.topic}; "
                "only other partitions of the same topic are forwarded from",
            )
        return origin

    def _decode(self, message: Message) -> Record:
        """The record in a message, if it is one that its topic may carry."""
        value = message.value
        if value is None:
            raise _Refused(MISSING_VALUE, "the message has no value")
        record = decode_untrusted(self._framing.incoming(value))
        name = record.__class__.__name__
        if name not in _KINDS[message.topic]:
            if name in _ANYWHERE:
                raise _Refused(WRONG_TOPIC, f"{name} does not belong on {message.topic}")
            raise _Refused(NOT_AN_INPUT, f"{name} is written by workers, never sent")
        return record

    # ---- out -------------------------------------------------------------------------------------

    def _append_from(
        self, cell: str, placement: Placement, record: Record, source: Source, pending: Pending
    ) -> None:
        event_id = record.event_id
        if not event_id:
            event_id = f"{source.topic}/{source.partition}/{source.offset}/{source.index}"
        pending.expect()
        self._append(cell, placement, replace(record, source=source), event_id, pending.done)

    def _append(
        self,
        cell: str,
        placement: Placement,
        record: Record,
        event_id: str,
        on_delivered: Callable[[int], None] | None,
    ) -> None:
        self.counts.records += 1
        if self._appended is not None and self.counts.records % _TIMED_EVERY == 0:
            on_delivered = self._timed(on_delivered, self._appended)
        self._outlet.send(
            LEDGER,
            placement.partition,
            cell.encode(),
            encode_record(record),
            headers(record.__class__.__name__, cell, event_id, record.time_ns),
            on_delivered,
        )

    def _timed(
        self, on_delivered: Callable[[int], None] | None, told: Callable[[float], None]
    ) -> Callable[[int], None]:
        begin = monotonic()

        def delivered(offset: int) -> None:
            told(monotonic() - begin)
            if on_delivered is not None:
                on_delivered(offset)

        return delivered

    def _bury(self, message: Message, pending: Pending, error_class: str, detail: str) -> None:
        """A message to the dead letters: its key, value and headers, and what is wrong with it."""
        counts = self.counts.dead_letters
        place = (message.topic, error_class)
        counts[place] = counts.get(place, 0) + 1
        key, value, kept = message.key, message.value, list(message.headers)
        cut: list[tuple[str, bytes | None]] = []
        size = _size(key, kept) + len(value or b"")
        if size > MESSAGE_BYTES_MAX - _ROOM_BYTES:
            # Brokers limit messages as they are compressed; written plain, this one is too large.
            if size - len(value or b"") > _HEADERS_BYTES_MAX:
                key, kept = (key or b"")[:_HEADERS_BYTES_MAX], []
            value = (value or b"")[: MESSAGE_BYTES_MAX - 2 * _ROOM_BYTES]
            cut = [(CUT_HEADER, str(size).encode())]
        pending.expect()
        self._outlet.send(
            DEAD_LETTERS,
            message.partition,
            key,
            value,
            dead_letter_headers(
                error_class,
                detail,
                message.topic,
                message.partition,
                message.offset,
                [*kept, *cut],
            ),
            pending.done,
        )


def _cell_of(key: bytes | None) -> str:
    """The cell that a message's key names."""
    if not key:
        raise _Refused(MISSING_KEY, "the message has no key; the key is the cell's name")
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise _Refused(BAD_KEY, f"the key is no UTF-8 text: {error.reason}") from error


def _size(key: bytes | None, kept: MessageHeaders) -> int:
    """Bytes of a message beside its value, about."""
    return len(key or b"") + sum(len(name) + len(value or b"") + 8 for name, value in kept)

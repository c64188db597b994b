"""One cell as its owner runs it: restored from Kafka, led on by its ledger, heard in its decisions.

No thread and no consumer of its own: `scheduler` hands over records and asks when there is
something to do. Everything that comes out goes through one outlet, in order.

    restore -> OwnerClaimed and IntakeClaimed appended -> both met in the ledger: the cell is run

Until its claims are met in the ledger an owner publishes decisions, which are the same whoever
publishes them, but neither Ticks nor rows. When it meets a later claim than its own, somebody else
owns the cell: it is `superseded` and publishes nothing any more.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import encode_record
from ganger.schemas.records import OwnerClaimed, Record, Tick
from ganger.streams.divergence import Divergence
from ganger.streams.engine import Engine
from ganger.streams.intake import Intake
from ganger.streams.kafka.cluster.topics import LEDGER, ROWS
from ganger.streams.kafka.tables.rows import frames
from ganger.streams.kafka.wire.envelope import Framing, headers
from ganger.streams.kafka.wire.outlet import Outlet
from ganger.streams.kafka.worker.saver import FAILURES, PIECE_NS, CellSnapshots, Saver
from ganger.streams.kafka.worker.ticker import Ticker
from ganger.streams.kernel.snapshot import SnapshotUnreadable
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import OutOfOrder
from ganger.streams.log.errors import LedgerFailed, LogError, LogUnreachable
from ganger.streams.log.protocol import Log, LogReader
from ganger.streams.payloads import PayloadUnreadable
from ganger.streams.tables.changes import RowChanges

ROWS_EVERY_NS = 2_000_000_000
"""Rows of a cell are published at most so often: a row that changes often is told once. Tables are
to be no more than 5 s behind, so more than half of that is left for the way into them."""

_UNREACHABLE = (LogUnreachable, LedgerFailed)
"""Says nothing of the cell: the process ends, and its successor asks again."""

_UNRUNNABLE = (Divergence, LogError, OutOfOrder, PayloadUnreadable, SnapshotUnreadable)

log = logging.getLogger("ganger.worker")


class CellUnrunnable(Exception):
    """A cell's ledger or decisions are not what this version can run; other cells can go on.

    Attributes:
        seq: the first record that is not in the state.
    """

    def __init__(self, cell: str, seq: int, cause: object) -> None:
        self.seq = seq
        super().__init__(f"cell {cell}, seq {seq}: {cause}")


class CellPorts(NamedTuple):
    """What a cell is connected to."""

    partition: int
    ledger: LogReader
    decisions: Log
    snapshots: CellSnapshots | None
    outlet: Outlet
    framing: Framing  # of rows
    settle: Callable[[], None]  # count decisions that were acknowledged; called now and then
    close: Callable[[], None]


class CellRunner:
    """One owned cell.

    Attributes:
        cell: its name.
        partition: its partition of every topic.
        superseded: whether somebody else has claimed the cell since.
        superseded_by: the name of that worker; empty while there is none.
        saver: its snapshots.
        rows_count: rows published so far.
    """

    def __init__(self, cell: str, ports: CellPorts, owner: str, silence_ns: int) -> None:
        """A cell that is not restored.

        Args:
            cell: its name.
            ports: its logs and where its records go; closed by `close`.
            owner: the worker's name, for the claims.
            silence_ns: after how long a silent node is lost.
        """
        self.cell = cell
        self.partition = ports.partition
        self.superseded = False
        self.superseded_by = ""
        self._ports = ports
        self._key = cell.encode()
        self._owner = owner
        self._silence_ns = silence_ns
        self._engine: Engine | None = None
        self._state: State = None  # type: ignore[assignment]  # until it is restored
        self._epoch = -1
        self._claim = -1
        self._intake: Intake | None = None  # until it is handed over
        self._rows_ns = 0
        self._has_told = False  # a frame of this owner's epoch was published
        self.saver = Saver(cell, ports.snapshots)
        self.rows_count = 0

    # ---- taking over -----------------------------------------------------------------------------

    def restore(self, now_ns: int, mono_ns: int) -> int:
        """Bring the state to the ledger's end, publish what is missing, claim the cell.

        Returns:
            How many records were replayed.

        Raises:
            CellUnrunnable: and nothing of it is claimed.
            LogUnreachable, LedgerFailed: Kafka does not answer.
        """
        ports = self._ports
        try:
            engine = Engine.recover(ports.ledger, ports.decisions, ports.snapshots, self._watch)
        except _UNREACHABLE:
            raise
        except _UNRUNNABLE as error:
            raise CellUnrunnable(self.cell, self._broken_seq(error), error) from error
        self._engine = engine
        self._ticker = Ticker(engine.state)
        self.saver.begun_ns = mono_ns
        self._intake = Intake(self.cell, self._owner, silence_ns=self._silence_ns)
        self._append(OwnerClaimed(now_ns, "", None, self._owner), self._owner_claimed)
        self._append(self._intake.claim(now_ns), self._intake_claimed)
        return engine.state.next_seq - self.saver.seq

    def _watch(self, state: State) -> Callable[[Record, list[Decision]], None]:
        first_seq = self._ports.ledger.first_seq
        if first_seq > state.next_seq:
            raise CellUnrunnable(
                self.cell,
                state.next_seq,
                f"the ledger begins at seq {first_seq} and no snapshot reaches so far: it was cut. "
                "Restore the topic, or a snapshot, from a copy",
            )
        self._state = state
        self.saver.seq = state.next_seq
        self._changes = changes = RowChanges(state)
        return lambda record, made: changes.observe((record,), made)

    def _broken_seq(self, error: Exception) -> int:
        """Where the trouble is: what the error says, else the first record not in the state."""
        seq = getattr(error, "seq", None)
        if isinstance(seq, int):
            return seq
        return self._state.next_seq if self._state is not None else 0

    def _owner_claimed(self, seq: int) -> None:
        self._epoch = seq

    def _intake_claimed(self, seq: int) -> None:
        self._claim = seq

    @property
    def next_seq(self) -> int:
        """Seq of the next record to take."""
        return self._state.next_seq

    @property
    def state(self) -> State:
        """The kernel's state, to be read."""
        return self._state

    @property
    def is_running(self) -> bool:
        """Whether the cell is this owner's as far as its ledger says, both claims included."""
        return self._epoch >= 0 and self._state.epoch == self._epoch and not self.superseded

    def take_intake(self) -> Intake | None:
        """The intake that knows the cell's nodes, once its claim is met in the ledger; given once.

        It knows them as they are now, so nothing that others had appended before is missed.
        """
        intake, state = self._intake, self._state
        if intake is None or self._claim < 0 or state.claim != self._claim:
            return None
        intake.claimed(self._claim)
        for node in state.nodes:
            intake.know(node.report, is_lost=node.is_lost)
        self._intake = None
        return intake

    # ---- running ---------------------------------------------------------------------------------

    def take(
        self, first_seq: int, keys: Sequence[bytes | None], payloads: Sequence[bytes | None]
    ) -> list[Decision]:
        """Step records that came to the ledger, and publish their decisions, which are returned.

        Raises:
            CellUnrunnable: one of them cannot stand there; those before it were stepped.
            LogUnreachable, LedgerFailed: Kafka does not answer.
        """
        engine = self._engine
        assert engine is not None
        try:
            records, decisions = engine.follow(first_seq, self._checked(first_seq, keys, payloads))
        except _UNREACHABLE:
            raise
        except _UNRUNNABLE as error:
            raise CellUnrunnable(self.cell, self._broken_seq(error), error) from error
        self._changes.observe(records, decisions)
        self._ticker.took(self._news(records))
        if 0 <= self._epoch < self._state.epoch:
            self.superseded = True
            claims = [record for record in records if isinstance(record, OwnerClaimed)]
            self.superseded_by = claims[-1].owner if claims else self.superseded_by
        return decisions

    def _news(self, records: Sequence[Record]) -> bool | None:
        """Whether something came after the last cycle among these; None without either."""
        for record in reversed(records):
            if not isinstance(record, Tick):
                return True
            if record.cycle and record.epoch == self._state.epoch:
                return False
        return None

    def _checked(
        self, first_seq: int, keys: Sequence[bytes | None], payloads: Sequence[bytes | None]
    ) -> list[bytes]:
        """The payloads, all of them records of this cell."""
        sound = []
        for seq, (key, payload) in enumerate(zip(keys, payloads, strict=True), first_seq):
            if key != self._key or payload is None:
                what = "no value" if payload is None else f"the key {key!r}"
                raise CellUnrunnable(
                    self.cell, seq, f"the record has {what}: somebody else writes to the ledger"
                )
            sound.append(payload)
        return sound

    def wait_ns(self, now_ns: int, mono_ns: int) -> int:
        """How long until `serve` has something to do if no record comes."""
        wait_ns = max(0, self._rows_ns + ROWS_EVERY_NS - mono_ns)
        if self.saver.is_under_way:
            wait_ns = min(wait_ns, PIECE_NS)
        if self.is_running:
            tick_ns = self._ticker.wait_ns(now_ns, mono_ns)
            if tick_ns is not None:
                return min(wait_ns, tick_ns)
        return wait_ns

    def serve(self, now_ns: int, mono_ns: int) -> int | None:
        """Append a Tick, publish rows, do a piece of saving a snapshot: whatever is due.

        Returns:
            Up to which seq a snapshot was saved, if one is complete now.
        """
        if not self.is_running:
            return None
        if self._ticker.wait_ns(now_ns, mono_ns) == 0:
            tick = self._ticker.tick(now_ns, mono_ns)
            self._append(tick, self._ticker.delivered)
        if mono_ns - self._rows_ns >= ROWS_EVERY_NS:
            self._rows_ns = mono_ns
            self._publish_rows(now_ns)
            self._ports.settle()
        if self.saver.is_due(self._state.next_seq, mono_ns):
            assert self._engine is not None
            self._publish_rows(now_ns)
            self.saver.begin(self._state.next_seq, self._engine.checkpoint, mono_ns)
        return self.saver.go_on(mono_ns)

    def save(self, now_ns: int, mono_ns: int) -> None:
        """Save a snapshot, behind which nothing is left to be published, at once."""
        assert self._engine is not None
        self._publish_rows(now_ns)
        self._ports.outlet.flush()
        self.saver.save(self._state.next_seq, self._engine.save_checkpoint, mono_ns)

    def release(self, now_ns: int, mono_ns: int) -> None:
        """Leave the cell so that the next owner has little to do."""
        if self.is_running and self._state.next_seq > self.saver.seq:
            self.save(now_ns, mono_ns)
        self.close()

    def close(self) -> None:
        """Leave the cell as it is."""
        self.saver.stop()
        try:
            self._ports.close()
        except FAILURES as error:
            log.warning("store_unsealed cell=%s why=%r", self.cell, str(error))

    def _publish_rows(self, now_ns: int) -> None:
        changes = self._changes.take(self._state)
        if not changes and self._has_told:
            return
        self.rows_count += len(changes)
        self._has_told = True  # the first frame goes out even if it is empty: see `rows`
        seq = self._state.next_seq - 1
        payloads = frames(self.cell, self._epoch, seq, now_ns, changes)
        for number, payload in enumerate(payloads):
            self._ports.outlet.send(
                ROWS,
                self.partition,
                self._key,
                self._ports.framing.outgoing(payload),
                headers("RowsChanged", self.cell, f"{self.cell}/{seq}/{number}", now_ns),
            )

    def _append(self, record: Record, on_delivered: Callable[[int], None]) -> None:
        name = record.__class__.__name__
        event_id = f"{self._owner}/{name}/{record.time_ns}/{self._state.next_seq}"
        self._ports.outlet.send(
            LEDGER,
            self.partition,
            self._key,
            encode_record(record),
            headers(name, self.cell, event_id, record.time_ns),
            on_delivered,
        )

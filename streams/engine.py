"""The kernel over two logs: records go into the ledger, decisions come out of it, in that order.

Whoever runs a cell runs this. It knows neither topics nor files nor clocks; it keeps the one
promise that no decision is published before its cause is safe. Three ways to take records:

* `apply`, for live running: append the group, sync, step each record, append the decisions. A full
  disk leaves the state as it was, so the group can be given again when there is room.
* `follow`, where others write the ledger, as on Kafka: the records are in it already.
* `ahead` and `commit`, for simulation, where the next record depends on the last decision: step at
  once, hold records and decisions back, write them in groups. Nobody sees anything before `commit`.
  The state runs ahead of the ledger, so after a failed write the engine is dead.

Recovery is the same fold: the state of the newest checkpoint that fits, or of an empty cell, then
the ledger's records, each decision compared with the one recorded, missing ones appended.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Self, cast

from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_payload, decision_payloads, encode_record
from ganger.schemas.records import Record
from ganger.streams.checkpoint import Checkpoint, SnapshotStore, pack, unpack
from ganger.streams.divergence import Divergence
from ganger.streams.kernel.snapshot import SnapshotUnreadable
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import HANDLERS, OutOfOrder, step
from ganger.streams.log.errors import LedgerFull, LogError
from ganger.streams.log.protocol import Log, LogReader
from ganger.streams.payloads import read_decision, read_record
from ganger.streams.seed import seed_of

GROUP_RECORDS_MAX = 1024
"""Most records that are acknowledged together: what a crash can undo of a simulation."""

OnCommit = Callable[[Sequence[bytes], Sequence[Decision]], None]
"""Given the payloads of the records that were committed, and all their decisions."""

Watch = Callable[[State], Callable[[Record, list[Decision]], None]]
"""Given the state that a recovery begins with; what it returns is told every record stepped, with
its decisions."""

_DECISIONS_MAX = 1 << 16
"""Most decisions in one group; some 16 MiB."""


class EngineDead(Exception):
    """A write failed while the state was ahead of the ledger, or a step did, which leaves a state
    that is none. Open the logs anew and recover.
    """


class DecisionsHeld(Exception):
    """The records are in the ledger and the state; there was no room for their decisions.

    The records must not be given again. `publish` brings the decisions out when there is room.
    """


class Engine:
    """One cell's state with the two logs it is written in.

    Attributes:
        state: the kernel's; to be read, never to be changed from outside.
        on_commit: told of each `commit` that wrote something. Nothing is staged or held then.
    """

    def __init__(
        self,
        ledger: Log,
        decisions: Log,
        state: State,
        decision_count: int,
        snapshots: SnapshotStore | None,
    ) -> None:
        """Use `create` or `recover`."""
        self.state = state
        self.on_commit: OnCommit | None = None
        self._ledger = ledger
        self._decisions = decisions
        self._snapshots = snapshots
        self._staged: list[bytes] = []
        self._staged_max = GROUP_RECORDS_MAX  # 0 once a write failed
        self._settled_count = decision_count  # decisions before those of `_held`
        self._held: list[Decision] = []  # to be published
        self._written_count = 0  # of `_held`, where only a part found room
        self._failure: Exception | None = None

    @classmethod
    def create(cls, ledger: Log, decisions: Log, snapshots: SnapshotStore | None = None) -> Self:
        """The engine of an empty cell.

        Raises:
            ValueError: a log holds something already.
        """
        for log, name in ((ledger, "ledger"), (decisions, "decisions")):
            if log.end() > 0:
                raise ValueError(f"{name}: holds {log.end()} records; use recover")
        return cls(ledger, decisions, State(ledger.cell, seed_of(ledger)), 0, snapshots)

    @classmethod
    def recover(
        cls,
        ledger: LogReader,
        decisions: Log,
        snapshots: SnapshotStore | None = None,
        watch: Watch | None = None,
    ) -> Self:
        """The engine of a cell as its ledger has it; missing decisions are appended.

        Args:
            ledger: the records. If others write them, it is only read: use `follow` afterwards.
            decisions: what was decided.
            snapshots: where to begin, if one of them fits.
            watch: see `Watch`; for whoever publishes what the records changed.

        Raises:
            Divergence: a recorded decision is not the one that its record causes.
            LogCorrupt: a log does not check.
            PayloadUnreadable: a record or a decision is none.
            LedgerFull: no room for the missing decisions; nothing is lost, try again.
        """
        end = ledger.end()
        found = _checkpoint(ledger, decisions, snapshots, end)
        engine = cls(cast(Log, ledger), decisions, found.state, found.position, snapshots)
        observe = None if watch is None else watch(engine.state)
        recorded = _payloads(decisions, found.position)
        for seq, payload in _numbered(ledger, found.state.next_seq):
            record = read_record(seq, payload)
            made = step(engine.state, seq, record)
            for decision in made:
                engine._republish(decision, next(recorded, b""))
            if observe is not None:
                observe(record, made)
        surplus = next(recorded, b"")
        if surplus:
            cause_seq = read_decision(engine.decision_count, surplus).cause_seq
            # Where others write the ledger it may have grown meanwhile, and a former owner may have
            # decided on that already: `follow` will come to the same.
            if not engine.state.next_seq <= cause_seq < ledger.end():
                raise Divergence(cause_seq, surplus, b"", is_decision=True)
        engine.publish()
        return engine

    @property
    def decision_count(self) -> int:
        """Decisions so far, held ones included: the next one's position in its log."""
        return self._settled_count + len(self._held)

    @property
    def staged_count(self) -> int:
        """Records taken by `ahead` and not yet in the ledger."""
        return len(self._staged)

    @property
    def committed_seq(self) -> int:
        """Records that are in the ledger."""
        return self.state.next_seq - len(self._staged)

    def apply(self, records: Sequence[Record]) -> list[Decision]:
        """Take a group of records and return their decisions, which are published by then.

        Raises:
            EncodeError: a record has no bytes; nothing was taken.
            ValueError: a record is of a type that no ledger holds; nothing was taken.
            LedgerFull: no room for the records; nothing was taken, give them again.
            DecisionsHeld: the records were taken and their decisions wait for room, or earlier
                ones still do.
            LedgerFailed: the disk's content is unknown; the process should stop.
        """
        self._check_alive()
        if self._staged:
            raise ValueError(f"apply: {len(self._staged)} records are staged; commit them first")
        if self._held:
            raise DecisionsHeld(f"{len(self._held)} decisions wait for room; call publish first")
        records = tuple(records)
        for record in records:
            if record.__class__ not in HANDLERS:
                raise ValueError(
                    f"{record.__class__.__name__}: no ledger holds it; give it to an intake, and "
                    "what that makes of it to the engine"
                )
        payloads = [encode_record(record) for record in records]
        first_seq = self._ledger.append(payloads)
        for seq, record in enumerate(records, first_seq):
            self._held += self._step(seq, record)
        return self._publish_of(first_seq, len(records))

    def follow(
        self, first_seq: int, payloads: Sequence[bytes]
    ) -> tuple[list[Record], list[Decision]]:
        """Take records that others appended to the ledger, and publish their decisions.

        Args:
            first_seq: seq of the first of them; the next one that the state lacks.
            payloads: their bytes as the ledger has them.

        Returns:
            The records, and their decisions, which are published by then.

        Raises:
            OutOfOrder: the records are not the next ones; nothing was taken.
            RecordUnreadable: one is none; those before it were taken.
            DecisionsHeld: the records were taken and their decisions wait for room.
        """
        self._check_alive()
        if self._held:
            raise DecisionsHeld(f"{len(self._held)} decisions wait for room; call publish first")
        records = []
        for seq, payload in enumerate(payloads, first_seq):
            record = read_record(seq, payload)
            self._held += self._step(seq, record)
            records.append(record)
        return records, self._publish_of(first_seq, len(records))

    def publish(self) -> list[Decision]:
        """Append the decisions held back, if any, and return them.

        Raises:
            LedgerFull: still no room; call it again when there is.
        """
        self._check_alive()
        held = self._held
        while self._written_count < len(held):
            group = held[self._written_count : self._written_count + _DECISIONS_MAX]
            self._decisions.append(decision_payloads(group))
            self._written_count += len(group)
        self._settled_count += len(held)
        self._held = []
        self._written_count = 0
        return held

    def ahead(self, record: Record) -> list[Decision]:
        """Take a record before it is in the ledger; its decisions, for none but the simulator.

        A full group is committed first.

        Raises:
            EncodeError: the record has no bytes; nothing was taken.
            EngineDead: a commit failed, now or before.
        """
        staged = self._staged
        if len(staged) >= self._staged_max:
            self.commit()
            staged = self._staged
        payload = encode_record(record)
        decisions = self._step(self.state.next_seq, record)
        staged.append(payload)
        if decisions:
            self._held += decisions
        return decisions

    def commit(self) -> None:
        """Write what `ahead` took: the records, then, once they are safe, their decisions.

        Raises:
            LogError: the engine is dead now; the ledger holds a whole number of groups.
            EngineDead: it was before.
        """
        self._check_alive()
        staged = self._staged
        if not staged and not self._held:
            return
        try:
            self._ledger.append(staged)
            self._staged = []
            decisions = self.publish()
        except (LogError, Divergence) as error:
            self._failure = error
            self._staged_max = 0
            raise
        if self.on_commit is not None:
            self.on_commit(staged, decisions)

    def checkpoint(self) -> bytes:
        """The state as of now, as snapshot stores keep it.

        Raises:
            ValueError: records are staged or decisions held back: the logs do not have them yet.
        """
        self._check_alive()
        if self._staged or self._held:
            raise ValueError(f"checkpoint: {len(self._staged)} records are not committed")
        return pack(self.state, self.decision_count)

    def save_checkpoint(self) -> int:
        """Keep the state as of now in the snapshot store; its bytes, 0 if there is no store.

        Raises:
            ValueError: see `checkpoint`.
        """
        if self._snapshots is None:
            return 0
        data = self.checkpoint()
        self._snapshots.save(self.state.next_seq, data)
        return len(data)

    def _step(self, seq: int, record: Record) -> list[Decision]:
        """One step; one that fails may have changed a part of the state, so none follows it."""
        try:
            return step(self.state, seq, record)
        except OutOfOrder:
            raise
        except Exception as error:
            self._failure = error
            self._staged_max = 0
            raise

    def _publish_of(self, first_seq: int, count: int) -> list[Decision]:
        try:
            return self.publish()
        except LedgerFull as error:
            raise DecisionsHeld(
                f"{count} records from seq {first_seq} are in the ledger, their "
                f"{len(self._held)} decisions are not published: {error} Then call publish"
            ) from error

    def _republish(self, decision: Decision, recorded: bytes) -> None:
        """Compare a decision with the recorded one; where there is none, it is yet to come."""
        if not recorded:
            self._held.append(decision)
            if len(self._held) >= GROUP_RECORDS_MAX:
                self.publish()
            return
        payload = decision_payload(decision)
        if payload != recorded:
            raise Divergence(decision.cause_seq, recorded, payload, is_decision=True)
        self._settled_count += 1

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise EngineDead(
                f"an earlier call failed ({self._failure}); open the logs anew and recover"
            ) from self._failure


def _checkpoint(
    ledger: LogReader, decisions: LogReader, snapshots: SnapshotStore | None, end: int
) -> Checkpoint:
    """The newest checkpoint that fits both logs, else the empty cell."""
    found = None if snapshots is None else snapshots.newest(end)
    while snapshots is not None and found is not None:
        seq, data = found
        try:
            checkpoint = unpack(data)
        except SnapshotUnreadable:
            checkpoint = None
        if checkpoint is not None and _fits(checkpoint, seq, ledger, decisions):
            return checkpoint
        found = snapshots.newest(seq - 1)
    return Checkpoint(State(ledger.cell, seed_of(ledger)), 0)


def _fits(checkpoint: Checkpoint, seq: int, ledger: LogReader, decisions: LogReader) -> bool:
    """Whether a checkpoint is of this ledger: its last decision stands where it says.

    The decision carries the chain over all before it, so this compares every one of them.
    """
    state, position = checkpoint
    if (state.cell, state.next_seq) != (ledger.cell, seq) or not 0 < position <= decisions.end():
        return False
    last = next(_payloads(decisions, position - 1))
    return read_decision(position - 1, last).chain == state.chain


def _payloads(log: LogReader, from_seq: int) -> Iterator[bytes]:
    for _, group in log.read_groups(from_seq):
        yield from group


def _numbered(log: LogReader, from_seq: int) -> Iterator[tuple[int, bytes]]:
    for first_seq, group in log.read_groups(from_seq):
        yield from enumerate(group, first_seq)

"""The proof: every decision is computed again from the ledger and compared with what was recorded.

The simple form: fold the ledger from its beginning, encode each decision, compare it byte for byte
with the one at the same place of the decisions stream. Three things are added. Decisions of the
ledger's last group may be missing at the end, since a process can be killed between the two
writes; they are counted apart and the next start publishes them. What a live writer adds
meanwhile is left out of account. And what the decisions promised is held against what they did
(modules `promises`, `windows`): a promise that was broken counts as a mismatch, too.

Nothing but the two streams is read: no snapshot, no table.
"""

from collections.abc import Iterator
from itertools import chain
from time import process_time

from msgspec import Struct

from ganger.replay.promises import PromiseCheck, Violation
from ganger.replay.reader import (
    Progress,
    Streams,
    initial_state,
    paused_collector,
    tell_nobody,
)
from ganger.replay.windows import WindowCheck
from ganger.schemas.codec import decode_decision
from ganger.schemas.encoding import decision_payloads
from ganger.schemas.records import ReservationRequested
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.step import step
from ganger.streams.log.layout import LogIdentity, Stream, extend_chain
from ganger.streams.log.protocol import HashKeeper, LogReader
from ganger.streams.payloads import UNREADABLE, read_records


class Mismatch(Struct, frozen=True):
    """A place where what was recorded is not what the ledger leads to.

    `recorded` and `computed` are payloads in wire format; empty where there is no decision.
    """

    seq: int
    index: int
    recorded: bytes
    computed: bytes


class Verification(Struct, frozen=True):
    """What a verification found."""

    records: int
    decisions: int  # computed
    mismatches: int  # decisions that differ, and promises that were broken
    first_mismatch: Mismatch | None
    unpublished: int  # computed from the ledger's last records and not recorded yet
    digest: bytes
    chain: bytes  # over all decisions computed
    record_hash: bytes  # chain over all records, as the ledger's seals carry it
    cpu_seconds: float
    violations: int = 0  # promises that were broken
    first_violation: Violation | None = None

    @property
    def is_equal(self) -> bool:
        """Whether every decision recorded is the one computed, none is missing, and every promise
        was kept.
        """
        return self.mismatches == 0


def verify(
    streams: Streams, on_progress: Progress = tell_nobody, *, settled_seq: int | None = None
) -> Verification:
    """Compute every decision of a ledger again and compare it with the recorded one.

    Args:
        streams: the ledger.
        on_progress: told how many records were verified since it was last called.
        settled_seq: decisions of records from this seq on may be missing at the end, where others
            write the ledger and its owner is a little behind; by default those of the last group.

    Raises:
        LedgerCut: the ledger does not begin at seq 0.
        LogCorrupt: a stream does not check.
        RecordUnreadable: a record has no known schema.
    """
    begin_seconds = process_time()
    ledger = streams.ledger
    state = initial_state(ledger)
    # In this order, so that a live writer can only add decisions whose cause is not looked at.
    end = ledger.end()
    comparison = _Comparison(streams.decisions)
    promises, windows = PromiseCheck(), WindowCheck()
    is_hashed = isinstance(ledger, HashKeeper)
    record_hash = LogIdentity(
        Stream.LEDGER, ledger.cell, ledger.fingerprint, ledger.arguments
    ).seed()
    with paused_collector():
        for seq, payloads in ledger.read_groups(0, end):
            if not is_hashed:
                record_hash = extend_chain(record_hash, payloads)
            records = read_records(seq, payloads)
            is_kept = windows.is_active or ReservationRequested in map(type, records)
            decided = []
            for record in records:
                decided.append(step(state, seq, record))
                if is_kept:
                    windows.check(state, record, decided[-1])
                seq += 1
            promises.check(records, decided)
            is_open = seq == end or (settled_seq is not None and seq > settled_seq)
            comparison.check(decision_payloads(list(chain.from_iterable(decided))), is_open)
            on_progress(len(payloads))
    comparison.finish(end, ledger.end())
    return Verification(
        records=end,
        decisions=comparison.position,
        mismatches=comparison.mismatches + promises.violations + windows.violations,
        first_mismatch=comparison.first,
        unpublished=comparison.unpublished,
        digest=seal(state),
        chain=state.chain,
        record_hash=ledger.chain_at(end) if isinstance(ledger, HashKeeper) else record_hash,
        cpu_seconds=process_time() - begin_seconds,
        violations=promises.violations + windows.violations,
        first_violation=min(
            [one.first for one in (promises, windows) if one.first is not None],
            key=lambda one: (one.seq, one.index),
            default=None,
        ),
    )


class _Comparison:
    """Holds computed decisions against a stream of recorded ones, place by place."""

    def __init__(self, recorded: LogReader) -> None:
        self.position = 0
        self.mismatches = 0
        self.unpublished = 0
        self.first: Mismatch | None = None
        self._groups: Iterator[tuple[int, list[bytes]]] = recorded.read_groups(0)
        self._rest: list[bytes] = []

    def check(self, computed: list[bytes], is_open: bool) -> None:
        """Compare the decisions of one group of records with the next recorded ones.

        Where the group is open, those at its end may be missing.
        """
        count = len(computed)
        rest = self._rest
        while len(rest) < count:
            group = next(self._groups, None)
            if group is None:
                break
            rest += group[1]
        self.position += count
        recorded = rest[:count]
        self._rest = rest[count:]
        if recorded == computed:
            return
        if is_open:
            self.unpublished += count - len(recorded)
        elif len(recorded) < count:
            self._differ(b"", computed[len(recorded)], count - len(recorded))
        for old, new in zip(recorded, computed, strict=False):
            if old != new:
                self._differ(old, new, 1)

    def finish(self, end: int, grown_end: int) -> None:
        """Look at what is recorded beyond the last decision computed.

        Decisions that a live writer published meanwhile have causes from `end` to `grown_end`.
        """
        surplus = list(self._rest)
        for _, group in self._groups:
            surplus += group
        for payload in surplus:
            try:
                cause_seq = decode_decision(payload).cause_seq
            except UNREADABLE:
                cause_seq = -1
            if end <= cause_seq < grown_end:
                return
            self._differ(payload, b"", 1)

    def _differ(self, recorded: bytes, computed: bytes, count: int) -> None:
        self.mismatches += count
        seq, index = _place(computed or recorded)
        first = self.first
        if first is None or (seq, index) < (first.seq, first.index):
            self.first = Mismatch(seq, index, recorded, computed)


def _place(payload: bytes) -> tuple[int, int]:
    """Cause and index of a decision; -1 for one that cannot be read."""
    try:
        decision = decode_decision(payload)
    except UNREADABLE:
        return -1, -1
    return decision.cause_seq, decision.index

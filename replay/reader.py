"""A ledger as evidence: its two streams, its records in order, and the fold that gives a state.

Whoever opens a ledger (a folder, one day a URL) hands it on as `Streams`; nothing here opens
anything.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ganger.schemas.codec import decode_record
from ganger.schemas.errors import PayloadCorrupt, SchemaUnknown
from ganger.schemas.records import Record
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.log.protocol import LogReader
from ganger.streams.seed import seed_of

Progress = Callable[[int], None]
"""Told how many records were worked through since it was last called."""

UNREADABLE = (PayloadCorrupt, SchemaUnknown)
"""What decoding raises for bytes that this version cannot read."""


class Streams(Protocol):
    """The two streams of one cell's ledger, for reading."""

    @property
    def ledger(self) -> LogReader:
        """Records: what went in."""

    @property
    def decisions(self) -> LogReader:
        """Decisions: what came out."""


class LedgerCut(Exception):
    """A ledger that no longer begins at seq 0, where its past cannot be computed."""

    def __init__(self, first_seq: int) -> None:
        super().__init__(
            f"first_seq: the ledger begins at seq {first_seq}; without its beginning no state can "
            "be computed. Use a copy of the ledger that was not cut."
        )


class RecordUnreadable(Exception):
    """A record whose bytes are what was written, but no record of any known schema.

    Attributes:
        seq: where it stands.
    """

    def __init__(self, seq: int, cause: Exception) -> None:
        self.seq = seq
        super().__init__(
            f"seq {seq}: {cause}. Its hash is right, so it was written like this: read the ledger "
            "with the version of ganger that wrote it."
        )


def initial_state(ledger: LogReader) -> State:
    """The state before record 0.

    Raises:
        LedgerCut: the ledger does not begin there.
    """
    if ledger.first_seq != 0:
        raise LedgerCut(ledger.first_seq)
    return State(ledger.cell, seed_of(ledger))


def records(ledger: LogReader, from_seq: int, to_seq: int) -> Iterator[tuple[int, Record]]:
    """Records with their seqs, from `from_seq` to before `to_seq`.

    Raises:
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record has no known schema.
    """
    for first_seq, payloads in ledger.read_groups(from_seq, to_seq):
        for seq, payload in enumerate(payloads, first_seq):
            yield seq, read_record(seq, payload)


def read_record(seq: int, payload: bytes) -> Record:
    """The record in a payload of the ledger.

    Raises:
        RecordUnreadable: it is none.
    """
    try:
        return decode_record(payload)
    except UNREADABLE as error:
        raise RecordUnreadable(seq, error) from error


def fold(state: State, ledger: LogReader, to_seq: int, on_progress: Progress) -> int:
    """Apply the records from `state.next_seq` to before `to_seq`.

    Returns:
        How many decisions they caused.

    Raises:
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record has no known schema.
    """
    count = 0
    with paused_collector():
        for seq, payloads in ledger.read_groups(state.next_seq, to_seq):
            for payload in payloads:
                count += len(step(state, seq, read_record(seq, payload)))
                seq += 1
            on_progress(len(payloads))
    return count


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the cycle collector out of a fold: the state is large and leaves no cyclic garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def tell_nobody(count: int) -> None:
    """Progress that nobody asked for."""

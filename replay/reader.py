"""A ledger as evidence: its two streams, its records in order, and the fold that gives a state.

Whoever opens a ledger (a folder or a cell on Kafka) hands it on as `Streams`; nothing here opens
anything.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ganger.schemas.records import Record
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.log.protocol import LogReader
from ganger.streams.payloads import read_records
from ganger.streams.seed import seed_of

Progress = Callable[[int], None]
"""Told how many records were worked through since it was last called."""


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
        RecordUnreadable: a record is none that a ledger may hold.
    """
    for first_seq, payloads in ledger.read_groups(from_seq, to_seq):
        yield from enumerate(read_records(first_seq, payloads), first_seq)


def fold(state: State, ledger: LogReader, to_seq: int, on_progress: Progress) -> int:
    """Apply the records from `state.next_seq` to before `to_seq`.

    Returns:
        How many decisions they caused.

    Raises:
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record is none that a ledger may hold.
    """
    count = 0
    with paused_collector():
        for seq, payloads in ledger.read_groups(state.next_seq, to_seq):
            for record in read_records(seq, payloads):
                count += len(step(state, seq, record))
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

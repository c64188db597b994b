"""When a cell's state is saved, and what comes of a failure.

A snapshot only shortens a restart. So one that cannot be saved, since a disk is full or there is no
memory for a second process, ends nothing: it is told, counted, and tried again after longer and
longer waits.
"""

import logging
from collections.abc import Callable, Generator
from typing import Protocol

from ganger.streams.checkpoint import SnapshotStore
from ganger.streams.kafka.log.aside import AsideFailed
from ganger.streams.tables.store import StoreFailed

RECORDS = 100_000
"""Records after which a snapshot is saved: the most that a restart replays, which takes some 5 s.
Those replayed at a restore are included: else a worker that is killed again and again would never
get further."""

EVERY_NS = 600 * 1_000_000_000
"""Time after which a snapshot is saved, if there was anything new; and the longest wait after a
failure."""

AGAIN_NS = 10 * 1_000_000_000
"""The wait after a first failure; each further one in a row doubles it."""

PIECE_NS = 5_000_000
"""How long to wait at most between two pieces of a snapshot that is being saved."""

FAILURES = (AsideFailed, StoreFailed)
"""What leaves a cell without a snapshot, and nothing worse."""

_NS_PER_S = 1_000_000_000

log = logging.getLogger("ganger.worker")


class CellSnapshots(SnapshotStore, Protocol):
    """Snapshots of one cell."""

    def saving(self, seq: int, make: Callable[[], bytes]) -> Generator[None, None, int]:
        """Keep what `make` gives for the state as it is now, in pieces; its bytes at the end.

        Raises:
            AsideFailed, StoreFailed: it is not kept everywhere, or nowhere.
        """


class Saver:
    """Saves one cell's snapshots.

    Attributes:
        seq: up to which records are in the newest snapshot.
        begun_ns: when the last one was begun, by the monotonic clock.
        size_bytes: of the newest one; 0 before the first.
        failures_count: so many were not saved.
        is_under_way: whether one is being saved.
    """

    def __init__(self, cell: str, snapshots: CellSnapshots | None) -> None:
        """Nothing is saved. Without `snapshots` nothing ever is."""
        self.seq = 0
        self.begun_ns = 0
        self.size_bytes = 0
        self.failures_count = 0
        self._cell = cell
        self._snapshots = snapshots
        self._pieces: Generator[None, None, int] | None = None
        self._wanted_seq = 0
        self._wait_ns = 0  # after a failure; 0 after none
        self._failed_ns = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a snapshot is being saved."""
        return self._pieces is not None

    def is_due(self, next_seq: int, mono_ns: int) -> bool:
        """Whether the state, which goes up to `next_seq`, is to be saved now."""
        news = next_seq - self.seq
        if not news or self._snapshots is None or self._pieces is not None:
            return False
        if self._wait_ns:
            return mono_ns - self._failed_ns >= self._wait_ns
        return news >= RECORDS or mono_ns - self.begun_ns >= EVERY_NS

    def begin(self, next_seq: int, make: Callable[[], bytes], mono_ns: int) -> None:
        """Save the state, whose bytes `make` gives, piece by piece; call `go_on` at once."""
        assert self._snapshots is not None
        self._pieces = self._snapshots.saving(next_seq, make)
        self._wanted_seq = next_seq
        self.begun_ns = mono_ns

    def go_on(self, mono_ns: int) -> int | None:
        """Do a piece of what was begun; up to which seq a snapshot is complete now, if one is."""
        if self._pieces is None:
            return None
        try:
            next(self._pieces)
        except StopIteration as end:
            self._pieces = None
            self._saved(self._wanted_seq, end.value)
            return self.seq
        except FAILURES as error:
            self._pieces = None
            self._failed(self._wanted_seq, error, mono_ns)
        return None

    def save(self, next_seq: int, save: Callable[[], int], mono_ns: int) -> None:
        """Save the state at once, instead of what is under way. `save`: does so; its bytes."""
        self.stop()
        self.begun_ns = mono_ns
        try:
            self._saved(next_seq, save())
        except FAILURES as error:
            self._failed(next_seq, error, mono_ns)

    def stop(self) -> None:
        """Give up what is under way."""
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None

    def _saved(self, seq: int, size_bytes: int) -> None:
        self.seq, self.size_bytes = seq, size_bytes
        self._wait_ns = 0

    def _failed(self, seq: int, error: Exception, mono_ns: int) -> None:
        self.failures_count += 1
        self._failed_ns = mono_ns
        self._wait_ns = min(2 * self._wait_ns or AGAIN_NS, EVERY_NS)
        log.error(
            "snapshot_failed cell=%s seq=%d again_in_s=%d why=%r",
            *(self._cell, seq, self._wait_ns // _NS_PER_S, str(error)),
        )

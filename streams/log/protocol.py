"""What the rest of ganger may ask of a log, whatever it is kept in.

A log is a dense sequence of opaque byte records of one cell. It knows no schema. `LogReader` is
all that replay needs; `Log` adds the one writer.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable


class LogReader(Protocol):
    """Reads one log. May be used beside a live writer and sees acknowledged records only."""

    @property
    def cell(self) -> str:
        """Name of the cell whose records these are."""

    @property
    def fingerprint(self) -> bytes:
        """The schema ids in use, in the bytes that the creator gave."""

    @property
    def arguments(self) -> bytes:
        """A run's arguments as the creator gave them; empty where there are none."""

    @property
    def first_seq(self) -> int:
        """Seq of the oldest record kept; above 0 only where a ledger was cut."""

    def end(self) -> int:
        """Seq that the next record will get: one more than the last acknowledged."""

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield records in order, in the groups in which they are stored.

        What a call yields is bounded when it is made; a later call from where it ended goes on.

        Args:
            from_seq: first record wanted; by default the oldest kept.
            to_seq: one past the last record wanted; by default, and at most, `end()`.

        Yields:
            (seq of the first record, the records' bytes, at least one).

        Raises:
            ValueError: `from_seq` is below `first_seq`.
            LogCorrupt: what is stored does not check. Groups yielded before are intact.
        """


@runtime_checkable
class HashKeeper(Protocol):
    """A reader that works the record hash chain out as it reads, to check what is stored."""

    def chain_at(self, seq: int) -> bytes:
        """The record hash chain at `seq`, where a reading from the first record has ended."""


class Log(LogReader, Protocol):
    """The one writer of a log."""

    def append(self, payloads: Sequence[bytes]) -> int:
        """Store a group and return the seq of its first record, once it cannot be lost.

        A group is kept whole or not at all. An empty group changes nothing and returns `end()`.

        Raises:
            ValueError: the log is closed, or the group is larger than a log takes.
            LedgerFull: no room. Nothing was written; the log is read-only.
            LedgerFailed: the group may or may not be there. The process should stop.
        """

    def chain(self) -> bytes:
        """The record hash chain at `end()`: 32 bytes that stand for every record before."""

    def close(self) -> None:
        """Give up the log. Closing does not make anything safer and may be skipped."""

    def __enter__(self) -> Self:
        """Return the log itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the log."""

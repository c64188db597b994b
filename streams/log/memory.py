"""A log in memory: for simulations that keep nothing, and for tests."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ganger.streams.closing import Closing
from ganger.streams.log.layout import LogIdentity, extend_chain


class MemoryLog(Closing):
    """A log that ends with its process. Implements `Log`; every group is acknowledged at once."""

    def __init__(self, identity: LogIdentity) -> None:
        """Make an empty log."""
        self._identity = identity
        self._groups: list[list[bytes]] = []
        # First seq of each group, and last the seq that comes next.
        self._bounds = [0]
        # Worked out when asked for; most simulations never ask.
        self._chain = identity.seed()
        self._chain_seq = 0
        self._is_closed = False

    @property
    def identity(self) -> LogIdentity:
        """Stream, cell, fingerprint and arguments."""
        return self._identity

    @property
    def cell(self) -> str:
        """Name of the cell whose records these are."""
        return self._identity.cell

    @property
    def fingerprint(self) -> bytes:
        """The schema ids in use, in the bytes that the creator gave."""
        return self._identity.fingerprint

    @property
    def arguments(self) -> bytes:
        """A run's arguments as the creator gave them; empty where there are none."""
        return self._identity.arguments

    @property
    def first_seq(self) -> int:
        """Always 0: nothing is cut from a log in memory."""
        return 0

    def end(self) -> int:
        """Seq that the next record will get."""
        self._check_usable()
        return self._bounds[-1]

    def chain(self) -> bytes:
        """The record hash chain at `end()`. Cost: O(records since the last call)."""
        self._check_usable()
        for _, group in self._read(self._chain_seq, self._bounds[-1]):
            self._chain = extend_chain(self._chain, group)
        self._chain_seq = self._bounds[-1]
        return self._chain

    def append(self, payloads: Sequence[bytes]) -> int:
        """Keep a group and return the seq of its first record.

        Raises:
            ValueError: the log is closed.
        """
        self._check_usable()
        seq = self._bounds[-1]
        if payloads:
            self._groups.append(list(payloads))
            self._bounds.append(seq + len(payloads))
        return seq

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield records as `LogReader.read_groups` says."""
        self._check_usable()
        begin = 0 if from_seq is None else from_seq
        if begin < 0:
            raise ValueError(f"from_seq: {begin} is below 0, the oldest record. Read from there.")
        end = self._bounds[-1] if to_seq is None else min(to_seq, self._bounds[-1])
        return self._read(begin, end)

    def close(self) -> None:
        """Forget all records."""
        self._groups.clear()
        self._is_closed = True

    def _read(self, begin: int, end: int) -> Iterator[tuple[int, list[bytes]]]:
        index = bisect_right(self._bounds, begin) - 1
        while begin < end:
            first_seq = self._bounds[index]
            group = self._groups[index][begin - first_seq : end - first_seq]
            yield begin, group
            begin += len(group)
            index += 1

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ValueError("the log in memory is closed. Make a new one.")

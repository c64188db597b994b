"""Writing a run again over the logs it left: what stands there is compared, the rest appended.

A simulation is a function of its arguments, so an interrupted one goes on by being run again from
its beginning. Its records and decisions must come out byte for byte as recorded, up to where they
end.
"""

from collections.abc import Iterator, Sequence

from ganger.streams.closing import Closing
from ganger.streams.divergence import Divergence
from ganger.streams.log.protocol import Log
from ganger.streams.payloads import read_decision


class RetracedLog(Closing):
    """A log that seems empty and accepts what it holds. Implements `Log`."""

    def __init__(self, log: Log, *, holds_decisions: bool) -> None:
        """Begin at the log's first record. The log stays the caller's to close."""
        if log.first_seq:
            raise ValueError(f"first_seq: {log.first_seq}; a log that was cut cannot be retraced")
        self._log = log
        self._holds_decisions = holds_decisions
        self._groups = log.read_groups()
        self._recorded: list[bytes] = []  # read and not yet met
        self._position = 0
        self._recorded_end = log.end()

    @property
    def cell(self) -> str:
        """The log's cell."""
        return self._log.cell

    @property
    def fingerprint(self) -> bytes:
        """The log's fingerprint."""
        return self._log.fingerprint

    @property
    def arguments(self) -> bytes:
        """The log's arguments."""
        return self._log.arguments

    @property
    def first_seq(self) -> int:
        """Always 0."""
        return 0

    def end(self) -> int:
        """How far the log was retraced or written."""
        return self._position

    def chain(self) -> bytes:
        """The record hash chain at `end()`.

        Raises:
            ValueError: recorded payloads are still ahead; a log knows the chain of its end alone.
        """
        if self._position < self._log.end():
            raise ValueError(f"chain: retraced to {self._position} of {self._log.end()} only")
        return self._log.chain()

    def append(self, payloads: Sequence[bytes]) -> int:
        """Compare a group with what is recorded; append what goes beyond.

        Raises:
            Divergence: other bytes are recorded; names the seq.
        """
        first = self._position
        met = 0
        while met < len(payloads) and self._position < self._recorded_end:
            recorded = self._take(len(payloads) - met)
            computed = list(payloads[met : met + len(recorded)])
            if recorded != computed:
                raise self._divergence(recorded, computed)
            met += len(recorded)
            self._position += len(recorded)
        if met < len(payloads):
            self._log.append(payloads[met:])
            self._position += len(payloads) - met
        return first

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield what was retraced or written, as `LogReader.read_groups` says."""
        end = self._position if to_seq is None else min(to_seq, self._position)
        return self._log.read_groups(from_seq, end)

    def close(self) -> None:
        """Close nothing."""

    def _take(self, count_max: int) -> list[bytes]:
        if not self._recorded:
            _, self._recorded = next(self._groups)
        taken = self._recorded[:count_max]
        self._recorded = self._recorded[count_max:]  # the list itself is the log's
        return taken

    def _divergence(self, recorded: list[bytes], computed: list[bytes]) -> Divergence:
        index = next(i for i, payload in enumerate(recorded) if payload != computed[i])
        want, got = recorded[index], computed[index]
        seq = self._position + index
        if self._holds_decisions:
            seq = read_decision(seq, want).cause_seq
        return Divergence(seq, want, got, is_decision=self._holds_decisions)

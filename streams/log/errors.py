"""What can go wrong with a log, as types.

Every error says where (file, seq, byte), what, and what to do about it. None of them is raised
for a caller's mistake in arguments; those are `ValueError`.
"""

from pathlib import Path


class LogError(Exception):
    """Base of all errors of `ganger.streams.log`."""


class LogCorrupt(LogError):
    """A log does not verify. Nothing is repaired or skipped on the way to this error.

    Attributes:
        file: the file that does not check, or that is missing.
        seq: the first record that cannot be vouched for; every record below it is intact.
        offset: byte in `file` where the part begins that does not check.
        what: the check that failed, with the values that differ.
        remedy: what an operator can do.
    """

    _unit = "byte"

    def __init__(
        self, file: Path, seq: int, offset: int, what: str, remedy: str | None = None
    ) -> None:
        self.file = file
        self.seq = seq
        self.offset = offset
        self.what = what
        self.remedy = remedy or f"Restore {file.name} from a copy of the ledger; {_intact(seq)}."
        super().__init__(f"{file}: seq {seq}, {self._unit} {offset}: {what}. {self.remedy}")


def _intact(seq: int) -> str:
    """How much of a log is vouched for when `seq` is the first record that is not."""
    if seq == 0:
        return "no record of it can be vouched for as it is"
    return f"records below seq {seq} are intact"


class TornFrame(LogCorrupt):
    """The bytes at `offset` are no whole frame: cut short, zeroed or altered.

    Beyond the mark this is what a crash in the middle of a write leaves, and recovery cuts it.
    Up to the mark it is damage like any other.
    """


class PartitionCorrupt(LogCorrupt):
    """The same for a log in a partition of a topic.

    `file` is TOPIC/PARTITION and `offset` the offset of the Kafka record that does not check.
    """

    _unit = "offset"


class LogUnreachable(LogError):
    """A log on other machines did not answer. What it holds is unknown, nothing was changed.

    Attributes:
        place: the log, as TOPIC/PARTITION.
    """

    def __init__(self, place: str, what: str, remedy: str) -> None:
        self.place = place
        super().__init__(f"{place}: {what}. {remedy}")


class LedgerLost(LogError):
    """A log ends before a place that was acknowledged: whoever keeps it lost data.

    Attributes:
        known: records that were acknowledged once.
        end: records that there are.
    """

    def __init__(self, place: str, known: int, end: int, source: str) -> None:
        self.known = known
        self.end = end
        super().__init__(
            f"{place}: it ends at {end}, but {source} was made at {known}: {known - end} records "
            "that were acknowledged are gone. Restore the topic from a replica or a copy; to go on "
            "without them, delete that snapshot first"
        )


class NotALedger(LogError):
    """The place holds no ledger, or one whose creation was never finished."""

    def __init__(self, path: Path | str, what: str, remedy: str) -> None:
        self.path = path
        super().__init__(f"{path}: {what}. {remedy}")


class LedgerExists(LogError):
    """A ledger was to be created where there is one already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path}: holds a ledger already. Open it, or name an empty folder.")


class LedgerBusy(LogError):
    """Another process has the ledger open for writing.

    Attributes:
        pid: the process that holds the lock; None if it could not be read.
    """

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"{path}: {holder} has it open for writing, and a ledger has one writer. "
            "Stop that process, or open the ledger for reading."
        )


class LedgerFull(LogError):
    """The disk has no room. The group was not written, the log is read-only until `resume()`."""

    def __init__(self, file: Path, cause: str) -> None:
        self.file = file
        super().__init__(
            f"{file}: no room for another group ({cause}). Nothing that was acknowledged is lost "
            "and reading goes on. Free space, then resume the log."
        )


class LedgerFailed(LogError):
    """The operating system did not confirm a write, so the disk's content is unknown.

    It is never tried again: after a failed sync the kernel may have dropped the very pages that
    a second sync would then report as written. The process should stop; opening anew reads what
    is really there.
    """

    def __init__(self, file: Path, cause: str) -> None:
        self.file = file
        super().__init__(
            f"{file}: {cause}. The last group is not acknowledged. Stop this process, check the "
            "disk, and start again: recovery finds what was written."
        )


class PartitionFailed(LedgerFailed):
    """A broker did not acknowledge records: they may be in the partition or not."""

    def __init__(self, file: Path, cause: str) -> None:
        LogError.__init__(
            self,
            f"{file}: {cause}. The last group is not acknowledged. Stop this process, see to the "
            "brokers, and start again: recovery finds what was written.",
        )

"""A ledger copied between directories and Kafka, record by record: the chains stay what they were.

The records come first, then the decisions that they caused; what a live cell adds meanwhile is
left out. At the end both streams of the copy are read again and their chains compared.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from ganger.replay.reader import LedgerCut, Streams
from ganger.schemas.decision_ids import decision_head
from ganger.streams.kafka.cluster.cells import place_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.log.ledger import KafkaStreams
from ganger.streams.kafka.log.logs import DecisionLog, LedgerLog
from ganger.streams.kafka.wire.publisher import Publisher
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import LogError
from ganger.streams.log.layout import LogIdentity, Stream, extend_chain
from ganger.streams.log.protocol import Log, LogReader
from ganger.streams.payloads import UNREADABLE, DecisionUnreadable

GROUP_RECORDS = 4096
"""Records that are written together, at least where there are so many."""

_LAST_GROUP_MAX = 1 << 16

Progress = Callable[[int], None]
"""Told how many records and decisions were worked through since it was last called."""


class CopyRefused(Exception):
    """A copy that cannot be begun there, or not gone on with. The target is as it was."""

    def __init__(self, target: str, what: str, remedy: str) -> None:
        super().__init__(f"{target}: {what}. {remedy}")


class CopyDiffers(LogError):
    """What was written is not what is read back."""

    def __init__(self, target: str, stream: str, wanted: bytes, found: bytes) -> None:
        super().__init__(
            f"{target}: the chain of its {stream} is {found.hex()}, the source's is "
            f"{wanted.hex()}. Do not use the copy: delete it, check the source with `ganger "
            "verify`, and copy again."
        )


class Copied(Struct, frozen=True):
    """What a copy came to. The chains are those of the two streams, of source and copy alike."""

    cell: str
    records: int
    decisions: int
    record_chain: bytes
    decision_chain: bytes


class Extent(Struct, frozen=True):
    """How much of a source is copied: what it holds when the copy begins.

    Attributes:
        records: their number.
        decisions: their number, those of later records left out.
        settled_seq: cause of the newest of them; what later records cause may not be published yet.
    """

    records: int
    decisions: int
    settled_seq: int


def extent_of(source: Streams) -> Extent:
    """What a source holds now; decisions of records that come later are left out.

    Raises:
        LedgerCut: it does not begin at seq 0, so a copy would have other seqs.
        DecisionUnreadable: a decision is none.
        LogError: it cannot be read.
    """
    ledger, decisions = source.ledger, source.decisions
    if ledger.first_seq != 0:
        raise LedgerCut(ledger.first_seq)
    records = ledger.end()
    count = decisions.end()
    # From the end: a live cell is ahead by a few.
    while count:
        begin = max(0, count - GROUP_RECORDS)
        tail = [p for _, group in decisions.read_groups(begin, count) for p in group]
        causes = [_cause(position, payload) for position, payload in enumerate(tail, begin)]
        kept = [cause for cause in causes if cause < records]
        if kept:
            return Extent(records, begin + len(kept), kept[-1])
        count = begin
    return Extent(records, 0, 0)


def _cause(position: int, payload: bytes) -> int:
    try:
        return decision_head(payload).cause_seq
    except UNREADABLE as error:
        raise DecisionUnreadable(position, error) from error


def copy_to_directory(source: Streams, extent: Extent, path: Path, on_progress: Progress) -> Copied:
    """Copy a ledger into a directory that does not exist yet.

    Raises:
        CopyRefused: there is something.
        LogError: the source does not check, or the target cannot be written.
        CopyDiffers: the copy is not equal.
    """
    if path.exists():
        raise CopyRefused(
            str(path),
            "this exists already",
            "Name a directory that does not; if it is a copy that was cut off, delete it first.",
        )
    ledger = source.ledger
    with LedgerDirectory.create(
        path, ledger.cell, arguments=ledger.arguments, fingerprint=ledger.fingerprint
    ) as directory:
        chains = _copy(source, extent, directory.ledger, directory.decisions, on_progress)
    return _compared(str(path), extent, chains, LedgerDirectory.open_reader(path), on_progress)


def copy_to_kafka(
    source: Streams,
    extent: Extent,
    settings: KafkaSettings,
    on_progress: Progress,
    *,
    resumes: bool = False,
) -> Copied:
    """Copy a ledger to Kafka, into the empty partition of its cell, which is placed if it is not.

    Args:
        source: the ledger.
        extent: of the source.
        settings: the Kafka.
        on_progress: told what was worked through.
        resumes: go on with a copy that was cut off; what is there is compared with the source.

    Raises:
        CopyRefused: the partition holds something else, or something and `resumes` is not set.
        CellElsewhere: the cell is placed for another ledger.
        KafkaFailed: it cannot be placed.
        LogError: the source does not check, or the target cannot be written.
        CopyDiffers: the copy is not equal.
    """
    ledger = source.ledger
    placement = place_cell(
        settings, ledger.cell, fingerprint=ledger.fingerprint, arguments=ledger.arguments
    )
    target = f"{settings.bootstrap}, cell {ledger.cell}, partition {placement.partition}"
    with ExitStack() as stack:
        publisher = Publisher(settings, name="ganger-copy", on_failure=lambda _: None)
        ledger_log = stack.enter_context(LedgerLog(settings, placement, publisher))
        decision_log = stack.enter_context(DecisionLog(settings, placement, publisher))
        if not resumes:
            _check_empty(target, ledger_log, decision_log)
        chains = _copy(source, extent, ledger_log, decision_log, on_progress, target)
    with _closing(KafkaStreams(settings, placement)) as streams:
        return _compared(target, extent, chains, streams, on_progress)


def _check_empty(target: str, ledger: LedgerLog, decisions: DecisionLog) -> None:
    for log, name in ((ledger, "records"), (decisions, "decisions")):
        low, high = log.partition.watermarks()
        if high:
            there = f"{high - low:,} {name}" if high > low else f"no {name}, but has had {high:,}"
            raise CopyRefused(
                target,
                f"it is not empty: it holds {there}",
                "If a copy was cut off there, call again with --resume. Else copy to a Kafka that "
                "does not have this cell: a partition cannot be emptied so that it begins at 0.",
            )


def _copy(
    source: Streams,
    extent: Extent,
    ledger: Log,
    decisions: Log,
    on_progress: Progress,
    target: str = "",
) -> tuple[bytes, bytes]:
    """Copy both streams; their chains."""
    # In a directory only the last group's decisions may be missing, so that group begins where the
    # source's are complete.
    last_from = max(extent.settled_seq, extent.records - _LAST_GROUP_MAX)
    groups = _grouped(source.ledger, extent.records, last_from)
    chain = _copy_log(
        source.ledger, groups, extent.records, ledger, Stream.LEDGER, on_progress, target
    )
    end, stream = extent.decisions, Stream.DECISIONS
    groups = _grouped(source.decisions, end, end)
    return chain, _copy_log(source.decisions, groups, end, decisions, stream, on_progress, target)


def _copy_log(
    source: LogReader,
    groups: Iterator[tuple[int, list[bytes]]],
    end: int,
    target: Log,
    stream: Stream,
    on_progress: Progress,
    name: str,
) -> bytes:
    """Write what the target lacks of a stream; its chain."""
    chain = _seed(source, stream)
    there = target.end()
    if there > end:
        raise CopyRefused(
            name,
            f"it holds {there:,} {stream.folder} entries, the source {end:,}",
            "It is no part of a copy of this ledger; copy to a Kafka that does not have this cell.",
        )
    known = (payload for _, group in target.read_groups(0, there) for payload in group)
    for first, group in groups:
        chain = extend_chain(chain, group)
        held = min(max(there - first, 0), len(group))
        for seq, payload in enumerate(group[:held], first):
            if next(known, None) != payload:
                raise CopyRefused(
                    name,
                    f"what it holds differs from the source at {stream.folder} {seq:,}",
                    "It is no part of a copy of this ledger.",
                )
        if held < len(group):
            try:
                target.append(group[held:])
            except UNREADABLE as error:  # on Kafka a decision is told by its id
                raise DecisionUnreadable(first + held, error) from error
        on_progress(len(group))
    return chain


def _grouped(source: LogReader, end: int, last_from: int) -> Iterator[tuple[int, list[bytes]]]:
    """The records before `end` in groups fit for writing; those from `last_from` on are one."""
    waiting: list[bytes] = []
    begin = 0
    for part_end in (last_from, end):
        for _, group in source.read_groups(begin, part_end):
            waiting += group
            if part_end == last_from and len(waiting) >= GROUP_RECORDS:
                yield begin, waiting
                begin += len(waiting)
                waiting = []
        if waiting:
            yield begin, waiting
            begin += len(waiting)
            waiting = []


def _compared(
    target: str,
    extent: Extent,
    wanted: tuple[bytes, bytes],
    copy: Streams,
    on_progress: Progress,
) -> Copied:
    """What the copy came to, once its chains were found to be equal."""
    for log, stream, end, chain in (
        (copy.ledger, Stream.LEDGER, extent.records, wanted[0]),
        (copy.decisions, Stream.DECISIONS, extent.decisions, wanted[1]),
    ):
        found = _seed(log, stream)
        for _, group in log.read_groups(0, end):
            found = extend_chain(found, group)
            on_progress(len(group))
        if found != chain or log.end() != end:
            raise CopyDiffers(target, stream.folder, chain, found)
    return Copied(copy.ledger.cell, extent.records, extent.decisions, *wanted)


def _seed(log: LogReader, stream: Stream) -> bytes:
    return LogIdentity(stream, log.cell, log.fingerprint, log.arguments).seed()


@contextmanager
def _closing(streams: KafkaStreams) -> Iterator[KafkaStreams]:
    try:
        yield streams
    finally:
        streams.close()

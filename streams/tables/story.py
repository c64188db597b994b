"""The story index: from the id of a job or a node to the records and decisions that touch it.

Keys: `i`, kind of id, its length and bytes, first seq of the stretch that was indexed at once; the
value lists seqs of records and positions of decisions. The row `w` says how far both streams are
indexed and keeps hashes of the last ones, so that an index is never continued over another ledger.

What touches an id: a record or decision that names it in a field of its own. Lists of attempts in
reports do not count: they repeat what `PodStarted` and the decisions say.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import IntEnum
from hashlib import sha256

from msgspec import Struct, msgpack

from ganger.schemas.decisions import Decision
from ganger.schemas.records import RECORD_TYPES, Record
from ganger.streams.log.protocol import LogReader
from ganger.streams.payloads import read_decision, read_record
from ganger.streams.tables.store import Item, Store

STRETCH_COUNT_MAX = 1 << 16
"""Records, or decisions, that are indexed before a batch is written: bounds memory."""

_PREFIX = b"i"
_WATERMARK_KEY = b"w"
_HEAD = struct.Struct(">cBI")
_SEQ = struct.Struct(">Q")


_ID_FIELDS = {
    kind: tuple(
        field
        for field in kind.__struct_fields__
        if field in ("job", "node", "nodes", "report", "reports")
    )
    for kind in RECORD_TYPES
}


class IdKind(IntEnum):
    """What an id names."""

    JOB = 1
    NODE = 2


class Touches(Struct, frozen=True):
    """Where an id occurs, ascending: seqs of records, positions in the decisions stream."""

    records: list[int]
    decisions: list[int]


class _Watermark(Struct, frozen=True):
    """How far both streams are indexed, with the hash of the last one of each."""

    seq: int = 0
    position: int = 0
    record: bytes = b""
    decision: bytes = b""


def record_ids(record: Record) -> list[tuple[IdKind, str]]:
    """Ids that a record touches, each once."""
    found: list[tuple[IdKind, str]] = []
    for field in _ID_FIELDS[type(record)]:
        value = getattr(record, field)
        if field == "job":
            found.append((IdKind.JOB, value))
        elif field == "node":
            found.append((IdKind.NODE, value))
        elif field == "report":
            found.append((IdKind.NODE, value.node))
        else:
            names = value if field == "nodes" else [report.node for report in value]
            found += [(IdKind.NODE, name) for name in dict.fromkeys(names)]
    return found


def decision_ids(decision: Decision) -> list[tuple[IdKind, str]]:
    """Ids that a decision touches, each once."""
    found = []
    if decision.job:
        found.append((IdKind.JOB, decision.job))
    if decision.for_job and decision.for_job != decision.job:
        found.append((IdKind.JOB, decision.for_job))
    if decision.node:
        found.append((IdKind.NODE, decision.node))
    return found


class StoryIndex:
    """The story index of one ledger."""

    def __init__(self, store: Store) -> None:
        """Use the index in an open store; it stays the caller's to close."""
        self._store = store

    def catch_up(
        self,
        ledger: LogReader,
        decisions: LogReader,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Index what was added since the last time; all, if the ledger is not the one indexed.

        Args:
            ledger: records.
            decisions: decisions.
            on_progress: told how many records and decisions were read since the last call of it.

        Raises:
            LogCorrupt: a stream does not check.
            PayloadUnreadable: a record or a decision is none.
        """
        mark = self._watermark()
        if not (
            _is_last(ledger, mark.seq, mark.record)
            and _is_last(decisions, mark.position, mark.decision)
        ):
            self._store.clear("the story index is of another ledger")
            mark = _Watermark()
        told = on_progress or _tell_nobody
        for seq, payloads in _stretches(ledger, max(mark.seq, ledger.first_seq)):
            touched: dict[tuple[IdKind, str], list[int]] = defaultdict(list)
            for place, payload in enumerate(payloads, seq):
                for key in record_ids(read_record(place, payload)):
                    touched[key].append(place)
            mark = _Watermark(
                seq + len(payloads), mark.position, sha256(payloads[-1]).digest(), mark.decision
            )
            self._write(b"r", seq, touched, mark)
            told(len(payloads))
        for position, payloads in _stretches(decisions, max(mark.position, decisions.first_seq)):
            touched = defaultdict(list)
            for place, payload in enumerate(payloads, position):
                for key in decision_ids(read_decision(place, payload)):
                    touched[key].append(place)
            mark = _Watermark(
                mark.seq, position + len(payloads), mark.record, sha256(payloads[-1]).digest()
            )
            self._write(b"d", position, touched, mark)
            told(len(payloads))
        self._store.seal()

    def touches(self, kind: IdKind, name: str) -> Touches:
        """Where an id occurs in what is indexed; both lists are empty for an unknown one."""
        prefix = _id_key(kind, name)
        found = Touches([], [])
        with self._store.scan(prefix) as rows:
            for key, value in rows:
                is_record = key[len(prefix) : len(prefix) + 1] == b"r"
                places = found.records if is_record else found.decisions
                places += msgpack.decode(value, type=list[int])
        return found

    def ids(self, kind: IdKind) -> list[str]:
        """All ids of a kind, by length and then by name."""
        found: dict[str, None] = {}
        head = _HEAD.size
        with self._store.scan(_PREFIX + bytes((kind,))) as rows:
            for key, _ in rows:
                _, _, size = _HEAD.unpack_from(key)
                found[key[head : head + size].decode()] = None
        return list(found)

    def _watermark(self) -> _Watermark:
        raw = self._store.get(_WATERMARK_KEY)
        return _Watermark() if raw is None else msgpack.decode(raw, type=_Watermark)

    def _write(
        self,
        stream: bytes,
        start: int,
        touched: dict[tuple[IdKind, str], list[int]],
        mark: _Watermark,
    ) -> None:
        items: list[Item] = [
            (_id_key(kind, name) + stream + _SEQ.pack(start), msgpack.encode(places))
            for (kind, name), places in touched.items()
        ]
        items.append((_WATERMARK_KEY, msgpack.encode(mark)))
        self._store.write(mark.seq, items)


def _id_key(kind: IdKind, name: str) -> bytes:
    raw = name.encode()
    return _HEAD.pack(_PREFIX, kind, len(raw)) + raw


def _is_last(log: LogReader, end: int, digest: bytes) -> bool:
    """Whether the record before `end` is still the one with this hash."""
    if end == 0:
        return True
    if not log.first_seq < end <= log.end():
        return False
    return any(
        sha256(payloads[-1]).digest() == digest for _, payloads in log.read_groups(end - 1, end)
    )


def _stretches(log: LogReader, start: int) -> Iterator[tuple[int, list[bytes]]]:
    """What a log holds from `start` on, in pieces that fit in memory."""
    batch: list[bytes] = []
    for seq, payloads in log.read_groups(start):
        if not batch:
            start = seq
        batch += payloads
        if len(batch) >= STRETCH_COUNT_MAX:
            yield start, batch
            batch = []
    if batch:
        yield start, batch


def _tell_nobody(count: int) -> None:
    """Progress that nobody asked for."""

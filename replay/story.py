"""Records and decisions in the order in which they happened, for all or for one job or node.

With the story index only the places that touch an id are read; without it the streams are searched,
which gives the same entries.
"""

from collections.abc import Iterator

from msgspec import Struct

from ganger.replay.reader import Progress, Streams, tell_nobody
from ganger.schemas.decisions import Decision
from ganger.schemas.records import Record
from ganger.streams.log.protocol import LogReader
from ganger.streams.payloads import read_decision, read_record
from ganger.streams.tables.story import IdKind, StoryIndex, decision_ids, record_ids

SKIP_COUNT_MAX = 20_000
"""A gap up to this is read over; at a wider one reading starts anew behind it."""


class Entry(Struct, frozen=True):
    """A record at its seq, or a decision at its cause's seq, with the record that caused it."""

    seq: int
    event: Record | Decision
    cause: Record | None = None

    @property
    def kind(self) -> str:
        """The record's type or the decision's kind, as a name."""
        event = self.event
        return event.kind.name if isinstance(event, Decision) else type(event).__name__

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among all entries of its ledger: seq, and -1 or a decision's index."""
        return self.seq, self.event.index if isinstance(self.event, Decision) else -1


def entries(streams: Streams, from_seq: int, to_seq: int, with_decisions: bool) -> Iterator[Entry]:
    """All records from `from_seq` to before `to_seq`, each followed by the decisions it caused.

    Raises:
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record has no known schema.
    """
    found = _decisions(streams.decisions) if with_decisions else iter(())
    decision = next(found, None)
    while decision is not None and decision.cause_seq < from_seq:
        decision = next(found, None)
    for first_seq, payloads in streams.ledger.read_groups(from_seq, to_seq):
        for seq, payload in enumerate(payloads, first_seq):
            record = read_record(seq, payload)
            yield Entry(seq, record)
            while decision is not None and decision.cause_seq == seq:
                yield Entry(seq, decision, record)
                decision = next(found, None)


def story(
    streams: Streams,
    kind: IdKind,
    name: str,
    to_seq: int,
    index: StoryIndex | None = None,
    on_progress: Progress = tell_nobody,
) -> list[Entry]:
    """Everything that touches one job or node, in order; records stand before their decisions.

    Args:
        streams: the ledger.
        kind: what `name` names.
        name: a job's key or a node's name.
        to_seq: first record that does not count.
        index: brought up to date first; without, both streams are searched.
        on_progress: told how many records and decisions were worked through.

    Raises:
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record has no known schema.
    """
    key = (kind, name)
    if index is None:
        raw = name.encode()
        records = _search(streams.ledger, raw, on_progress)
        decisions = _search(streams.decisions, raw, on_progress)
    else:
        index.catch_up(streams.ledger, streams.decisions, on_progress)
        touches = index.touches(kind, name)
        records = pick(streams.ledger, touches.records)
        decisions = pick(streams.decisions, touches.decisions)
    touching = {seq: read_record(seq, payload) for seq, payload in records}
    said = [read_decision(position, payload) for position, payload in decisions]
    said = [d for d in said if d.cause_seq < to_seq and key in decision_ids(d)]
    causes = dict(touching)
    for seq, payload in pick(streams.ledger, _missing(said, causes)):
        causes[seq] = read_record(seq, payload)
    found = [
        Entry(seq, record)
        for seq, record in touching.items()
        if seq < to_seq and key in record_ids(record)
    ]
    found += [Entry(d.cause_seq, d, causes[d.cause_seq]) for d in said]
    found.sort(key=lambda entry: entry.place)
    return found


def known_ids(streams: Streams, kind: IdKind, index: StoryIndex | None = None) -> list[str]:
    """All ids of a kind that the ledger's records name. O(records) without an index."""
    if index is not None:
        return index.ids(kind)
    found: dict[str, None] = {}
    for first_seq, payloads in streams.ledger.read_groups():
        for seq, payload in enumerate(payloads, first_seq):
            for id_kind, name in record_ids(read_record(seq, payload)):
                if id_kind is kind:
                    found[name] = None
    return list(found)


def _decisions(log: LogReader) -> Iterator[Decision]:
    for first, payloads in log.read_groups():
        for position, payload in enumerate(payloads, first):
            yield read_decision(position, payload)


def _missing(decisions: list[Decision], known: dict[int, Record]) -> list[int]:
    """Causes of decisions that are not known yet, ascending."""
    return sorted({decision.cause_seq for decision in decisions} - set(known))


def _search(log: LogReader, raw: bytes, on_progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Payloads that may name an id: its bytes occur in them."""
    for first_seq, payloads in log.read_groups():
        for seq, payload in enumerate(payloads, first_seq):
            if raw in payload:
                yield seq, payload
        on_progress(len(payloads))


def pick(log: LogReader, places: list[int]) -> Iterator[tuple[int, bytes]]:
    """Payloads at ascending places with these, read with as few starts as pay off.

    Raises:
        LogCorrupt: what is stored does not check.
    """
    runs: list[list[int]] = []
    for place in places:
        if runs and place - runs[-1][-1] <= SKIP_COUNT_MAX:
            runs[-1].append(place)
        else:
            runs.append([place])
    for run in runs:
        wanted = set(run)
        for first_seq, payloads in log.read_groups(run[0], run[-1] + 1):
            for seq, payload in enumerate(payloads, first_seq):
                if seq in wanted:
                    yield seq, payload

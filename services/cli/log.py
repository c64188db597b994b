"""`ganger log`: what went into a ledger and what came out of it, readable."""

from pathlib import Path
from typing import Any

import click
import msgspec

from ganger.replay.story import Entry, entries, known_ids, story
from ganger.replay.traces.source import InputError
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.records import RECORD_TYPES, Record
from ganger.services.cli.arguments import (
    ask,
    clock,
    json_option,
    kafka_config_option,
    ledger_argument,
    unknown,
)
from ganger.services.cli.events import decision_text, plain, plain_decision, record_text
from ganger.services.cli.render import echo_lines, folded, terminal_columns
from ganger.services.cli.stories import indexing
from ganger.services.cli.units import Clock
from ganger.services.ledgers import OpenLedger, open_ledger
from ganger.streams.tables.store import Store
from ganger.streams.tables.story import IdKind, StoryIndex

_INDENT = 12
"""Of the further lines of a long one: behind the seq."""

_RECORD_KINDS = {kind.__name__.lower(): kind.__name__ for kind in RECORD_TYPES}
_DECISION_KINDS = {kind.name.lower(): kind.name for kind in DecisionKind}


@click.command()
@ledger_argument
@click.option("--job", metavar="ID", help="Only what touches this job.")
@click.option("--node", metavar="ID", help="Only what touches this node.")
@click.option("--kind", metavar="KIND", help="Only this kind, as Tick or EVICT.")
@click.option("--from", "from_seq", type=click.IntRange(min=0), help="First seq; default 0.")
@click.option("--to", "to_seq", type=click.IntRange(min=0), help="Last seq, at or behind --from.")
@click.option(
    "--decisions", "with_decisions", is_flag=True, help="Decisions too, behind what caused them."
)
@kafka_config_option
@json_option
def log(
    ledger: str,
    job: str | None,
    node: str | None,
    kind: str | None,
    from_seq: int | None,
    to_seq: int | None,
    with_decisions: bool,
    kafka_config: Path | None,
    as_json: bool,
) -> None:
    """Print the records of LEDGER, one a line: seq, time, kind and what it says.

    LEDGER is a directory or kafka://HOST:PORT/CELL.

    With --decisions, or a --kind that is one of decisions, decisions have lines of their own, set
    off by an arrow: seq and time are those of the record that caused them, which is named at the
    end of the line. It has a line too, before them, unless --job, --node or --kind leaves it out.
    JSON is one object a line; its `seq` is the record's own, in decisions that of their cause.
    """
    if from_seq is not None and to_seq is not None and from_seq > to_seq:
        raise InputError("--from", f"{from_seq} is after --to {to_seq}", "give --from up to --to")
    wanted = None if kind is None else _kind(kind)
    with_decisions |= wanted in _DECISION_KINDS.values()
    with open_ledger(ledger, kafka_config) as streams:
        end = streams.ledger.end()
        begin = streams.ledger.first_seq if from_seq is None else from_seq
        stop = end if to_seq is None else min(to_seq + 1, end)
        if begin >= end:
            last = f"with seq {end - 1:,}" if end else "before its first record"
            click.echo(f"Note: --from {begin:,}: the ledger ends {last}.", err=True)
        if job is None and node is None:
            found = entries(streams, begin, stop, with_decisions)
        else:
            found = iter(ask(streams, lambda store: _story(streams, job, node, stop, store)))
        shown, columns = clock(streams.ledger), terminal_columns()
        echo_lines(
            msgspec.json.encode(_plain_entry(entry))
            if as_json
            else folded(_line(entry, shown), columns, _INDENT)
            for entry in found
            if entry.seq >= begin
            and (wanted is None or entry.kind == wanted)
            and (with_decisions or not isinstance(entry.event, Decision))
        )


def _kind(text: str) -> str:
    """The name of a kind of record or decision, however its letters are written."""
    found = _RECORD_KINDS.get(text.lower()) or _DECISION_KINDS.get(text.lower())
    if found is None:
        raise InputError(
            "--kind",
            f"the value is {text!r}",
            f"give one of {', '.join([*_RECORD_KINDS.values(), *_DECISION_KINDS.values()])}",
        )
    return found


def _story(
    streams: OpenLedger, job: str | None, node: str | None, stop: int, store: Store | None
) -> list[Entry]:
    """What touches the job, the node, or both if both are given."""
    index = None if store is None else StoryIndex(store)
    parts = []
    with indexing(streams, index) as advance:
        for option, kind, name in (("--job", IdKind.JOB, job), ("--node", IdKind.NODE, node)):
            if name is not None:
                part = story(streams, kind, name, streams.ledger.end(), index, advance)
                if not part:
                    raise unknown(option, name, known_ids(streams, kind, index))
                parts.append(part)
    both = parts[0]
    if len(parts) > 1:
        places = {entry.place for entry in parts[1]}
        both = [entry for entry in both if entry.place in places]
    return [entry for entry in both if entry.seq < stop]


def _plain_entry(entry: Entry) -> dict[str, Any]:
    """A record or decision for JSON; `seq` is the record's own or the cause's."""
    event = entry.event
    if isinstance(event, Decision):
        return {"stream": "decisions", "seq": entry.seq, **plain_decision(event)}
    return {"stream": "ledger", "seq": entry.seq, "kind": entry.kind, **plain(event)}


def _line(entry: Entry, clock: Clock) -> str:
    """A record or decision in one line: seq, time, and what it is.

    Decisions are set off by an arrow; their seq is that of the record that caused them, which is
    named at their end.
    """
    event = entry.event
    head = f"{entry.seq:>10}  {clock.text(event.time_ns):<{clock.columns}}  "
    if isinstance(event, Decision):
        cause = f" (by {_subject(entry.cause)})" if entry.cause is not None else ""
        return f"{head}-> {event.kind.name} {decision_text(event, entry.cause)}".rstrip() + cause
    return f"{head}{entry.kind} {record_text(event, clock)}".rstrip()


def _subject(record: Record) -> str:
    """A record's kind, with the job, node, reservation or queue that it is about."""
    named = (getattr(record, field, "") for field in ("job", "node", "reservation", "queue"))
    return f"{type(record).__name__} {next((name for name in named if name), '')}".rstrip()

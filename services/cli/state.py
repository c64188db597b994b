"""`ganger state`: the tables of a cell at any point of its past."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from ganger.replay.history import Place, Point, state_at
from ganger.schemas.rows import CardRow, JobRow, NodeRow, QueueRow, Row
from ganger.services.cli.arguments import (
    ask,
    at_option,
    clock,
    json_option,
    kafka_config_option,
    ledger_argument,
    place_of,
)
from ganger.services.cli.render import echo_columns, folded, progress, terminal_columns
from ganger.services.cli.units import Clock, limit_text, memory_text, milli_text
from ganger.services.ledgers import OpenLedger, open_ledger
from ganger.streams.kernel.entities import ENDED
from ganger.streams.tables.projection import Moment, Projection
from ganger.streams.tables.rows import TABLES
from ganger.streams.tables.snapshots import Snapshots
from ganger.streams.tables.store import Store

Tables = dict[str, list[Row]]


@click.command()
@ledger_argument
@click.argument("table", required=False, type=click.Choice(list(TABLES)))
@at_option
@kafka_config_option
@json_option
def state(
    ledger: str, table: str | None, point: Point, kafka_config: Path | None, as_json: bool
) -> None:
    """Print tables of LEDGER as they are, or as they were at a point of the past.

    LEDGER is a directory or kafka://HOST:PORT/CELL.

    Without a table: an overview, or with --json all tables. Jobs that have ended are in them until
    their time to live is over (ttl_ns of the job or the policy); --at shows any as it was before.
    """
    names = [table] if table else list(TABLES)
    with open_ledger(ledger, kafka_config) as streams:
        shown = clock(streams.ledger)
        place = place_of(streams.ledger, point, shown)
        is_newest = point is None
        moment, tables = ask(
            streams, lambda store: _tables(streams, place, store, names, is_newest)
        )
        cell = streams.ledger.cell
    if as_json:
        head = {"cell": cell, "seq": moment.seq - 1, "time_ns": moment.clock_ns}
        click.echo(msgspec.json.encode({**head, **tables}))
        return
    columns = terminal_columns()
    head_line = f"cell {cell} after seq {moment.seq - 1:,}"
    click.echo(folded(f"{head_line}, {shown.text(moment.clock_ns)}", columns, 2))
    if table is None:
        _echo_overview(tables)
    else:
        header, rows = _COLUMNS[table](tables[table], shown)
        echo_columns(header, rows, _EXPENDABLE[table], columns)
    if table in (None, "jobs"):
        click.echo(
            "Note: ended jobs are forgotten when their time to live is over (ttl_ns of the job or "
            "the policy); `--at TIME` or `--at SEQ` shows them as they were.",
            err=True,
        )


def _tables(
    streams: OpenLedger, place: Place, store: Store | None, names: list[str], is_newest: bool
) -> tuple[Moment, Tables]:
    """Rows at a place: those kept in the store if they are of that moment, else made anew.

    Rows of the newest moment are kept.
    """
    next_seq = place.next_seq
    if store is not None:
        projection = Projection(store)
        moment = projection.moment()
        if moment is not None and moment.seq == next_seq:
            return moment, {name: list(projection.rows(name)) for name in names}
    with progress("replaying", next_seq, is_plain=True) as advance:
        snapshots = None if store is None else Snapshots(store)
        found = state_at(streams, next_seq, snapshots, advance)
    if store is not None and is_newest:
        Projection(store).replace(found)
    tables = {name: list(TABLES[name][1](found)) for name in names}
    return Moment(found.next_seq, found.clock_ns), tables


def _echo_overview(tables: Tables) -> None:
    nodes, cards, jobs = (cast(list[Any], tables[name]) for name in ("nodes", "cards", "jobs"))
    states = Counter(node.state for node in nodes)
    phases = Counter(job.phase.lower() for job in jobs)
    busy = sum(bool(card.owners) for card in cards)
    failed = sum(card.health != "HEALTHY" for card in cards)
    click.echo(f"nodes   {len(nodes):,}: {_counts(states)}")
    click.echo(f"cards   {len(cards):,}: {busy:,} with work, {failed:,} not healthy")
    click.echo(f"queues  {len(tables['queues']):,}")
    click.echo(f"jobs    {len(jobs):,}: {_counts(phases)}")


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common()) or "none"


Columns = tuple[list[str], list[list[str | int]]]


def _cards(rows: list[Row], _: Clock) -> Columns:
    header = ["node", "card", "model", "memory", "island", "health", "free", "owners"]
    return header, [
        [
            r.node,
            r.card,
            r.model,
            memory_text(r.memory_mib),
            r.island,
            r.health.lower(),
            milli_text(r.free_milli),
            _owners(r),
        ]
        for r in cast(list[CardRow], rows)
    ]


def _owners(row: CardRow) -> str:
    """Attempts as JOB/POD.ATTEMPT, with what they hold of the card where that is not all."""
    return " ".join(
        f"{o.job}/{o.pod}.{o.attempt}"
        + (f":{milli_text(o.card_milli)}" if o.card_milli != 1000 else "")
        for o in row.owners
    )


def _nodes(rows: list[Row], _: Clock) -> Columns:
    header = "node state cards healthy free pods cores_free memory_free".split()
    return header, [
        [
            r.node,
            r.state,
            r.card_count,
            r.card_healthy_count,
            milli_text(r.card_free_count * 1000 + r.shared_free_milli),
            r.pod_count,
            milli_text(r.cpu_free_milli),
            memory_text(r.memory_free_mib),
        ]
        for r in cast(list[NodeRow], rows)
    ]


def _queues(rows: list[Row], _: Clock) -> Columns:
    header = "queue parent state weight jobs used deserved guarantee capability waiting".split()
    return header, [
        [
            r.queue,
            r.parent or "-",
            r.state.lower(),
            r.weight,
            r.job_count,
            limit_text(r.used_cards_milli),
            limit_text(r.deserved_cards_milli),
            limit_text(r.guarantee_cards_milli),
            limit_text(r.capability_cards_milli),
            limit_text(r.waiting_cards_milli),
        ]
        for r in cast(list[QueueRow], rows)
    ]


def _jobs(rows: list[Row], shown: Clock) -> Columns:
    counts = ["pods", "pending", "running", "cards"]
    times = ["submitted", "started", "ended"]
    return ["job", "queue", "user", "phase", "priority", *counts, *times, "reason"], [
        [
            r.job,
            r.queue,
            r.user or "-",
            r.phase.lower() + (" (held)" if r.is_held else ""),
            r.priority,
            r.pod_count,
            r.pod_pending_count,
            r.pod_running_count,
            milli_text(r.held_cards_milli),
            shown.text(r.submitted_ns),
            shown.text(r.started_ns) if _has_started(r) else "-",
            shown.text(r.ended_ns) if r.phase in _ENDED else "-",
            "-" if r.reason == "UNKNOWN" else r.reason.lower(),
        ]
        for r in cast(list[JobRow], rows)
    ]


def _has_started(row: JobRow) -> bool:
    """A start at time 0 is told from none by the pods that there are."""
    return bool(row.started_ns or row.pod_running_count or row.pod_succeeded_count)


_ENDED = [phase.name for phase in ENDED]

_COLUMNS = {"cards": _cards, "nodes": _nodes, "queues": _queues, "jobs": _jobs}

_EXPENDABLE = {
    "cards": ["island", "memory", "model"],
    "nodes": ["memory_free", "cores_free", "healthy", "pods"],
    "queues": ["parent", "guarantee", "weight", "state", "capability"],
    "jobs": ["user", "priority", "ended", "pending", "running", "started", "reason", "pods"],
}
"""Columns that are left out where the terminal is too narrow, the first to go first."""

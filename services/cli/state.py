"""`ganger state`: the tables of a cell at any point of its past."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from ganger.replay.history import Point, resolve, state_at
from ganger.services.cli.arguments import ask, at_option, json_option, ledger_argument
from ganger.services.cli.render import cards_text, echo_columns, progress, time_text
from ganger.streams.log.directory import LedgerDirectory, LedgerReaders
from ganger.streams.tables.projection import Moment, Projection
from ganger.streams.tables.rows import TABLES, CardRow, JobRow, NodeRow, QueueRow, Row
from ganger.streams.tables.snapshots import Snapshots
from ganger.streams.tables.store import Store

Tables = dict[str, list[Row]]


@click.command()
@ledger_argument
@click.argument("table", required=False, type=click.Choice(list(TABLES)))
@at_option
@json_option
def state(ledger: Path, table: str | None, point: Point, as_json: bool) -> None:
    """Print tables of the ledger in DIR as they are, or as they were at a point of the past.

    Without a table: an overview, or with --json all tables.
    """
    readers = LedgerDirectory.open_reader(ledger)
    names = [table] if table else list(TABLES)
    moment, tables = ask(ledger, readers, lambda store: _tables(readers, point, store, names))
    if as_json:
        head = {"cell": readers.ledger.cell, "seq": moment.seq - 1, "time_ns": moment.clock_ns}
        click.echo(msgspec.json.encode({**head, **tables}))
        return
    head_line = f"cell {readers.ledger.cell} after seq {moment.seq - 1:,}"
    click.echo(f"{head_line}, {time_text(moment.clock_ns)}")
    if table is None:
        _echo_overview(tables)
    else:
        header, rows = _COLUMNS[table](tables[table])
        echo_columns(header, rows)


def _tables(
    readers: LedgerReaders, point: Point, store: Store | None, names: list[str]
) -> tuple[Moment, Tables]:
    """Rows at a point: those kept in the store if they are of that moment, else made anew."""
    next_seq = resolve(readers.ledger, point)
    if store is not None:
        projection = Projection(store)
        moment = projection.moment()
        if moment is not None and moment.seq == next_seq:
            return moment, {name: list(projection.rows(name)) for name in names}
    with progress("replaying", next_seq) as advance:
        snapshots = None if store is None else Snapshots(store)
        found = state_at(readers, next_seq, snapshots, advance)
    if store is not None and point is None:
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


def _cards(rows: list[Row]) -> Columns:
    header = ["node", "card", "model", "memory_mib", "island", "health", "free_milli", "owners"]
    return header, [
        [r.node, r.card, r.model, r.memory_mib, r.island, r.health, r.free_milli, _owners(r)]
        for r in cast(list[CardRow], rows)
    ]


def _owners(row: CardRow) -> str:
    return " ".join(
        f"{o.job}/{o.pod}.{o.attempt}" + (f":{o.card_milli}" if o.card_milli != 1000 else "")
        for o in row.owners
    )


def _nodes(rows: list[Row]) -> Columns:
    header = "node state cards healthy free pods cpu_free_milli memory_free_mib".split()
    return header, [
        [
            r.node,
            r.state,
            r.card_count,
            r.card_healthy_count,
            r.card_free_count,
            r.pod_count,
            r.cpu_free_milli,
            r.memory_free_mib,
        ]
        for r in cast(list[NodeRow], rows)
    ]


def _queues(rows: list[Row]) -> Columns:
    header = "queue parent state weight jobs used deserved guarantee capability waiting".split()
    return header, [
        [
            r.queue,
            r.parent or "-",
            r.state.lower(),
            r.weight,
            r.job_count,
            cards_text(r.used_cards_milli),
            cards_text(r.deserved_cards_milli),
            cards_text(r.guarantee_cards_milli),
            cards_text(r.capability_cards_milli),
            cards_text(r.waiting_cards_milli),
        ]
        for r in cast(list[QueueRow], rows)
    ]


def _jobs(rows: list[Row]) -> Columns:
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
            cards_text(r.held_cards_milli),
            time_text(r.submitted_ns),
            time_text(r.started_ns),
            time_text(r.ended_ns),
            "-" if r.reason == "UNKNOWN" else r.reason.lower(),
        ]
        for r in cast(list[JobRow], rows)
    ]


_COLUMNS = {"cards": _cards, "nodes": _nodes, "queues": _queues, "jobs": _jobs}

"""`ganger simulate`: a trace through the real intake, ledger and kernel, in virtual time."""

import csv
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from ganger.replay.assumptions import Assumptions, parse_estimates, parse_share
from ganger.replay.cluster import ClusterSpec, open_cluster, parse_nodes
from ganger.replay.faults import NONE, open_faults
from ganger.replay.gantt import Chart
from ganger.replay.simulate import MEMORY, Progress, run
from ganger.replay.summary import Start, Summary
from ganger.replay.traces.detect import open_trace
from ganger.replay.traces.model import Trace
from ganger.replay.traces.source import InputError
from ganger.replay.workload import unnamed_queues
from ganger.schemas.enums import Tier
from ganger.services.cell_files import read_rules
from ganger.services.cli.arguments import json_option
from ganger.services.cli.outcome import echo_summary
from ganger.services.cli.render import progress
from ganger.services.cli.units import count_text
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.presets.loader import load_policy
from ganger.streams.tables.snapshots import Snapshots
from ganger.streams.tables.store import STORE_FOLDER, Store, StoreBusy, StoreFailed

NODES_DEFAULT = "16x8"

_SECOND_NS = 10**9
_TIERS = {Tier.MAIN: "main", Tier.BACKFILL: "backfill", Tier.SPOT: "backfill"}


class RunSnapshots:
    """Snapshots of a run, in the store of its ledger, which is there only once the run has begun.

    Keeps none where the store cannot be had: they are a convenience.
    """

    def __init__(self, folder: Path) -> None:
        """The ledger in `folder`; nothing is opened yet."""
        self._folder = folder
        self._store: Store | None = None
        self._is_without = False

    def save(self, seq: int, data: bytes) -> None:
        """Keep the checkpoint at `seq`."""
        if self._is_without:
            return
        try:
            if self._store is None:
                ledger = LedgerDirectory.open_reader(self._folder).ledger
                self._store = Store(self._folder / STORE_FOLDER, ledger)
            Snapshots(self._store).save(seq, data)
        except (StoreBusy, StoreFailed) as error:
            self._is_without = True
            click.echo(f"Note: {error} The run goes on without snapshots.", err=True)

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        """The newest checkpoint at or before a seq, of those saved in this run."""
        return None if self._store is None else Snapshots(self._store).newest(at_or_before)

    def close(self) -> None:
        """Give up the store. What was saved is sealed already."""
        if self._store is not None:
            with suppress(StoreFailed):
                self._store.close()
        self._store = None


@click.command()
@click.argument("trace", metavar="TRACE", type=click.Path(path_type=Path))
@click.option("--nodes", metavar="SPEC", help="Nodes as COUNTxCARDS,...  Default: 16x8.")
@click.option("--cluster", metavar="FILE", help="Nodes and queues from a TOML file or openb's CSV.")
@click.option("--policy", metavar="NAME|FILE", default="default", show_default=True)
@click.option(
    "--ledger", metavar="DIR|memory", default=MEMORY, show_default=True, help="Where records go."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many jobs.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, help="From which faults and shares draw."
)
@click.option("--faults", metavar="FILE", help="What goes wrong, from a TOML file.")
@click.option(
    "--estimates",
    metavar="exact|factor:F|predict",
    help="Run times that jobs declare. Default: the trace's; predict where it has none.",
)
@click.option(
    "--suspendable",
    metavar="SHARE",
    default="0",
    help="Share of jobs, 0 to 1, that can checkpoint and accept to be suspended.",
)
@click.option(
    "--starts", metavar="FILE", help="Write job,wait,tier (wait in whole seconds) as CSV."
)
@click.option("--gantt", metavar="FILE", help="Draw cards over time as SVG.")
@json_option
def simulate(
    trace: Path,
    nodes: str | None,
    cluster: str | None,
    policy: str,
    ledger: str,
    limit: int | None,
    seed: int,
    faults: str | None,
    estimates: str | None,
    suspendable: str,
    starts: str | None,
    gantt: str | None,
    as_json: bool,
) -> None:
    """Run the workload TRACE (SWF, Philly, openb or ganger's own format) on a virtual cluster.

    The same call on a ledger that holds an unfinished run of it goes on from there.
    """
    if nodes is not None and cluster is not None:
        raise InputError("--nodes", "--cluster is given too", "give one of them")
    for option, file in (("--starts", starts), ("--gantt", gantt)):
        if file is not None:
            _check_writable(option, Path(file))
    assumptions = _assumptions(estimates, suspendable)
    spec = (
        open_cluster(cluster, read_rules)
        if cluster is not None
        else parse_nodes(nodes or NODES_DEFAULT)
    )
    workload = open_trace(trace, limit)
    total = len(workload.jobs)
    chart = None if gantt is None else Chart(spec)
    _warn_of_queues(unnamed_queues(spec, workload.jobs))
    _tell_of_rows(workload, spec)
    try:
        with (
            progress("simulating jobs", total, 1, is_plain=not as_json) as advance,
            closing(RunSnapshots(Path(ledger))) as kept,
        ):
            summary = run(
                workload,
                spec,
                load_policy(policy),
                ledger,
                limit=limit,
                seed=seed,
                faults=NONE if faults is None else open_faults(faults),
                assumptions=assumptions,
                chart=chart,
                snapshots=None if ledger == MEMORY else kept,
                on_resume=lambda records: _tell_of_rest(ledger, records),
                on_progress=_Ended(advance),
            )
    except KeyboardInterrupt:
        if ledger != MEMORY:
            click.echo(f"The same call goes on from where {ledger} ends.", err=True)
        raise
    if starts is not None:
        write_starts(Path(starts), summary.starts)
    if gantt is not None and chart is not None:
        drawn = chart.svg(summary.first_ns, summary.last_ns)
        Path(gantt).write_text(drawn, encoding="utf-8", newline="")
    if as_json:
        click.echo(msgspec.json.encode(_plain(summary)))
    else:
        echo_summary(summary, None if ledger == MEMORY else ledger)


def _assumptions(estimates: str | None, suspendable: str) -> Assumptions:
    """What the options say of jobs that the trace leaves open."""
    share = parse_share(suspendable, "--suspendable")
    if estimates is None:
        return Assumptions(suspendable_millionths=share)
    return Assumptions(*parse_estimates(estimates), share)


def _warn_of_queues(names: list[str]) -> None:
    if names:
        noun, pronoun = ("queue", "it") if len(names) == 1 else ("queues", "they")
        click.echo(
            f"Note: the trace names {noun} {', '.join(names)}, which the cluster file does not; "
            f"{pronoun} {'is' if len(names) == 1 else 'are'} made with weight 1 and no limits.",
            err=True,
        )


def _tell_of_rest(ledger: str, records: int) -> None:
    """Why a run that goes on does not begin where it ended."""
    click.echo(
        f"Note: {ledger} holds {count_text(records, 'record')} of this run, which did not finish: "
        "they are made again and compared, then it goes on.",
        err=True,
    )


def _tell_of_rows(trace: Trace, cluster: ClusterSpec) -> None:
    """What a run leaves out of a trace, and a machine of another size than the trace's."""
    if trace.skipped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in trace.skipped.items())
        click.echo(f"Note: rows that are no jobs are left out: {reasons}.", err=True)
    if trace.processors not in (0, cluster.card_count):
        click.echo(
            f"Note: the log's header says {trace.processors} processors (MaxProcs), "
            f"the cluster has {cluster.card_count} cards.",
            err=True,
        )


class _Ended:
    """Tells a progress bar how many jobs have ended since the last time."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._ended = 0

    def __call__(self, now: Progress) -> None:
        self._advance(now.ended - self._ended)
        self._ended = now.ended


def write_starts(path: Path, starts: Iterable[Start]) -> None:
    """Write the starts of a run as CSV: job, wait in whole seconds, tier."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("job", "wait", "tier"))
        writer.writerows((s.job, s.wait_ns // _SECOND_NS, _TIERS[s.tier]) for s in starts)


def _check_writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written, before a run; it is not made or changed."""
    was_there = path.exists()
    try:
        path.open("a").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        raise InputError(
            option, f"{path} cannot be written ({error.strerror})", "name another file"
        ) from error


def _plain(summary: Summary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in _JSON_KEYS}


_JSON_KEYS = (
    "jobs",
    "decisions",
    "records",
    "cpu_seconds",
    "wall_seconds",
    "utilisation",
    "wait_mean_s",
    "wait_p50_s",
    "wait_p99_s",
    "bounded_slowdown_mean",
    "digest",
    "chain",
    "backfill_started",
    "backfill_completed",
    "backfill_evicted",
    "backfill_suspended",
    "idle_card_seconds",
    "idle_card_seconds_used",
    "main_wait_mean_s",
    "evicted_card_seconds_lost",
    "eta_p50_coverage",
    "eta_p90_coverage",
)

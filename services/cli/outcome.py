"""What a simulated run came to, for people: its numbers, and its utilisation as a plot."""

import shlex
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

import click

from ganger.replay.summary import Summary
from ganger.services.cli.units import count_text, duration_text

BARS = " ▁▂▃▄▅▆▇█"
PLOT_COLUMNS = 72
PLOT_LINES = 5

_LABEL_COLUMNS = 6


def echo_summary(summary: Summary, ledger: str | None) -> None:
    """Print what a run came to.

    Args:
        summary: the run's.
        ledger: the folder of its ledger; none where it was kept in memory.
    """
    per_second = summary.jobs / summary.cpu_seconds if summary.cpu_seconds > 0 else 0.0
    decisions = count_text(summary.decisions, "decision")
    for name, text in (
        ("jobs", _jobs_text(summary)),
        ("records", f"{summary.records:,}, which led to {decisions}"),
        ("wait", _wait_text(summary)),
        ("slowdown", f"{summary.bounded_slowdown_mean:,.2f} mean, bounded"),
        ("utilisation", _utilisation_text(summary)),
        ("idle", _idle_text(summary)),
        ("gaps", _gaps_text(summary)),
        ("promises", _promises_text(summary)),
        ("speed", f"{per_second:,.0f} jobs per CPU-second; {summary.wall_seconds:.1f} s in all"),
        ("digest", summary.digest),
        ("chain", summary.chain),
    ):
        if text:
            click.echo(f"{name:<12} {text}")
    for line in plot(summary.series):
        click.echo(line)
    if summary.series:
        span = duration_text(summary.last_ns - summary.first_ns)
        click.echo(f"{'':{_LABEL_COLUMNS + 1}}0{span:>{PLOT_COLUMNS - 1}}")
    if summary.waiting:
        click.echo(_hint(summary, ledger))


def _jobs_text(summary: Summary) -> str:
    """So many submitted, started, ended, and where the others are."""
    ended = sum(summary.ended.values())
    reasons = ", ".join(f"{count:,} {name.lower()}" for name, count in summary.ended.items())
    parts = [
        f"{summary.jobs:,} submitted",
        f"{summary.started:,} started",
        f"{ended:,} ended" + (f" ({reasons})" if reasons else ""),
        f"{summary.waiting:,} still waiting",
    ]
    running = summary.jobs - ended - summary.waiting
    if running > 0:
        parts.append(f"{running:,} still running")
    return ", ".join(parts)


def _wait_text(summary: Summary) -> str:
    if not summary.started:
        return "n/a: no job started"
    waits = (summary.wait_mean_s, summary.wait_p50_s, summary.wait_p99_s)
    mean, median, p99 = (duration_text(round(wait * 10**9)) for wait in waits)
    jobs = count_text(summary.started, "job")
    return f"mean {mean}, median {median}, p99 {p99}, of the {jobs} that started"


def _utilisation_text(summary: Summary) -> str:
    span_ns = summary.last_ns - summary.first_ns
    if not span_ns:
        return "n/a: nothing ended, so no time passed"
    return f"{summary.utilisation:.1%} of the cards over {duration_text(span_ns)}"


def _idle_text(summary: Summary) -> str:
    """Cards that stood idle while somebody waited; nothing to say if none did."""
    if not summary.idle_card_seconds:
        return ""
    return f"{_card_time(summary.idle_card_seconds)} while a job waited"


def _gaps_text(summary: Summary) -> str:
    """How jobs in gaps fared; nothing to say without any."""
    if not summary.backfill_started:
        return ""
    parts = [
        f"{count_text(summary.backfill_started, 'job')} started in gaps",
        f"{summary.backfill_completed:,} completed there",
    ]
    if summary.backfill_suspended:
        parts.append(f"{summary.backfill_suspended:,} suspensions")
    if summary.backfill_evicted:
        lost = _card_time(summary.evicted_card_seconds_lost)
        parts.append(f"{summary.backfill_evicted:,} evicted ({lost} lost)")
    parts.append(f"{_card_time(summary.idle_card_seconds_used)} used")
    main_wait = duration_text(round(summary.main_wait_mean_s * 10**9))
    return ", ".join(parts) + f"; mean wait of the others {main_wait}"


def _promises_text(summary: Summary) -> str:
    """How many promised starts were kept; nothing to say without any."""
    p50, p90 = summary.eta_p50_coverage, summary.eta_p90_coverage
    if p50 is None or p90 is None or summary.eta_p90_median_s is None:
        return ""
    late = duration_text(round(summary.eta_p90_median_s * 10**9))
    return (
        f"{p50:.1%} of jobs that waited started by the median time told, {p90:.1%} by the late "
        f"one, which was {late} ahead or less for half of them"
    )


def _card_time(card_seconds: int) -> str:
    """Card-time in the greatest unit of which there is one: `3,405 card-hours`."""
    for unit_s, unit in ((3600, "hour"), (60, "minute")):
        if card_seconds >= unit_s:
            return count_text(card_seconds // unit_s, f"card-{unit}")
    return count_text(card_seconds, "card-second")


def _hint(summary: Summary, ledger: str | None) -> str:
    job = shlex.quote(summary.waiting_job)
    if ledger is None:
        return f"Why they wait: simulate with --ledger DIR, then `ganger why DIR {job}`."
    return f"Why they wait: `ganger why {shlex.quote(ledger)} {job}`, for one of them."


def plot(series: Sequence[float]) -> list[str]:
    """Shares from 0 to 1 over time as a title and lines of blocks, the highest first.

    The scale goes up to the greatest share. Empty for no shares, or where all are 0.
    """
    if not series:
        return []
    count = min(PLOT_COLUMNS, len(series))
    bounds = [place * len(series) // count for place in range(count + 1)]
    columns = [fmean(series[begin:end]) for begin, end in pairwise(bounds)]
    greatest = max(columns)
    if greatest <= 0:
        return []
    top = len(BARS) - 1
    heights = [round(max(0.0, share) / greatest * PLOT_LINES * top) for share in columns]
    scale = f"{greatest:.0%}" if greatest >= 0.1 else f"{greatest:.2%}"
    lines = [f"Cards in use over time, in % of all; full height is {scale}"]
    for level in reversed(range(PLOT_LINES)):
        label = scale if level == PLOT_LINES - 1 else "0%" if level == 0 else ""
        bars = "".join(BARS[min(top, max(0, height - level * top))] for height in heights)
        lines.append(f"{label:>{_LABEL_COLUMNS}} {bars}".rstrip())
    return lines

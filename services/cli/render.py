"""How things look in a terminal: progress, columns, times and counts. Nothing is computed here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from statistics import fmean

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ganger.replay.summary import Summary

BARS = " ▁▂▃▄▅▆▇█"
PLOT_COLUMNS = 72
PLOT_LINES = 5
LINES_COUNT = 256
UPDATE_COUNT = 2048
"""Records between two updates of a progress bar, whose cost would show otherwise."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS_MAX_NS = 253_402_300_799 * 10**9


@contextmanager
def progress(
    what: str, total: int, update_count: int = UPDATE_COUNT
) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr with rate and remaining time, where that is a terminal.

    Args:
        what: said before the bar.
        total: steps in all.
        update_count: steps between two updates.

    Yields:
        What to tell the number of steps done since it was last told.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda count: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total, rate="")
        waiting = 0

        def advance(count: int) -> None:
            nonlocal waiting
            waiting += count
            if waiting >= update_count:
                speed = bar.tasks[0].speed
                rate = f"{speed:,.0f}/s" if speed else ""
                bar.update(task, advance=waiting, rate=rate)
                waiting = 0

        yield advance


def echo_lines(lines: Iterable[str | bytes]) -> None:
    """Print many lines, a batch at a time: `click.echo` flushes at each call."""
    rest = iter(lines)
    while batch := list(islice(rest, LINES_COUNT)):
        parts = [line.decode() if isinstance(line, bytes) else line for line in batch]
        click.echo("\n".join(parts))


def echo_columns(header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    """Print rows under a header, as wide as they are; columns of numbers stand to the right."""
    places = range(len(header))
    is_number = [bool(rows) and all(isinstance(row[p], int) for row in rows) for p in places]
    table = [header, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in places]
    echo_lines(_row(row, widths, is_number) for row in table)


def _row(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    parts = zip(cells, widths, is_number, strict=True)
    return "  ".join(c.rjust(w) if right else c.ljust(w) for c, w, right in parts).rstrip()


def _cell(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def time_text(time_ns: int) -> str:
    """A UTC time to the millisecond; a dash for 0, which stands for never."""
    if time_ns == 0:
        return "-"
    if not 0 < time_ns <= _YEARS_MAX_NS:
        return f"{time_ns} ns"
    time = _EPOCH + timedelta(microseconds=time_ns // 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S") + f".{time_ns // 10**6 % 1000:03d}Z"


def duration_text(duration_ns: int) -> str:
    """A duration in its largest two units."""
    seconds, rest_ns = divmod(duration_ns, 10**9)
    if seconds < 60:
        return f"{seconds}.{rest_ns // 10**8}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    return f"{hours // 24}d{hours % 24:02d}h"


def cards_text(cards_milli: int) -> str:
    """Milli-cards as cards; a dash for no limit."""
    if cards_milli < 0:
        return "-"
    whole, rest = divmod(cards_milli, 1000)
    return f"{whole:,}.{rest:03d}".rstrip("0") if rest else f"{whole:,}"


def echo_summary(summary: Summary) -> None:
    """Print what a run came to, with its utilisation over time as a plot."""
    ended = ", ".join(f"{count:,} {name.lower()}" for name, count in summary.ended.items())
    span = duration_text(summary.last_ns - summary.first_ns)
    waits = (summary.wait_mean_s, summary.wait_p50_s, summary.wait_p99_s)
    mean, median, p99 = (duration_text(round(wait * 10**9)) for wait in waits)
    per_second = summary.jobs / summary.cpu_seconds if summary.cpu_seconds > 0 else 0.0
    jobs = f"{summary.jobs:,} submitted, {summary.started:,} started"
    for name, text in (
        ("jobs", f"{jobs}; {ended or 'none ended'}"),
        ("records", f"{summary.records:,}, which led to {summary.decisions:,} decisions"),
        ("wait", f"mean {mean}, median {median}, p99 {p99}"),
        ("slowdown", f"{summary.bounded_slowdown_mean:,.2f} mean, bounded"),
        ("utilisation", f"{summary.utilisation:.1%} of the cards over {span}"),
        ("speed", f"{per_second:,.0f} jobs per CPU-second; {summary.wall_seconds:.1f} s in all"),
        ("digest", summary.digest),
        ("chain", summary.chain),
    ):
        click.echo(f"{name:<12} {text}")
    for line in plot(summary.series):
        click.echo(line)
    if summary.series:
        click.echo(f"{'':5}0{span:>{PLOT_COLUMNS - 1}}")


def plot(series: Sequence[float]) -> list[str]:
    """Shares from 0 to 1 over time as lines of blocks, the highest first; empty for no shares."""
    if not series:
        return []
    count = min(PLOT_COLUMNS, len(series))
    bounds = [place * len(series) // count for place in range(count + 1)]
    columns = [fmean(series[begin:end]) for begin, end in pairwise(bounds)]
    top = len(BARS) - 1
    heights = [round(min(1.0, max(0.0, share)) * PLOT_LINES * top) for share in columns]
    lines = []
    for level in reversed(range(PLOT_LINES)):
        label = "100%" if level == PLOT_LINES - 1 else "  0%" if level == 0 else ""
        bars = "".join(BARS[min(top, max(0, height - level * top))] for height in heights)
        lines.append(f"{label:4} {bars}".rstrip())
    return lines

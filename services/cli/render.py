"""How things look in a terminal: progress, columns, times and counts. Nothing is computed here."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

BARS = " ▁▂▃▄▅▆▇█"
UPDATE_COUNT = 2048
"""Records between two updates of a progress bar, whose cost would show otherwise."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS_MAX_NS = 253_402_300_799 * 10**9


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr with rate and remaining time, where that is a terminal.

    Args:
        what: said before the bar.
        total: steps in all.

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
            if waiting >= UPDATE_COUNT:
                speed = bar.tasks[0].speed
                rate = f"{speed:,.0f}/s" if speed else ""
                bar.update(task, advance=waiting, rate=rate)
                waiting = 0

        yield advance


def echo_columns(header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    """Print rows under a header, as wide as they are; columns of numbers stand to the right."""
    places = range(len(header))
    is_number = [bool(rows) and all(isinstance(row[p], int) for row in rows) for p in places]
    table = [header, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in places]
    for row in table:
        cells = zip(row, widths, is_number, strict=True)
        line = "  ".join(c.rjust(w) if right else c.ljust(w) for c, w, right in cells)
        click.echo(line.rstrip())


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


def spark(values: Sequence[float], highest: float) -> str:
    """Values from 0 to `highest` as a row of blocks."""
    top = len(BARS) - 1
    return "".join(BARS[min(top, max(0, round(value * top / highest)))] for value in values)

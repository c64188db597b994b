"""How things look in a terminal: progress, columns, long lines. Nothing is computed here.

Lines and tables fit the terminal where stdout is one; in a pipe they keep their full width.
"""

import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LINES_COUNT = 256
UPDATE_COUNT = 2048
"""Records between two updates of a progress bar, whose cost would show otherwise."""

PLAIN_SECONDS = 10
"""Wall time between two lines of progress where stderr is no terminal."""

_GAP = "  "
_NUMBER = re.compile(r"-|-?[\d,]+(\.\d+)?( [MG]iB)?", re.ASCII)
_SHORTEST_COLUMNS = 8


@contextmanager
def progress(
    what: str, total: int, update_count: int = UPDATE_COUNT, *, is_plain: bool = False
) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr with rate and remaining time, where that is a terminal.

    Args:
        what: said before the bar.
        total: steps in all.
        update_count: steps between two updates.
        is_plain: where stderr is no terminal, print a line now and then instead.

    Yields:
        What to tell the number of steps done since it was last told.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_progress(what, total) if is_plain else lambda count: None
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


def _plain_progress(what: str, total: int) -> Callable[[int], None]:
    """Tells stderr every `PLAIN_SECONDS` how far it is."""
    began = told = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal told, done
        done += count
        now = time.monotonic()
        if now - told >= PLAIN_SECONDS:
            told = now
            rate = done / (now - began)
            click.echo(f"{what}: {done:,} of {total:,}, {rate:,.0f} per second", err=True)

    return advance


def terminal_columns() -> int | None:
    """Columns of the terminal that stdout is; none where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def echo_lines(lines: Iterable[str | bytes]) -> None:
    """Print many lines, a batch at a time: `click.echo` flushes at each call."""
    rest = iter(lines)
    while batch := list(islice(rest, LINES_COUNT)):
        parts = [line.decode() if isinstance(line, bytes) else line for line in batch]
        click.echo("\n".join(parts))


def folded(line: str, columns: int | None, indent: int) -> str:
    """A line broken to fit, its further lines set in by `indent`; as it is without a width."""
    if columns is None or len(line) <= columns:
        return line
    stripped = line.lstrip(" ")
    lead = len(line) - len(stripped)
    return "\n".join(
        textwrap.wrap(
            stripped,
            max(columns, 2 * _SHORTEST_COLUMNS + max(lead, indent)),
            initial_indent=" " * lead,
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
    )


def echo_columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str | int]],
    expendable: Sequence[str] = (),
    columns: int | None = None,
) -> None:
    """Print rows under a header; columns of numbers stand to the right.

    Args:
        header: names of the columns.
        rows: their cells.
        expendable: columns that may be left out where there is no room, the first to go first.
        columns: width to fit into; none: as wide as the rows are.
    """
    places = range(len(header))
    is_number = [bool(rows) and all(_is_number(row[p]) for row in rows) for p in places]
    table = [header, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in places]
    kept = list(places)
    dropped = []
    for name in expendable:
        if columns is None or _width(widths, kept) <= columns:
            break
        kept.remove(header.index(name))
        dropped.append(name)
    if columns is not None:
        _shorten(widths, kept, columns)
    echo_lines(_row(row, widths, kept, is_number) for row in table)
    if dropped:
        names = ", ".join(dropped)
        click.echo(f"Note: no room for {names}; a wider terminal or a pipe shows all.", err=True)


def _width(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[place] for place in kept) + len(_GAP) * (len(kept) - 1)


def _shorten(widths: list[int], kept: Sequence[int], columns: int) -> None:
    """Take from the widest columns what is too much."""
    while (surplus := _width(widths, kept) - columns) > 0:
        widest = max(kept, key=lambda place: widths[place])
        if widths[widest] <= _SHORTEST_COLUMNS:
            return
        others = [widths[place] for place in kept if place != widest]
        floor = max([_SHORTEST_COLUMNS, *(w for w in others if w < widths[widest])])
        widths[widest] = max(min(floor, widths[widest] - 1), widths[widest] - surplus)


def _row(
    cells: Sequence[str], widths: Sequence[int], kept: Sequence[int], is_number: Sequence[bool]
) -> str:
    parts = []
    for place in kept:
        width, cell = widths[place], cells[place]
        if len(cell) > width:
            cell = cell[: width - 1] + "…"
        parts.append(cell.rjust(width) if is_number[place] else cell.ljust(width))
    return _GAP.join(parts).rstrip()


def _is_number(value: str | int) -> bool:
    return isinstance(value, int) or _NUMBER.fullmatch(value) is not None


def _cell(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value

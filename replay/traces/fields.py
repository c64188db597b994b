"""From the text of one field to an exact value. Nothing here passes through a float.

Python's own `int` also takes underscores, blanks and the digits of every script, and refuses
nothing for its size; a trace that holds such a thing was damaged, so these readers refuse it.
"""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Iterator

from ganger.replay.traces.source import InputError, Source

NS_PER_S = 1_000_000_000

SECONDS_MAX = 9_000_000_000
"""Largest time in seconds: in nanoseconds it still fits 64 bits (285 years)."""

COUNT_MAX = 1_000_000
"""Most pods of a job's group and most cards of a pod; no machine on earth has more."""

MILLI_MAX = 1_000_000_000
"""Most milli-cpus of a pod or node (a million cpus)."""

MIB_MAX = 1 << 40
"""Most MiB of memory of a pod or node (an exbibyte)."""

NAME_CHARS_MAX = 200

_SECONDS = re.compile(r"(-?)([0-9]{1,18})(?:\.([0-9]*))?", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1)


def parse_seconds_ns(text: str) -> int | None:
    """Decimal seconds as ns, or None if `text` is none or beyond `SECONDS_MAX`.

    Digits beyond the ninth after the point are dropped, toward zero.
    """
    if len(text) < 10 and text.isascii() and text.isdigit():  # as most are
        return int(text) * NS_PER_S
    match = _SECONDS.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction = match.groups()
    value = int(whole) * NS_PER_S
    if fraction:
        value += int(f"{fraction[:9]:0<9}")
    if value > SECONDS_MAX * NS_PER_S:
        return None
    return -value if sign else value


def parse_whole(text: str, low: int, high: int) -> int | None:
    """A whole number, or None if `text` is none or it lies outside `low..high`."""
    if not ((len(text) < 19 and text.isascii() and text.isdigit()) or _WHOLE.fullmatch(text)):
        return None
    value = int(text)
    return value if low <= value <= high else None


def parse_utc_ns(text: str) -> int | None:
    """`YYYY-MM-DD HH:MM:SS`, taken as UTC, as ns since 1970; None if it is none or earlier."""
    if _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        since = datetime.datetime.fromisoformat(text) - _EPOCH
    except ValueError:
        return None
    seconds = since.days * 86_400 + since.seconds
    return seconds * NS_PER_S if 0 <= seconds <= SECONDS_MAX else None


def is_name(text: str) -> bool:
    """Whether `text` may name a job, queue, user, model or node.

    Printable, without blanks at its ends, not a comment's begin, at most `NAME_CHARS_MAX` long;
    so every name fits on a line of our own format.
    """
    return (
        len(text) <= NAME_CHARS_MAX
        and text.isprintable()
        and text == text.strip()
        and not text.startswith("#")
    )


NAME_REMEDY = (
    f"write a printable name of at most {NAME_CHARS_MAX} characters that does not begin with #"
)


def split_row(text: str) -> list[str] | None:
    """The cells of one line of CSV, blanks around them removed; None if the quoting is broken.

    A row is one line: no name of ours holds a line end, and a stray quote must not swallow
    the lines after it.
    """
    if '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    try:
        return [
            cell.strip() for cell in next(csv.reader((text,), strict=True, skipinitialspace=True))
        ]
    except csv.Error:
        return None


class Table:
    """A CSV file with a header line: rows of the same width, columns found by name.

    Blank lines and lines that begin with `#` are passed over. Rows count from 1.
    """

    def __init__(
        self, source: Source, needed: tuple[str, ...], known: tuple[str, ...] = ()
    ) -> None:
        """Reads up to the header.

        Args:
            source: the file.
            needed: columns that must be there.
            known: if given, the only further columns that may be there.

        Raises:
            InputError: no header, a column missing, twice or unknown.
        """
        self.source = source
        self._lines = self._content()
        self.header_line, self.columns = next(self._lines, (1, []))
        place = f"{source.path}:{self.header_line}"
        for name in needed:
            if name not in self.columns:
                further = [column for column in known if column not in needed]
                more = f", and those of {','.join(further)} that are used" if further else ""
                raise InputError(
                    place,
                    f"the header has no column {name}: it is {','.join(self.columns)[:80]!r}",
                    f"begin with a line that names the columns {','.join(needed)}{more}",
                )
        allowed = tuple(dict.fromkeys(needed + known if known else self.columns))
        for name in self.columns:
            if name not in allowed or self.columns.count(name) > 1:
                raise InputError(
                    place,
                    f"the header has a column {name!r} that is unknown or there twice",
                    f"use each of {','.join(allowed)} at most once",
                )

    def index(self, name: str) -> int | None:
        """The place of a column in a row, or None."""
        return self.columns.index(name) if name in self.columns else None

    def rows(self) -> Iterator[tuple[int, int, list[str]]]:
        """(row number from 1, line number, cells), each row as wide as the header.

        Raises:
            InputError: a row that is wider or narrower.
        """
        width = len(self.columns)
        for row, (line, cells) in enumerate(self._lines, 1):
            if len(cells) != width:
                raise InputError(
                    f"{self.source.path}:{line}",
                    f"the row has {len(cells)} columns, the header {width}",
                    "give every column a value or an empty place; quote a name that holds a comma",
                )
            yield row, line, cells

    def _content(self) -> Iterator[tuple[int, list[str]]]:
        for line, text in self.source.lines():
            if not text or text.isspace() or text.startswith("#"):
                continue
            cells = split_row(text)
            if cells is None:
                raise InputError(
                    f"{self.source.path}:{line}",
                    "the quotes of the row do not match",
                    'put a name that holds a comma or a quote into "..." and double its quotes',
                )
            yield line, cells

"""What the verbs share of their calls: points of a ledger, ledgers and their stores."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import click

from ganger.replay.history import (
    AtOffset,
    AtSeq,
    AtTime,
    Place,
    Point,
    PointBefore,
    PointOutside,
    locate,
    time_of,
)
from ganger.replay.traces.source import InputError
from ganger.services.cli.units import Clock, clock_of, utc_ns
from ganger.services.durations import summed_ns
from ganger.services.ledgers import OpenLedger
from ganger.streams.kafka.cluster.settings import CONFIG_VARIABLE
from ganger.streams.log.protocol import LogReader
from ganger.streams.tables.store import Store, StoreBusy, StoreFailed

_T = TypeVar("_T")

NEAR_COUNT_MAX = 3

# A ledger of this many records would take years to write; as nanoseconds it is January 1970.
_FIRST_TIME_NS = 10**15
_OFFSET = re.compile(r"\+((?:\d{1,18}(?:\.\d{1,9})?(?:ms|[smhd]))+)", re.ASCII)
_DIGITS_MAX = 19
_SHOWN_CHARS_MAX = 40
_POINT_REMEDY = (
    "give a seq (4711), a UTC time (2026-01-31T12:00:00Z), nanoseconds since 1970, or a time since "
    "the ledger's first record (+90s, +1h30m)"
)

ledger_argument = click.argument("ledger", metavar="LEDGER")
kafka_config_option = click.option(
    "--kafka-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="For kafka://: properties for TLS and logins, key=value lines as kcat -F reads them. "
    f"Default: the file that {CONFIG_VARIABLE} names.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON only.")


class PointType(click.ParamType):
    """The value of `--at`."""

    name = "SEQ|TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Point:
        """A point from its text; a point stays one."""
        return parse_point(value) if isinstance(value, str) else value  # type: ignore[return-value]


at_option = click.option(
    "--at",
    "point",
    type=PointType(),
    help="A point of the past: after record SEQ, or at TIME (UTC as 2026-01-31T12:00:00Z, "
    "nanoseconds since 1970, or +90s, +1h30m since the first record). Default: the end.",
)


def parse_point(text: str) -> Point:
    """A point of a ledger from what a user typed.

    Raises:
        InputError: it is none.
    """
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        number = int(text)
        return AtSeq(number) if number < _FIRST_TIME_NS else AtTime(number)
    if _OFFSET.fullmatch(text):
        return AtOffset(summed_ns(text))
    try:
        return AtTime(utc_ns(text))
    except ValueError:
        shown = text[:_SHOWN_CHARS_MAX]
        raise InputError("--at", f"the value is {shown!r}", _POINT_REMEDY) from None


def clock(ledger: LogReader) -> Clock:
    """How the ledger's times are shown. O(1) but for opening it.

    Raises:
        LogCorrupt: what is stored does not check.
    """
    if not ledger.first_seq < ledger.end():
        return Clock()
    return clock_of(time_of(ledger, ledger.first_seq))


def place_of(ledger: LogReader, point: Point, shown: Clock) -> Place:
    """Where a point of the call is; says so where the ledger ends before it.

    Raises:
        InputError: a time before the ledger's beginning.
        PointOutside: a seq that is not reached, or an empty ledger.
        LogCorrupt: what is stored does not check.
    """
    try:
        place = locate(ledger, point)
    except PointBefore as error:
        begin = shown.text(error.first_ns)
        raise InputError(
            "--at",
            f"{shown.text(error.time_ns)} is before the ledger's first record at {begin}",
            "give a later point",
        ) from error
    except PointOutside as error:
        if point is None:
            raise
        raise InputError("--at", str(error), "give a point within") from error
    if place.is_beyond:
        click.echo(
            f"Note: the ledger ends at {shown.text(place.last_ns)} with record "
            f"{place.next_seq - 1:,}; this is how it was then.",
            err=True,
        )
    return place


def ask(ledger: OpenLedger, query: Callable[[Store | None], _T]) -> _T:
    """The answer to a query, with the help of the ledger's store or, where it fails, without.

    Args:
        ledger: the ledger.
        query: works it out; gives the same answer whether it gets a store or not, and may be
            asked again.
    """
    if ledger.store is None:
        return query(None)
    answers: list[_T] = []
    try:
        with Store(ledger.store, ledger.ledger) as store:
            if store.rebuilt:
                click.echo(f"Note: the store is built anew: {store.rebuilt}.", err=True)
            answers.append(query(store))
    except (StoreBusy, StoreFailed) as error:
        click.echo(f"Note: {error} Going on without it, which is slower.", err=True)
    return answers[0] if answers else query(None)


def unknown(field: str, name: str, known: list[str]) -> InputError:
    """The error for a name that does not exist, with those that look like it."""
    near = get_close_matches(name, known, NEAR_COUNT_MAX, cutoff=0.5)
    remedy = f"there is {', '.join(near)}" if near else f"{len(known):,} are known"
    return InputError(field, f"{name!r} does not occur in the ledger", remedy)

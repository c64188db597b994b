"""Zones and flavors of a cell in a TOML file, which may hold its queues and nodes as well.

A zone says in local time when it is open; here, at the edge, that becomes intervals in UTC, since
the kernel knows neither clocks nor calendars. So a zone has to be written again before its last
interval is over.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Meta, Struct

from ganger.replay.traces.source import InputError
from ganger.schemas.enums import TaintEffect
from ganger.schemas.records import (
    FlavorConfigured,
    Interval,
    Label,
    QueueConfigured,
    Taint,
    ZoneConfigured,
)
from ganger.services.job_files import converted, parse_queues, toml_document
from ganger.services.job_spec import EFFECTS, TolerationSpec, toleration
from ganger.streams.kernel.limits import INTERVALS_MAX

DAYS_DEFAULT = 400
"""Days for which a zone is written ahead: a year, and time to do it again."""

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_REMEDY = "see docs/jobs.md for every key"
_SECOND_NS = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Zone(Struct, frozen=True, forbid_unknown_fields=True):
    """A [[zones]] table. `open`: spans of local time like `22:00-06:00`; one that does not end
    later than it begins ends on the next day, and `00:00-24:00` is all day. `days`: on which they
    begin.
    """

    name: str
    time_zone: str = "UTC"
    open: tuple[str, ...] = ()
    days: tuple[str, ...] = WEEKDAYS
    removed: bool = False
    days_ahead: Annotated[int, Meta(ge=1, le=3660)] = DAYS_DEFAULT


class _Taint(Struct, frozen=True, forbid_unknown_fields=True):
    """A taint of the nodes of a flavor."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class _Flavor(Struct, frozen=True, forbid_unknown_fields=True):
    """A [[flavors]] table."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[_Taint, ...] = ()
    tolerations: tuple[TolerationSpec, ...] = ()
    removed: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a cell; queues and nodes are read elsewhere."""

    zones: tuple[_Zone, ...] = ()
    flavors: tuple[_Flavor, ...] = ()
    queues: Any = None
    nodes: Any = None


CELL_KEYS: dict[str, tuple[str, ...]] = {
    "": _File.__struct_fields__,
    "zones": _Zone.__struct_fields__,
    "flavors": _Flavor.__struct_fields__,
    "taints": _Taint.__struct_fields__,
    "tolerations": TolerationSpec.__struct_fields__,
}
"""Keys of the tables of a file, by the table's own key; those of the whole file under ""."""


def parse_flavors(text: str, place: str) -> list[FlavorConfigured]:
    """The flavors of a TOML text, in its order.

    Raises:
        InputError: names the key, its value and the remedy.
    """
    flavors = _file(text, place).flavors
    _different([flavor.name for flavor in flavors], f"{place}: flavors")
    return [_flavor(flavor, f"{place}: flavors[{index}]") for index, flavor in enumerate(flavors)]


def read_rules(text: str, place: str) -> tuple[list[FlavorConfigured], list[QueueConfigured]]:
    """The flavors and queues of a cluster's file, see `replay.cluster.ReadRules`.

    Raises:
        InputError: names the key, its value and the remedy.
    """
    flavors, queues = parse_flavors(text, place), parse_queues(text, place)
    for key, name in [
        *[("flavors", flavor.flavor) for flavor in flavors if flavor.removed],
        *[("queues", queue.queue) for queue in queues if queue.removed],
    ]:
        raise InputError(f"{place}: {key}", f"{name!r} is removed", "leave its table out")
    return flavors, queues


def parse_zones(text: str, place: str, now_ns: int) -> list[ZoneConfigured]:
    """The zones of a TOML text, in its order, each with its intervals from the day before on.

    Args:
        text: the file's.
        place: what errors name before the key.
        now_ns: UTC nanoseconds since 1970; the days ahead count from its day.

    Raises:
        InputError: names the key, its value and the remedy.
    """
    zones = _file(text, place).zones
    _different([zone.name for zone in zones], f"{place}: zones")
    return [
        ZoneConfigured(
            0,
            "",
            None,
            zone.name,
            _intervals(zone, f"{place}: zones[{index}]", now_ns),
            zone.removed,
        )
        for index, zone in enumerate(zones)
    ]


def _file(text: str, place: str) -> _File:
    document = toml_document(text, place, "write [[zones]] and [[flavors]] tables")
    return converted(document, _File, place, CELL_KEYS, _REMEDY)


def _different(names: list[str], place: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(
                f"{place}[{index}].name", f"{name!r} stands above already", "describe each once"
            )


def _flavor(flavor: _Flavor, place: str) -> FlavorConfigured:
    return FlavorConfigured(
        0,
        "",
        None,
        flavor.name,
        tuple([Label(key, value) for key, value in sorted(flavor.labels.items())]),
        tuple(
            [
                Taint(taint.key, taint.value, _effect(taint.effect, f"{place}.taints[{index}]"))
                for index, taint in enumerate(flavor.taints)
            ]
        ),
        tuple(
            [
                toleration(spec, f"{place}.tolerations[{index}].")
                for index, spec in enumerate(flavor.tolerations)
            ]
        ),
        flavor.removed,
    )


def _effect(name: str, place: str) -> TaintEffect:
    effect = EFFECTS.get(name) if name else None
    if effect is None:
        known = ", ".join(name for name in EFFECTS if name)
        raise InputError(f"{place}.effect", f"it is {name!r}", f"give one of {known}")
    return effect


# ---- zones --------------------------------------------------------------------------------------


def _intervals(zone: _Zone, place: str, now_ns: int) -> tuple[Interval, ...]:
    """When a zone is open, in ascending intervals that lie apart."""
    where = _time_zone(zone.time_zone, f"{place}.time_zone")
    spans = [_span(text, f"{place}.open[{index}]") for index, text in enumerate(zone.open)]
    days = _days(zone.days, f"{place}.days")
    today = (_EPOCH + timedelta(seconds=now_ns // _SECOND_NS)).astimezone(where).date()
    found = sorted(
        _local(where, day, span)
        for day in [today + timedelta(days=number) for number in range(-1, zone.days_ahead)]
        if day.weekday() in days
        for span in spans
    )
    merged: list[Interval] = []
    for from_ns, to_ns in found:
        if merged and from_ns <= merged[-1].to_ns:
            merged[-1] = Interval(merged[-1].from_ns, max(to_ns, merged[-1].to_ns))
        elif from_ns < to_ns:
            merged.append(Interval(from_ns, to_ns))
    if len(merged) > INTERVALS_MAX:
        raise InputError(
            f"{place}.days_ahead",
            f"{zone.days_ahead} days have {len(merged)} intervals",
            f"give so few that there are at most {INTERVALS_MAX}",
        )
    return tuple(merged)


def _time_zone(name: str, place: str) -> tzinfo:
    if name == "UTC":  # known even where no others are
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(
            place,
            f"{name!r} is no time zone known here",
            "give a name like Europe/Berlin; the package tzdata brings them all",
        ) from error


def _span(text: str, place: str) -> tuple[int, int]:
    """Minutes of the day from and to; the end is later than the beginning, if on the next day."""
    first, dash, last = text.partition("-")
    begin, end = _minutes(first), _minutes(last)
    if not dash or begin is None or end is None or begin == 24 * 60:
        raise InputError(place, f"it is {text!r}", "write local times like 22:00-06:00")
    return begin, end if end > begin else end + 24 * 60


def _minutes(text: str) -> int | None:
    hours, colon, minutes = text.strip().partition(":")
    if not colon or not (hours.isascii() and hours.isdigit() and len(minutes) == 2):
        return None
    if not (minutes.isascii() and minutes.isdigit()) or len(hours) > 2:
        return None
    total = int(hours) * 60 + int(minutes)
    return total if int(minutes) < 60 and total <= 24 * 60 else None


def _days(names: tuple[str, ...], place: str) -> Mapping[int, bool]:
    days = {}
    for index, name in enumerate(names):
        if name not in WEEKDAYS:
            raise InputError(
                f"{place}[{index}]", f"it is {name!r}", f"give some of {', '.join(WEEKDAYS)}"
            )
        days[WEEKDAYS.index(name)] = True
    return days


def _local(where: tzinfo, day: date, span: tuple[int, int]) -> tuple[int, int]:
    """A span that begins on a day, in UTC ns. The clock on the wall counts: a night in which it is
    set forward is an hour shorter.
    """
    begin, end = span
    return _utc_ns(where, day, begin), _utc_ns(where, day, end)


def _utc_ns(where: tzinfo, day: date, minutes: int) -> int:
    days, rest = divmod(minutes, 24 * 60)
    local = datetime.combine(day + timedelta(days=days), time(rest // 60, rest % 60), where)
    seconds = (local - _EPOCH) // timedelta(seconds=1)
    return seconds * _SECOND_NS

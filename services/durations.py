"""Durations as people write them: `90s`, `1h30m`, `1.5h`, `250ms`."""

import re
from functools import lru_cache

from ganger.replay.traces.source import InputError

DURATION_NS_MAX = 1 << 61
"""Longest duration that a record may state, 73 years."""

_UNITS_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}
_DURATION = re.compile(r"(?:\d{1,18}(?:\.\d{1,9})?(?:ms|[smhd]) ?)+", re.ASCII)
_PART = re.compile(r"(\d+)(?:\.(\d+))?(ms|[smhd])", re.ASCII)
_REMEDY = "write a duration like 90s, 1h30m, 2d or 250ms"


def parse_duration(text: str, place: str) -> int:
    """A duration in ns.

    Args:
        text: numbers with their units ms, s, m, h, d, one after the other; they are added.
        place: how errors name it.

    Raises:
        InputError: it is none, or longer than `DURATION_NS_MAX`.
    """
    if not _DURATION.fullmatch(text.strip() + " "):
        raise InputError(place, f"it is {text[:40]!r}", _REMEDY)
    duration_ns = summed_ns(text)
    if duration_ns > DURATION_NS_MAX:
        raise InputError(place, f"{text[:40]!r} is more than 73 years", _REMEDY)
    return duration_ns


@lru_cache(maxsize=1024)
def summed_ns(text: str) -> int:
    """The sum in ns of the durations that stand in a text, which was found to hold nothing else."""
    return sum(_part_ns(*part) for part in _PART.findall(text))


def _part_ns(whole: str, fraction: str, unit: str) -> int:
    scale = _UNITS_NS[unit]
    return int(whole) * scale + int(f"{fraction:0<9}"[:9]) * scale // 10**9

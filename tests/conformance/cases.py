"""Facts about other schedulers, as files of cases: inputs and the outcome that was published.

A file is a JSON array. Every case has `id`, `source`, `kind` and `expect`; `source` begins with the
repository that it is about. Fractions are read exactly.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

Body = Mapping[str, Any]


class Mismatch(Exception):
    """The outcome is another than the case says."""


class Unsupported(Exception):
    """The case asks what the runner cannot put to the kernel; the message says what."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `peer`: the project whose behaviour it states."""

    id: str
    kind: str
    peer: str
    body: Body


def load(path: Path) -> list[Case]:
    """The cases of a file, in its order.

    Raises:
        ValueError: The file is no array of cases; names it, the case and its field.
    """
    try:
        bodies = json.loads(path.read_text(encoding="utf-8"), parse_float=Fraction)
    except ValueError as error:
        raise ValueError(f"{path}: not an array of cases: {error}") from error
    if not isinstance(bodies, list):
        raise ValueError(f"{path}: not an array of cases: {type(bodies).__name__}")
    return [_case(f"{path}: not an array of cases", at, body) for at, body in enumerate(bodies)]


def _case(where: str, at: int, body: Any) -> Case:
    """The case at a position of a file."""
    if not isinstance(body, dict):
        raise ValueError(f"{where}: [{at}] is {body!r}, not an object")
    name = body.get("id", f"[{at}]")
    for field in ("id", "kind", "source"):
        if not isinstance(body.get(field), str):
            raise ValueError(f"{where}: {name}: {field} = {body.get(field)!r}, not a text")
    if not isinstance(body.get("expect"), dict):
        raise ValueError(f"{where}: {name}: expect = {body.get('expect')!r}, not an object")
    return Case(body["id"], body["kind"], peer_of(body["source"]), body)


def peer_of(source: str) -> str:
    """The project of a source like `owner/Name@commit path`: its name in lower case."""
    return source.partition("@")[0].rpartition("/")[2].partition("-")[0].lower()


def numbers(value: Any) -> Iterator[Fraction]:
    """Every number in a value, however deep."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | Fraction):
        yield Fraction(value)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part)


def scale_of(*values: Any) -> int:
    """The least factor that makes every number in the values whole."""
    return lcm(*[number.denominator for value in values for number in numbers(value)])


def whole(number: int | Fraction, scale: int = 1) -> int:
    """A number times a factor that makes it whole.

    Raises:
        Unsupported: It does not.
    """
    scaled = Fraction(number) * scale
    if scaled.denominator != 1:
        raise Unsupported(f"{number} is no multiple of 1/{scale}")
    return scaled.numerator


_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNIT_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def duration_ns(text: Any) -> int:
    """A time in ns, of numbers with units: "3m", "1h30m", "1.5s"; 0 if it is none or negative."""
    if not isinstance(text, str) or _PART.sub("", text):
        return 0
    return int(sum(Fraction(number) * _UNIT_NS[unit] for number, unit in _PART.findall(text)))


def same(what: str, got: object, want: object) -> None:
    """Raises `Mismatch`, naming `what` differs, unless both are equal."""
    if got != want:
        raise Mismatch(f"{what}: got {shown(got)}, expected {shown(want)}")


def shown(value: object) -> object:
    """A value with its fractions as short decimals."""
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, dict):
        return {key: shown(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [shown(part) for part in value]
    return value

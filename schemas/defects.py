"""Which value of a record its schema does not allow: the slow walk behind every `EncodeError`."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ganger.schemas.bindings import ENUMS, STRUCTS
from ganger.schemas.errors import EncodeError
from ganger.schemas.registry import NEWEST, Schema

_RANGES = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1)}
_BITS = {"int": 32, "long": 64}
_PLAIN: dict[str, tuple[type, str]] = {
    "string": (str, "a str without lone surrogates"),
    "bytes": (bytes, "bytes"),
    "boolean": (bool, "a bool"),
}


def defect_of(record: object) -> EncodeError:
    """The error that names the first field, in schema order, that cannot be encoded.

    Args:
        record: A ledger record or decision that failed to encode.
    """
    name = record.__class__.__name__
    entry = NEWEST.get(name)
    if entry is None or not isinstance(record, STRUCTS[name]):
        return EncodeError(name, "(itself)", record, "a ledger record or a decision")
    for path, value, expected in _defects(entry.schema, record, "", {}):
        return EncodeError(name, path, value, expected)
    expected = "a ledger record; a decision goes through decision_payload"
    return EncodeError(name, "(itself)", record, expected)


def _defects(
    schema: Schema, value: Any, path: str, named: dict[str, Schema]
) -> Iterator[tuple[str, Any, str]]:
    """Path, value and expectation of each part of `value` that does not fit."""
    if isinstance(schema, list):
        if value is not None:
            yield from _defects(schema[1], value, path, named)
        return
    if isinstance(schema, str) and schema not in named:
        expected = _scalar_defect(schema, value)
        if expected:
            yield path, value, expected
        return
    if isinstance(schema, str):
        schema = named[schema]
    if schema["type"] == "array":
        if not isinstance(value, tuple):
            yield path, value, "a tuple"
            return
        for index, item in enumerate(value):
            yield from _defects(schema["items"], item, f"{path}[{index}]", named)
        return
    name = schema["name"]
    named[name] = schema
    if schema["type"] == "enum":
        if not isinstance(value, ENUMS[name]):
            yield path, value, f"a member of {name}"
        return
    if not isinstance(value, Struct) or not isinstance(value, STRUCTS[name]):
        yield path, value, f"a {name}"
        return
    prefix = f"{path}." if path else ""
    for field in schema["fields"]:
        part = getattr(value, field["name"])
        yield from _defects(field["type"], part, prefix + field["name"], named)


def _scalar_defect(kind: str, value: Any) -> str:
    """What a scalar of this Avro type must be, or nothing where `value` is that."""
    if kind in _RANGES:
        least, most = _RANGES[kind]
        if isinstance(value, int) and least <= value <= most:
            return ""
        return f"an int of {_BITS[kind]} bits, {least}..{most}"
    wanted, expected = _PLAIN[kind]
    if not isinstance(value, wanted):
        return expected
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return expected
    return ""

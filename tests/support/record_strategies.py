"""Hypothesis strategies for every record, made from the schemas, and records as plain values."""

from enum import IntEnum
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from ganger.schemas.bindings import ENUMS, STRUCTS
from ganger.schemas.registry import NEWEST, Schema

INT_BITS = {"int": 32, "long": 64}


def integers(bits: int) -> st.SearchStrategy[int]:
    """Numbers of a width, often at the steps where their varints grow by a byte."""
    edges = [
        sign * (1 << power) + offset
        for power in range(0, bits, 7)
        for sign in (1, -1)
        for offset in (-1, 0, 1)
    ]
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    inside = [edge for edge in edges if least <= edge <= most]
    return st.one_of(
        st.sampled_from([0, 0, least, most, *inside]),
        st.sampled_from([edge // 2 for edge in inside]),
        st.integers(least, most),
    )


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int": integers(32),
    "long": integers(64),
    "boolean": st.booleans(),
    "string": st.one_of(
        st.sampled_from(["", "a", "worker", "node-17", "é" * 40, "x" * 63, "x" * 64, "y" * 300]),
        st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    ),
    "bytes": st.one_of(st.just(b""), st.binary(min_size=32, max_size=32), st.binary(max_size=70)),
}


def values(schema: Schema, named: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Values of a schema, as struct fields hold them.

    Args:
        schema: Any type ganger uses.
        named: Strategies of the named types met so far; filled on the way.
    """
    if isinstance(schema, list):
        return st.none() | values(schema[1], named)
    if isinstance(schema, str):
        return SCALARS[schema] if schema in SCALARS else named[schema]
    if schema["type"] == "array":
        return st.lists(values(schema["items"], named), max_size=3).map(tuple)
    name = schema["name"]
    if schema["type"] == "enum":
        named[name] = st.sampled_from(list(ENUMS[name]))
    else:
        fields = [values(field["type"], named) for field in schema["fields"]]
        named[name] = st.builds(STRUCTS[name], *fields)
    return named[name]


def records(name: str) -> st.SearchStrategy[Any]:
    """Structs of a record, or decisions (without `body`)."""
    return values(NEWEST[name].schema, {})


def plain_values(
    schema: Schema, named: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[Any]:
    """Values of a schema of any version, as an Avro library wants them.

    Args:
        schema: Any type ganger uses.
        named: Strategies of the named types met so far; filled on the way.
    """
    if isinstance(schema, list):
        return st.none() | plain_values(schema[1], named)
    if isinstance(schema, str):
        return SCALARS[schema] if schema in SCALARS else named[schema]
    if schema["type"] == "array":
        return st.lists(plain_values(schema["items"], named), max_size=2)
    if schema["type"] == "enum":
        named[schema["name"]] = st.sampled_from(schema["symbols"])
    else:
        fields = {field["name"]: plain_values(field["type"], named) for field in schema["fields"]}
        named[schema["name"]] = st.fixed_dictionaries(fields)
    return named[schema["name"]]


def plain(value: Any) -> Any:
    """A struct as an Avro library wants it: dicts, lists, symbols. `body` is left out."""
    if isinstance(value, Struct):
        names = [name for name in value.__struct_fields__ if name != "body"]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.name if isinstance(value, IntEnum) else value

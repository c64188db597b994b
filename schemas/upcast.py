"""Old versions of records lifted to the newest, one version at a time, as plain dicts.

A dict has the schema's field names, symbols for enums, lists for arrays: what an Avro reader gives.
Most growth needs no code: fields that a version lacks get the next version's defaults, fields that
the next one has dropped go. Where a meaning changed, a step in `STEPS` computes the next version's
values from the old ones first. Steps are pure: an old ledger must read the same for ever.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ganger.schemas.registry import NEWEST, Schema, entry_at

Values = dict[str, Any]
Step = Callable[[Values], Values]

STEPS: dict[tuple[str, int], Step] = {}
"""By (record, version n): values of version n to those of n + 1; must not change its argument."""


def upcast(
    name: str, version: int, values: Values, steps: Mapping[tuple[str, int], Step] = STEPS
) -> Values:
    """The values of the newest version of a record, from those of any version.

    Args:
        name: Avro name of the record.
        version: Version that `values` was written with.
        values: As an Avro reader gives them; not changed.
        steps: Steps to apply, by record and version.

    Raises:
        SchemaUnknown: A version between is missing from the registry.
    """
    for older in range(version, NEWEST[name].version):
        step = steps.get((name, older))
        if step is not None:
            values = step(values)
        values = fitted(entry_at(name, older + 1).schema, values, {})
    return values


def fitted(schema: Schema, value: Any, named: dict[str, Schema]) -> Any:
    """`value` with exactly the fields of `schema`: defaults for those it lacks, none beyond.

    Args:
        schema: Any Avro type.
        value: A value of that type or of an older version of it.
        named: Types defined so far, by name; filled on the way.
    """
    if isinstance(schema, list):
        return None if value is None else fitted(schema[1], value, named)
    if isinstance(schema, str):
        return fitted(named[schema], value, named) if schema in named else value
    if schema["type"] == "array":
        return [fitted(schema["items"], item, named) for item in value]
    if "name" not in schema:
        return value
    named[schema["name"]] = schema
    if schema["type"] != "record":
        return value
    return {field["name"]: _field(field, value, named) for field in schema["fields"]}


def _field(field: dict[str, Any], values: Values, named: dict[str, Schema]) -> Any:
    """One field's value: the old one, or the default in the form an Avro reader gives."""
    value = values[field["name"]] if field["name"] in values else field["default"]
    if field["type"] == "bytes" and isinstance(value, str):
        return value.encode("latin-1")  # how JSON writes bytes, by the Avro specification
    return fitted(field["type"], value, named)

"""Rules for schemas, and for how they may grow. Both give a list of findings; empty is good.

The form rules keep decoders safe (no recursion, no array items without bytes: either lets a few
bytes hang or crash one) and topics readable by SQL engines (no top-level union). The growth rules
are Avro's FULL_TRANSITIVE, every version reads every other, made stricter where ganger's own code
relies on it: scalars keep their type, enums grow only at the end.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ganger.schemas.registry import Schema, canonical_form

_WITH_BYTES = frozenset(("boolean", "int", "long", "float", "double", "bytes", "string"))


def form_findings(schemas: Mapping[str, Schema]) -> list[str]:
    """What is wrong with the form of these schemas.

    Args:
        schemas: Schema by the name of its file; nested types of one name must agree in all of them.

    Returns:
        One line per defect, with file, path and remedy.
    """
    findings: list[str] = []
    forms: dict[str, tuple[str, str]] = {}
    for file, schema in schemas.items():
        if not isinstance(schema, dict) or schema.get("type") != "record":
            findings.append(f"{file}: the top level is no record; wrap it in one")
            continue
        named: dict[str, Schema] = {}
        findings += [f"{file}: {what}" for what in _form(schema, "", named, ())]
        for name, nested in named.items():
            form = _full_form(nested, named)
            first, known = forms.setdefault(name, (file, form))
            if known != form:
                findings.append(f"{file}: {name} differs from the one in {first}; make them equal")
    return findings


def growth_findings(older: Schema, newer: Schema) -> list[str]:
    """Why these two versions of one record cannot each read what the other wrote.

    Returns:
        One line per defect, with path and remedy.
    """
    return list(_growth(older, newer, "", {}, {}))


def history_findings(
    frozen: Mapping[tuple[str, int], Schema], current: Mapping[tuple[str, int], Schema]
) -> list[str]:
    """Where the schemas in force break what was released.

    Args:
        frozen: Released schemas by (record, version).
        current: Schemas in force, by (record, version).

    Returns:
        One line per defect, with the remedy.
    """
    findings = []
    for (name, version), schema in frozen.items():
        if (name, version) not in current:
            findings.append(f"{name}.{version} was released and is gone; put it back")
        elif current[name, version] != schema:
            findings.append(
                f"{name}.{version} was released and has changed; restore it and add version "
                f"{_newest(current, name) + 1} beside it, in its own file and in the registry"
            )
    for name, version in current:
        if (name, version) not in frozen:
            findings.append(f"{name}.{version} is not frozen; copy it to the schema history")
    for name, version in current:
        for other in range(1, version):
            findings += [
                f"{name}.{other} and {name}.{version}: {what}"
                for what in growth_findings(current[name, other], current[name, version])
            ]
    return findings


def _newest(schemas: Mapping[tuple[str, int], Schema], name: str) -> int:
    """The newest version of a record."""
    return max(version for known, version in schemas if known == name)


def _form(
    schema: Schema, path: str, named: dict[str, Schema], inside: tuple[str, ...]
) -> Iterator[str]:
    """Defects of form below `path`; `inside` names the records around it."""
    if isinstance(schema, str):
        if schema in inside:
            yield f"{path}: {schema} holds itself; refer to it by an id instead"
        return
    if isinstance(schema, list):
        if len(schema) != 2 or schema[0] != "null":
            yield f"{path}: union {schema}; only null and one other type, null first"
        for branch in schema:
            yield from _form(branch, path, named, inside)
        return
    kind = schema["type"]
    if kind in ("array", "map"):
        items = schema["items" if kind == "array" else "values"]
        if _zero_width(items, named):
            yield f"{path}: items of no bytes; a count alone would fill the memory"
        yield from _form(items, f"{path}[]", named, inside)
    elif kind == "enum":
        named[schema["name"]] = schema
        if schema["symbols"][:1] != ["UNKNOWN"] or schema.get("default") != "UNKNOWN":
            yield f"{path}: enum {schema['name']}; its first symbol and default must be UNKNOWN"
    elif kind == "record":
        yield from _record_form(schema, path, named, inside)


def _record_form(
    schema: dict[str, Any], path: str, named: dict[str, Schema], inside: tuple[str, ...]
) -> Iterator[str]:
    """Defects of form of a record and of all its fields."""
    name = schema["name"]
    named[name] = schema
    if not schema.get("doc"):
        yield f"{path or name}: record without doc; say what it is"
    for field in schema["fields"]:
        below = f"{path}.{field['name']}".lstrip(".")
        if not field.get("doc"):
            yield f"{below}: field without doc; say what it holds, and its unit"
        yield from _form(field["type"], below, named, (*inside, name))


def _zero_width(schema: Schema, named: Mapping[str, Schema], inside: tuple[str, ...] = ()) -> bool:
    """Whether values of this type can take no byte at all."""
    if isinstance(schema, list):
        return False  # the branch's index takes one
    if isinstance(schema, str):
        if schema in _WITH_BYTES:
            return False
        if schema == "null" or schema not in named or schema in inside:
            return True
        return _zero_width(named[schema], named, (*inside, schema))
    kind = schema["type"]
    if kind == "record":
        return all(_zero_width(field["type"], named, inside) for field in schema["fields"])
    if kind == "fixed":
        return bool(schema["size"] == 0)
    return bool(kind == "null")


def _full_form(schema: Schema, named: Mapping[str, Schema]) -> str:
    """A named type's canonical form with every type it refers to written out."""
    if isinstance(schema, str):
        if schema not in named:
            return canonical_form(schema)
        others = {name: known for name, known in named.items() if name != schema}
        return _full_form(named[schema], others)
    if isinstance(schema, list):
        return "|".join(_full_form(branch, named) for branch in schema)
    if schema["type"] == "array":
        return f"[{_full_form(schema['items'], named)}]"
    if schema["type"] == "record":
        parts = ",".join(
            f"{field['name']}:{_full_form(field['type'], named)}={field.get('default')!r}"
            for field in schema["fields"]
        )
        return f"{schema['name']}({parts})"
    return canonical_form(schema)


def _growth(
    older: Schema,
    newer: Schema,
    path: str,
    older_named: dict[str, Schema],
    newer_named: dict[str, Schema],
) -> Iterator[str]:
    """Defects of growth below `path`."""
    older = _resolved(older, older_named)
    newer = _resolved(newer, newer_named)
    if isinstance(older, list) and isinstance(newer, list):
        if len(older) != len(newer):
            yield f"{path}: union of {len(older)} types, then {len(newer)}; add a field instead"
            return
        for old_branch, new_branch in zip(older, newer, strict=True):
            yield from _growth(old_branch, new_branch, path, older_named, newer_named)
    elif isinstance(older, dict) and isinstance(newer, dict) and older["type"] == newer["type"]:
        kind = older["type"]
        if kind == "array":
            yield from _growth(
                older["items"], newer["items"], f"{path}[]", older_named, newer_named
            )
        elif older["name"] != newer["name"]:
            yield f"{path}: {older['name']} became {newer['name']}; names stay"
        elif kind == "enum" and newer["symbols"][: len(older["symbols"])] != older["symbols"]:
            yield f"{path}: symbols of {older['name']} changed; only add at the end"
        elif kind == "record":
            yield from _record_growth(older, newer, path, older_named, newer_named)
    elif older != newer:
        yield f"{path}: {_shown(older)} became {_shown(newer)}; add a field instead"


def _record_growth(
    older: dict[str, Any],
    newer: dict[str, Any],
    path: str,
    older_named: dict[str, Schema],
    newer_named: dict[str, Schema],
) -> Iterator[str]:
    """Defects of growth between two versions of a record."""
    old_fields = {field["name"]: field for field in older["fields"]}
    new_fields = {field["name"]: field for field in newer["fields"]}
    for name, field in new_fields.items():
        below = f"{path}.{name}".lstrip(".")
        if name in old_fields:
            yield from _growth(
                old_fields[name]["type"], field["type"], below, older_named, newer_named
            )
        elif "default" not in field:
            yield f"{below}: new field without default; give it one"
    for name, field in old_fields.items():
        if name not in new_fields and "default" not in field:
            below = f"{path}.{name}".lstrip(".")
            yield f"{below}: dropped, but older readers have no default for it; keep it"


def _resolved(schema: Schema, named: dict[str, Schema]) -> Schema:
    """The definition behind a name; definitions met are noted under theirs."""
    if isinstance(schema, str):
        return named.get(schema, schema)
    if isinstance(schema, dict) and "name" in schema:
        named[schema["name"]] = schema
    return schema


def _shown(schema: Schema) -> str:
    """A type in a few words."""
    if isinstance(schema, dict):
        return str(schema.get("name", schema["type"]))
    return str(schema)

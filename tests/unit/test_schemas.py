"""Python types, schema files and the registry say the same."""

import inspect
import types
import typing
from enum import IntEnum
from importlib.resources import files
from typing import Any

import fastavro.schema
import pytest
from msgspec import Struct

from ganger.schemas import enums
from ganger.schemas.bindings import ENUMS, RECORDS, ROWS, STRUCTS
from ganger.schemas.decisions import Decision
from ganger.schemas.errors import SchemaUnknown
from ganger.schemas.reasons import MEANING, Reason
from ganger.schemas.records import RECORD_TYPES, Part
from ganger.schemas.registry import (
    ENTRIES,
    LEDGER_ENTRIES,
    NEWEST,
    Schema,
    canonical_form,
    entry_at,
    entry_of,
    fingerprint,
    frame_header,
)
from ganger.schemas.rows import SHOWN_TYPES

SCALARS = {
    int: ("int", "long"),
    str: ("string",),
    bytes: ("bytes",),
    bool: ("boolean",),
}
BASE_FIELDS = ["time_ns", "event_id", "source"]


def check_type(hint: Any, schema: Schema, named: dict[str, Schema], path: str) -> None:
    """Asserts that a type hint and a schema describe the same values."""
    if isinstance(schema, dict) and "name" in schema:
        named[schema["name"]] = schema
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if isinstance(hint, types.UnionType):
        (inner,) = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        assert schema[0] == "null" and len(schema) == 2, path
        check_type(inner, schema[1], named, path)
    elif typing.get_origin(hint) is tuple:
        assert schema["type"] == "array" and typing.get_args(hint)[1] is ..., path
        check_type(typing.get_args(hint)[0], schema["items"], named, f"{path}[]")
    elif hint in SCALARS:
        assert schema in SCALARS[hint], path
    elif issubclass(hint, IntEnum):
        assert (schema["type"], schema["name"]) == ("enum", hint.__name__), path
        assert schema["symbols"] == [member.name for member in hint], path
    else:
        check_struct(hint, schema, named, path)


def check_struct(kind: type[Struct], schema: Schema, named: dict[str, Schema], path: str) -> None:
    """Asserts that a struct has a record schema's fields in its order."""
    assert (schema["type"], schema["name"]) == ("record", kind.__name__), path
    names = [name for name in kind.__struct_fields__ if (kind, name) != (Decision, "body")]
    assert [field["name"] for field in schema["fields"]] == names, path
    hints = typing.get_type_hints(kind)
    for field in schema["fields"]:
        check_type(hints[field["name"]], field["type"], named, f"{path}.{field['name']}")


@pytest.mark.parametrize("name", sorted(NEWEST))
def test_structs_equal_schemas(name: str) -> None:
    check_struct(STRUCTS[name], NEWEST[name].schema, {}, name)


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_records_begin_with_the_base_fields(name: str) -> None:
    assert [field["name"] for field in NEWEST[name].schema["fields"]][:3] == BASE_FIELDS


def test_bindings_are_complete() -> None:
    assert tuple(RECORDS.values()) == RECORD_TYPES
    assert tuple(ROWS.values()) == SHOWN_TYPES
    defined = {
        enum
        for _, enum in inspect.getmembers(enums, inspect.isclass)
        if enum is not IntEnum and enum is not enums.Phase  # phases are the kernel's own
    }
    assert set(ENUMS.values()) == defined | {Reason}
    assert set(STRUCTS.values()) == {
        *RECORD_TYPES,
        *SHOWN_TYPES,
        Decision,
        *Part.__subclasses__(),
    }


def test_units_decide_widths() -> None:
    """What is counted in ns, MiB or seqs needs 64 bits in every schema."""
    for entry in ENTRIES.values():
        for path, kind in scalar_fields(entry.schema, entry.name):
            if path.endswith(("_ns", "_mib", "_seq", ".epoch", ".claim", ".offset")):
                assert kind == "long", path


def scalar_fields(schema: Schema, path: str) -> list[tuple[str, Schema]]:
    """(path, type) of all fields with a scalar type, nested ones too."""
    if isinstance(schema, list):
        return scalar_fields(schema[1], path)
    if isinstance(schema, str):
        return [(path, schema)]
    if schema["type"] == "array":
        return scalar_fields(schema["items"], path)
    fields = schema.get("fields", ())
    return [
        found
        for field in fields
        for found in scalar_fields(field["type"], f"{path}.{field['name']}")
    ]


def test_every_reason_has_a_meaning_with_its_numbers() -> None:
    assert set(MEANING) == set(Reason)
    for text in MEANING.values():
        assert "{" not in text.format(asked=1, free=2, limit=3)


def test_every_file_is_registered() -> None:
    folder = files("ganger.schemas") / "avro"
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(".avsc"))
    assert found == sorted(f"{entry.name}.{entry.version}.avsc" for entry in ENTRIES.values())


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.schema_id)
def test_canonical_form_is_avros(entry: Any) -> None:
    assert canonical_form(entry.schema) == fastavro.schema.to_parsing_canonical_form(entry.schema)


def test_canonical_form_of_what_records_do_not_use() -> None:
    assert canonical_form({"type": "map", "values": "long"}) == '{"type":"map","values":"long"}'
    assert canonical_form({"type": "string"}) == '"string"'
    hash_type = {"type": "fixed", "name": "Hash", "namespace": "ganger", "size": 16}
    assert canonical_form(hash_type) == '{"name":"ganger.Hash","type":"fixed","size":16}'
    with pytest.raises(ValueError, match="'struct' is no Avro type"):
        canonical_form({"type": "struct", "name": "Hash"})


def test_registry_by_id_and_version() -> None:
    assert entry_of(2401) is entry_at("Tick", 1) is NEWEST["Tick"]
    assert frame_header(2401) == b"\0\0\0\x09\x61"
    with pytest.raises(SchemaUnknown, match="schema id 2499 is not known; a newer ganger") as error:
        entry_of(2499)
    assert error.value.schema_id == 2499
    with pytest.raises(SchemaUnknown):
        entry_at("Tick", 0)


def test_fingerprint_covers_the_set_of_ids() -> None:
    newest = [entry.schema_id for entry in LEDGER_ENTRIES]
    assert fingerprint() == fingerprint(reversed(newest)) == fingerprint(newest * 2)
    assert len({fingerprint(), fingerprint(newest[1:]), fingerprint([])}) == 3
    with pytest.raises(SchemaUnknown):
        fingerprint([7])


def test_rows_leave_the_fingerprint_alone() -> None:
    assert {entry.name for entry in LEDGER_ENTRIES} == {*RECORDS, "Decision"}
    every = [entry.schema_id for entry in NEWEST.values()]
    assert len(every) == len(LEDGER_ENTRIES) + len(ROWS)
    assert fingerprint() != fingerprint(every)

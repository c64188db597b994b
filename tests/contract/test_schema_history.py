"""Released schemas never change, and every version of a record reads every other.

`schema_history` keeps a frozen copy of each released schema, and the ids. To release a version: add
`schemas/avro/<Name>.<n>.avsc`, raise the version in `schemas/registry.py`, copy the file here and
add its id to `ids.json`. Nothing that is here is ever edited.
"""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.schemas.lint import form_findings, growth_findings, history_findings
from ganger.schemas.registry import ENTRIES, LEDGER_ENTRIES, NEWEST, Schema, entry_at, fingerprint
from support.record_strategies import plain_values

HISTORY = Path(__file__).with_name("schema_history")


def frozen() -> dict[tuple[str, int], Schema]:
    """Released schemas by (record, version)."""
    found = {}
    for path in sorted(HISTORY.glob("*.avsc")):
        name, version, _ = path.name.split(".")
        found[name, int(version)] = json.loads(path.read_text(encoding="utf-8"))
    return found


CURRENT = {(entry.name, entry.version): entry.schema for entry in ENTRIES.values()}


def test_released_schemas_are_kept_and_grow_by_the_rules() -> None:
    findings = history_findings(frozen(), CURRENT)
    assert not findings, "\n".join(findings)


def test_ids_are_kept() -> None:
    ids = json.loads((HISTORY / "ids.json").read_text(encoding="utf-8"))
    here = {f"{entry.name}.{entry.version}": entry.schema_id for entry in ENTRIES.values()}
    assert here == ids, "ids never change; a new version adds its own to ids.json"


def test_all_schemas_keep_the_form_rules() -> None:
    newest = {entry.name: entry.schema for entry in NEWEST.values()}
    assert form_findings(newest) == []


def test_the_fingerprint_of_the_first_release() -> None:
    first = [entry_at(entry.name, 1).schema_id for entry in LEDGER_ENTRIES]
    assert fingerprint(first).hex() == (HISTORY / "fingerprint-1.txt").read_text().strip()


def test_a_changed_schema_is_found() -> None:
    changed = json.loads(json.dumps(CURRENT["Tick", 1]))
    changed["fields"][0]["doc"] = "changed"
    found = history_findings(frozen(), CURRENT | {("Tick", 1): changed})
    assert found == [
        "Tick.1 was released and has changed; restore it and add version 2 beside it, "
        "in its own file and in the registry"
    ]


def test_a_new_version_must_be_frozen_and_readable() -> None:
    grown = json.loads(json.dumps(CURRENT["Tick", 1]))
    grown["fields"].append({"name": "leap", "type": "int", "doc": "Leap seconds."})
    found = history_findings(frozen(), CURRENT | {("Tick", 2): grown})
    assert found == [
        "Tick.2 is not frozen; copy it to the schema history",
        "Tick.1 and Tick.2: leap: new field without default; give it one",
    ]
    assert history_findings({("Tick", 1): grown}, {}) == [
        "Tick.1 was released and is gone; put it back"
    ]


def check_pair(writer: Schema, reader: Schema, value: dict[str, Any]) -> None:
    """fastavro reads with `reader` what it wrote with `writer`, to the last byte."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, writer, value)
    stream.seek(0)
    read = fastavro.schemaless_reader(stream, writer, reader)
    assert stream.read() == b""
    assert same_where_both_have(value, read), (value, read)


def same_where_both_have(written: Any, read: Any) -> bool:
    """Whether two values agree in all fields that both have; symbols unknown here are UNKNOWN."""
    if isinstance(written, dict) and isinstance(read, dict):
        both = written.keys() & read.keys()
        return bool(both) and all(same_where_both_have(written[key], read[key]) for key in both)
    if isinstance(written, list) and isinstance(read, list):
        return len(written) == len(read) and all(map(same_where_both_have, written, read))
    return bool(written == read) or read == "UNKNOWN"


@pytest.mark.parametrize("name", sorted(NEWEST))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_every_version_reads_every_other(name: str, data: st.DataObject) -> None:
    versions = [schema for (other, _), schema in frozen().items() if other == name]
    for writer in versions:
        value = data.draw(plain_values(writer, {}))
        for reader in versions:
            check_pair(writer, reader, value)


def grown_pair() -> tuple[Schema, Schema]:
    """PodFailed as it is, and with a field in the middle, one dropped and a symbol more."""
    older = CURRENT["PodFailed", 1]
    newer = json.loads(json.dumps(older))
    newer["fields"] = [field for field in newer["fields"] if field["name"] != "message"]
    failure = next(field for field in newer["fields"] if field["name"] == "failure")
    failure["type"]["symbols"].append("STRUCK_BY_LIGHTNING")
    newer["fields"].insert(4, {"name": "signal", "doc": "Signal.", "type": "int", "default": 0})
    return older, newer


@settings(deadline=None)
@given(data=st.data())
def test_a_version_that_grows_by_the_rules_is_readable(data: st.DataObject) -> None:
    older, newer = grown_pair()
    assert growth_findings(older, newer) == []
    for writer, reader in (grown_pair(), reversed(grown_pair())):
        check_pair(writer, reader, data.draw(plain_values(writer, {})))

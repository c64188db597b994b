"""The schema rules find what they forbid, and nothing else."""

from typing import Any

import pytest

from ganger.schemas.lint import form_findings, growth_findings
from ganger.schemas.registry import Schema


def record(name: str, *fields: Any, doc: str = "A record.") -> dict[str, Any]:
    """A record schema; a field is (name, type) or (name, type, default)."""
    made = []
    for field in fields:
        schema = {"name": field[0], "doc": "A field.", "type": field[1]}
        if len(field) == 3:
            schema["default"] = field[2]
        made.append(schema)
    return {"type": "record", "name": name, "doc": doc, "fields": made}


def array(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items}


def enum(*symbols: str, default: str | None = "UNKNOWN") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "enum", "name": "E", "symbols": list(symbols)}
    return schema | ({"default": default} if default else {})


NO_DOC = {"type": "record", "name": "R", "doc": "A record.", "fields": []}

FORM = [
    (["null", "string"], "the top level is no record"),
    ("string", "the top level is no record"),
    (record("R", ("next", ["null", "R"])), "next: R holds itself"),
    (record("R", ("a", record("S", ("b", array("R"))))), "a.b[]: R holds itself"),
    (record("R", ("a", array("null"))), "a: items of no bytes"),
    (record("R", ("a", array({"type": "null"}))), "a: items of no bytes"),
    (record("R", ("a", array(record("S")))), "a: items of no bytes"),
    (record("R", ("a", array(record("S", ("b", record("T")))))), "a: items of no bytes"),
    (record("R", ("s", record("S")), ("a", array("S"))), "a: items of no bytes"),
    (record("R", ("a", {"type": "map", "values": "null"})), "a: items of no bytes"),
    (
        record("R", ("a", array({"type": "fixed", "name": "F", "size": 0}))),
        "a: items of no bytes",
    ),
    (record("R", ("a", ["string", "null"])), "a: union ['string', 'null']; only null and one"),
    (record("R", ("a", ["null", "int", "string"])), "only null and one other type"),
    (record("R", ("a", enum("A", "B", default=None))), "its first symbol and default"),
    (record("R", ("a", enum("A", "UNKNOWN"))), "its first symbol and default"),
    (record("R", ("a", enum("UNKNOWN", "A", default="A"))), "its first symbol and default"),
    (record("R", ("a", "int"), doc=""), "R: record without doc"),
    ({**NO_DOC, "fields": [{"name": "a", "type": "int"}]}, "a: field without doc"),
]


@pytest.mark.parametrize(("schema", "finding"), FORM)
def test_forbidden_forms(schema: Schema, finding: str) -> None:
    found = form_findings({"R": schema})
    assert len(found) == 1 and found[0].startswith("R: ") and finding in found[0]


GOOD = record(
    "R",
    ("a", "int"),
    ("b", ["null", record("S", ("e", enum("UNKNOWN", "A")))], None),
    ("c", array("S"), []),
    ("d", array({"type": "fixed", "name": "F", "size": 1}), []),
    ("e", array(["null", "string"]), []),
    ("f", "E", "UNKNOWN"),
)


def test_a_good_form() -> None:
    assert form_findings({"R": GOOD, "Q": GOOD | {"name": "Q"}}) == []


def test_one_name_has_one_definition() -> None:
    other = record("Q", ("s", record("S", ("e", enum("UNKNOWN", "A", "B")))))
    found = form_findings({"R": GOOD, "Q": other})
    assert found == [
        "Q: S differs from the one in R; make them equal",
        "Q: E differs from the one in R; make them equal",
    ]


GROWTH = [
    (record("R", ("a", "int")), record("R", ("b", "int", 0), ("a", "int")), ""),
    (record("R", ("a", "int"), ("b", "int", 0)), record("R", ("a", "int")), ""),
    (record("R", ("a", enum("UNKNOWN"))), record("R", ("a", enum("UNKNOWN", "A"))), ""),
    (
        record("R", ("s", record("S", ("a", "int"))), ("t", array("S"))),
        record("R", ("s", record("S", ("a", "int"), ("b", "int", 0))), ("t", array("S"))),
        "",
    ),
    (record("R", ("a", "int")), record("R", ("a", "int"), ("b", "int")), "b: new field without"),
    (record("R", ("a", "int"), ("b", "int")), record("R", ("a", "int")), "b: dropped, but older"),
    (record("R", ("a", "int")), record("R", ("a", "long")), "a: int became long"),
    (record("R", ("a", "int")), record("R", ("a", array("int"))), "a: int became array"),
    (record("R", ("a", array("int"))), record("R", ("a", array("long"))), "a[]: int became long"),
    (
        record("R", ("a", enum("UNKNOWN", "A", "B"))),
        record("R", ("a", enum("UNKNOWN", "B", "A"))),
        "a: symbols of E changed",
    ),
    (
        record("R", ("a", enum("UNKNOWN", "A"))),
        record("R", ("a", enum("UNKNOWN"))),
        "a: symbols of E changed",
    ),
    (record("R", ("a", "int")), record("Q", ("a", "int")), ": R became Q"),
    (
        record("R", ("a", ["null", "int"])),
        record("R", ("a", ["null", "int", "string"])),
        "a: union of 2 types, then 3",
    ),
    (record("R", ("a", ["null", "int"])), record("R", ("a", ["null", "long"])), "a: int became"),
    (record("R", ("a", "int")), record("R", ("a", ["null", "int"])), "a: int became"),
    (
        record("R", ("s", record("S", ("a", "int"))), ("t", array("S"))),
        record("R", ("s", record("S", ("a", "int"), ("b", "int"))), ("t", array("S"))),
        "s.b: new field without default",
    ),
]


@pytest.mark.parametrize(("older", "newer", "finding"), GROWTH)
def test_growth(older: Schema, newer: Schema, finding: str) -> None:
    found = growth_findings(older, newer)
    assert bool(found) == bool(finding)
    assert not finding or finding in found[0]

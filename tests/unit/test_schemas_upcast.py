"""Older versions are lifted step by step; a fake older Tick and Decision stand for real ones."""

import io
import json
from typing import Any

import fastavro
import pytest

from ganger.schemas import registry, upcast
from ganger.schemas.codec import decode_decision, decode_record, decode_untrusted
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_body
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.errors import PayloadCorrupt, PayloadRefused, Refusal, SchemaUnknown
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Tick
from ganger.schemas.registry import NEWEST, Entry, Schema, frame_header


def older(name: str, version: int, drop: str, *extra: dict[str, Any]) -> Entry:
    """A version of a record from before its first: one field fewer, others instead."""
    schema = json.loads(json.dumps(NEWEST[name].schema))
    schema["fields"] = [field for field in schema["fields"] if field["name"] != drop]
    schema["fields"] += extra
    schema_id = NEWEST[name].schema_id - 1 + version
    return Entry(name, version, schema_id, schema)


def written(entry: Entry, values: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, entry.schema, values)
    return frame_header(entry.schema_id) + stream.getvalue()


TICK_0 = older("Tick", 0, "cycle", {"name": "cycles", "type": "int"})
TICK_0_VALUES = {"time_ns": 5, "event_id": "", "source": None, "epoch": 9, "cycles": 2}


@pytest.fixture
def old_tick(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A payload of a Tick that counted cycles; the registry and a step know it."""
    monkeypatch.setitem(registry.ENTRIES, TICK_0.schema_id, TICK_0)

    def count_to_flag(values: dict[str, Any]) -> dict[str, Any]:
        return values | {"cycle": values["cycles"] > 0}

    monkeypatch.setitem(upcast.STEPS, ("Tick", 0), count_to_flag)
    return written(TICK_0, TICK_0_VALUES)


def test_an_old_record_is_read_by_both_entrances(old_tick: bytes) -> None:
    assert decode_record(old_tick) == Tick(5, "", None, 9, True)
    assert decode_untrusted(old_tick) == Tick(5, "", None, 9, True)


def test_damaged_old_records_are_refused(old_tick: bytes) -> None:
    for size in range(5, len(old_tick)):
        with pytest.raises(PayloadRefused) as refused:
            decode_untrusted(old_tick[:size])
        assert refused.value.refusal is Refusal.TRUNCATED
        with pytest.raises(PayloadCorrupt):
            decode_record(old_tick[:size])
    cases = {old_tick + b"\0": Refusal.TRAILING_BYTES, old_tick[:-1] + b"\x84\0": None}
    for payload, refusal in cases.items():
        with pytest.raises(PayloadRefused) as refused:
            decode_untrusted(payload)
        assert refused.value.refusal is (refusal or Refusal.NOT_CANONICAL)


def test_without_a_step_defaults_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.ENTRIES, TICK_0.schema_id, TICK_0)
    assert decode_record(written(TICK_0, TICK_0_VALUES)) == Tick(5, "", None, 9, False)


def test_versions_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """From -1 over 0 to 1, each step on the values of the one before; arguments stay untouched."""
    for version in (-1, 0):
        entry = TICK_0._replace(version=version, schema_id=2400 + version)
        monkeypatch.setitem(registry.ENTRIES, entry.schema_id, entry)
    steps = {
        ("Tick", -1): lambda values: {**values, "cycles": values["cycles"] * 10},
        ("Tick", 0): lambda values: {**values, "epoch": values["epoch"] + values["cycles"]},
    }
    values = dict(TICK_0_VALUES)
    lifted = upcast.upcast("Tick", -1, values, steps)
    assert lifted == {"time_ns": 5, "event_id": "", "source": None, "epoch": 29, "cycle": False}
    assert values == TICK_0_VALUES
    with pytest.raises(SchemaUnknown):
        upcast.upcast("Tick", -3, values, {})


def test_defaults_reach_nested_values() -> None:
    inner: Schema = {
        "type": "record",
        "name": "Inner",
        "fields": [
            {"name": "kept", "type": "int"},
            {"name": "added", "type": "bytes", "default": "\u00ff"},
        ],
    }
    outer = {
        "type": "record",
        "name": "Outer",
        "fields": [
            {"name": "one", "type": ["null", inner]},
            {"name": "many", "type": {"type": "array", "items": "Inner"}},
            {"name": "plain", "type": {"type": "string"}, "default": "x"},
            {"name": "new", "type": "Inner", "default": {"kept": 4}},
        ],
    }
    old = {"one": {"kept": 1, "dropped": 2}, "many": [{"kept": 3}], "gone": 0}
    assert upcast.fitted(outer, old, {}) == {
        "one": {"kept": 1, "added": b"\xff"},
        "many": [{"kept": 3, "added": b"\xff"}],
        "plain": "x",
        "new": {"kept": 4, "added": b"\xff"},
    }
    assert upcast.fitted(outer, old | {"one": None}, {})["one"] is None


def test_an_old_decision_keeps_its_hashed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns after `chain` may come and go: the bytes before it stay what they were."""
    entry = older("Decision", 0, "", {"name": "colour", "type": "string"})
    monkeypatch.setitem(registry.ENTRIES, entry.schema_id, entry)
    decision = Decision(
        *("cell", 7, 0, 5, DecisionKind.ADMIT, "job", "", -1, 0, "", (), 0, 0, Tier.UNKNOWN, 0),
        *("", Reason.WITHIN_LIMITS, 1, 2, 3, b"8 bytes!", 0, 0, 0, b""),
        chain=b"c" * 32,
    )
    decision.body = decision_body(decision)
    payload = frame_header(entry.schema_id) + decision.body + b"\x40" + b"c" * 32 + b"\x06red"
    assert decode_decision(payload) == decision
    with pytest.raises(PayloadCorrupt, match="not_a_record: schema id 6400 is of Decision"):
        decode_record(payload)

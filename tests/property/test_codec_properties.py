"""For any record: our bytes are fastavro's, and reading them gives the record back."""

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.schemas.codec import (
    decode_by_fastavro,
    decode_decision,
    decode_record,
    decode_row,
    decode_untrusted,
)
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import (
    decision_body,
    decision_hashed,
    decision_payload,
    encode_record,
    encode_row,
)
from ganger.schemas.errors import EncodeError, PayloadCorrupt, PayloadRefused
from ganger.schemas.records import RECORD_TYPES, Tick
from ganger.schemas.registry import NEWEST, frame_header
from ganger.schemas.rows import SHOWN_TYPES
from support.record_strategies import plain, records

RECORD_NAMES = [kind.__name__ for kind in RECORD_TYPES]
PARSED = {name: fastavro.parse_schema(entry.schema) for name, entry in NEWEST.items()}
STRATEGIES = {name: records(name) for name in NEWEST}


def reference(name: str, value: Any) -> bytes:
    """Framing and fastavro's body."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, PARSED[name], plain(value))
    return frame_header(NEWEST[name].schema_id) + stream.getvalue()


@pytest.mark.parametrize("name", RECORD_NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_bytes_equal_fastavros_and_read_back(name: str, data: st.DataObject) -> None:
    record = data.draw(STRATEGIES[name])
    payload = encode_record(record)
    assert payload == reference(name, record)
    assert encode_record(record) == payload  # from the tables now
    for decode in (decode_record, decode_untrusted, decode_by_fastavro, decode_record):
        again = decode(payload)
        assert again == record
        assert repr(again) == repr(record)  # enum members and bools, not equal ints


@pytest.mark.parametrize("name", [kind.__name__ for kind in SHOWN_TYPES])
@settings(max_examples=40)
@given(data=st.data())
def test_rows_are_fastavros_too_and_no_records(name: str, data: st.DataObject) -> None:
    row = data.draw(STRATEGIES[name])
    payload = encode_row(row)
    assert payload == reference(name, row) == encode_row(row)
    for decode in (decode_row, decode_by_fastavro, decode_row):
        assert repr(decode(payload)) == repr(row)
    with pytest.raises(PayloadCorrupt, match="schema id"):
        decode_record(payload)
    with pytest.raises(PayloadRefused, match="schema id"):
        decode_untrusted(payload)
    with pytest.raises(EncodeError):
        encode_record(row)


@given(record=STRATEGIES["Tick"])
def test_records_are_no_rows(record: Tick) -> None:
    with pytest.raises(PayloadCorrupt, match="is no row's"):
        decode_row(encode_record(record))
    with pytest.raises(EncodeError):
        encode_row(record)  # type: ignore[arg-type]
    with pytest.raises(PayloadCorrupt, match="starts with"):
        decode_row(b"\1")
    with pytest.raises(PayloadCorrupt, match="ends inside"):
        decode_row(frame_header(NEWEST["JobRow"].schema_id))


@settings(max_examples=200)
@given(decision=STRATEGIES["Decision"])
def test_decisions(decision: Decision) -> None:
    expected = reference("Decision", decision)
    body = decision_body(decision)
    assert decision_hashed(decision, 1) == body
    assert decision_payload(decision) == expected
    again = decode_decision(expected)
    assert again.body == body
    assert decision_payload(again) == expected
    again.body = b""
    assert repr(again) == repr(decision)
    assert decode_by_fastavro(expected) == decision


@pytest.mark.parametrize("name", ["JobSubmitRequested", "NodeHeartbeat", "PodStarted"])
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_mean_what_they_say(name: str, data: st.DataObject) -> None:
    payload = bytearray(encode_record(data.draw(STRATEGIES[name])))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] ^= data.draw(st.integers(1, 255))
    _refused_or_canonical(bytes(payload))


@settings(max_examples=300)
@given(name=st.sampled_from(RECORD_NAMES), body=st.binary(max_size=80))
def test_random_bytes_are_refused_or_mean_what_they_say(name: str, body: bytes) -> None:
    _refused_or_canonical(frame_header(NEWEST[name].schema_id) + body)


def _refused_or_canonical(payload: bytes) -> None:
    """Untrusted bytes either are refused, or fastavro reads and writes them the same."""
    try:
        record = decode_untrusted(payload)
    except PayloadRefused:
        return
    assert repr(decode_by_fastavro(payload)) == repr(record)
    assert reference(type(record).__name__, record) == payload

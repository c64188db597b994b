"""Bytes to records and decisions, whoever wrote them and however old; the only user of fastavro.

Bytes of the newest schemas go through the generated decoders of `decoding`. fastavro reads older
versions, whose values are then lifted by `upcast`, and is the reference that tests hold the
generated code to. Two entrances differ in trust: `decode_record` is for ledger bytes, whose hash
was checked; `decode_untrusted` is for what producers send.
"""

import io
from collections.abc import Callable
from typing import Any, cast

import fastavro

from ganger.schemas.bindings import ENUMS, RECORDS, ROWS, STRUCTS
from ganger.schemas.decisions import Decision
from ganger.schemas.decoding import (
    DECISION_HEADER,
    DECODE_FAILURES,
    RECORD_DECODERS,
    ROW_DECODERS,
    corrupt,
    decode_newest_decision,
)
from ganger.schemas.encoding import DECISION_LAYOUTS, encode_record
from ganger.schemas.errors import (
    EncodeError,
    PayloadCorrupt,
    PayloadRefused,
    Refusal,
    SchemaUnknown,
)
from ganger.schemas.records import Record
from ganger.schemas.registry import NEWEST, Entry, Schema, entry_of
from ganger.schemas.rows import Shown
from ganger.schemas.upcast import upcast

PAYLOAD_BYTES_MAX = 1 << 20
"""Default cap on an untrusted payload, Kafka's own default for a message."""

_HEADER_BYTES = 5


def decode_record(payload: bytes) -> Record:
    """The record in the bytes of a ledger, of any version, lifted to the newest.

    Raises:
        PayloadCorrupt: The bytes are no record, though their hash was right.
        SchemaUnknown: A newer version wrote them.
    """
    decode = RECORD_DECODERS.get(payload[:_HEADER_BYTES])
    try:
        return _decode_any(payload) if decode is None else decode(payload)
    except DECODE_FAILURES as error:
        raise corrupt(payload, error) from error


def decode_decision(payload: bytes) -> Decision:
    """The decision in a payload of any version, with `chain` and `body` set.

    Raises:
        PayloadCorrupt: The bytes are no decision.
        SchemaUnknown: A newer version wrote them.
    """
    try:
        if payload.startswith(DECISION_HEADER):
            return decode_newest_decision(payload)
        return _decode_old_decision(payload)
    except DECODE_FAILURES as error:
        raise corrupt(payload, error) from error


def decode_row(payload: bytes) -> Shown:
    """The row, or what carries rows, in a payload of any version, lifted to the newest.

    Raises:
        PayloadCorrupt: The bytes are none.
        SchemaUnknown: A newer version wrote them.
    """
    decode = ROW_DECODERS.get(payload[:_HEADER_BYTES])
    try:
        return _decode_old_row(payload) if decode is None else decode(payload)
    except DECODE_FAILURES as error:
        raise corrupt(payload, error) from error


def decode_untrusted(payload: bytes, *, max_bytes: int = PAYLOAD_BYTES_MAX) -> Record:
    """The record in bytes from anywhere, if they are exactly what ganger itself would write.

    The value is encoded again and compared, which finds what decoders let pass: numbers longer than
    needed, arrays in pieces, negative indexes.

    Args:
        payload: Confluent framing and body.
        max_bytes: Cap on the payload, checked before anything is decoded.

    Raises:
        PayloadRefused: In every other case, whatever the bytes are.
    """
    entry = _checked_entry(payload, max_bytes)
    newest = entry is NEWEST[entry.name]
    try:
        if newest:
            record = RECORD_DECODERS[payload[:_HEADER_BYTES]](payload)
            again = encode_record(record)
        else:
            values = _read(entry.schema, payload)
            again = payload[:_HEADER_BYTES] + _write(entry.schema, values)
            record = build_record(entry.name, upcast(entry.name, entry.version, values))
    except EncodeError as error:
        raise PayloadRefused(Refusal.MALFORMED, str(error)) from error
    except Exception as error:  # hostile bytes: whatever a decoder raises, the bytes are refused
        reason = corrupt(payload, error)
        raise PayloadRefused(reason.refusal, reason.detail) from error
    if again != payload:
        raise PayloadRefused(
            Refusal.NOT_CANONICAL,
            f"the value is written in {len(again)} other bytes than these {len(payload)}",
        )
    return record


def _checked_entry(payload: bytes, max_bytes: int) -> Entry:
    """The schema that an untrusted payload names, if its frame is good and a record's."""
    if len(payload) > max_bytes:
        raise PayloadRefused(
            Refusal.TOO_LARGE, f"{len(payload)} bytes; at most {max_bytes} are read"
        )
    if len(payload) < _HEADER_BYTES:
        raise PayloadRefused(
            Refusal.TOO_SHORT, f"{len(payload)} bytes; {_HEADER_BYTES} come before the body"
        )
    if payload[0] != 0:
        raise PayloadRefused(Refusal.BAD_MAGIC, f"first byte is {payload[0]}; 0 is right")
    try:
        entry = entry_of(_schema_id(payload))
    except SchemaUnknown as error:
        raise PayloadRefused(Refusal.UNKNOWN_SCHEMA, str(error)) from error
    if entry.name not in RECORDS:
        raise PayloadRefused(
            Refusal.NOT_A_RECORD, f"schema id {entry.schema_id} is of {entry.name}"
        )
    return entry


def _schema_id(payload: bytes) -> int:
    """The schema id in a payload's frame."""
    return int.from_bytes(payload[1:_HEADER_BYTES], "big")


def _framed_entry(payload: bytes) -> Entry:
    """The schema that a trusted payload names."""
    if len(payload) < _HEADER_BYTES or payload[0] != 0:
        raise PayloadCorrupt(Refusal.BAD_MAGIC, f"starts with {payload[:_HEADER_BYTES]!r}")
    return entry_of(_schema_id(payload))


def decode_by_fastavro(payload: bytes) -> Record | Decision | Shown:
    """What a payload of any version holds, read by fastavro: slow, and the reference.

    `body` of a decision is left empty.

    Raises:
        PayloadCorrupt: There are bytes after the value, or too few of framing.
        SchemaUnknown: The schema id is not known.
        Exception: Whatever fastavro raises on bytes that are no value of the schema.
    """
    entry = _framed_entry(payload)
    values = _read(entry.schema, payload)
    values = upcast(entry.name, entry.version, values)
    return cast(Record | Decision | Shown, build_record(entry.name, values))


def _decode_any(payload: bytes) -> Record:
    """The record in a payload that is not of a newest record schema."""
    entry = _framed_entry(payload)
    if entry.name not in RECORDS:
        raise PayloadCorrupt(
            Refusal.NOT_A_RECORD, f"schema id {entry.schema_id} is of {entry.name}"
        )
    return cast(Record, decode_by_fastavro(payload))


def _decode_old_row(payload: bytes) -> Shown:
    """The row in a payload that is not of a newest row schema."""
    entry = _framed_entry(payload)
    if entry.name not in ROWS:
        raise PayloadCorrupt(Refusal.NOT_A_RECORD, f"schema id {entry.schema_id} is no row's")
    return cast(Shown, decode_by_fastavro(payload))


def _decode_old_decision(payload: bytes) -> Decision:
    """The decision in a payload that is not of the newest decision schema."""
    entry = _framed_entry(payload)
    if entry.name != "Decision":
        raise PayloadCorrupt(Refusal.NOT_A_RECORD, f"schema id {entry.schema_id} is no Decision")
    decision = cast(Decision, decode_by_fastavro(payload))
    before_chain = DECISION_LAYOUTS[1]
    fields = [field for field in entry.schema["fields"] if field["name"] in before_chain]
    stream = io.BytesIO(payload)
    stream.seek(_HEADER_BYTES)
    fastavro.schemaless_reader(stream, {**entry.schema, "fields": fields}, None)
    decision.body = payload[_HEADER_BYTES : stream.tell()]
    return decision


def _read(schema: Schema, payload: bytes) -> dict[str, Any]:
    """The values of a payload's body, all of which must be consumed."""
    stream = io.BytesIO(payload)
    stream.seek(_HEADER_BYTES)
    try:
        values = cast(dict[str, Any], fastavro.schemaless_reader(stream, schema, None))
    except EOFError as error:
        raise PayloadCorrupt(Refusal.TRUNCATED, f"ends after {len(payload)} bytes") from error
    if stream.tell() != len(payload):
        raise PayloadCorrupt(
            Refusal.TRAILING_BYTES,
            f"the record ends at byte {stream.tell()}, its payload at {len(payload)}",
        )
    return values


def _write(schema: Schema, values: dict[str, Any]) -> bytes:
    """The body of these values."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, values)
    return stream.getvalue()


class _Builders:
    """Functions from an Avro reader's values to structs, generated per record type."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def expression(self, schema: Schema, value: str) -> str:
        """An expression for the struct's value, from the one that `value` names."""
        if isinstance(schema, list):
            return f"(None if {value} is None else {self.expression(schema[1], value)})"
        if isinstance(schema, str):
            if schema in ENUMS:
                return f"{schema}[{value}]"
            return f"build_{schema}({value})" if schema in STRUCTS else value
        if schema["type"] == "array":
            return f"tuple([{self.expression(schema['items'], 'item')} for item in {value}])"
        name = schema["name"]
        if schema["type"] == "enum":
            self.names[name] = ENUMS[name].__members__
        elif f"build_{name}" not in self.names:
            self.define(schema)
        return self.expression(name, value)

    def define(self, schema: Schema) -> Callable[[dict[str, Any]], Any]:
        """Compiles the builder of a record."""
        name = schema["name"]
        arguments = ", ".join(
            self.expression(field["type"], f"v[{field['name']!r}]") for field in schema["fields"]
        )
        self.names[name] = STRUCTS[name]
        source = f"def build_{name}(v):\n    return {name}({arguments})\n"
        exec(compile(source, f"<build_{name}>", "exec"), self.names)
        build: Callable[[dict[str, Any]], Any] = self.names[f"build_{name}"]
        return build


_builders = _Builders()
_BUILD = {name: _builders.define(entry.schema) for name, entry in NEWEST.items()}


def build_record(name: str, values: dict[str, Any]) -> Any:
    """The struct of the record `name` from values of its newest version.

    Raises:
        KeyError: A field is missing, or a symbol is none of its enum.
    """
    return _BUILD[name](values)

"""From records and decisions to bytes, by encoders generated from the schemas; no third party.

The obvious encoder walks a schema and calls a function per field. Here that walk is done once, at
import: it writes a Python function per record that joins the pieces of all fields in one
expression, and pieces come from bounded tables, since most values (small numbers, names, times of
one cycle) repeat. The bytes equal fastavro's; a test holds them to that. Generated functions read
their fields in schema order and check nothing but ranges and types; when one fails, `defects` walks
the record slowly to name the field.

The tables decide how fast bytes are made, never which: they may be emptied at any time. (A value of
a wrong type that equals a right one, as 1.0 does 1, may be found in a table and written as that
one; the type checker keeps such values away.)

What the decision chain covers is named by a *layout*, so that columns can be added without touching
old chains. Layout 1 is every field before `chain`, in schema order. A later column is put after
`chain` on the wire and gets a new layout, a longer tuple that starts with layout 1's; the flag in
force says which layout a cell hashes. So the body made for layout 1 stays a prefix of every
layout's bytes and, as it is, the part of the payload before `chain`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from ganger.schemas.bindings import ENUMS, RARELY_SUBMITTED, RECORDS, ROWS
from ganger.schemas.decisions import Decision
from ganger.schemas.defects import defect_of
from ganger.schemas.records import Record
from ganger.schemas.registry import NEWEST, Schema, frame_header
from ganger.schemas.rows import Shown

_K = TypeVar("_K", bound=Hashable)

MEMO_MAX = 1 << 13  # entries per table, some 2 MiB at most
TEXTS_MAX = 1 << 15  # the same for names, so that nodes and jobs of a large cell find room
_MEMO_BYTES_MAX = 256  # longer pieces are not kept

DECISION_LAYOUTS: dict[int, tuple[str, ...]] = {
    1: (
        "cell",
        "cause_seq",
        "index",
        "time_ns",
        "kind",
        "job",
        "role",
        "pod",
        "attempt",
        "node",
        "cards",
        "card_milli",
        "card_memory_mib",
        "tier",
        "protected_until_ns",
        "for_job",
        "reason",
        "asked",
        "free",
        "limit",
        "policy",
        "started_count",
        "evicted_count",
        "waiting_count",
        "digest",
        "queue",
        "rule",
        "start_ns",
        "start_late_ns",
        "until_ns",
        "estimate_ns",
        "estimate_source",
        "margin_ns",
        "protect_ns",
        "hold_ns",
        "risk_milli",
        "idle",
        "count",
        "order",
        "considered",
        "flavors",
    ),
}
"""Fields that the decision chain hashes, by layout number; released layouts never change."""

_NEVER_TWICE = frozenset(("chain", "digest", "record_hash", "snapshot_sha256", "row"))
"""Fields of type bytes whose values do not repeat, so that no table should keep them."""

_OFTEN_EQUAL = frozenset(("RetryPolicy",))
"""Nested records that most records of a cell have in common; a table finds their bytes at once."""

_EMPTY_TOGETHER: dict[str, tuple[tuple[str, ...], ...]] = {
    "PodRequest": (
        ("card_milli", "card_memory_mib", "min_card_memory_mib", "models"),
        ("resources", "selectors", "tolerations"),
    ),
    "Decision": (
        ("role", "pod", "attempt", "node", "cards", "card_milli", "card_memory_mib"),
        ("card_milli", "card_memory_mib"),
        ("protected_until_ns", "for_job"),
        ("asked", "free", "limit"),
        ("started_count", "evicted_count", "waiting_count", "digest"),
        DECISION_LAYOUTS[1][DECISION_LAYOUTS[1].index("queue") :],
    ),
    "JobSubmitRequested": (RARELY_SUBMITTED,),
    "Role": (
        (
            "group",
            "priority",
            "preemptable",
            "preempts",
            "labels",
            "affinities",
            "revocable_zone",
            "order",
        ),
    ),
}
"""Neighbouring fields that are mostly all empty. A run of them is tested at once and written as a
constant; a run may stand inside a longer one, for when that is not all empty. Empty is the zero
byte, but for `_EMPTY_OTHERWISE`.
"""

_EMPTY_OTHERWISE: dict[str, tuple[Any, bytes]] = {
    "pod": (-1, b"\1"),
    "grace_ns": (-1, b"\1"),
    "restarts_max": (-1, b"\1"),
    "start_request": (None, b"\0"),
}
"""Fields whose empty value is another than what is false, with its bytes."""


_NOTHING: Mapping[str, Any] = {}


class _Memo(dict[_K, bytes]):
    """A bounded table from a value to its bytes that computes what it lacks with `make`."""

    __slots__ = ("entries_max", "make")

    def __init__(self, make: Callable[[_K], bytes], entries_max: int = MEMO_MAX) -> None:
        super().__init__()
        self.make = make
        self.entries_max = entries_max

    def __missing__(self, value: _K) -> bytes:
        piece = self.make(value)
        if len(piece) <= _MEMO_BYTES_MAX:
            if len(self) >= self.entries_max:
                self.clear()
            self[value] = piece
        return piece


_join = b"".join
_PAIR = tuple(bytes((low & 127 | 128, low >> 7 | 128)) for low in range(1 << 14))
"""14 bits as two bytes of a varint that goes on after them."""
_LAST = tuple(
    bytes((low,)) if low < 128 else bytes((low & 127 | 128, low >> 7)) for low in range(1 << 14)
)
"""14 bits as the one or two bytes that end a varint."""


def _long(value: int) -> bytes:
    """Zig-zag varint of an Avro long, 14 bits at a time and unrolled, as clocks are long."""
    if value.__class__ is not int:
        value = _exact_int(value)
    z = value << 1 if value >= 0 else ~(value << 1)
    if z < 1 << 14:
        return _LAST[z]
    if z < 1 << 28:
        return _PAIR[z & 16383] + _LAST[z >> 14]
    low = z & 0xFFFFFFF
    high = z >> 28
    if high < 1 << 14:
        return _join((_PAIR[low & 16383], _PAIR[low >> 14], _LAST[high]))
    first, second, third = _PAIR[low & 16383], _PAIR[low >> 14], _PAIR[high & 16383]
    if high < 1 << 28:
        return _join((first, second, third, _LAST[high >> 14]))
    if high < 1 << 36:
        return _join((first, second, third, _PAIR[high >> 14 & 16383], _LAST[high >> 28]))
    raise OverflowError("beyond 64 bits")


def _int(value: int) -> bytes:
    """Zig-zag varint of an Avro int."""
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return _long(value)
    raise OverflowError("beyond 32 bits")


def _exact_int(value: Any) -> int:
    """The plain int of an int's subclass; anything else, above all a float, is refused."""
    if not isinstance(value, int):
        raise TypeError("not an int")
    return int(value)


def _text(value: str) -> bytes:
    """Length and UTF-8 bytes of an Avro string."""
    raw = value.encode()
    return LONG[len(raw)] + raw


def _blob(value: bytes) -> bytes:
    """Length and bytes of an Avro bytes value."""
    if not isinstance(value, bytes):
        raise TypeError("not bytes")
    return LONG[len(value)] + value


LONG = _Memo(_long)
CLOCK = _Memo(_long, 1 << 12)
INT = _Memo(_int)
TEXT = _Memo(_text, TEXTS_MAX)
BLOB = _Memo(_blob)
BOOL = {False: b"\0", True: b"\1"}
_SCALARS = {"int": "INT", "long": "LONG", "string": "TEXT", "bytes": "BLOB", "boolean": "BOOL"}


def _array_encoder(encode_item: Callable[[Any], bytes]) -> Callable[[Sequence[Any]], bytes]:
    """An encoder of arrays: one block with a positive count, then the end."""

    def encode(items: Sequence[Any]) -> bytes:
        if items.__class__ is not tuple:
            raise TypeError("not a tuple")
        if not items:
            return b"\0"
        return LONG[len(items)] + b"".join(map(encode_item, items)) + b"\0"

    return encode


class _Generator:
    """Writes and compiles the encoders of one schema file after another.

    `names` is the namespace of the compiled functions: the tables, and the functions made so far.
    A nested type of one name is the same in all files (the lint sees to it), so it is made once.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "INT": INT,
            "LONG": LONG,
            "CLOCK": CLOCK,
            "long": _long,
            "PAIR": _PAIR,
            "LAST": _LAST,
            "text": _text,
            "TEXT": TEXT,
            "BLOB": BLOB,
            "BOOL": BOOL,
            "blob": _blob,
            "join": _join,
        }

    def piece(self, schema: Schema, value: str) -> str:
        """An expression for the bytes of the value that the expression `value` names."""
        if isinstance(schema, str):
            if schema in _SCALARS:
                return f"{_SCALARS[schema]}[{value}]"
            return f"ENUM_{schema}[{value}]" if schema in ENUMS else f"body_{schema}({value})"
        if isinstance(schema, list):
            null, branch = schema
            if null != "null":
                raise ValueError(f"union {schema} does not start with null; put null first")
            return f'(b"\\0" if {value} is None else b"\\2" + {self.piece(branch, value)})'
        if schema["type"] == "array":
            return f"{self.array(schema['items'])}[{value}]"
        self.define(schema)
        return self.piece(schema["name"], value)

    def field(self, record: str, name: str, schema: Schema) -> str:
        """An expression for the bytes of the field of the record `r`.

        Causes of decisions go round the tables, as each is told once or a few times. Clocks have a
        small table of their own, since what happens at one moment is encoded at one moment.
        """
        if name in _NEVER_TWICE:
            return f"blob(r.{name})"
        if name == "time_ns":
            return "(clock := CLOCK[r.time_ns])" if record in RECORDS else "CLOCK[r.time_ns]"
        if name == "event_id":  # mostly told once
            return '(text(r.event_id) if r.event_id else b"\\0")'
        if name == "cause_seq":
            low, high = 1 << 13, 1 << 27  # zig-zag, these take three or four bytes
            return (
                "(PAIR[(z := r.cause_seq << 1) & 16383] + LAST[z >> 14]"
                f" if {low} <= r.cause_seq < {high} else long(r.cause_seq))"
            )
        if name == "reported_ns":
            return "(clock if r.reported_ns == r.time_ns else CLOCK[r.reported_ns])"
        return self.piece(schema, f"r.{name}")

    def array(self, items: Schema) -> str:
        """The name of the table of arrays of these items, made if it is new."""
        label = items if isinstance(items, str) else items["name"]
        name = f"ARRAY_{label}"
        if name not in self.names:
            encode_item = eval(f"lambda item: {self.piece(items, 'item')}", self.names)
            self.names[name] = _Memo(_array_encoder(encode_item))
        return name

    def define(self, schema: Schema) -> None:
        """Makes the table of an enum or the body encoder of a nested record."""
        name = schema["name"]
        if schema["type"] == "enum":
            members = ENUMS[name].__members__
            self.names[f"ENUM_{name}"] = {
                members[symbol]: _int(index) for index, symbol in enumerate(schema["symbols"])
            }
        elif f"body_{name}" not in self.names:
            fields = {field["name"]: field["type"] for field in schema["fields"]}
            encode = self.function(f"body_{name}", name, fields)
            if name in _OFTEN_EQUAL:
                self.names[f"body_{name}"] = _Memo(encode).__getitem__

    def pieces(
        self,
        record: str,
        fields: dict[str, Schema],
        names: list[str],
        runs: Sequence[tuple[str, ...]],
    ) -> list[str]:
        """Expressions for these fields in order, runs of mostly empty ones as one."""
        made = []
        while names:
            run = next((run for run in runs if run == tuple(names[: len(run)])), None)
            if run is None:
                name = names.pop(0)
                made.append(self.field(record, name, fields[name]))
                continue
            del names[: len(run)]
            is_set = [
                f"r.{name} != {_EMPTY_OTHERWISE[name][0]}"
                if name in _EMPTY_OTHERWISE
                else f"r.{name}"
                for name in run
            ]
            empty = b"".join(_EMPTY_OTHERWISE.get(name, (0, b"\0"))[1] for name in run)
            shorter = [other for other in runs if len(other) < len(run)]
            parts = self.pieces(record, fields, list(run), shorter)
            made.append(f"({' + '.join(parts)} if {' or '.join(is_set)} else {empty!r})")
        return made

    def folded(
        self, record: str, fields: dict[str, Schema], constants: Mapping[str, Any]
    ) -> list[str]:
        """Expressions for these fields in order, neighbouring constants as one."""
        made: list[str] = []
        constant = b""
        for name, schema in fields.items():
            if name in constants:
                value = eval(self.piece(schema, "value"), {**self.names, "value": constants[name]})
                constant += value
                continue
            if constant:
                made.append(repr(constant))
                constant = b""
            made.append(self.field(record, name, schema))
        return [*made, repr(constant)] if constant else made

    def function(
        self,
        function: str,
        record: str,
        fields: dict[str, Schema],
        head: bytes = b"",
        constants: Mapping[str, Any] = _NOTHING,
    ) -> Callable[[Any], bytes]:
        """Compiles `function(r)`, the bytes of these fields of a record, after `head`.

        Fields in `constants` are not read: they are known to hold the value given there.
        """
        runs = [run for run in _EMPTY_TOGETHER.get(record, ()) if set(run) <= set(fields)]
        pieces = [repr(head)] if head else []
        if constants:
            pieces += self.folded(record, fields, constants)
        else:
            pieces += self.pieces(record, fields, list(fields), runs)
        body = ",\n        ".join(pieces)
        source = f"def {function}(r):\n    return join((\n        {body},\n    ))\n"
        exec(compile(source, f"<{function} of {record}>", "exec"), self.names)
        made: Callable[[Any], bytes] = self.names[function]
        return made


_generator = _Generator()


def _record_encoders(kinds: Mapping[str, type]) -> dict[type, Callable[[Any], bytes]]:
    """An encoder with framing per record type."""
    encoders: dict[type, Callable[[Any], bytes]] = {}
    for name, kind in kinds.items():
        entry = NEWEST[name]
        fields = {field["name"]: field["type"] for field in entry.schema["fields"]}
        head = frame_header(entry.schema_id)
        encoders[kind] = _generator.function(f"record_{name}", name, fields, head)
    return encoders


def _layout_encoders() -> dict[int, Callable[[Decision], bytes]]:
    """An encoder per decision layout.

    Layout 1 must be what the schema has before `chain`, and every other layout must start with it:
    the payload relies on both.
    """
    types = {field["name"]: field["type"] for field in NEWEST["Decision"].schema["fields"]}
    wire = tuple(types)[: tuple(types).index("chain")]
    encoders: dict[int, Callable[[Decision], bytes]] = {}
    for layout, names in DECISION_LAYOUTS.items():
        if names[: len(wire)] != wire or "chain" in names:
            raise ValueError(f"layout {layout} does not start with the fields before chain")
        fields = {name: types[name] for name in names}
        encoders[layout] = _generator.function(f"decision_layout_{layout}", "Decision", fields)
    return encoders


def _tail_encoder() -> Callable[[Decision], bytes]:
    """An encoder of `chain` and of the columns that came after it."""
    types = {field["name"]: field["type"] for field in NEWEST["Decision"].schema["fields"]}
    fields = {name: kind for name, kind in types.items() if name not in DECISION_LAYOUTS[1]}
    return _generator.function("decision_tail", "Decision", fields)


_ENCODERS = _record_encoders(RECORDS)
_ROW_ENCODERS = _record_encoders(ROWS)
_LAYOUTS = _layout_encoders()
decision_body_1 = _LAYOUTS[1]
"""`decision_body` for values that are known to be in range: errors are those of Python."""
_tail = _tail_encoder()
_CHAIN_BYTES = 32  # of every chain that a kernel makes
_CHAIN_LENGTH = _long(_CHAIN_BYTES)
_PLAIN_TAIL = {"chain": _CHAIN_BYTES}.get(NEWEST["Decision"].schema["fields"][-1]["name"], -1)
"""Bytes of the chain of a decision with nothing after it; -1: there are always columns after it."""
_DECISION_HEAD = frame_header(NEWEST["Decision"].schema_id)
_FAILURES = (TypeError, ValueError, KeyError, AttributeError, OverflowError)


def encode_record(record: Record) -> bytes:
    """The record in Confluent's wire format: 0x00, the schema id in 4 bytes, the Avro body.

    Raises:
        EncodeError: A value is out of its field's range or of another type, or the record itself is
            of no ledger type.
    """
    try:
        return _ENCODERS[record.__class__](record)
    except _FAILURES as error:
        raise defect_of(record) from error


def encode_row(row: Shown) -> bytes:
    """A row, or what carries rows, in Confluent's wire format.

    Raises:
        EncodeError: A value is out of its field's range or of another type, or the row itself is of
            no known type.
    """
    try:
        return _ROW_ENCODERS[row.__class__](row)
    except _FAILURES as error:
        raise defect_of(row) from error


def decision_body_with(name: str, **constants: Any) -> Callable[[Decision], bytes]:
    """`decision_body` for decisions in which these fields are known to hold these values.

    `name` is for tracebacks. Errors are those of Python.
    """
    types = {field["name"]: field["type"] for field in NEWEST["Decision"].schema["fields"]}
    fields = {field: types[field] for field in DECISION_LAYOUTS[1]}
    return _generator.function(f"decision_{name}", "Decision", fields, constants=constants)


def decision_body(decision: Decision) -> bytes:
    """The bytes that layout 1 hashes: all fields before `chain`, without framing.

    `chain` and `body` are not looked at.

    Raises:
        EncodeError: A value is out of its field's range or of another type.
    """
    try:
        return decision_body_1(decision)
    except _FAILURES as error:
        raise defect_of(decision) from error


def decision_hashed(decision: Decision, layout: int) -> bytes:
    """The bytes that this layout hashes; for layout 1 those of `decision_body`.

    Raises:
        EncodeError: A value is out of its field's range or of another type.
        KeyError: There is no such layout.
    """
    encode = _LAYOUTS[layout]
    try:
        return encode(decision)
    except _FAILURES as error:
        raise defect_of(decision) from error


def decision_payload(decision: Decision) -> bytes:
    """The decision in Confluent's wire format.

    `decision.body`, where it is set, is taken as the bytes before `chain`.

    Raises:
        EncodeError: A value is out of its field's range or of another type.
    """
    body = decision.body or decision_body(decision)
    try:
        return _DECISION_HEAD + body + _tail(decision)
    except _FAILURES as error:
        raise defect_of(decision) from error


def decision_payloads(decisions: Sequence[Decision]) -> list[bytes]:
    """`decision_payload` of each; fast for those that a kernel made.

    Raises:
        EncodeError: A value is out of its field's range or of another type.
    """
    head, length, plain = _DECISION_HEAD, _CHAIN_LENGTH, _PLAIN_TAIL
    return [
        head + body + length + chain
        if (body := decision.body) and len(chain := decision.chain) == plain
        else decision_payload(decision)
        for decision in decisions
    ]

"""From canonical bytes to records and decisions, by generated decoders; no third party.

Bytes of the newest schema versions only, in the one form that `encoding` writes: arrays in a single
block with a positive count. Anything else is refused or, where a number is written longer than
needed, decoded to its value: who does not trust the bytes encodes the result again and compares, as
`codec` does. Every loop step consumes a byte at least, so no input takes longer than its length
allows.

Names and small nested values repeat from record to record, so bounded tables lead from their bytes
to the value made before; that also lets records share it. Avro values delimit themselves: where the
bytes at a position start with the encoding of a value, the value there is that one. The tables
decide how fast a value is found, never which.
"""

from collections.abc import Callable
from struct import Struct as Packing
from typing import Any, cast

from ganger.schemas.bindings import ENUMS, RECORDS, STRUCTS
from ganger.schemas.decisions import Decision
from ganger.schemas.errors import PayloadCorrupt, Refusal
from ganger.schemas.records import Record
from ganger.schemas.registry import NEWEST, Schema, frame_header

MEMO_MAX = 1 << 13  # entries per table
TEXTS_MAX = 1 << 15  # the same for names
_MEMO_BYTES_MAX = 256  # longer values are not kept
_KEY_BYTES = 24  # of an array's first bytes, the key of the last array that began so
_HEADER_BYTES = 5

_OFTEN_EQUAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "JobSubmitRequested": (
        ("tenant", "priority_class", "priority", "roles", "min_available"),
        (
            "can_checkpoint",
            "accepts_suspend",
            "backfill",
            "backfill_risk_milli",
            "sla_waiting_ns",
            "dependencies",
            "retry",
            "ttl_ns",
            "held",
        ),
    ),
}
"""Neighbouring fields that many records have in common, found together by their bytes."""

_UNZIG = tuple((z >> 1) ^ -(z & 1) for z in range(128))
_SEVEN_BITS = tuple(byte & 127 for byte in range(256))
_WORD = tuple(low | high << 7 for high in _SEVEN_BITS for low in _SEVEN_BITS)
"""14 bits of two neighbouring varint bytes, read as a little-endian word."""
_nine_bytes = Packing("<HHHHB").unpack_from


class _Texts(dict[bytes, str]):
    """A bounded table from UTF-8 bytes to text."""

    __slots__ = ()

    def __missing__(self, raw: bytes) -> str:
        text = raw.decode()
        if len(raw) <= _MEMO_BYTES_MAX:
            if len(self) >= TEXTS_MAX:
                self.clear()
            self[raw] = text
        return text


TEXTS = _Texts()


def _long_at(p: bytes, i: int) -> tuple[int, int]:
    """The number at `i` and the position after it."""
    low = p[i]
    if low < 128:
        return _UNZIG[low], i + 1
    second = p[i + 1]
    if second < 128:
        z = low - 128 | second << 7
        return (z >> 1) ^ -(z & 1), i + 2
    if len(p) - i < 9:
        return _long_by_bytes(p, i)
    a, b, c, d, e = _nine_bytes(p, i)
    if a & b & 0x8080 != 0x8080:
        return _long_by_bytes(p, i)
    if c & d & 0x8080 == 0x8080:
        if e > 127:
            return _long_by_bytes(p, i)
        high = _WORD[c] | _WORD[d] << 14 | e << 28
        i += 9
    elif c & 0x80 == 0:
        high = c & 127
        i += 5
    elif c & 0x8000 == 0:
        high = _WORD[c]
        i += 6
    elif d & 0x80 == 0:
        high = _WORD[c] | (d & 127) << 14
        i += 7
    else:
        high = _WORD[c] | _WORD[d] << 14
        i += 8
    z = _WORD[a] | _WORD[b] << 14 | high << 28
    return (z >> 1) ^ -(z & 1), i


CLOCKS: dict[bytes, int] = {}
"""Moments by their nine bytes, as clocks of our time have; many records tell the same one."""
_CLOCK_BYTES = 9
_CLOCKS_MAX = 64


def _clock_at(p: bytes, i: int) -> tuple[int, int]:
    """The same as `_long_at`, for a clock that `CLOCKS` does not hold; it does from now on."""
    value, end = _long_at(p, i)
    if end - i == _CLOCK_BYTES:
        if len(CLOCKS) >= _CLOCKS_MAX:
            CLOCKS.clear()
        CLOCKS[p[i:end]] = value
    return value, end


def _long_by_bytes(p: bytes, i: int) -> tuple[int, int]:
    """The same as `_long_at`, byte by byte: near the end, for ten bytes and for short numbers."""
    z = 0
    for shift in range(0, 70, 7):
        byte = p[i]
        i += 1
        z |= (byte & 127) << shift
        if byte < 128:
            return (z >> 1) ^ -(z & 1), i
    raise PayloadCorrupt(Refusal.MALFORMED, f"a number before byte {i} has more than 64 bits")


def _length_at(p: bytes, i: int) -> tuple[int, int]:
    """The length or count at `i` and the position after it."""
    length, i = _long_at(p, i)
    if length < 0:
        raise PayloadCorrupt(Refusal.MALFORMED, f"a length before byte {i} is {length}")
    return length, i


Reader = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value of a payload at a position; gives the value and the position after it."""


def _remembering(read: Reader) -> Reader:
    """A reader that finds a value it has met before by its bytes."""
    known: dict[bytes, tuple[bytes, Any, int]] = {}

    def find_or_read(p: bytes, i: int) -> tuple[Any, int]:
        key = p[i : i + _KEY_BYTES]
        met = known.get(key)
        if met is not None and p.startswith(met[0], i):
            return met[1], i + met[2]
        value, end = read(p, i)
        if end - i <= _MEMO_BYTES_MAX and end <= len(p):
            if len(known) >= MEMO_MAX:
                known.clear()
            known[key] = (p[i:end], value, end - i)
        return value, end

    return find_or_read


def _array_reader(read_item: Reader) -> Reader:
    """A reader of arrays in one block."""

    def read(p: bytes, i: int) -> tuple[tuple[Any, ...], int]:
        count, i = _length_at(p, i)
        items = []
        for _ in range(count):
            item, i = read_item(p, i)
            items.append(item)
        if count and p[i] != 0:
            raise PayloadCorrupt(Refusal.NOT_CANONICAL, f"an array has a second block at {i}")
        return tuple(items), i + 1 if count else i

    return read


class _Generator:
    """Writes and compiles the decoders of one schema after another.

    Generated code keeps the payload in `p` and the position in `i`; each field becomes a few lines
    that leave its value in a variable and `i` after it.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "UNZIG": _UNZIG,
            "TEXTS": TEXTS,
            "BOOLS": {0: False, 1: True},
            "not_at_end": _not_at_end,
            "clock_at": _clock_at,
            "known_clock": CLOCKS.get,
            "long_at": _long_at,
            "length_at": _length_at,
        }

    def lines(self, schema: Schema, variable: str) -> list[str]:
        """Statements that read one value."""
        if isinstance(schema, list):
            return self.nullable(schema, variable)
        if isinstance(schema, dict):
            if schema["type"] == "array":
                return self.array(schema["items"], variable)
            self.define(schema)
            schema = schema["name"]
        if schema in ("int", "long"):
            return [
                f"{variable} = p[i]",
                f"if {variable} < 128:",
                f"    {variable} = UNZIG[{variable}]",
                "    i += 1",
                "else:",
                f"    {variable}, i = long_at(p, i)",
            ]
        if schema in ("string", "bytes"):
            value = "TEXTS[p[i:j]]" if schema == "string" else "p[i:j]"
            return [
                "j = p[i]",
                "if j < 128 and not j & 1:",
                "    i += 1",
                "    j = i + (j >> 1)",
                "else:",
                "    j, i = length_at(p, i)",
                "    j += i",
                f"{variable} = {value}",
                "i = j",
            ]
        if schema == "boolean":
            return [f"{variable} = BOOLS[p[i]]", "i += 1"]
        if schema in ENUMS and len(self.names[f"ENUM_{schema}"]) <= 64:
            return [f"{variable} = ENUM_{schema}[p[i]]", "i += 1"]
        if schema in ENUMS:
            return ["j, i = long_at(p, i)", f"{variable} = ENUM_{schema}[j << 1]"]
        return [f"{variable}, i = read_{schema}(p, i)"]

    def nullable(self, schema: list[Schema], variable: str) -> list[str]:
        """Statements that read a union of null and one other type."""
        return [
            "if p[i] == 0:",
            f"    {variable} = None",
            "    i += 1",
            "elif p[i] == 2:",
            "    i += 1",
            *(f"    {line}" for line in self.lines(schema[1], variable)),
            "else:",
            "    raise KeyError('union index', p[i], 'at', i)",
        ]

    def array(self, items: Schema, variable: str) -> list[str]:
        """Statements that read an array; empty ones, the most frequent, without a call."""
        label = items if isinstance(items, str) else items["name"]
        name = f"array_{label}"
        if name not in self.names:
            read_item = self.compile(f"item_{label}", "i", self.lines(items, "v"), "v, i")
            self.names[name] = _remembering(_array_reader(read_item))
        return [
            "if p[i] == 0:",
            f"    {variable} = ()",
            "    i += 1",
            "else:",
            f"    {variable}, i = {name}(p, i)",
        ]

    def define(self, schema: Schema) -> None:
        """Makes the table of an enum, by wire byte, or the reader of a nested record."""
        name = schema["name"]
        if schema["type"] == "enum":
            members = ENUMS[name].__members__
            self.names[f"ENUM_{name}"] = {
                index << 1: members[symbol] for index, symbol in enumerate(schema["symbols"])
            }
        elif f"read_{name}" not in self.names:
            self.names[name] = STRUCTS[name]
            lines, values = self.fields(schema)
            self.compile(f"read_{name}", "i", lines, f"{name}({values}), i")

    def fields(self, schema: Schema) -> tuple[list[str], str]:
        """Statements that read all fields of a record, and its constructor's arguments."""
        lines: list[str] = []
        fields = schema["fields"]
        runs = {run[0]: run for run in _OFTEN_EQUAL.get(schema["name"], ())}
        number = 0
        while number < len(fields):
            run = runs.get(fields[number]["name"], ("",))
            variables = [f"v{number + offset}" for offset in range(len(run))]
            read = [
                line
                for field, variable in zip(fields[number:], variables, strict=False)
                for line in self.field(schema["name"], field, variable)
            ]
            if len(run) > 1:
                if run != tuple(field["name"] for field in fields[number : number + len(run)]):
                    raise ValueError(f"{schema['name']}: {run} are no neighbours; see _OFTEN_EQUAL")
                values = ", ".join(variables)
                name = f"run_{schema['name']}_{run[0]}"
                reader = self.compile(name, "i", read, f"({values}), i")
                self.names[name] = _remembering(reader)
                read = [f"({values}), i = {name}(p, i)"]
            lines += read
            number += len(run)
        return lines, ", ".join(f"v{number}" for number in range(len(fields)))

    def field(self, record: str, field: dict[str, Any], variable: str) -> list[str]:
        """Statements that read one field.

        The reporter's clock is often the appender's, so the bytes read for that are tried first.
        """
        name = field["name"]
        lines = self.lines(field["type"], variable)
        if name in ("time_ns", "reported_ns"):
            lines = [
                f"{variable} = known_clock(p[i:i + {_CLOCK_BYTES}])",
                f"if {variable} is None:",
                f"    {variable}, i = clock_at(p, i)",
                "else:",
                f"    i += {_CLOCK_BYTES}",
            ]
        if name == "time_ns" and "reported_ns" in STRUCTS[record].__struct_fields__:
            return ["start = i", *lines, f"clock = {variable}", "clock_bytes = p[start:i]"]
        if name == "reported_ns":
            same = [f"    {variable} = clock", "    i += len(clock_bytes)", "else:"]
            return ["if p.startswith(clock_bytes, i):", *same, *(f"    {line}" for line in lines)]
        if name == "chain":
            return ["body = p[5:i]", *lines]
        return lines

    def compile(self, function: str, arguments: str, lines: list[str], result: str) -> Any:
        """Compiles `function(p, arguments)` of these statements."""
        body = "\n    ".join(lines)
        head = f"p, {arguments}" if arguments else "p"
        source = f"def {function}({head}):\n    {body}\n    return {result}\n"
        exec(compile(source, f"<{function}>", "exec"), self.names)
        return self.names[function]

    def whole(self, name: str, last: str = "") -> Callable[[bytes], Any]:
        """A decoder of a whole payload, framing not looked at, all bytes to be consumed."""
        schema = NEWEST[name].schema
        self.names[name] = STRUCTS[name]
        lines, values = self.fields(schema)
        result = f"{name}({values}{last})"
        lines = [
            f"i = {_HEADER_BYTES}",
            *lines,
            "if i != len(p):",
            "    raise not_at_end(i, len(p))",
        ]
        return cast(Callable[[bytes], Any], self.compile(f"whole_{name}", "", lines, result))


def _not_at_end(i: int, length: int) -> PayloadCorrupt:
    """The error of a record that ends at `i` in a payload of another length."""
    refusal = Refusal.TRUNCATED if i > length else Refusal.TRAILING_BYTES
    return PayloadCorrupt(refusal, f"the record ends at byte {i}, its payload at {length}")


_generator = _Generator()

RECORD_DECODERS: dict[bytes, Callable[[bytes], Record]] = {
    frame_header(NEWEST[name].schema_id): _generator.whole(name) for name in RECORDS
}
"""Decoders of whole payloads of ledger records, by the five bytes of framing of the newest schemas.

They raise `DECODE_FAILURES`, which `corrupt` turns into one kind."""

DECISION_HEADER = frame_header(NEWEST["Decision"].schema_id)
"""The framing of decisions of the newest schema."""

decode_newest_decision: Callable[[bytes], Decision] = _generator.whole("Decision", ", body")
"""Decoder of whole payloads that start with `DECISION_HEADER`; sets `body` too."""

DECODE_FAILURES = (IndexError, KeyError, ValueError, OverflowError)


def corrupt(payload: bytes, error: Exception) -> PayloadCorrupt:
    """What a decoder's failure on this payload means."""
    if isinstance(error, PayloadCorrupt):
        return error
    if isinstance(error, IndexError):
        return PayloadCorrupt(Refusal.TRUNCATED, f"ends inside a value, after {len(payload)} bytes")
    return PayloadCorrupt(
        Refusal.MALFORMED, f"an index or text that the schema does not allow: {error!r}"
    )

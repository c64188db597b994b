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

from ganger.schemas.bindings import ENUMS, RARELY_SUBMITTED, RECORDS, ROWS, STRUCTS
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import CLOCK
from ganger.schemas.errors import PayloadCorrupt, Refusal
from ganger.schemas.records import Record
from ganger.schemas.registry import NEWEST, Schema, frame_header
from ganger.schemas.rows import Shown

MEMO_MAX = 1 << 13  # entries per table
TEXTS_MAX = 1 << 15  # the same for names
_MEMO_BYTES_MAX = 256  # longer values are not kept
_KEY_BYTES = 24  # of an array's first bytes, the key of the last array that began so
_HEADER_BYTES = 5

_OFTEN_EQUAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "Tick": (("event_id", "source", "epoch", "cycle"),),
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
            *RARELY_SUBMITTED,
        ),
    ),
}
"""Neighbouring fields that many records have in common, found together by their bytes."""

_OFTEN_EMPTY = ("event_id", "source")
"""Neighbouring fields of records that are often both empty: a zero byte each."""

_DECISION_REST = (
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
)
"""Neighbouring fields of decisions that are mostly all empty: a zero byte each."""

_UNZIG = tuple((z >> 1) ^ -(z & 1) for z in range(128))
_SEVEN_BITS = tuple(byte & 127 for byte in range(256))
_WORD = tuple(low | high << 7 for high in _SEVEN_BITS for low in _SEVEN_BITS)
"""14 bits of two neighbouring varint bytes, read as a little-endian word."""
_nine_bytes = Packing("<HHHHB").unpack_from


class _Texts(dict[bytes, str]):
    """A bounded table from Avro's bytes of a text, its length included, to the text."""

    __slots__ = ()

    def __missing__(self, encoded: bytes) -> str:
        """For a length of one byte."""
        return self.keep(encoded, encoded[1:].decode())

    def keep(self, encoded: bytes, text: str) -> str:
        if len(encoded) <= _MEMO_BYTES_MAX:
            if len(self) >= TEXTS_MAX:
                self.clear()
            self[encoded] = text
        return text


TEXTS = _Texts()
_TEXT_BYTES = tuple(0 if low & 1 or low > 127 else 1 + (low >> 1) for low in range(256))
"""Bytes of a text and its length, by the first of them; 0 where the length is longer, or none."""


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
_CLOCKS_MAX = 1 << 12  # more than the moments of the records that are decoded together


_GO_ON, _GOES_ON = 0x8080_8080_8080_8080, 0x80_8080_8080_8080_8080  # of eight bytes, and nine
_EVEN_SEVEN, _ODD_SEVEN = 0x7F_007F_007F_007F_007F, 0x00_7F00_7F00_7F00_7F00
_EVEN_FOURTEEN, _ODD_FOURTEEN = 0x7F_0000_3FFF_0000_3FFF, 0x00_3FFF_0000_3FFF_0000
_LOW, _HIGH, _TOP = 0x00_0000_0000_0FFF_FFFF, 0x00_0FFF_FFFF_0000_0000, 0x7F << 64


def _clock_at(p: bytes, i: int) -> tuple[int, int]:
    """The same as `_long_at`, for a clock that `CLOCKS` does not hold; it does from now on.

    Seven bits of each of nine bytes are moved together in pairs, then fours, then eight.
    """
    key = p[i : i + _CLOCK_BYTES]
    z = int.from_bytes(key, "little")
    if z & _GOES_ON != _GO_ON:
        return _long_at(p, i)
    z = z & _EVEN_SEVEN | (z & _ODD_SEVEN) >> 1
    z = z & _EVEN_FOURTEEN | (z & _ODD_FOURTEEN) >> 2
    z = z & _LOW | (z & _HIGH) >> 4 | (z & _TOP) >> 8
    value = (z >> 1) ^ -(z & 1)
    if len(CLOCKS) >= _CLOCKS_MAX:
        CLOCKS.clear()
        CLOCK.clear()
    CLOCKS[key] = value
    if key[-1]:  # else it could be said in fewer bytes, and is by who encodes it
        CLOCK[value] = key  # decisions made of a record tell its time again
    return value, i + _CLOCK_BYTES


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


def _text_at(p: bytes, i: int) -> tuple[str, int]:
    """The text at `i`, of any length, and the position after it."""
    length, begin = _length_at(p, i)
    end = begin + length
    text = TEXTS.get(p[i:end])
    if text is None:
        text = TEXTS.keep(p[i:end], p[begin:end].decode())
    return text, end


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


def _remembering_ends(read: Reader, known: dict[bytes, Any]) -> Callable[[bytes, int], Any]:
    """A reader of the last value of a payload, which `known` holds by its bytes from now on."""

    def read_to_end(p: bytes, i: int) -> Any:
        value, end = read(p, i)
        if end != len(p):
            raise _not_at_end(end, len(p))
        if end - i <= _MEMO_BYTES_MAX:
            if len(known) >= MEMO_MAX:
                known.clear()
            known[p[i:]] = value
        return value

    return read_to_end


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
            "TEXT_BYTES": _TEXT_BYTES,
            "text_at": _text_at,
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
        if schema == "string":
            return [
                "j = TEXT_BYTES[p[i]]",
                "if j:",
                "    j += i",
                f"    {variable} = TEXTS[p[i:j]]",
                "    i = j",
                "else:",
                f"    {variable}, i = text_at(p, i)",
            ]
        if schema == "bytes":
            return [
                "j = p[i]",
                "if j < 128 and not j & 1:",
                "    i += 1",
                "    j = i + (j >> 1)",
                "else:",
                "    j, i = length_at(p, i)",
                "    j += i",
                f"{variable} = p[i:j]",
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
        values: list[str] = []
        name, fields = schema["name"], schema["fields"]
        runs = {run[0]: run for run in _OFTEN_EQUAL.get(name, ())}
        if name == "Decision":
            runs[_DECISION_REST[0]] = _DECISION_REST
        if name in RECORDS:
            runs.setdefault(_OFTEN_EMPTY[0], _OFTEN_EMPTY)
        number = 0
        while number < len(fields):
            run = runs.get(fields[number]["name"], ("",))
            variables = [f"v{number + offset}" for offset in range(len(run))]
            read = [
                line
                for field, variable in zip(fields[number:], variables, strict=False)
                for line in self.field(name, field, variable)
            ]
            if len(run) > 1:
                if run != tuple(field["name"] for field in fields[number : number + len(run)]):
                    raise ValueError(f"{name}: {run} are no neighbours; see _OFTEN_EQUAL")
                if run is _OFTEN_EMPTY:
                    read = _or_empty(variables, read)
                elif run is _DECISION_REST:
                    read = self.or_defaults(fields[number : number + len(run)], variables, read)
                else:
                    is_last = number + len(run) == len(fields)
                    read = self.run(f"run_{name}_{run[0]}", variables, read, is_last)
                    if is_last:
                        variables = ["*j"]
            lines += read
            values += variables
            number += len(run)
        return lines, ", ".join(values)

    def run(self, name: str, variables: list[str], read: list[str], is_last: bool) -> list[str]:
        """Statements that find the values of a run by their bytes, or `read` them. Those of a last
        run are left in `j` together.
        """
        values = ", ".join(variables)
        reader = self.compile(name, "i", read, f"({values}), i")
        if not is_last:
            self.names[name] = _remembering(reader)
            return [f"({values}), i = {name}(p, i)"]
        known: dict[bytes, Any] = {}
        self.names[name] = _remembering_ends(reader, known)
        self.names[f"known_{name}"] = known.get
        return [
            f"j = known_{name}(p[i:])",
            "if j is None:",
            f"    j = {name}(p, i)",
            "i = len(p)",
        ]

    def or_defaults(
        self, fields: list[dict[str, Any]], variables: list[str], read: list[str]
    ) -> list[str]:
        """Statements that pass over fields of a zero byte each, or else `read` them."""
        empty = b"\0" * len(fields)
        reader = self.compile("defaults", "i", read, f"({', '.join(variables)}), i")
        self.names["DEFAULTS"] = reader(empty, 0)[0]
        return [
            f"if p.startswith({empty!r}, i):",
            f"    {', '.join(variables)} = DEFAULTS",
            f"    i += {len(fields)}",
            "else:",
            *(f"    {line}" for line in read),
        ]

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
        if name == "time_ns" and record in RECORDS:  # the first field, so where it is is known
            end = _HEADER_BYTES + _CLOCK_BYTES
            return [
                f"clock_bytes = p[{_HEADER_BYTES}:{end}]",
                "clock = known_clock(clock_bytes)",
                "if clock is None:",
                f"    clock, i = clock_at(p, {_HEADER_BYTES})",
                f"    clock_bytes = p[{_HEADER_BYTES}:i]",
                "else:",
                f"    i = {end}",
                f"{variable} = clock",
            ]
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


def _or_empty(variables: list[str], read: list[str]) -> list[str]:
    """Statements that pass over an empty event id and source, or else `read` them."""
    event_id, source = variables
    return [
        "if p[i] or p[i + 1]:",
        *(f"    {line}" for line in read),
        "else:",
        f"    {event_id} = ''",
        f"    {source} = None",
        "    i += 2",
    ]


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

ROW_DECODERS: dict[bytes, Callable[[bytes], Shown]] = {
    frame_header(NEWEST[name].schema_id): _generator.whole(name) for name in ROWS
}
"""The same for rows and what carries them."""

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

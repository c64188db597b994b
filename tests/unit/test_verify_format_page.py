"""The page on the ledger's format: its worked example, decoded with what the page says alone."""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from ganger.schemas.codec import decode_decision, decode_record
from ganger.schemas.registry import LEDGER_ENTRIES
from ganger.streams.engine import Engine
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from support.source_tree import ROOT

PAGE = (ROOT / "docs" / "ledger-format.md").read_text(encoding="utf-8")
CELL = b"lab"


def block(name: str) -> str:
    found = re.search(rf"^```{name}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return found[1]


def payload(name: str) -> tuple[bytes, list[tuple[bytes, str]]]:
    """The bytes of a worked payload, and each line's bytes with what it says of them."""
    lines = []
    for line in block(name).splitlines():
        found = re.match(r"((?:[0-9a-f]{2} ?)+)(.*)", line)
        assert found is not None, line
        lines.append((bytes.fromhex(found[1]), found[2].strip()))
    return b"".join(raw for raw, _ in lines), lines


def chains() -> dict[str, bytes]:
    found = re.findall(r"(\w+) of (\w+) +([0-9a-f]{64})", block("chains"))
    return {f"{what} of {stream}": bytes.fromhex(value) for what, stream, value in found}


class Reader:
    """Avro by the page: a schema as JSON gives it, and bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.named: dict[str, Any] = {}

    def take(self, count: int) -> bytes:
        assert self.at + count <= len(self.data)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        shift = raw = 0
        while True:
            (byte,) = self.take(1)
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return raw >> 1 ^ -(raw & 1)

    def read(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.read(schema[self.number()])
        if isinstance(schema, str):
            simple: dict[str, Callable[[], Any]] = {
                "null": lambda: None,
                "boolean": lambda: bool(self.take(1)[0]),
                "int": self.number,
                "long": self.number,
                "bytes": lambda: self.take(self.number()),
                "string": lambda: self.take(self.number()).decode(),
            }
            return simple[schema]() if schema in simple else self.read(self.named[schema])
        if "name" in schema:
            self.named[schema["name"]] = schema
        if schema["type"] == "record":
            return {field["name"]: self.read(field["type"]) for field in schema["fields"]}
        if schema["type"] == "enum":
            return schema["symbols"][self.number()]
        items = []
        while count := self.number():
            items += [self.read(schema["items"]) for _ in range(count)]
        return items


def decoded(data: bytes) -> dict[str, Any]:
    number, version = divmod(int.from_bytes(data[1:5], "big"), 100)
    assert data[0] == 0
    name = dict(numbered())[number]
    path = ROOT / "schemas" / "avro" / f"{name}.{version}.avsc"
    reader = Reader(data[5:])
    value: dict[str, Any] = reader.read(json.loads(path.read_text(encoding="utf-8")))
    assert reader.at == len(reader.data)
    return value


def numbered() -> list[tuple[int, str]]:
    """Numbers and names of records in the page's table."""
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \| [A-Z]\w+ \|", line)]
    return [(int(n), name) for row in rows for n, name in re.findall(r"(\d+) \| ([A-Z]\w+)", row)]


def test_the_page_has_every_record_with_its_number() -> None:
    assert dict(numbered()) == {entry.schema_id // 100: entry.name for entry in LEDGER_ENTRIES}


def test_the_record_is_what_the_page_says() -> None:
    data, lines = payload("record")
    assert len(data) == 28
    assert decoded(data) == {
        "time_ns": 1_700_000_000_000_000_000,
        "event_id": "c1",
        "source": None,
        "job": "ghost",
        "requested_by": "ada",
    }
    assert [text.split()[0] for _, text in lines[1:]] == list(decoded(data))


def test_the_decision_is_what_the_page_says() -> None:
    data, lines = payload("decision")
    assert len(data) == 95
    value = decoded(data)
    assert (value["cell"], value["kind"], value["job"]) == ("lab", "REJECT", "ghost")
    assert (value["pod"], value["reason"], value["cards"]) == (-1, "JOB_UNKNOWN", [])
    assert value["chain"] == chains()["chain of decisions"]
    names = [re.split(r"  +", text)[0] for _, text in lines[1:] if text]
    assert ", ".join(names).split(", ") == list(value)


def test_the_chains_are_what_the_page_says() -> None:
    record, _ = payload("record")
    decision, _ = payload("decision")
    said = chains()
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in (CELL, b"", b""))
    seed = sha256(b"ganger decisions\0" + parts).digest()
    assert said["seed of decisions"] == seed
    assert said["chain of decisions"] == sha256(seed + decision[5:-33]).digest()
    sizes = b"".join(size.to_bytes(4, "little") for size in (1, 1, len(CELL), 0, 0))
    seed = sha256(b"GANGERSG" + sizes + CELL).digest()
    assert said["seed of records"] == seed
    assert said["chain of records"] == sha256(seed + record).digest()


def test_ganger_writes_the_example() -> None:
    record, _ = payload("record")
    decision, _ = payload("decision")
    ledger, decisions = (
        MemoryLog(LogIdentity(stream, "lab")) for stream in (Stream.LEDGER, Stream.DECISIONS)
    )
    Engine.create(ledger, decisions).apply([decode_record(record)])
    assert list(ledger.read_groups()) == [(0, [record])]
    assert list(decisions.read_groups()) == [(0, [decision])]
    assert ledger.chain() == chains()["chain of records"]
    assert decode_decision(decision).chain == chains()["chain of decisions"]


@pytest.mark.parametrize("heading", ["Payloads", "Three chains", "The decision chain", "Chain"])
def test_sections_that_are_linked_to_are_there(heading: str) -> None:
    anchor = heading.lower().replace(" ", "-")
    assert f"(#{anchor})" in PAGE
    assert re.search(rf"^##+ {heading}$", PAGE, re.MULTILINE)

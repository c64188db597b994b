"""Recorded ledgers with their decisions: the format, and replaying one.

A file is zlib over msgpack of one `Entry`. `records` and `decisions` are the payloads as a ledger
holds them (framed Avro), so an entry outlives any change of the code's own types.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ganger.schemas.codec import decode_decision, decode_record
from ganger.schemas.encoding import decision_payload, encode_record
from ganger.schemas.records import Record
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step

SUFFIX = ".corpus.bin"
FORMAT = 1


class Entry(msgspec.Struct, frozen=True):
    """One recorded cell. `seed`: 32 bytes that its decision chain starts from."""

    format: int
    about: str
    cell: str
    seed: bytes
    records: list[bytes]
    decisions: list[bytes]
    digest: bytes
    chain: bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay first differs from what was recorded. `seq` -1: only at the end."""

    seq: int
    want: object
    got: object

    def __str__(self) -> str:
        return f"differs at seq {self.seq}\n  recorded: {self.want}\n  computed: {self.got}"


def record(about: str, cell: str, seed: bytes, records: list[Record]) -> Entry:
    """Run records through the kernel and keep what came out."""
    state = State(cell, seed)
    payloads = [encode_record(one) for one in records]
    decisions = [
        decision_payload(d)
        for seq, payload in enumerate(payloads)
        for d in step(state, seq, decode_record(payload))
    ]
    return Entry(FORMAT, about, cell, seed, payloads, decisions, seal(state), state.chain)


def replay(entry: Entry) -> Difference | None:
    """Run the entry's records again; the first difference, or none."""
    state = State(entry.cell, entry.seed)
    place = 0
    for seq, payload in enumerate(entry.records):
        for decision in step(state, seq, decode_record(payload)):
            got = decision_payload(decision)
            want = entry.decisions[place] if place < len(entry.decisions) else b""
            if got != want:
                return Difference(seq, decode_decision(want) if want else "nothing", decision)
            place += 1
    if place < len(entry.decisions):
        missing = decode_decision(entry.decisions[place])
        return Difference(missing.cause_seq, missing, "nothing")
    if (seal(state), state.chain) != (entry.digest, entry.chain):
        want_end = (entry.digest.hex(), entry.chain.hex())
        return Difference(-1, want_end, (seal(state).hex(), state.chain.hex()))
    return None


def save(path: Path, entry: Entry) -> None:
    """Write an entry; the same entry gives the same bytes."""
    path.write_bytes(zlib.compress(msgspec.msgpack.encode(entry), 9))


def load(path: Path) -> Entry:
    """Read an entry."""
    entry = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=Entry)
    assert entry.format == FORMAT, f"{path.name}: format {entry.format}, this reads {FORMAT}"
    return entry

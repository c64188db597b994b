"""Who a decision is, read from the first bytes of its payload without decoding the rest.

A decision is named by (cell, cause_seq, index), and these stand first in its bytes, the moment
behind them. Readers of a decisions topic, where a decision may stand twice, ask for nothing else.
"""

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from ganger.schemas.codec import decode_decision
from ganger.schemas.decoding import DECISION_HEADER
from ganger.schemas.errors import PayloadCorrupt, Refusal

INDEX_BITS = 32
"""Bits of a decision's number that are its index; those above are its cause."""

_HEADER_BYTES = len(DECISION_HEADER)
_VARINT_BYTES_MAX = 10


class DecisionHead(Struct, frozen=True, gc=False):
    """The fields that a decision begins with, as `Decision` has them."""

    cell: str
    cause_seq: int
    index: int
    time_ns: int


def decision_head(payload: bytes) -> DecisionHead:
    """The first fields of a decision. What follows them is not looked at.

    Args:
        payload: a decision in wire format; one of an older schema is decoded whole.

    Raises:
        PayloadCorrupt: these bytes are no decision.
        SchemaUnknown: nor are they of any schema known.
    """
    if payload[:_HEADER_BYTES] != DECISION_HEADER:
        decision = decode_decision(payload)
        return DecisionHead(decision.cell, decision.cause_seq, decision.index, decision.time_ns)
    try:
        size, begin = _varint(payload, _HEADER_BYTES)
        end = begin + size
        if size < 0 or end > len(payload):
            raise IndexError
        cell = payload[begin:end].decode()
        cause_seq, end = _varint(payload, end)
        index, end = _varint(payload, end)
        time_ns, _ = _varint(payload, end)
    except (IndexError, UnicodeDecodeError):
        raise PayloadCorrupt(
            Refusal.TRUNCATED, f"{len(payload)} bytes; the first fields of Decision do not end"
        ) from None
    return DecisionHead(cell, cause_seq, index, time_ns)


def decision_number(cause_seq: int, index: int) -> int:
    """A decision's id inside its cell as one number: ids ascend with it. -1 for none."""
    return -1 if cause_seq < 0 else cause_seq << INDEX_BITS | index


@lru_cache(maxsize=64)
def number_reader(cell: str) -> Callable[[bytes], int]:
    """Reads the `decision_number` of a cell's payloads, several times as fast as `decision_head`.

    What it returns raises as `decision_head`, and PayloadCorrupt for another cell's decision.
    """
    name = cell.encode()
    start = DECISION_HEADER + _varint_bytes(2 * len(name)) + name
    start_bytes = len(start)

    def read(payload: bytes) -> int:
        try:
            if payload[:start_bytes] != start:
                raise IndexError
            cause, at = payload[start_bytes], start_bytes + 1
            if cause > 127:
                cause, at = _varint(payload, start_bytes)
            else:
                cause >>= 1
            index = payload[at]
            if index > 127:
                index, _ = _varint(payload, at)
            else:
                index >>= 1
        except IndexError:
            head = decision_head(payload)
            if head.cell != cell:
                raise PayloadCorrupt(
                    Refusal.NOT_A_RECORD, f"it is a decision of cell {head.cell!r}"
                ) from None
            return decision_number(head.cause_seq, head.index)
        return cause << INDEX_BITS | index

    return read


def _varint_bytes(value: int) -> bytes:
    """A number as unsigned varint."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """The zigzag number at a place, and the place after it."""
    byte = payload[at]
    value = byte & 127
    shift = 7
    at += 1
    while byte > 127:
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise IndexError
        byte = payload[at]
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return (value >> 1) ^ -(value & 1), at

"""Payloads of the two streams as records and decisions, and the errors of those that are none.

Their hashes are right, so nothing was damaged: they were written by another version, or forged.
"""

from collections.abc import Sequence

from ganger.schemas.codec import decode_decision, decode_record
from ganger.schemas.decisions import Decision
from ganger.schemas.decoding import DECODE_FAILURES, RECORD_DECODERS
from ganger.schemas.errors import PayloadCorrupt, SchemaUnknown
from ganger.schemas.records import NodeHeartbeat, Record
from ganger.schemas.registry import NEWEST, frame_header

UNREADABLE = (PayloadCorrupt, SchemaUnknown)
"""What decoding raises for bytes that this version cannot read."""

_HEARTBEAT = frame_header(NEWEST[NodeHeartbeat.__name__].schema_id)
_DECODERS = {header: read for header, read in RECORD_DECODERS.items() if header != _HEARTBEAT}
_HEADER_BYTES = len(_HEARTBEAT)


class PayloadUnreadable(Exception):
    """Bytes that are what was written, but nothing that may stand there.

    Attributes:
        seq: where they stand in their stream.
    """

    def __init__(self, where: str, seq: int, cause: object) -> None:
        self.seq = seq
        super().__init__(
            f"{where} {seq}: {cause}. Its hash is right, so it was written like this: read the "
            "ledger with the version of ganger that wrote it."
        )


class RecordUnreadable(PayloadUnreadable):
    """A record that is of no known schema, or that no ledger may hold."""

    def __init__(self, seq: int, cause: object) -> None:
        super().__init__("seq", seq, cause)


class DecisionUnreadable(PayloadUnreadable):
    """A decision that is none. Its seq is its place among the decisions."""

    def __init__(self, position: int, cause: object) -> None:
        super().__init__("decision at seq", position, cause)


def read_record(seq: int, payload: bytes) -> Record:
    """The record in a payload of the ledger.

    Raises:
        RecordUnreadable: it is none, or an input that intake makes other records of.
    """
    try:
        record = decode_record(payload)
    except UNREADABLE as error:
        raise RecordUnreadable(seq, error) from error
    if record.__class__ is NodeHeartbeat:
        raise RecordUnreadable(seq, "NodeHeartbeat is an input of intake and stands in no ledger")
    return record


def read_records(first_seq: int, payloads: Sequence[bytes]) -> list[Record]:
    """The records in payloads that follow one another in the ledger: `read_record` of each.

    Raises:
        RecordUnreadable: one is none; of several, the first.
    """
    decoders = _DECODERS
    try:
        return [decoders[payload[:_HEADER_BYTES]](payload) for payload in payloads]
    except DECODE_FAILURES:  # one is older, or none at all
        return [read_record(seq, payload) for seq, payload in enumerate(payloads, first_seq)]


def read_decision(position: int, payload: bytes) -> Decision:
    """The decision in a payload of the decisions' stream.

    Raises:
        DecisionUnreadable: it is none.
    """
    try:
        return decode_decision(payload)
    except UNREADABLE as error:
        raise DecisionUnreadable(position, error) from error

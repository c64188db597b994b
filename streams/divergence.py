"""A recomputation that came out otherwise than what was recorded."""

from collections.abc import Callable
from typing import Any

from ganger.schemas.codec import decode_decision, decode_record
from ganger.streams.payloads import UNREADABLE

_SHOWN_CHARS = 80


class Divergence(Exception):
    """Recorded and computed bytes differ.

    Attributes:
        seq: in the ledger's log the record's own seq; for a decision that of its cause.
        want: the recorded payload; empty where nothing was recorded.
        got: the computed payload; empty where nothing was computed.
    """

    def __init__(self, seq: int, want: bytes, got: bytes, *, is_decision: bool) -> None:
        what = "decision" if is_decision else "record"
        super().__init__(
            f"seq {seq}: the recorded {what} is not the computed one: "
            f"{difference(want, got, is_decision=is_decision)}. The log was altered, or written by "
            "a ganger that decides otherwise; read it with the one that wrote it"
        )
        self.seq = seq
        self.want = want
        self.got = got
        self.is_decision = is_decision


def difference(want: bytes, got: bytes, *, is_decision: bool) -> str:
    """The fields in which two payloads differ, recorded value first."""
    if not want:
        return f"nothing was recorded, computed is {_summary(got, is_decision)}"
    if not got:
        return f"recorded is {_summary(want, is_decision)}, nothing was computed"
    decode = _decoder(is_decision)
    try:
        recorded, computed = decode(want), decode(got)
    except UNREADABLE as error:
        return f"it does not decode ({error})"
    if recorded.__class__ is not computed.__class__:
        return f"{recorded.__class__.__name__} was recorded, {computed.__class__.__name__} computed"
    found = [
        f"{field} {_shown(getattr(recorded, field))} was recorded, "
        f"{_shown(getattr(computed, field))} computed"
        for field in recorded.__struct_fields__
        if field != "body" and getattr(recorded, field) != getattr(computed, field)
    ]
    return "; ".join(found) or f"equal values in {len(want)} and {len(got)} bytes"


def _decoder(is_decision: bool) -> Callable[[bytes], Any]:
    return decode_decision if is_decision else decode_record


def _summary(payload: bytes, is_decision: bool) -> str:
    try:
        return _shown(_decoder(is_decision)(payload))
    except UNREADABLE:
        return f"{len(payload)} bytes that do not decode"


def _shown(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."

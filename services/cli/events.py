"""Records and decisions as JSON and as lines for people."""

from enum import IntEnum
from typing import Any

from msgspec import Struct

from ganger.replay.story import Entry
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import MEANING, Reason
from ganger.schemas.records import CardSpan, NodeReport, Record, Role
from ganger.services.cli.render import time_text

_PLACES = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL, DecisionKind.EVICT)
_ALWAYS = ("time_ns", "event_id", "source")


def plain(value: object) -> Any:
    """A value for JSON: enums by name, bytes in hexadecimal, structs as objects."""
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def plain_decision(decision: Decision) -> dict[str, Any]:
    """A decision for JSON: the fields of its schema."""
    fields: dict[str, Any] = plain(decision)
    del fields["body"]
    return fields


def plain_entry(entry: Entry) -> dict[str, Any]:
    """A record or decision for JSON; `seq` is the record's own or the cause's."""
    event = entry.event
    if isinstance(event, Decision):
        return {"stream": "decisions", "seq": entry.seq, **plain_decision(event)}
    return {"stream": "ledger", "seq": entry.seq, "kind": entry.kind, **plain(event)}


def line(entry: Entry) -> str:
    """A record or decision in one line; decisions are set off by an arrow."""
    event = entry.event
    if isinstance(event, Decision):
        return f"{'':>10}  -> {event.kind.name} {decision_text(event)}".rstrip()
    head = f"{entry.seq:>10}  {time_text(event.time_ns)}  {entry.kind}"
    return f"{head} {record_text(event)}".rstrip()


def decision_text(decision: Decision) -> str:
    """What a decision says, without its kind."""
    reason = reason_text(decision.reason, decision.asked, decision.free, decision.limit)
    if decision.kind is DecisionKind.CYCLE_CLOSED:
        return (
            f"started={decision.started_count} evicted={decision.evicted_count} "
            f"waiting={decision.waiting_count} digest={decision.digest.hex()}"
        )
    parts = [decision.job] if decision.job else []
    if decision.kind in _PLACES:
        parts.append(f"pod {decision.pod} attempt {decision.attempt} on {decision.node}")
        if decision.cards:
            share = f" ({decision.card_milli} milli)" if decision.card_milli else ""
            parts.append(f"cards {spans_text(decision.cards)}{share}")
    if decision.for_job:
        parts.append(f"for {decision.for_job}")
    return ", ".join(parts) + (": " if parts else "") + reason


def reason_text(reason: Reason, asked: int, free: int, limit: int) -> str:
    """A reason with its numbers, for people."""
    return MEANING[Reason(reason)].format(asked=asked, free=free, limit=limit)


def spans_text(cards: tuple[CardSpan, ...]) -> str:
    """Cards as `0-3,6`."""
    return ",".join(
        str(span.first) if span.count == 1 else f"{span.first}-{span.first + span.count - 1}"
        for span in cards
    )


def record_text(record: Record) -> str:
    """The fields of a record that say something, as `name=value`."""
    parts = []
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name not in _ALWAYS and value not in ("", (), None, b"", 0, False):
            parts.append(f"{name}={_short(value)}")
    return " ".join(parts)


def _short(value: object) -> str:
    if isinstance(value, Role):
        return f"{value.replicas}x{value.name}({_request_text(value)})"
    if isinstance(value, NodeReport):
        cards = "+".join(f"{run.count}x{run.model}" for run in value.cards if run.count)
        return f"{value.node}({cards or 'no cards'} attempts={len(value.attempts)})"
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return "[" + ",".join(_short(item) for item in value) + "]"
    if isinstance(value, Struct):
        return "/".join(_short(getattr(value, name)) for name in value.__struct_fields__)
    return str(value)


def _request_text(role: Role) -> str:
    request = role.request
    parts = {
        "cards": request.cards,
        "card_milli": request.card_milli,
        "cpu_milli": request.cpu_milli,
        "memory_mib": request.memory_mib,
    }
    return " ".join(f"{name}={count}" for name, count in parts.items() if count) or "nothing"

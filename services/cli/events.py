"""Records and decisions as JSON and as lines for people."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

from msgspec import Struct

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Estimates
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    Amount,
    Argument,
    CardSpan,
    NodeReport,
    PodRequest,
    Record,
    RetryPolicy,
    Role,
)
from ganger.services.cli.units import (
    Clock,
    amount_text,
    count_text,
    duration_text,
    milli_text,
    reason_text,
)

PLACES = (
    DecisionKind.ALLOCATE,
    DecisionKind.BACKFILL,
    DecisionKind.EVICT,
    DecisionKind.CLAIM,
    DecisionKind.UNCLAIM,
    DecisionKind.NOTICE,
    DecisionKind.MOVE,
    DecisionKind.SUSPEND,
    DecisionKind.RESUME,
)

_LEAVING = (DecisionKind.NOTICE, DecisionKind.EVICT, DecisionKind.SUSPEND)

_SOURCES = {
    Estimates.DECLARED: ", as it declares",
    Estimates.EXACT: ", which the simulation knows",
    Estimates.PREDICTED: ", as former runs did",
    Estimates.CORRECTED: ", as it has run so long",
}
_ALWAYS = ("time_ns", "event_id", "source")
_TIMES = ("reported_ns", "started_ns", "from_ns", "to_ns")
_RESOURCES = {"card_milli": "cards_milli", "cpu_milli": "cpu_milli", "memory_mib": "memory_mib"}
_UNLESS_GIVEN = (
    "ttl_ns",
    "grace_ns",
    "restarts_max",
    "preempt_min_runtime_ns",
    "reclaim_min_runtime_ns",
)
_REFUSED = {
    Reason.QUEUE_UNKNOWN: "queue",
    Reason.QUEUE_CLOSED: "queue",
    Reason.QUEUE_NOT_A_LEAF: "queue",
    Reason.PARENT_UNKNOWN: "parent",
    Reason.PARENT_CYCLE: "parent",
    Reason.PARENT_HAS_JOBS: "parent",
    Reason.PRIORITY_CLASS_UNKNOWN: "priority_class",
    Reason.DEPENDENCY_UNKNOWN: "dependencies",
    Reason.TENANT_FORBIDDEN: "tenant",
}
"""The field of a request that a reason to refuse it is about."""
_OF_CARDS = ("card_memory_mib", "min_card_memory_mib")


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


def decision_text(decision: Decision, cause: Record | None = None) -> str:
    """What a decision says, without its kind. Of a refusal, with the value of the request (its
    `cause`) that is refused.
    """
    if decision.kind is DecisionKind.CYCLE_CLOSED:
        return (
            f"started={decision.started_count} evicted={decision.evicted_count} "
            f"waiting={decision.waiting_count} digest={decision.digest.hex()}"
        )
    parts = [decision.job] if decision.job else []
    if decision.kind in PLACES:
        parts.append(placed_text([decision]))
    elif decision.kind is DecisionKind.RESERVE and not decision.job:  # an operator's
        cards = _cards_text(decision.cards)
        parts.append(f"reservation {decision.rule} of {decision.node}, {cards}")
    elif decision.node:  # on which cards are reserved
        parts.append(f"on {decision.node}")
    parts += chosen_texts([decision])
    reason = reason_text(decision.reason, decision.asked, decision.free, decision.limit)
    times = "".join(f"; {text}" for text in foreseen_texts(decision))
    return ", ".join(parts) + (": " if parts else "") + reason + _refused(decision, cause) + times


def _refused(decision: Decision, cause: Record | None) -> str:
    """The field of a request that is the matter, with its value; nothing where it is not one."""
    field = _REFUSED.get(decision.reason, "") if decision.kind is DecisionKind.REJECT else ""
    value = getattr(cause, field, None) if field else None
    named = ", ".join(value) if isinstance(value, tuple) else value
    return f" ({field}: {named})" if named else ""


def foreseen_texts(decision: Decision) -> list[str]:
    """What a decision says of time, counted from it: starts, lengths, risks."""
    parts = []
    kind, time_ns = decision.kind, decision.time_ns
    in_ns = max(0, decision.start_ns - time_ns)
    if kind is DecisionKind.RESERVE:
        lasts = "without an end"
        if decision.until_ns:
            lasts = f"for {duration_text(decision.until_ns - decision.start_ns)}"
        parts.append(f"begins in {duration_text(in_ns)}, {lasts}")
    elif kind is DecisionKind.ADMIT and decision.start_ns:
        late = duration_text(max(0, decision.start_late_ns - time_ns))
        parts.append(
            f"will start within {duration_text(in_ns)} as likely as not, {late} very likely"
        )
    elif kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL):
        if decision.estimate_ns:
            source = _SOURCES.get(decision.estimate_source, "")
            margin = f" and {duration_text(decision.margin_ns)} more" if decision.margin_ns else ""
            parts.append(f"takes {duration_text(decision.estimate_ns)}{margin}{source}")
        if decision.protect_ns:
            parts.append(f"nobody's victim for {duration_text(decision.protect_ns)}")
        if decision.hold_ns or decision.risk_milli:
            parts.append(
                f"keeps its cards for {duration_text(decision.hold_ns)}, loses them with a "
                f"probability of {milli_text(decision.risk_milli * 100)}%"
            )
    elif kind in _LEAVING and decision.until_ns:
        left = duration_text(max(0, decision.until_ns - time_ns))
        parts.append(f"in {left}" if kind is DecisionKind.NOTICE else f"has {left} for it")
    return parts


def chosen_texts(decisions: Sequence[Decision]) -> list[str]:
    """For whom these decisions are, which place victims had among the candidates, by whose rule."""
    first = decisions[0]
    is_lent = first.kind is DecisionKind.BACKFILL  # that it stands aside for somebody is told so
    parts = [f"{'until' if is_lent else 'for'} {first.for_job}"] if first.for_job else []
    orders = [decision.order for decision in decisions if decision.order]
    if orders:
        among = f" of {count_text(first.considered, 'candidate')}" if first.considered else ""
        parts.append(numbers_text("victim", orders) + among)
    if first.rule:
        parts.append(f"by rule {first.rule}")
    if first.queue:
        parts.append(f"queue {first.queue}")
    return parts


def placed_text(decisions: Sequence[Decision]) -> str:
    """Pods, attempt, node and cards of decisions on one node in one attempt."""
    first = decisions[0]
    if first.pod < 0:  # a claim is a role's, whichever pod will start on it
        if not first.role:  # given up as a whole
            return "all that it claimed"
        text = f"{count_text(len(decisions), 'pod')} of role {first.role} on {first.node}"
    else:
        pods = numbers_text("pod", [decision.pod for decision in decisions])
        text = f"{pods} attempt {first.attempt} on {first.node}"
    spans = [span for decision in decisions for span in decision.cards]
    if first.card_milli:
        share = amount_text(first.card_milli, "cards_milli").removesuffix(" cards")
        return f"{text}, {share} of {_cards_text(spans)}"
    return f"{text}, {_cards_text(spans)}" if spans else text


def numbers_text(noun: str, numbers: Iterable[int]) -> str:
    """Numbers with their noun, runs drawn together: `pods 0-3, 7`."""
    runs: list[list[int]] = []
    for number in sorted(dict.fromkeys(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    return f"{noun if len(runs) == 1 and runs[0][0] == runs[0][1] else noun + 's'} {text}"


def _cards_text(spans: Iterable[CardSpan]) -> str:
    cards = (card for span in spans for card in range(span.first, span.first + span.count))
    return numbers_text("card", cards)


def record_text(record: Record, clock: Clock) -> str:
    """The fields of a record that say something, as `name=value`, numbers with their units."""
    parts = []
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name in _TIMES and value and value != record.time_ns:
            parts.append(f"{name.removesuffix('_ns')}={clock.text(value)}")
        elif name not in (*_ALWAYS, *_TIMES) and _says_something(name, value):
            parts.append(_field_text(name, value))
    return " ".join(parts)


def _says_something(name: str, value: object) -> bool:
    if name in _UNLESS_GIVEN and value == -1:  # the policy's, or without a bound
        return False
    return name == "pod" or value not in ("", (), None, b"", 0, False)


def _field_text(name: str, value: Any) -> str:
    if name.endswith("_ns"):
        return f"{name.removesuffix('_ns')}={duration_text(value)}"
    if name in _RESOURCES:
        shown = amount_text(value, _RESOURCES[name]).replace(" ", "_")
        return f"{name.rpartition('_')[0]}={shown}"
    if name in _OF_CARDS:
        return f"{name.removesuffix('_mib')}={amount_text(value, 'memory_mib').replace(' ', '_')}"
    if name.endswith("_milli"):
        return f"{name.removesuffix('_milli')}={value / 10:g}%"
    return f"{name}={_short(value)}"


def _short(value: object) -> str:
    if isinstance(value, Role):
        return f"{value.replicas}x{value.name}({_request_text(value.request)})"
    if isinstance(value, NodeReport):
        cards = "+".join(f"{run.count}x{run.model}" for run in value.cards if run.count)
        return f"{value.node}({cards or 'no cards'} attempts={len(value.attempts)})"
    if isinstance(value, RetryPolicy):
        return _retry_text(value)
    if isinstance(value, Argument):
        is_duration = value.key.endswith("_ns") and value.value.isdecimal()
        shown = duration_text(int(value.value)).replace(" ", "_") if is_duration else value.value
        return f"{value.key.removesuffix('_ns') if is_duration else value.key}={shown}"
    if isinstance(value, Amount):
        return amount_text(value.count, value.resource).replace(" ", "_")
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return "[" + ",".join(_short(item) for item in value) + "]"
    if isinstance(value, Struct):
        parts = (getattr(value, name) for name in value.__struct_fields__)
        return "/".join(_short(part) for part in parts if part != ())
    return str(value)


def _retry_text(retry: RetryPolicy) -> str:
    """How often, and after how long: `3_times/10s-5m`."""
    times = count_text(retry.limit, "time").replace(" ", "_")
    if not retry.limit or not retry.backoff_ns:
        return times
    waits = dict.fromkeys((duration_text(retry.backoff_ns), duration_text(retry.backoff_max_ns)))
    return f"{times}/{'-'.join(waits)}".replace(" ", "_")


def _request_text(request: PodRequest) -> str:
    parts = [f"cards={request.cards}"] if request.cards else []
    names = ("card_milli", "card_memory_mib", "min_card_memory_mib", "cpu_milli", "memory_mib")
    parts += [_field_text(name, getattr(request, name)) for name in names if getattr(request, name)]
    return " ".join(parts) or "nothing"

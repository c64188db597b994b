"""Which Python type carries which named Avro type."""

from enum import IntEnum

from msgspec import Struct

from ganger.schemas import enums, parts, records, rows
from ganger.schemas.decisions import Decision
from ganger.schemas.reasons import Reason

ENUMS: dict[str, type[IntEnum]] = {
    enum.__name__: enum
    for enum in (
        enums.BackfillPreference,
        enums.CardHealth,
        enums.Communication,
        enums.DecisionKind,
        enums.Estimates,
        enums.FailureKind,
        enums.FlavorPreference,
        enums.FlavorSearch,
        enums.IdleClass,
        enums.IslandPolicy,
        enums.JobAction,
        enums.LimitAction,
        enums.LimitScope,
        enums.PodEvent,
        enums.QueueOrder,
        enums.QueueState,
        enums.SelectorOperator,
        enums.TaintEffect,
        enums.Tier,
        enums.TolerationOperator,
        enums.Tri,
        enums.VictimRule,
        Reason,
    )
}
"""Enum types by Avro name. A symbol's Avro index is its place in definition order, so a member's
value may differ from it (`Reason` leaves gaps)."""

RECORDS: dict[str, type[records.Record]] = {kind.__name__: kind for kind in records.RECORD_TYPES}
"""Ledger record types by Avro name."""

ROWS: dict[str, type[rows.Shown]] = {kind.__name__: kind for kind in rows.SHOWN_TYPES}
"""Types of rows and of what carries them, by Avro name."""

STRUCTS: dict[str, type[Struct]] = {
    **RECORDS,
    "Decision": Decision,
    **ROWS,
    **{part.__name__: part for part in (rows.Owner, rows.RowChange)},
    **{
        part.__name__: part
        for part in (
            parts.Affinity,
            parts.Amount,
            parts.AttemptRef,
            parts.Budget,
            parts.CardRun,
            parts.CardSpan,
            parts.EventAction,
            parts.FlavorChoice,
            parts.FlavorQuota,
            parts.GroupLimit,
            parts.Interval,
            parts.Label,
            parts.Limit,
            parts.NodeReport,
            parts.PodGroup,
            parts.PodRequest,
            parts.QuotaBound,
            parts.ResourceGroup,
            parts.RetryPolicy,
            parts.Role,
            parts.RoleScale,
            parts.Selector,
            parts.Source,
            parts.Taint,
            parts.Toleration,
            parts.Topology,
            records.ActionConfig,
            records.Argument,
            records.PolicyConfig,
            records.PolicyTier,
            records.PriorityClass,
        )
    },
}
"""Struct types of all Avro records, nested ones too, by Avro name."""

RARELY_SUBMITTED = (
    "groups",
    "topology",
    "budget",
    "start_request",
    "preempts",
    "preemptable",
    "priority_boost",
    "protected_ns",
    "grace_ns",
    "actions",
    "restarts_max",
    "min_success",
    "spot",
    "notice_ns",
    "communication",
    "on_limit",
)
"""Neighbouring fields of `JobSubmitRequested` that most jobs leave as they are by default."""

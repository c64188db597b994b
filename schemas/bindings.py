"""Which Python type carries which named Avro type."""

from enum import IntEnum

from msgspec import Struct

from ganger.schemas import enums, records, rows
from ganger.schemas.decisions import Decision
from ganger.schemas.reasons import Reason

ENUMS: dict[str, type[IntEnum]] = {
    enum.__name__: enum
    for enum in (
        enums.BackfillPreference,
        enums.CardHealth,
        enums.DecisionKind,
        enums.FailureKind,
        enums.IslandPolicy,
        enums.QueueState,
        enums.SelectorOperator,
        enums.TaintEffect,
        enums.Tier,
        enums.TolerationOperator,
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
            records.ActionConfig,
            records.Amount,
            records.Argument,
            records.AttemptRef,
            records.CardRun,
            records.CardSpan,
            records.Label,
            records.NodeReport,
            records.PodRequest,
            records.PolicyConfig,
            records.PolicyTier,
            records.PriorityClass,
            records.RetryPolicy,
            records.Role,
            records.RoleScale,
            records.Selector,
            records.Source,
            records.Taint,
            records.Toleration,
        )
    },
}
"""Struct types of all Avro records, nested ones too, by Avro name."""

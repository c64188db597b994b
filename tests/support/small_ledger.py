"""A small ledger made by the real engine: two nodes, two queues and jobs that meet each fate.

In order of submission: `small` runs and succeeds; `gang` runs; `huge` can never fit and is
cancelled; `capped` waits for its queue's capability, is let in, waits for a node and must ask again
when one is lost; `twin` is submitted twice and refused the second time, runs, loses its node and
waits again; `late` waits behind it.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import (
    BackfillPreference,
    CardHealth,
    DecisionKind,
    IslandPolicy,
    QueueState,
)
from ganger.schemas.records import (
    Amount,
    CardRun,
    IntakeClaimed,
    JobCancelRequested,
    JobSubmitRequested,
    NodeChanged,
    NodeLost,
    NodeReport,
    OwnerClaimed,
    PodRequest,
    PodStarted,
    PodSucceeded,
    PolicyConfigured,
    QueueConfigured,
    Record,
    RetryPolicy,
    Role,
    Tick,
)
from ganger.schemas.registry import fingerprint
from ganger.streams.engine import Engine
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.presets.loader import load_policy

CELL = "lab"
START_NS = 1_700_000_000 * 10**9
SECOND_NS = 10**9
EPOCH = 1


def _placing_only() -> PolicyConfigured:
    """The default policy without the actions that have anybody evicted."""
    policy = load_policy()
    names = ("enqueue", "allocate", "backfill")
    kept = tuple(one for one in policy.actions if one.action in names)
    return replace(policy, actions=kept, time_ns=START_NS)


def node_report(name: str, cards: int) -> NodeReport:
    runs = (CardRun(cards, "A100", 81_920, 0, CardHealth.HEALTHY),)
    return NodeReport(
        name, "boot-1", runs, 96_000, 1 << 20, 110, (), (), (), ("rack-1", name), (), -1, ()
    )


def queue(
    name: str, weight: int = 1, cards_max: int | None = None, at_s: int = 0
) -> QueueConfigured:
    cap = () if cards_max is None else (Amount("cards_milli", cards_max * 1000),)
    return QueueConfigured(
        _ns(at_s), "", None, name, "", weight, 0, (), (), cap, (), (), True, QueueState.OPEN, False
    )


def job(
    name: str, queue_name: str, pods: int, cards: int, at_s: int, event: str = ""
) -> JobSubmitRequested:
    request = PodRequest(cards, 0, 0, 0, (), IslandPolicy.ANY, 1000, 1024, (), (), ())
    return JobSubmitRequested(
        time_ns=_ns(at_s),
        event_id=event or f"submit-{name}",
        source=None,
        job=name,
        queue=queue_name,
        user="ada",
        tenant="",
        priority_class="",
        priority=0,
        roles=(Role("main", pods, pods, request),),
        min_available=0,
        runtime_estimate_ns=0,
        time_limit_ns=0,
        can_checkpoint=False,
        accepts_suspend=False,
        backfill=BackfillPreference.ACCEPT,
        backfill_risk_milli=1000,
        sla_waiting_ns=0,
        dependencies=(),
        retry=RetryPolicy(0, 0, 0),
        ttl_ns=-1,
        held=False,
    )


def tick(at_s: int) -> Tick:
    return Tick(_ns(at_s), "", None, EPOCH, True)


def starts(decisions: Iterable[Decision], at_s: int) -> list[Record]:
    """What executors report of the allocations among these decisions."""
    return [
        PodStarted(_ns(at_s), "", None, d.job, d.pod, d.attempt, d.node, _ns(at_s))
        for d in decisions
        if d.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
    ]


def build(path: Path) -> None:
    """Make the ledger in `path`."""
    with LedgerDirectory.create(path, CELL, fingerprint=fingerprint()) as directory:
        engine = Engine.create(directory.ledger, directory.decisions)
        engine.apply(
            [
                IntakeClaimed(_ns(0), "", None, "intake-1"),
                OwnerClaimed(_ns(0), "", None, "owner-1"),
                _placing_only(),
                queue("research", 3, cards_max=4),
                queue("batch"),
                NodeChanged(_ns(0), "", None, node_report("node-a", 8)),
                NodeChanged(_ns(0), "", None, node_report("node-b", 4)),
            ]
        )
        engine.apply([job("small", "research", 1, 2, 10), job("gang", "batch", 2, 4, 10)])
        engine.apply([job("huge", "batch", 1, 16, 11), job("capped", "research", 1, 4, 12)])
        engine.apply([job("twin", "batch", 1, 1, 13), job("twin", "batch", 1, 1, 13, "again")])
        placed = engine.apply([tick(20)])
        engine.apply(starts(placed, 21))
        engine.apply([PodSucceeded(_ns(30), "", None, "small", 0, 1, _ns(30)), tick(30)])
        engine.apply([NodeLost(_ns(40), "", None, "node-b", 0, 30 * SECOND_NS)])
        engine.apply([tick(41), JobCancelRequested(_ns(42), "cancel-huge", None, "huge", "ada")])
        engine.apply([job("late", "batch", 1, 2, 50), tick(51)])


def _ns(at_s: int) -> int:
    return START_NS + at_s * SECOND_NS

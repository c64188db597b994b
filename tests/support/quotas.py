"""Cells under quota admission: what their tests are written in."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import QueueOrder, QueueState, Tri, VictimRule
from ganger.streams.presets.loader import load_policy
from support.builders import GENESIS, Cell, node, queue

CARDS = "cards_milli"

Bounds = int | tuple[int, int] | tuple[int, int, int]
"""Nominal quota, then borrowing and lending limit (-1: none)."""


def flavor(
    name: str,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[r.Taint] = (),
    time_ns: int = GENESIS,
) -> r.FlavorConfigured:
    """A flavor."""
    kept = tuple(r.Label(key, value) for key, value in (labels or {}).items())
    return r.FlavorConfigured(time_ns, "", None, name, kept, tuple(taints), (), False)


def leaf(
    name: str,
    cards: Mapping[str, Bounds],
    *,
    parent: str = "",
    strict: bool = False,
    within: VictimRule = VictimRule.NEVER,
    reclaim: VictimRule = VictimRule.NEVER,
    borrow: VictimRule = VictimRule.NEVER,
    state: QueueState = QueueState.OPEN,
    time_ns: int = GENESIS,
) -> r.QueueConfigured:
    """A queue with quota of whole cards by flavor."""
    quotas = []
    for one, bounds in cards.items():
        numbers = (bounds,) if isinstance(bounds, int) else bounds
        milli = [number * 1000 if number > 0 else number for number in numbers]
        quotas.append(r.FlavorQuota(one, (r.QuotaBound(CARDS, *milli),)))
    return replace(
        queue(name, parent=parent, state=state, time_ns=time_ns),
        order=QueueOrder.STRICT if strict else QueueOrder.BEST_EFFORT,
        within_queue=within,
        reclaim_in_cohort=reclaim,
        borrow_in_cohort=borrow,
        resource_groups=(r.ResourceGroup(tuple(quotas)),) if quotas else (),
    )


def kueue(settings: Mapping[str, str] | None = None, **arguments: str) -> r.PolicyConfigured:
    """The preset with other arguments of `admit` and other settings."""
    preset = load_policy("kueue")
    admit = {one.key: one.value for one in preset.actions[0].arguments} | arguments
    said = {one.key: one.value for one in preset.settings} | dict(settings or {})
    actions = (
        r.ActionConfig("admit", tuple(r.Argument(*pair) for pair in admit.items())),
        *preset.actions[1:],
    )
    return replace(
        preset,
        time_ns=GENESIS,
        actions=actions,
        settings=tuple(r.Argument(*pair) for pair in said.items()),
    )


def quota_cell(
    *queues: r.QueueConfigured,
    cards: int = 8,
    nodes: int = 1,
    flavors: Iterable[r.FlavorConfigured] = (),
    rules: r.PolicyConfigured | None = None,
) -> Cell:
    """Equal nodes `n0`, `n1`, ... with these queues; one flavor `f` unless some are given."""
    known = tuple(flavors) or (flavor("f"),)
    hosts = [node(f"n{place}", cards) for place in range(nodes)]
    return Cell().start(*known, *queues, *hosts, rules=rules or kueue())


def held(cell: Cell, name: str) -> dict[tuple[str, str], int]:
    """Quota that the jobs of a queue hold."""
    return dict(cell.state.queues[cell.state.queue_by_name[name]].held)


def refuse_eviction(request: r.JobSubmitRequested) -> r.JobSubmitRequested:
    """The job may not be evicted."""
    return replace(request, preemptable=Tri.NO)

"""Nodes and queues of a case as ledger records."""

from collections.abc import Mapping
from typing import Any

from conformance.cases import Body, Unsupported, whole
from conformance.policies import RESOURCES
from ganger.schemas import records as r
from ganger.schemas.enums import CardHealth, LimitScope, QueueState
from ganger.streams.kernel.limits import TIME_MAX
from ganger.streams.kernel.resources import CARD_MILLI
from support.builders import GENESIS

CARD = "gpu"
"""The resource that is a card of ganger's."""

CELL = "cell"
"""The domain that all nodes are in."""

ELSEWHERE = "elsewhere"
"""Where pods run of which a case does not say where: a node that has nothing to offer."""

_STATES = {
    "open": QueueState.OPEN,
    "closed": QueueState.DRAINING,
    "closing": QueueState.DRAINING,
}
"""A queue that the peer calls closed starts nothing either."""

_QUEUE_KEYS = (
    "name weight priority capability deserved guarantee parent state reclaimable share_path "
    "share_weights node_groups node_group_limits created_at"
).split()


def amounts_of(amounts: Mapping[str, Any] | None) -> tuple[r.Amount, ...]:
    """Amounts in records' names; cards in thousandths."""
    return tuple(
        r.Amount(RESOURCES.get(name, name), whole(count, CARD_MILLI if name == CARD else 1))
        for name, count in (amounts or {}).items()
    )


# ---- nodes --------------------------------------------------------------------------------------


def nodes_of(body: Body) -> list[r.NodeChanged]:
    """The nodes by name, each with its path of topology domains."""
    paths = paths_of(body)
    return [
        r.NodeChanged(GENESIS, "", None, report_of(node, paths.get(node["name"], ())))
        for node in sorted(body.get("nodes", ()), key=lambda node: str(node["name"]))
    ]


def report_of(node: Body, path: tuple[str, ...]) -> r.NodeReport:
    """What a node has. One that does not count its pods holds any number of them."""
    capacity = node["capacity"]
    cards = whole(capacity.get(CARD, 0))
    runs = (r.CardRun(cards, "gpu", 0, 0, CardHealth.HEALTHY),) if cards else ()
    return r.NodeReport(
        node["name"],
        "boot",
        runs,
        whole(capacity.get("cpu_m", 0)),
        whole(capacity.get("memory", 0)),
        whole(capacity.get("pods", 1 << 20)),
        tuple(
            r.Amount(name, whole(count))
            for name, count in sorted(capacity.items())
            if name not in (CARD, "cpu_m", "memory", "pods")
        ),
        tuple(r.Label(key, value) for key, value in sorted(node.get("labels", {}).items())),
        (),
        path,
        (),
        -1,
        (),
    )


def elsewhere() -> r.NodeChanged:
    """A node without anything, for pods that run on none that the case names."""
    report = report_of({"name": ELSEWHERE, "capacity": {"pods": 0}}, ())
    return r.NodeChanged(GENESIS, "", None, report)


def paths_of(body: Body) -> dict[str, tuple[str, ...]]:
    """The domains of each node from the widest to the narrowest, one per tier that there is.

    The widest is the cell itself. A node that is in no domain of a tier has one of its own there.
    """
    domains = body.get("topology", {}).get("domains", ())
    names = [node["name"] for node in body.get("nodes", ())]
    paths: dict[str, tuple[str, ...]] = dict.fromkeys(names, (CELL,) if domains else ())
    for tier in reversed(tiers_of(body)):
        of_tier = [domain for domain in domains if domain["tier"] == tier]
        for name in names:
            homes = [domain["name"] for domain in of_tier if name in domain["nodes"]]
            if len(homes) > 1:
                raise Unsupported(f"node {name} is in domains {homes} of tier {tier}")
            paths[name] += (homes[0] if homes else f"{name} alone",)
    return paths


def tiers_of(body: Body) -> list[int]:
    """The tiers that there are, ascending; that of position p is tier p + 1 of ganger's."""
    return sorted({domain["tier"] for domain in body.get("topology", {}).get("domains", ())})


def zones_of(policy: Body) -> list[r.ZoneConfigured]:
    """The zones that a policy's arguments name: open always, or never."""
    zones = {
        name: word
        for tier in policy.get("tiers", ())
        for one in tier
        for name, word in one.get("args", {}).get("zones", {}).items()
    }
    for name, word in zones.items():
        if word not in ("active", "inactive"):
            raise Unsupported(f"zone {name} is {word!r}")
    always = (r.Interval(0, TIME_MAX),)
    return [
        r.ZoneConfigured(GENESIS, "", None, name, always if word == "active" else (), False)
        for name, word in sorted(zones.items())
    ]


# ---- queues -------------------------------------------------------------------------------------


def queues_of(body: Body, *, as_open: bool = False) -> list[r.QueueConfigured]:
    """The queues, parents first. `as_open`: none is closed yet."""
    queues = [*_share_nodes(body), *body.get("queues", ())]
    limits = _tenant_limits(body)
    names = [queue["name"] for queue in queues]
    records: dict[str, r.QueueConfigured] = {}

    def add(queue: Body) -> None:
        parent = _parent_of(queue)
        parent = parent if parent in names else ""
        if parent and parent not in records:
            add(next(one for one in queues if one["name"] == parent))
        if queue["name"] not in records:
            records[queue["name"]] = _queue(queue, parent, limits, as_open)

    for queue in sorted(queues, key=lambda queue: (queue.get("created_at", 0), queue["name"])):
        add(queue)
    return list(records.values())


def _parent_of(queue: Body) -> str:
    path = queue.get("share_path", ())
    return path[-1] if path else queue.get("parent") or ""


def _share_nodes(body: Body) -> list[Body]:
    """The inner nodes of share trees: a queue hangs below the path that it names."""
    nodes: dict[str, Body] = {}
    for queue in body.get("queues", ()):
        path = queue.get("share_path", ())
        for place, name in enumerate(path):
            weight = queue["share_weights"][place]
            above = path[place - 1] if place else ""
            nodes[name] = {"name": name, "weight": weight, "parent": above, "state": "open"}
    return list(nodes.values())


def _queue(
    queue: Body, parent: str, limits: tuple[r.Limit, ...], as_open: bool
) -> r.QueueConfigured:
    unknown = [key for key in queue if key not in _QUEUE_KEYS]
    if unknown:
        raise Unsupported(f"queue fields {unknown}")
    if queue.get("state", "open") not in _STATES:
        raise Unsupported(f"queue state {queue['state']!r}")
    groups = queue.get("node_groups", {})
    of_groups = queue.get("node_group_limits", {})
    if not isinstance(of_groups, Mapping):
        raise Unsupported(f"node group limits {of_groups!r}: a record holds amounts only")
    return r.QueueConfigured(
        GENESIS,
        "",
        None,
        queue["name"],
        parent,
        whole(queue.get("weight", 1)),
        queue.get("priority", 0),
        amounts_of(queue.get("guarantee")),
        amounts_of(queue.get("deserved")),
        _bounds(queue.get("capability")),
        (),
        (),
        queue.get("reclaimable", True),
        QueueState.OPEN if as_open else _STATES[queue.get("state", "open")],
        False,
        limits=limits,
        node_groups_required=tuple(groups.get("required", ())),
        node_groups_preferred=tuple(groups.get("preferred", ())),
        node_groups_anti_required=tuple(groups.get("anti_required", ())),
        node_groups_anti_preferred=tuple(groups.get("anti_preferred", ())),
        node_group_limits=tuple(
            r.GroupLimit(group, amounts_of(amounts)) for group, amounts in of_groups.items()
        ),
    )


def _bounds(amounts: Body | None) -> tuple[r.Amount, ...]:
    """A capability; the peer takes one of no cpu or memory as unlimited."""
    unlimited = [name for name in ("cpu_m", "memory") if not (amounts or {}).get(name)]
    return amounts_of({k: v for k, v in (amounts or {}).items() if k not in unlimited})


def _tenant_limits(body: Body) -> tuple[r.Limit, ...]:
    return tuple(
        r.Limit(LimitScope.TENANT, quota["tenant"], amount.resource, amount.count)
        for quota in body.get("tenant_quotas", ())
        for amount in amounts_of(quota["hard"])
    )

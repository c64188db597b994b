"""What operators may say of flavors, zones and the quota of queues, and what is refused."""

from typing import Any

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import LimitScope, QueueState, TaintEffect
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.entities import Queue
from support.builders import GENESIS, SECOND, Cell, node, queue, role
from support.decision_lines import job_of, places

HOUR = 3600 * SECOND
TAINT = r.Taint("k", "", TaintEffect.NO_SCHEDULE)


def flavor(name: str, *, removed: bool = False, **labels: str) -> r.FlavorConfigured:
    found = tuple(r.Label(key, value) for key, value in labels.items())
    return r.FlavorConfigured(GENESIS, "", None, name, found, (), (), removed)


def zone(name: str, *hours: tuple[int, int], removed: bool = False) -> r.ZoneConfigured:
    spans = tuple(r.Interval(GENESIS + a * HOUR, GENESIS + b * HOUR) for a, b in hours)
    return r.ZoneConfigured(GENESIS, "", None, name, spans, removed)


def group(*flavors: str, resources: tuple[str, ...] = ("cards_milli",)) -> r.ResourceGroup:
    bounds = tuple(r.QuotaBound(name, 8000, 2000) for name in resources)
    return r.ResourceGroup(tuple(r.FlavorQuota(name, bounds) for name in flavors))


def with_fields(name: str = "new", **fields: Any) -> r.QueueConfigured:
    return replace(queue(name), **fields)


def reasons(decisions: list[Decision]) -> list[tuple[str, int, int]]:
    return [(d.reason.name, d.asked, d.limit) for d in decisions]


def cell_with_flavors() -> Cell:
    return Cell().start(node("n1"), flavor("a", tier="fast"), flavor("b"), queue("q"))


def queue_named(cell: Cell, name: str) -> Queue:
    return cell.state.queues[cell.state.queue_by_name[name]]


def test_flavors_come_change_and_go() -> None:
    cell = Cell().start()
    empty, before = cell.digest, cell.state.progress
    cell.put(flavor("a", tier="fast"))
    one = cell.digest
    cell.put(flavor("a"), flavor("b"))
    assert sorted(cell.state.flavors) == ["a", "b"]
    cell.put(flavor("b", removed=True), flavor("a", tier="fast"))
    progress = cell.state.progress - before
    assert (empty != one, sorted(cell.state.flavors), progress) == (True, ["a"], 5)
    copy = snapshot.fork(cell.state)
    assert copy.flavors == cell.state.flavors


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (flavor(""), ("FLAVOR_UNKNOWN", 0, 0)),
        (flavor("z", removed=True), ("FLAVOR_UNKNOWN", 0, 0)),
        (flavor("a", removed=True), ("FLAVOR_USED", 2, 0)),
        (
            replace(flavor("z"), labels=(r.Label("k", "1"), r.Label("k", "2"))),
            ("NAMES_REPEATED", 2, 1),
        ),
        (
            replace(flavor("z"), taints=(TAINT,) * 257),
            ("VALUE_OUT_OF_RANGE", 257, 256),
        ),
        (zone(""), ("ZONE_UNKNOWN", 0, 0)),
        (zone("z", removed=True), ("ZONE_UNKNOWN", 0, 0)),
        (zone("z", (2, 3), (1, 2)), ("VALUE_OUT_OF_RANGE", GENESIS + HOUR, GENESIS + 2 * HOUR)),
        (zone("z", (1, 2), (2, 3)), ("VALUE_OUT_OF_RANGE", GENESIS + 2 * HOUR, GENESIS + 3 * HOUR)),
        (zone("z", (2, 2)), ("VALUE_OUT_OF_RANGE", GENESIS + 2 * HOUR, GENESIS + 2 * HOUR)),
        (zone("z", *[(2 * n, 2 * n + 1) for n in range(4097)]), ("VALUE_OUT_OF_RANGE", 4097, 4096)),
    ],
)
def test_flavors_and_zones_that_are_refused(record: Any, said: tuple[str, int, int]) -> None:
    cell = cell_with_flavors()
    cell.put(with_fields("x", resource_groups=(group("a"),)))
    cell.put(with_fields("y", resource_groups=(group("b", "a"),)))
    before = snapshot.encode(cell.state)
    assert reasons(cell.put(record)) == [said]
    kept = snapshot.decode(before)
    assert (kept.flavors, kept.zones) == (cell.state.flavors, cell.state.zones)
    assert kept.progress == cell.state.progress


def test_zones_come_change_and_go() -> None:
    cell = Cell().start()
    cell.put(zone("night", (1, 9), (25, 33)), zone("noon", (3, 4)), zone("noon", removed=True))
    assert snapshot.fork(cell.state).zones == cell.state.zones == {"night": cell.records[-3]}
    other = Cell().start()
    other.put(zone("night", (1, 9)))
    assert cell.digest != other.digest


def test_quota_by_flavor_has_a_place_for_each_pair() -> None:
    cell = cell_with_flavors()
    groups = (group("b", "a"), group("c", resources=("cpu_milli", "nic")))
    cell.put(flavor("c"), with_fields(resource_groups=groups))
    made = queue_named(cell, "new")
    names = {cell.state.table.names[place]: quota for place, quota in made.quotas.items()}
    assert names == dict.fromkeys(
        ("b|cards_milli", "a|cards_milli", "c|cpu_milli", "c|nic"), (8000, 2000, -1)
    )
    assert len(made.used) == len(cell.state.table.names)
    copy = snapshot.fork(cell.state)
    assert copy.queues[made.index].config == made.config
    cell.put(queue("new"))
    assert made.quotas == {}


LIMIT = r.Limit(LimitScope.USER, "", "jobs", 5)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fair_weight_milli": -1}, ("VALUE_OUT_OF_RANGE", -1, 0)),
        ({"borrow_priority_max": 1 << 40}, ("VALUE_OUT_OF_RANGE", 1 << 40, 1 << 31)),
        ({"preempt_min_runtime_ns": -2}, ("VALUE_OUT_OF_RANGE", -2, -1)),
        ({"usage_weight_milli": -5}, ("VALUE_OUT_OF_RANGE", -5, 0)),
        ({"over_quota_weights": (r.Amount("x", -1),)}, ("VALUE_OUT_OF_RANGE", -1, 0)),
        ({"over_quota_weights": (r.Amount("x", 1),) * 2}, ("VALUE_OUT_OF_RANGE", 2, 1)),
        (
            {"node_group_limits": (r.GroupLimit("g", (r.Amount("x", -7),)),)},
            ("VALUE_OUT_OF_RANGE", -7, 0),
        ),
        ({"limits": (LIMIT, replace(LIMIT, scope=LimitScope.UNKNOWN))}, ("LIMIT_UNKNOWN", 2, 0)),
        ({"limits": (replace(LIMIT, resource=""),)}, ("LIMIT_UNKNOWN", 1, 0)),
        (
            {"limits": (replace(LIMIT, scope=LimitScope.QUEUE, subject="u"),)},
            ("LIMIT_UNKNOWN", 1, 0),
        ),
        ({"limits": (replace(LIMIT, count=-1),)}, ("VALUE_OUT_OF_RANGE", -1, 0)),
        ({"tenants": ("t", "")}, ("NAMES_REPEATED", 2, 1)),
        ({"node_groups_required": ("g", "g", "h")}, ("NAMES_REPEATED", 3, 2)),
        ({"node_group_limits": (r.GroupLimit("g", ()),) * 2}, ("NAMES_REPEATED", 2, 1)),
        ({"resource_groups": (group("a"), group("z"))}, ("FLAVOR_UNKNOWN", 2, 0)),
        ({"resource_groups": (group("a", "a"),)}, ("QUOTA_GROUPS_OVERLAP", 1, 0)),
        ({"resource_groups": (group("a"), group("b"))}, ("QUOTA_GROUPS_OVERLAP", 2, 0)),
        ({"resource_groups": (r.ResourceGroup(()),)}, ("QUOTA_GROUPS_OVERLAP", 1, 0)),
        ({"resource_groups": (group("a", resources=("x", "x")),)}, ("QUOTA_GROUPS_OVERLAP", 1, 0)),
        (
            {
                "resource_groups": (
                    r.ResourceGroup(
                        (group("a").flavors[0], group("b", resources=("nic",)).flavors[0])
                    ),
                )
            },
            ("QUOTA_GROUPS_OVERLAP", 1, 0),
        ),
        (
            {
                "resource_groups": (
                    r.ResourceGroup((r.FlavorQuota("a", (r.QuotaBound("x", 1, -2),)),)),
                )
            },
            ("VALUE_OUT_OF_RANGE", -2, -1),
        ),
    ],
)
def test_queues_that_are_refused(fields: dict[str, Any], said: tuple[str, int, int]) -> None:
    cell = cell_with_flavors()
    assert reasons(cell.put(with_fields(**fields))) == [said]
    assert "new" not in cell.state.queue_by_name


def test_a_queue_keeps_what_it_was_told() -> None:
    fields: dict[str, Any] = {
        "fair_weight_milli": 0,
        "borrow_priority_max": -3,
        "limits": (LIMIT, replace(LIMIT, scope=LimitScope.TENANT, subject="t")),
        "tenants": ("t",),
        "node_groups_preferred": ("g", "h"),
        "node_group_limits": (r.GroupLimit("g", (r.Amount("cards_milli", 4000),)),),
        "usage_weight_milli": 500,
    }
    digests = set()
    for names in ([], *[[name] for name in fields], list(fields)):
        cell = Cell().start(with_fields(**{name: fields[name] for name in names}))
        digests.add(cell.digest)
        assert snapshot.fork(cell.state).queues[0].config == cell.state.queues[0].config
    assert len(digests) == len(fields) + 2


def test_a_queue_of_no_weight_is_served_when_nobody_else_wants_anything() -> None:
    rules_queues = (queue("a", weight=0), queue("b", weight=3), queue("c"))
    cell = Cell().start(*rules_queues, node("n1", 3))
    for number in range(3):
        cell.submit(f"a{number}", queue="a")
    cell.submit("b0", queue="b")
    cell.submit("c0", queue="c")
    assert sorted(places(cell.tick())) == ["a0/0@n1", "b0/0@n1", "c0/0@n1"]


def test_a_guarantee_counts_without_weight() -> None:
    first = queue("a", weight=0, guarantee={"cards_milli": 1000})
    cell = Cell().start(first, queue("b"), node("n1", 2))
    for number in range(2):
        cell.submit(f"a{number}", queue="a")
        cell.submit(f"b{number}", queue="b")
    assert sorted(places(cell.tick())) == ["a0/0@n1", "b0/0@n1"]


def test_an_evicting_queue_gives_up_what_it_runs_and_starts_nothing() -> None:
    cell = Cell().start(queue("top"), queue("q", parent="top"), queue("other"), node("n1", 4))
    cell.submit("gang", role(replicas=2, cards=1))
    cell.submit("stays", queue="other")
    cell.tick()
    cell.started("gang", 0)
    said = cell.put(queue("top", state=QueueState.EVICTING))
    assert [(d.kind.name, d.job, d.pod, d.reason.name) for d in said] == [
        ("EVICT", "gang", 0, "QUEUE_EVICTED"),
        ("EVICT", "gang", 1, "QUEUE_EVICTED"),
    ]
    for pod in range(2):
        cell.released("gang", pod)
    assert places(cell.tick()) == []
    assert job_of(cell, "gang").phase.name == "INQUEUE"
    cell.put(queue("top"))
    assert len(places(cell.tick())) == 2


def test_a_reservation_by_shape_is_refused() -> None:
    cell = Cell().start(node("n1"))
    span = (GENESIS, GENESIS + HOUR)
    asked = r.ReservationRequested(GENESIS, "", None, "r", "me", (), 0, *span, False)
    assert reasons(cell.put(replace(asked, pods=3))) == [("VALUE_OUT_OF_RANGE", 3, 0)]

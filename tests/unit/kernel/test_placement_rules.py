"""Rules that say which nodes may be used and which are better, each asked as placement asks it."""

from typing import Any

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, TaintEffect, TolerationOperator, Tri
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import build
from support.builders import Cell, node, policy, queue, role, submission
from support.decision_lines import places
from support.placing import go, job_of, near, node_at, nodes_of, points, refusals, wish

Rule = str | tuple[str, dict[str, str]]


def cell_of(*rules: Rule, records: tuple[r.Record, ...]) -> Cell:
    return Cell().start(*records, rules=policy("priority", "gang", *rules))


def nodes(count: int = 2, **facts: object) -> tuple[r.Record, ...]:
    given: dict[str, Any] = {"cpu": 8000, "memory": 8000, **facts}
    return tuple(node(f"n{i}", **given) for i in range(count))


# ---- binpack, resource_strategy_fit, nodeorder --------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        ({}, 16.666),  # cards 10 x 12.5, cpu 1 x 25, memory 1 x 50, over 12
        ({"cards_milli": "0"}, 37.5),
        ({"cards_milli": "0", "cpu_milli": "3"}, 31.25),
        ({"weight": "4", "cards_milli": "0"}, 150.0),
        ({"cards_milli": "0", "cpu_milli": "0", "memory_mib": "0"}, 0.0),
    ],
)
def test_binpack_weighs_what_would_be_used(arguments: dict[str, str], score: float) -> None:
    cell = cell_of(("binpack", arguments), records=nodes(1))
    cell.submit("j", role(cards=1, cpu=2000, memory=4000))
    assert points(cell, "j")["n0"] == pytest.approx(score, abs=1e-2)


def test_binpack_takes_the_fuller_node_by_the_resource_that_weighs() -> None:
    cell = cell_of(("binpack", {"nic": "5"}), records=nodes(2, resources=[("nic", 4)]))
    cell.submit("cards", role(cards=4))
    assert places(cell.tick()) == ["cards/0@n0"]
    cell.submit("nic", role(cpu=1, resources=[("nic", 3)], selectors=[]))
    assert places(cell.tick()) == ["nic/0@n0"]
    cell.submit("more", role(cpu=8000 - 1, resources=[("nic", 1)]))
    assert places(cell.tick()) == ["more/0@n0"]


def test_a_node_that_lacks_a_resource_is_no_choice_whatever_it_scores() -> None:
    cell = cell_of("binpack", records=nodes(2))
    cell.submit("fill", role(cards=7))
    cell.tick()
    cell.submit("two", role(cards=2))
    assert places(cell.tick()) == ["two/0@n1"]


def test_strategies_differ_by_resource() -> None:
    rule = ("resource_strategy_fit", {"cards_milli": "2", "cpu_milli": "1", "spread": "cpu_milli"})
    cell = cell_of(rule, records=nodes())
    cell.submit("a", role(cards=2, cpu=1000))
    assert places(cell.tick()) == ["a/0@n0"]
    cell.submit("packed", role(cards=2))
    assert places(cell.tick()) == ["packed/0@n0"]
    cell.submit("spread", role(cpu=1000))
    assert places(cell.tick()) == ["spread/0@n1"]
    cell.submit("j", role(cards=2, cpu=1000))
    assert points(cell, "j")["n0"] == pytest.approx(10 * (2 * 75 + 75) / 3)


@pytest.mark.parametrize(
    ("weights", "first"),
    [
        ({"least_requested_weight": "1", "balanced_weight": "0"}, "n1"),
        ({"least_requested_weight": "0", "most_requested_weight": "1"}, "n0"),
    ],
)
def test_nodeorder_leans_as_its_weights_say(weights: dict[str, str], first: str) -> None:
    cell = cell_of(("nodeorder", weights), records=nodes())
    cell.submit("a", role(cards=2, cpu=2000, memory=2000))
    assert places(cell.tick()) == ["a/0@n0"]
    cell.submit("b", role(cards=2, cpu=2000, memory=2000))
    assert places(cell.tick()) == [f"b/0@{first}"]


def test_nodeorder_keeps_use_in_balance() -> None:
    only = {"least_requested_weight": "0", "taints_weight": "0", "balanced_weight": "1"}
    cell = cell_of(("nodeorder", only), records=nodes())
    cell.submit("a", role(cpu=6000, memory=100, selectors=[]))
    assert places(cell.tick()) == ["a/0@n0"]
    cell.submit("b", role(cpu=100, memory=6000))
    assert places(cell.tick()) == ["b/0@n0"], "there both are used alike"
    cell.submit("j", role(cpu=1, memory=8000))
    assert points(cell, "j")["n1"] == pytest.approx(50, abs=0.1), "1 and 0: deviation one half"


def test_nodeorder_avoids_soft_taints() -> None:
    soft = r.Taint("old", "yes", TaintEffect.PREFER_NO_SCHEDULE)
    records = (node("a", taints=[soft]), node("b"))
    cell = cell_of(("nodeorder", {"least_requested_weight": "0"}), records=records)
    cell.submit("j", role(cards=1))
    assert places(cell.tick()) == ["j/0@b"]
    bears = r.Toleration("old", TolerationOperator.EXISTS, "", TaintEffect.UNKNOWN)
    cell.submit("k", role(cards=1, tolerations=[bears]))
    assert points(cell, "k")["a"] >= points(cell, "k")["b"]


def test_what_is_remembered_of_nodes_is_dropped_with_the_rules() -> None:
    cell = cell_of("binpack", records=nodes())
    go(cell, submission("a"))
    assert cell.state.indexes.nodes.changed is not None
    cell.put(policy("priority", "gang", "pack"))
    go(cell, submission("b", time_ns=cell.now_ns))
    assert cell.state.indexes.nodes.changed is None
    assert cell.state.indexes.rankings is None


def test_predicates_add_nothing_to_what_the_kernel_checks() -> None:
    assert build(policy("gang", "predicates")).is_plain
    assert not build(policy("gang", "binpack")).is_plain


# ---- nodegroup ----------------------------------------------------------------------------------

GROUPS = (*[node(f"n{g}", labels=[("node_group", g)]) for g in "abcd"], node("none"))


def group_queue(name: str = "q", parent: str = "", **lists: object) -> r.QueueConfigured:
    return replace(
        queue(name, parent=parent),
        **{f"node_groups_{key}": value for key, value in lists.items()},
    )


FULL = {
    "required": ("a", "c"),
    "preferred": ("c",),
    "anti_required": ("b", "d"),
    "anti_preferred": ("d",),
}


@pytest.mark.parametrize(
    ("lists", "forbidden", "scores"),
    [
        (FULL, ["nb", "none"], {"na": 100, "nb": 0, "nc": 150, "nd": -1, "none": 0}),
        ({"required": ("a",)}, ["nb", "nc", "nd", "none"], {"na": 100, "nb": 0}),
        ({"preferred": ("a", "c")}, ["nb", "nd", "none"], {"na": 50, "nc": 50}),
        ({"anti_preferred": ("d",)}, ["na", "nb", "nc", "none"], {"nd": -1}),
        ({}, ["na", "nb", "nc", "nd", "none"], {"na": 0}),
    ],
)
def test_node_groups_of_a_queue(
    lists: dict[str, tuple[str, ...]], forbidden: list[str], scores: dict[str, int]
) -> None:
    cell = cell_of("nodegroup", records=(group_queue(**lists), *GROUPS))
    cell.submit("j", role(cards=1))
    found = refusals(cell, "j")
    assert sorted(found) == forbidden
    assert set(found.values()) <= {"NODE_GROUP"}
    assert points(cell, "j").items() >= scores.items()


def test_without_strictness_queues_without_groups_use_nodes_without() -> None:
    cell = cell_of(("nodegroup", {"strict": "no"}), records=GROUPS)
    assert go(cell, submission("j", role(cards=1))) == ["j/0@none"]


def test_groups_of_the_nearest_queue_above() -> None:
    records = (group_queue("top", required=("a",)), group_queue("q", "top"), *GROUPS)
    alone = cell_of("nodegroup", records=records)
    assert go(alone, submission("j", role(cards=1))) == []
    cell = cell_of(("nodegroup", {"hierarchy": "yes"}), records=records)
    assert go(cell, submission("j", role(cards=1))) == ["j/0@na"]


def test_earlier_groups_are_preferred_more() -> None:
    records = (group_queue(preferred=("c", "a")), *GROUPS)
    cell = cell_of(("nodegroup", {"ordered_preference": "yes"}), records=records)
    cell.submit("j", role(cards=1))
    assert points(cell, "j").items() >= {"nc": 50, "na": 25}.items()


def test_two_queues_with_groups_of_their_own() -> None:
    """What is remembered for one queue's pods is not taken for another's, equal as they are."""
    records = (group_queue("p", required=("a",)), group_queue("q", required=("b",)), *GROUPS)
    cell = cell_of("nodegroup", records=records)
    jobs = [submission(f"{name}{i}", queue=name) for i in range(3) for name in "pq"]
    assert nodes_of(go(cell, *jobs)) == ["na"] * 3 + ["nb"] * 3


def test_a_limit_on_a_group_counts_what_the_queue_has_there() -> None:
    limit = (r.GroupLimit("a", (r.Amount("cards_milli", 3000),)),)
    mine = replace(group_queue(required=("a",)), node_group_limits=limit)
    cell = cell_of("nodegroup", records=(mine, *GROUPS))
    assert len(go(cell, submission("j", role(replicas=4, minimum=1, cards=1)))) == 3
    cell.submit("k", role(cards=1))
    assert refusals(cell, "k")["na"] == "NODE_GROUP_LIMIT"
    cell.submit("cpu", role(cpu=1000))
    assert "na" not in refusals(cell, "cpu"), "it asks for nothing that is bounded"
    cell.started("j", 0)
    cell.succeeded("j", 0)
    assert nodes_of(go(cell)) == ["na", "na"], "a card came back"


# ---- shard --------------------------------------------------------------------------------------


def test_a_hard_shard_is_all_there_is() -> None:
    cell = cell_of(("shard", {"mode": "hard", "nodes": "n1"}), records=nodes(3))
    assert nodes_of(go(cell, submission("j", role(replicas=3, minimum=0, cards=4)))) == ["n1", "n1"]
    assert refusals(cell, "j") == {"n0": "SHARD", "n2": "SHARD"}


def test_a_soft_shard_comes_first() -> None:
    spreading = ("nodeorder", {"least_requested_weight": "1000"})
    soft = ("shard", {"mode": "soft", "nodes": "n1"})
    cell = cell_of(soft, spreading, records=nodes(3))
    assert nodes_of(go(cell, submission("j", role(replicas=3, cards=4)))) == ["n0", "n1", "n1"]


def test_a_shard_by_label() -> None:
    records = (node("a"), node("b", labels=[("shard", "east")]))
    rule = ("shard", {"label": "shard", "value": "east"})
    assert go(cell_of(rule, records=records), submission("j")) == ["j/0@b"]


def test_pods_without_requests_obey_shards_too() -> None:
    cell = cell_of(("shard", {"nodes": "n1"}), records=nodes(3))
    assert nodes_of(go(cell, submission("j", role(replicas=2)))) == ["n1", "n1"]


# ---- tdm ----------------------------------------------------------------------------------------

S = 10**9


def zone(name: str, *spans: tuple[int, int], removed: bool = False) -> r.ZoneConfigured:
    return r.ZoneConfigured(
        1000 * S, "", None, name, tuple(r.Interval(a * S, b * S) for a, b in spans), removed
    )


def zoned(*rules: Rule, spans: tuple[tuple[int, int], ...] = ((1000, 1010),)) -> Cell:
    records = (node("day", labels=[("revocable_zone", "z")]), node("own"), zone("z", *spans))
    return cell_of("tdm", *rules, records=records)


@pytest.mark.parametrize(
    ("named", "forbidden", "first"), [("", ["day"], "own"), ("z", [], "day"), ("*", [], "day")]
)
def test_an_open_zone_takes_pods_that_named_it(
    named: str, forbidden: list[str], first: str
) -> None:
    cell = zoned()
    asks = replace(role(cards=1), revocable_zone=named)
    assert go(cell, submission("j", asks)) == [f"j/0@{first}"]
    assert sorted(refusals(cell, "j")) == forbidden
    assert points(cell, "j")["day"] == (100 if named else 0)


def test_a_zone_opens_for_those_who_wait() -> None:
    cell = zoned(spans=((1005, 1100),))
    asks = replace(role(cards=1), revocable_zone="z")
    assert go(cell, submission("full", role(cards=8)), submission("j", asks)) == ["full/0@own"]
    assert go(cell) == []
    assert places(cell.tick(5)) == ["j/0@day"]


def outcasts(cell: Cell) -> list[tuple[str, int]]:
    state = cell.state
    found = [pod for hook in state.policy.victim for pod in hook(state)]
    return [(state.jobs[pod.job].request.job, pod.index) for pod in found]


@pytest.mark.parametrize(
    ("budget", "count"),
    [
        (None, 1),
        (r.Budget(max_unavailable_count=3), 3),
        (r.Budget(max_unavailable_milli=500), 2),
        (r.Budget(min_available_count=3), 1),
        (r.Budget(min_available_milli=250), 3),
        (r.Budget(max_unavailable_count=0), 0),
    ],
)
def test_who_must_leave_when_a_zone_closes(budget: r.Budget | None, count: int) -> None:
    cell = zoned()
    job = near("j", replace(role(replicas=4, cards=1), revocable_zone="z"))
    assert nodes_of(go(cell, replace(job, budget=budget))) == ["day"] * 4
    assert outcasts(cell) == []
    cell.tick(60)
    assert outcasts(cell) == [("j", i) for i in range(count)]


def test_shuffle_empties_a_closed_zone_and_its_pods_come_back_when_it_opens() -> None:
    records = (
        node("day", 2, labels=[("revocable_zone", "z")]),
        zone("z", (1000, 1010), (2000, 3000)),
    )
    actions = ("enqueue", "allocate", "backfill", "shuffle")
    cell = Cell().start(*records, rules=policy("gang", "tdm", actions=actions))
    asks = replace(role(replicas=2, minimum=1, cards=1), revocable_zone="z")
    budget = r.Budget(max_unavailable_count=2)
    assert len(go(cell, replace(submission("j", asks, retries=9), budget=budget))) == 2
    for pod in (0, 1):
        cell.started("j", pod)
    told = [d for d in cell.tick(60) if d.kind is DecisionKind.EVICT]
    assert [(d.job, d.pod) for d in told] == [("j", 0), ("j", 1)]
    for pod in (0, 1):
        cell.released("j", pod)
    assert places(cell.tick()) == [], "the zone is closed"
    assert sorted(places(cell.tick(1000))) == ["j/0@day", "j/1@day"]


def test_what_must_not_be_preempted_stays_where_it_is() -> None:
    cell = zoned()
    go(cell, submission("j", replace(role(cards=1), revocable_zone="z", preemptable=Tri.NO)))
    cell.tick(60)
    assert outcasts(cell) == []


def test_jobs_that_must_not_be_preempted_go_first() -> None:
    cell = cell_of("tdm", records=(node("own", 1),))
    firm = replace(role(cards=1), preemptable=Tri.NO)
    assert go(cell, submission("loose"), submission("firm", firm)) == ["firm/0@own"]


# ---- task_topology, network_topology ------------------------------------------------------------


def test_task_topology_puts_workers_beside_their_servers() -> None:
    records = tuple(node(f"n{i}", 4) for i in range(3))
    cell = cell_of("task_topology", records=records)
    apart = replace(
        role("ps", 2, cards=1), affinities=(wish(roles=["ps"], anti=True, required=False),)
    )
    beside = replace(role("w", 2, cards=2), affinities=(wish(roles=["ps"], required=False),))
    assert nodes_of(go(cell, near("j", beside, apart))) == ["n0", "n0", "n1", "n1"]


@pytest.mark.parametrize(
    ("wishes", "order"),
    [
        ((("w", ["ps"], False), ("ps", ["ps"], True)), ["ps", "w"]),
        ((("w", ["w"], False), ("ps", ["w"], True)), ["w", "ps"]),
        ((("w", ["w"], False), ("ps", ["w"], False)), ["ps", "w"]),
    ],
)
def test_task_topology_orders_roles(
    wishes: tuple[tuple[str, list[str], bool], ...], order: list[str]
) -> None:
    cell = cell_of("task_topology", records=(node("n"),))
    roles = [
        replace(role(name, cards=1), affinities=(wish(roles=of, anti=anti, required=False),))
        for name, of, anti in wishes
    ]
    cell.put(near("j", *roles))
    job = job_of(cell, "j")
    [hook] = cell.state.policy.task_order
    keys = {spec.name: hook(cell.state, job, place) for place, spec in enumerate(job.shape.roles)}
    assert sorted(keys, key=lambda name: keys[name]) == order


def test_network_topology_fills_the_domain_that_is_used_most() -> None:
    records = tuple(node_at(f"{rack}{i}", f"s/{rack}", 4) for rack in "ab" for i in (1, 2))
    cell = cell_of("network_topology", records=records)
    go(cell, submission("a", role(cards=1)))
    go(cell, near("wide", role(replicas=2, cards=4), required=1))
    places_ = go(cell, near("j", role(cards=2), required=1))
    assert nodes_of(places_) == ["a1"], "rack a has one card in use, rack b is full"


def test_network_topology_says_which_of_equal_domains_is_fuller() -> None:
    records = tuple(node_at(f"{rack}{i}", f"s/{rack}", 4) for rack in "ab" for i in (1, 2))
    cell = cell_of("network_topology", records=records)
    for name in ("a1", "a2"):
        cell.put(r.NodeCordoned(1000 * S, "", None, name, "me"))
    go(cell, submission("in_b", role(cards=1)))
    for name in ("a1", "a2"):
        cell.put(r.NodeUncordoned(1000 * S, "", None, name, "me"))
    assert nodes_of(go(cell, near("j", role(cards=2), required=1))) == ["b1"]
    plain = cell_of(records=records)
    assert nodes_of(go(plain, near("j", role(cards=2), required=1))) == ["a1"]


# ---- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        ("binpack", {"cards_milli": "-1"}),
        ("binpack", {"weight": "much"}),
        ("resource_strategy_fit", {"spread": "a,,b"}),
        ("nodeorder", {"least": "1"}),
        ("predicates", {"any": "1"}),
        ("nodegroup", {"strict": "maybe"}),
        ("shard", {"mode": "firm"}),
        ("tdm", {"zone": "z"}),
        ("task_topology", {"weight": "-1"}),
        ("network_topology", {"weight": "1.5"}),
    ],
)
def test_wrong_arguments_are_refused(rule: str, arguments: dict[str, str]) -> None:
    with pytest.raises(PolicyRefused) as refused:
        build(policy((rule, arguments)))
    assert refused.value.where.startswith("tiers[0].policies[0].")

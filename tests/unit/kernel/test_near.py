"""Jobs whose pods must, or should, be near each other: topology, groups, affinities."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import invariants
from ganger.streams.kernel.explain import explain
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from support.builders import Cell, policy, role, submission
from support.placing import go, job_of, near, node_at, nodes_of, wish


def racks(cards: int = 2) -> Cell:
    """Two spines of two racks of two nodes."""
    return Cell().start(
        *[
            node_at(f"{spine}{rack}{i}", f"{spine}/{spine}{rack}", cards)
            for spine in "xy"
            for rack in "ab"
            for i in (1, 2)
        ]
    )


def w(replicas: int, minimum: int | None = None, name: str = "w", **asks: object) -> r.Role:
    """Workers of two cards: each fills a node."""
    return role(name, replicas, minimum, **{"cards": 2, **asks})


@pytest.mark.parametrize(
    ("pods", "required", "domains"),
    [
        (2, 1, 1),  # one rack holds it
        (3, 1, 0),  # none does: nothing starts
        (3, 2, 1),  # one spine does
        (5, 2, 0),
        (5, 3, 2),  # the cell itself is the tier above all
        (5, 9, 2),
    ],
)
def test_a_required_tier(pods: int, required: int, domains: int) -> None:
    cell = racks()
    places = go(cell, near("j", w(pods), required=required))
    assert len(places) == (pods if domains else 0)
    assert len({name[0] for name in nodes_of(places)}) == domains


def test_a_preferred_tier_never_refuses() -> None:
    assert len(go(racks(), near("j", w(8), preferred=1))) == 8
    assert nodes_of(go(racks(), near("j", w(2), preferred=1))) == ["xa1", "xa2"]


def test_pods_are_gathered_in_as_few_domains_as_can_be() -> None:
    cell = racks()
    assert nodes_of(go(cell, near("one", role(cards=2)))) == ["xa1"]
    # three nodes are left below x, four below y: x has less to spare; inside it rack b is whole
    assert nodes_of(go(cell, near("j", w(3), required=2))) == ["xa2", "xb1", "xb2"]


def test_the_tightest_domain_comes_first() -> None:
    cell = racks()
    go(cell, submission("one", w(1), time_ns=cell.now_ns))
    assert nodes_of(go(cell, near("two", w(1), required=1))) == ["xa2"], "rack xa has one node left"


def test_a_refusal_says_how_much_the_best_domain_holds() -> None:
    cell = racks()
    cell.put(near("j", w(3), required=1))
    cell.tick()
    refusal = place_job(cell.state, Statement(cell.state), job_of(cell, "j"))
    assert refusal is not None
    assert (refusal.reason, refusal.asked, refusal.free, refusal.limit) == (
        Reason.TOPOLOGY_TIER,
        3,
        2,
        1,
    )


def test_an_explanation_names_the_tier_or_the_company() -> None:
    cell = racks()
    apart = replace(w(9), affinities=(wish(roles=["w"], anti=True),))
    cell.put(near("j", w(3), required=1), near("k", apart), near("l", w(2), required=1))
    cell.put(r.JobUpdateRequested(cell.now_ns, "", None, "l", "me", None, True, ()))
    cell.tick()
    said = {}
    for name in "jkl":
        told = explain(cell.state, name)
        assert told is not None
        said[name] = {finding.reason: finding for finding in told.reasons}
    tier = said["j"][Reason.TOPOLOGY_TIER]
    assert (tier.asked, tier.free, tier.limit) == (3, 2, 1)
    assert Reason.AFFINITY in said["k"] and Reason.TOPOLOGY_TIER not in said["k"]
    assert list(said["l"]) == [Reason.HELD]
    invariants.check(cell.state)


def test_a_lost_pod_comes_back_into_the_domain_of_the_others() -> None:
    cell = racks()
    cell.put(near("j", w(2), required=1, retries=3))
    cell.tick()
    cell.started("j", 0)
    cell.started("j", 1)
    cell.failed("j", 1)
    assert go(cell, submission("other", role(cards=1), time_ns=cell.now_ns))[0] == "j/1@xa2"


def test_growth_stays_within_the_required_tier() -> None:
    cell = racks()
    assert len(go(cell, near("j", w(6, 1), required=2))) == 4
    assert go(cell) == [], "spine x is full, y is another domain"


def test_soft_growth_goes_outward() -> None:
    cell = racks()
    cell.put(near("j", w(1), preferred=1))
    cell.tick()
    cell.update("j", scale=[("w", 3, 3)])
    assert nodes_of(go(cell)) == ["xa2", "xb1"]


def test_groups_start_each_in_a_domain_of_its_own() -> None:
    cell = racks()
    roles = [replace(w(2, name=name), group=name) for name in ("left", "right")]
    groups = [r.PodGroup(name, "", 2, r.Topology(1, 0)) for name in ("left", "right")]
    places = go(cell, near("j", *roles, groups=groups, required=2))
    assert len(places) == 4
    by_role = {
        which: {name[:2] for name in nodes_of(p for p in places if int(p[2]) % 2 == which)}
        for which in (0, 1)
    }
    assert [len(by_role[0]), len(by_role[1])] == [1, 1], "each group in one rack"
    assert len({name[0] for name in nodes_of(places)}) == 1, "both on one spine"


def test_a_group_that_misses_its_minimum_stops_the_job() -> None:
    cell = racks()
    first = replace(w(1, 0, name="a"), group="g")
    second = replace(w(1, 0, name="b", cards=3), group="g")  # fits nowhere
    places = go(cell, near("j", first, second, groups=[r.PodGroup("g", "", 2)]))
    assert places == []
    enough = near("k", first, second, groups=[r.PodGroup("g", "", 1)], time_ns=cell.now_ns)
    assert nodes_of(go(cell, enough)) == ["xa1"]


def test_groups_nest() -> None:
    cell = racks()
    roles = [replace(w(2, name=name), group=name) for name in ("p", "q")]
    groups = [
        r.PodGroup("p", "all", 2, r.Topology(1, 0)),
        r.PodGroup("q", "all", 2, r.Topology(1, 0)),
        r.PodGroup("all", "", 4, r.Topology(2, 0)),
    ]
    alone = replace(w(1, name="alone"))
    places = go(cell, near("j", *roles, alone, groups=groups))
    assert len(places) == 5
    inner = nodes_of(p for p in places if int(p[2]) % 3 != 2)
    assert inner == ["xa1", "xa2", "xb1", "xb2"]


def test_two_jobs_that_differ_in_topology_alone_are_no_look_alikes() -> None:
    cell = racks()
    cell.put(near("hard", w(3), required=1), near("soft", w(3), preferred=1))
    assert [p.split("/")[0] for p in go(cell)] == ["soft"] * 3


def test_without_topology_reports_a_required_tier_cannot_be_met() -> None:
    cell = Cell().start(node_at("n", "", 8))
    assert go(cell, near("j", role(cards=1), required=1)) == []
    assert len(go(cell, near("k", role(cards=1), required=2, time_ns=cell.now_ns))) == 1


# ---- affinities ---------------------------------------------------------------------------------


def plain_nodes(count: int = 3, cards: int = 4) -> Cell:
    return Cell().start(*[node_at(f"n{i}", f"r{i // 2}", cards) for i in range(count)])


def test_pods_that_avoid_their_own_kind_spread() -> None:
    apart = replace(role("w", 3, cards=1), affinities=(wish(roles=["w"], anti=True),))
    assert nodes_of(go(plain_nodes(), near("j", apart))) == ["n0", "n1", "n2"]
    four = replace(role("w", 4, cards=1), affinities=(wish(roles=["w"], anti=True),))
    assert go(plain_nodes(), near("j", four)) == [], "there are three nodes"


def test_distance_by_domain() -> None:
    apart = replace(role("w", 2, cards=1), affinities=(wish(roles=["w"], anti=True, tier=1),))
    assert nodes_of(go(plain_nodes(), near("j", apart))) == ["n0", "n2"]


def test_company_is_required() -> None:
    cell = plain_nodes()
    server = replace(role("s", cards=1), labels=(r.Label("app", "db"),))
    client = replace(role("c", 2, cards=1), affinities=(wish(labels=[("app", "db")]),))
    assert go(cell, near("client", client)) == [], "no such pod stands anywhere"
    assert go(cell, near("server", server, time_ns=cell.now_ns)) == ["server/0@n0"]
    assert nodes_of(go(cell)) == ["n0", "n0"], "it waits no longer"


def test_the_first_of_a_kind_may_go_anywhere() -> None:
    together = replace(
        role("w", 2, cards=2),
        labels=(r.Label("app", "x"),),
        affinities=(wish(labels=[("app", "x")]),),
    )
    assert nodes_of(go(plain_nodes(), near("j", together))) == ["n0", "n0"]


def test_pods_that_stand_keep_others_away() -> None:
    cell = plain_nodes(2)
    loner = replace(role("l", cards=1), affinities=(wish(labels=[("app", "noisy")], anti=True),))
    noisy = replace(role("n", cards=1), labels=(r.Label("app", "noisy"),))
    assert go(cell, near("loner", loner)) == ["loner/0@n0"]
    assert go(cell, near("noisy", noisy, time_ns=cell.now_ns)) == ["noisy/0@n1"]
    cell.started("loner")
    cell.succeeded("loner")
    assert go(cell, near("again", noisy, time_ns=cell.now_ns)) == ["again/0@n1"], "fullest first"


def test_only_pods_that_may_be_evicted_are_avoided() -> None:
    cell = plain_nodes(1)
    label = (r.Label("app", "x"),)
    fixed = replace(role("f", cards=1), labels=label, preemptable=Tri.NO)
    assert len(go(cell, near("fixed", fixed))) == 1
    asks = wish(labels=[("app", "x")], anti=True, preemptable_only=True)
    avoiding = replace(role("a", cards=1), affinities=(asks,))
    assert len(go(cell, near("avoiding", avoiding, time_ns=cell.now_ns))) == 1
    loose = replace(role("l", cards=1), labels=label, preemptable=Tri.YES)
    assert go(cell, near("loose", loose, time_ns=cell.now_ns)) == [], "it binds both sides"


def test_wishes_that_are_not_required_only_order_nodes() -> None:
    cell = plain_nodes(2)
    first = replace(role("a", cards=1), labels=(r.Label("app", "x"),))
    away = wish(labels=[("app", "x")], anti=True, required=False)
    shy = replace(role("s", 2, cards=4), affinities=(away,))
    go(cell, near("first", first))
    assert nodes_of(go(cell, near("shy", replace(shy, replicas=1, min_available=1)))) == ["n1"]
    cell = plain_nodes(1)
    go(cell, near("first", first))
    one = replace(role("s", cards=1), affinities=(away,))
    assert len(go(cell, near("shy", one, time_ns=cell.now_ns))) == 1


def test_a_job_that_waits_for_company_is_no_load_on_quiet_cycles() -> None:
    cell = Cell().start(node_at("n", "r"), rules=policy())
    cell.put(near("j", replace(role(cards=1), affinities=(wish(labels=[("a", "b")]),))))
    cell.tick()
    assert not cell.state.indexes.inqueue.open_count
    before = cell.state.indexes.last_stand
    cell.tick()
    assert cell.state.indexes.last_stand == before
    assert not cell.state.indexes.inqueue.open_count


def test_pods_that_are_seen_as_gone_keep_nobody_away() -> None:
    cell = plain_nodes(1)
    noisy = replace(role("n", cards=1), labels=(r.Label("app", "noisy"),))
    go(cell, near("noisy", noisy))
    loner = replace(role("l", cards=1), affinities=(wish(labels=[("app", "noisy")], anti=True),))
    assert go(cell, near("loner", loner, time_ns=cell.now_ns)) == []
    state, lifts, statement = cell.state, Statement(cell.state), Statement(cell.state)
    [pod] = (job_of(cell, "noisy").pods or {}).values()
    lifts.give_back(pod)
    assert place_job(state, statement, job_of(cell, "loner")) is None
    statement.discard()
    lifts.discard()
    assert place_job(state, statement, job_of(cell, "loner")) is not None


def test_of_two_that_grow_each_is_asked_for_itself() -> None:
    """They look alike but for where they are: one has no room around it, the other has."""
    cell = racks()
    cell.put(near("a", w(3, 1), required=1), near("b", w(3, 1), required=1))
    found = go(cell)
    assert nodes_of(found) == ["xa1", "xa2", "xb1", "xb2"], "each fills a rack"
    cell.started("b", 1)
    cell.succeeded("b", 1)
    assert go(cell) == ["b/2@xb2"]


def test_pods_that_leave_hold_nobody_in_their_domain() -> None:
    cell = racks()
    cell.put(near("j", w(2), required=1, retries=3))
    cell.tick()
    cell.started("j", 0)
    cell.started("j", 1)
    cell.put(r.NodeDrained(cell.now_ns, "", None, "xa1", "me", 0))
    cell.put(r.NodeDrained(cell.now_ns, "", None, "xa2", "me", 0))
    cell.released("j", 0)
    assert go(cell) == ["j/0@xb1"], "the other pod is missed but is not back yet"
    cell.released("j", 1)
    assert go(cell) == ["j/1@xb2"]

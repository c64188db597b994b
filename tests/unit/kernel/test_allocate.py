"""allocate: surplus at once or in turn, places of those who leave, and who is asked again."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from support.builders import GENESIS, Cell, node, policy, queue, role, submission
from support.decision_lines import places
from support.placing import go, job_of, near, wish


def rules(*names: str, **arguments: str) -> r.PolicyConfigured:
    """A policy whose allocate has these arguments."""
    record = policy(*(names or ("priority", "gang", "fair_share", "pack")))
    pairs = tuple(r.Argument(key, value) for key, value in arguments.items())
    return replace(
        record,
        actions=tuple(
            r.ActionConfig(action.action, pairs if action.action == "allocate" else ())
            for action in record.actions
        ),
    )


def two_queues(record: r.PolicyConfigured, *nodes: r.NodeChanged) -> Cell:
    return Cell().start(queue("p"), queue("q"), *nodes, rules=record)


def elastic(name: str, queue_name: str, most: int = 4) -> r.JobSubmitRequested:
    return submission(name, role(replicas=most, minimum=1, cards=1), queue=queue_name)


def test_surplus_goes_in_turn_or_at_once() -> None:
    at_once = go(two_queues(rules(), node("n", 4)), elastic("a", "p"), elastic("b", "q"))
    assert [place[0] for place in at_once] == ["a"] * 4
    in_turn = rules(surplus="one_by_one")
    found = go(two_queues(in_turn, node("n", 4)), elastic("a", "p"), elastic("b", "q"))
    assert [place[0] for place in found] == ["a", "a", "b", "b"]


def test_in_turn_a_lone_job_grows_in_one_cycle_all_the_same() -> None:
    cell = two_queues(rules(surplus="one_by_one"), node("n", 3))
    assert len(go(cell, elastic("a", "p"))) == 3


def test_who_does_not_fit_claims_what_leaves_anyway() -> None:
    cell = two_queues(rules(pipelines="yes"), node("n", 2))
    go(cell, submission("old", role(cards=2), queue="p"))
    cell.started("old")
    cell.cancel("old")
    made = cell.put(submission("new", role(replicas=2, cards=1), queue="q", time_ns=cell.now_ns))
    made = cell.tick()
    assert [(d.kind, d.job, d.node) for d in made if d.kind is DecisionKind.CLAIM] == [
        (DecisionKind.CLAIM, "new", "n")
    ] * 2
    assert not [d for d in made if d.kind is DecisionKind.ALLOCATE]
    other = submission("other", role(cards=1), queue="p", time_ns=cell.now_ns)
    cell.put(other)
    assert places(cell.tick()) == []
    cell.released("old")
    assert places(cell.tick()) == ["new/0@n", "new/1@n"], "nobody else may take it"


def test_nothing_is_claimed_twice_nor_without_leave() -> None:
    cell = two_queues(rules(pipelines="yes"), node("n", 1))
    go(cell, submission("old", queue="p"))
    cell.cancel("old")
    cell.put(*[submission(name, queue="q", time_ns=cell.now_ns) for name in ("a", "b")])
    claims = [d.job for d in cell.tick() if d.kind is DecisionKind.CLAIM]
    assert claims == ["a"]
    plain = two_queues(rules(), node("n", 1))
    go(plain, submission("old", queue="p"))
    plain.cancel("old")
    plain.put(submission("a", queue="q", time_ns=plain.now_ns))
    assert not [d for d in plain.tick() if d.kind is DecisionKind.CLAIM]


def test_an_overused_queue_is_not_served() -> None:
    cell = two_queues(rules("gang", "proportion"), node("n", 4))
    jobs = [submission(f"{name}{i}", queue=name) for i in range(4) for name in "pq"]
    found = go(cell, *jobs)
    assert [place[0] for place in found] == ["p", "p", "q", "q"]


def test_a_queue_of_weight_follows_demand_of_others() -> None:
    """A queue stopped at its due is asked again when others' demand, and so its due, changes."""
    cell = two_queues(rules("gang", "proportion"), node("n", 4))
    jobs = [submission(f"{name}{i}", queue=name) for i in range(4) for name in "pq"]
    go(cell, *jobs)
    for i in (2, 3):
        cell.cancel(f"q{i}")
    assert go(cell) == [], "no card is free"
    cell.started("q0")
    cell.succeeded("q0")
    assert go(cell) == ["p2/0@n"]


def test_where_rules_look_at_nodes_one_queue_stops_no_other() -> None:
    group = ("nodegroup", {})
    records = [
        replace(queue("p"), node_groups_required=("a",)),
        replace(queue("q"), node_groups_required=("b",)),
        node("nb", 1, labels=[("node_group", "b")]),
    ]
    cell = Cell().start(*records, rules=policy("gang", group))
    assert go(cell, submission("x", queue="p"), submission("y", queue="q")) == ["y/0@nb"]


def test_what_waits_for_company_is_asked_when_pods_change() -> None:
    cell = Cell().start(node("n", 4))
    beside = replace(role(cards=1), affinities=(wish(labels=[("app", "db")]),))
    assert go(cell, near("client", beside)) == []
    server = replace(role(cards=1), labels=(r.Label("app", "db"),))
    cell.put(near("server", server, time_ns=GENESIS + 5))
    cell.tick()
    cell.tick()
    assert job_of(cell, "client").pods

"""Quota admission: who is admitted, with what, and where the job is placed."""

import pytest

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase, QueueState, TaintEffect, VictimRule
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import build
from support.builders import Cell, node, placed, policy, role
from support.quotas import CARDS, flavor, held, kueue, leaf, quota_cell

ADMIT = DecisionKind.ADMIT


def admitted(decisions: list[Decision]) -> list[tuple[str, int]]:
    """Jobs admitted, and for how many pods."""
    return [(one.job, one.count) for one in decisions if one.kind is ADMIT]


def phase(cell: Cell, job: str) -> Phase:
    return cell.state.jobs[cell.state.job_by_key[job]].phase


# ---- quota and place ----------------------------------------------------------------------------


def test_a_job_gets_quota_and_place_in_one_cycle() -> None:
    cell = quota_cell(leaf("q", {"f": 4}))
    cell.submit("j", role(replicas=2, cards=2))
    made = cell.tick()
    assert [one.kind.name for one in made] == ["ADMIT", "ALLOCATE", "ALLOCATE"]
    said = made[0]
    assert (said.count, said.queue, said.rule) == (2, "q", "cohort")
    assert said.flavors == (r.FlavorChoice("worker", CARDS, "f"),)
    assert (said.asked, said.free, said.limit) == (4000, 4000, 4000)
    assert held(cell, "q") == {("f", CARDS): 4000}


def test_quota_bounds_what_nodes_would_hold() -> None:
    cell = quota_cell(leaf("q", {"f": 3}))
    for name in "abcd":
        cell.submit(name, role(cards=1))
    assert admitted(cell.tick()) == [("a", 1), ("b", 1), ("c", 1)]
    cell.succeeded("a")
    assert held(cell, "q") == {("f", CARDS): 2000}
    assert admitted(cell.tick()) == [("d", 1)]


def test_no_job_is_admitted_on_a_sum_that_no_node_can_hold() -> None:
    cell = quota_cell(leaf("q", {"f": 8}), cards=3, nodes=2)
    cell.submit("wide", role(cards=4))
    cell.submit("small", role(cards=2))
    made = cell.tick()
    assert admitted(made) == [("small", 1)]
    assert phase(cell, "wide") is Phase.PENDING
    assert held(cell, "q") == {("f", CARDS): 2000}
    cell.put(node("big", 4, cell.now_ns))
    assert [job for job, *_ in placed(cell.tick())] == ["wide"]


def test_quota_alone_admits_what_no_node_can_hold() -> None:
    cell = quota_cell(leaf("q", {"f": 8}), cards=3, rules=kueue(then="quota_alone"))
    cell.submit("wide", role(cards=4))
    made = cell.tick()
    assert admitted(made) == [("wide", 1)] and not placed(made)
    assert phase(cell, "wide") is Phase.INQUEUE
    cell.put(node("big", 4, cell.now_ns))
    assert [job for job, *_ in placed(cell.tick())] == ["wide"]
    assert held(cell, "q") == {("f", CARDS): 4000}


def test_a_gang_that_finds_no_place_holds_no_quota() -> None:
    cell = quota_cell(leaf("q", {"f": 9}), cards=4, nodes=2)
    cell.submit("gang", role(replicas=3, cards=3))
    assert not cell.tick()
    assert held(cell, "q") == {}
    assert not cell.tick() and held(cell, "q") == {}


def test_a_job_that_asks_for_nothing_needs_no_quota() -> None:
    cell = quota_cell(leaf("q", {"f": 0}))
    cell.submit("empty", role())
    made = cell.tick()
    assert admitted(made) == [("empty", 1)] and len(placed(made)) == 1
    assert held(cell, "q") == {}


def test_resources_without_quota_are_refused_or_ignored() -> None:
    for word, names in (("refuse", []), ("ignore", [("j", 1)])):
        cell = quota_cell(leaf("q", {"f": 4}), rules=kueue(uncovered=word))
        cell.submit("j", role(cards=1, cpu=500))
        assert admitted(cell.tick()) == names, word


def test_a_failed_pod_is_placed_again_on_the_quota_that_its_job_holds() -> None:
    cell = quota_cell(leaf("q", {"f": 2}))
    cell.submit("j", role(replicas=2, cards=1), retries=1)
    cell.submit("next", role(cards=1))
    cell.tick()
    cell.failed("j", 0)
    assert held(cell, "q") == {("f", CARDS): 2000}
    made = cell.tick()
    assert not admitted(made)
    assert placed(made) == [("j", 0, 2, "n0")]


def test_where_no_queue_has_quota_nobody_is_asked_for_it() -> None:
    cell = quota_cell(leaf("q", {}), cards=2)
    cell.submit("a", role(cards=2))
    cell.submit("b", role(cards=1, cpu=100))
    assert admitted(cell.tick()) == [("a", 1)]
    cell.succeeded("a")
    assert admitted(cell.tick()) == [("b", 1)]


# ---- flavors ------------------------------------------------------------------------------------


def test_pods_go_to_nodes_of_their_flavor() -> None:
    old, new = flavor("old", {"kind": "old"}), flavor("new", {"kind": "new"})
    cell = Cell().start(
        old,
        new,
        leaf("q", {"old": 1, "new": 2}),
        node("a", 8, labels=[("kind", "new")]),
        node("b", 8, labels=[("kind", "old")]),
        rules=kueue(),
    )
    for name in "xyz":
        cell.submit(name, role(cards=1))
    made = cell.tick()
    assert [(job, where) for job, _, _, where in placed(made)] == [
        ("x", "b"),
        ("y", "a"),
        ("z", "a"),
    ]


def test_a_flavor_with_a_taint_is_for_those_who_bear_it() -> None:
    taint = r.Taint("spot", "yes", TaintEffect.NO_SCHEDULE)
    cell = quota_cell(
        leaf("q", {"spot": 4, "f": 1}), flavors=(flavor("spot", taints=[taint]), flavor("f"))
    )
    cell.submit("j", role(cards=1))
    cell.submit("k", role(cards=1))
    cell.tick()
    assert held(cell, "q") == {("f", CARDS): 1000}


# ---- order, parking -----------------------------------------------------------------------------


def test_a_best_effort_head_is_parked_and_the_next_goes_on() -> None:
    cell = quota_cell(leaf("q", {"f": 4}))
    cell.submit("big", role(cards=6))
    cell.submit("small", role(cards=2))
    assert admitted(cell.tick()) == [("small", 1)]


def test_nobody_passes_the_head_of_a_strict_queue() -> None:
    cell = quota_cell(leaf("q", {"f": 4}, strict=True))
    cell.submit("first", role(cards=3))
    cell.submit("second", role(cards=3))
    cell.submit("third", role(cards=1))
    assert admitted(cell.tick()) == [("first", 1)]
    assert not cell.tick()
    cell.succeeded("first")
    assert admitted(cell.tick()) == [("second", 1), ("third", 1)]


def test_look_alikes_are_parked_together_and_woken_by_what_is_freed() -> None:
    cell = quota_cell(leaf("q", {"f": 2}))
    cell.submit("first", role(cards=2))
    cell.tick()
    for place in range(5):
        cell.submit(f"j{place}", role(cards=1))
    assert not cell.tick()
    gate = cell.state.indexes.gate
    assert gate.open_count == 0 and cell.state.indexes.is_idle()
    cell.succeeded("first")
    assert not cell.state.indexes.is_idle()
    assert admitted(cell.tick()) == [("j0", 1), ("j1", 1)]


def test_a_look_alike_of_higher_priority_is_not_parked_with_the_others() -> None:
    cell = quota_cell(leaf("q", {"f": 2}, within=VictimRule.LOWER_PRIORITY))
    cell.submit("low", role(cards=2))
    cell.tick()
    cell.submit("same", role(cards=2))
    assert not cell.tick()
    cell.submit("high", role(cards=2), priority=5)
    made = cell.tick()
    assert [(one.job, one.for_job) for one in made if one.kind is DecisionKind.EVICT] == [
        ("low", "high")
    ]


def test_a_queue_that_borrows_least_comes_first() -> None:
    cell = quota_cell(
        leaf("all", {}), leaf("a", {"f": 0}, parent="all"), leaf("b", {"f": 4}, parent="all")
    )
    cell.submit("borrows", role(cards=3), queue="a", priority=9)
    cell.submit("own", role(cards=2), queue="b")
    assert admitted(cell.tick()) == [("own", 1)]
    assert held(cell, "a") == {}


def test_lending_and_borrowing_limits_hold() -> None:
    cell = quota_cell(
        leaf("all", {}),
        leaf("a", {"f": (2, 1)}, parent="all"),
        leaf("b", {"f": (4, -1, 3)}, parent="all"),
    )
    for place in range(6):
        cell.submit(f"a{place}", role(cards=1), queue="a")
    cell.tick()
    assert held(cell, "a") == {("f", CARDS): 3000}


# ---- fewer pods ---------------------------------------------------------------------------------


def test_a_job_is_admitted_with_as_many_pods_as_can_be_had() -> None:
    cell = quota_cell(leaf("q", {"f": 4}))
    cell.submit("j", role(replicas=6, minimum=2, cards=1))
    made = cell.tick()
    assert admitted(made) == [("j", 4)] and len(placed(made)) == 4
    assert held(cell, "q") == {("f", CARDS): 4000}
    assert not cell.tick()


def test_the_rest_follows_as_pods_succeed_and_the_job_ends_whole() -> None:
    cell = quota_cell(leaf("q", {"f": 2}))
    cell.submit("j", role(replicas=3, minimum=1, cards=1))
    assert len(placed(cell.tick())) == 2
    cell.started("j", 0)
    cell.succeeded("j", 0)
    assert [pod for _, pod, *_ in placed(cell.tick())] == [2]
    assert held(cell, "q") == {("f", CARDS): 2000}
    cell.succeeded("j", 1)
    assert held(cell, "q") == {("f", CARDS): 1000}
    assert [one.reason for one in cell.succeeded("j", 2)] == [Reason.ALL_PODS_SUCCEEDED]
    assert held(cell, "q") == {}


def test_partial_admission_can_be_switched_off() -> None:
    cell = quota_cell(leaf("q", {"f": 4}), rules=kueue(partial="no"))
    cell.submit("j", role(replicas=6, minimum=2, cards=1))
    assert not cell.tick()


def test_scaling_up_gets_no_pods_beyond_those_admitted() -> None:
    cell = quota_cell(leaf("q", {"f": 8}))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    cell.update("j", scale=[("worker", 4, 2)])
    assert not placed(cell.tick())
    assert held(cell, "q") == {("f", CARDS): 2000}


# ---- hold and drain -----------------------------------------------------------------------------


def test_a_held_queue_admits_nobody_and_lets_run() -> None:
    cell = quota_cell(leaf("q", {"f": 4}))
    cell.submit("runs", role(cards=1))
    cell.tick()
    cell.submit("waits", role(cards=1))
    cell.put(leaf("q", {"f": 4}, state=QueueState.DRAINING, time_ns=cell.now_ns))
    assert not cell.tick()
    assert held(cell, "q") == {("f", CARDS): 1000}
    cell.put(leaf("q", {"f": 4}, time_ns=cell.now_ns))
    assert admitted(cell.tick()) == [("waits", 1)]


def test_a_drained_queue_gives_its_quota_back_and_admits_anew_when_it_opens() -> None:
    cell = quota_cell(leaf("q", {"f": 4}))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    made = cell.put(leaf("q", {"f": 4}, state=QueueState.EVICTING, time_ns=cell.now_ns))
    assert [one.reason for one in made] == [Reason.QUEUE_EVICTED] * 2
    cell.released("j", 0)
    assert held(cell, "q") == {("f", CARDS): 2000}
    cell.released("j", 1)
    assert held(cell, "q") == {} and phase(cell, "j") is Phase.PENDING
    assert not cell.tick()
    cell.put(leaf("q", {"f": 4}, time_ns=cell.now_ns))
    assert admitted(cell.tick()) == [("j", 2)]


def test_under_a_policy_without_quota_what_was_given_counts_no_more() -> None:
    cell = quota_cell(leaf("q", {"f": 2}))
    cell.submit("j", role(replicas=4, minimum=1, cards=1))
    assert len(placed(cell.tick())) == 2
    cell.put(policy())
    assert held(cell, "q") == {}
    assert len(placed(cell.tick())) == 2
    cell.put(kueue())
    cell.submit("k", role(cards=2))
    assert admitted(cell.tick()) == [("k", 1)]


# ---- policy records -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [{"then": "never"}, {"fair": "most"}, {"heads": "two"}, {"depth": "3"}]
)
def test_a_wrong_argument_is_refused_by_name(arguments: dict[str, str]) -> None:
    with pytest.raises(PolicyRefused, match=next(iter(arguments))):
        build(kueue(**arguments))

"""preempt's second phase: a job takes from its own pods of roles that come later."""

from typing import Any

import pytest
from msgspec.structs import replace

from conformance import cycles
from conformance.cases import Mismatch
from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, Phase, Tri
from ganger.schemas.reasons import Reason
from support.builders import Cell, node, policy, role
from support.decision_lines import job_of
from support.taking import evicted, start
from support.world import World

K = DecisionKind
ACTIONS = ("enqueue", "allocate", "preempt")
PRIORITY = ("priority", {"roles": "yes"})
FEW = ("job_valid", "job_ready", "job_pipelined", "preemptable")
"""Hooks of `gang` without its word on who starves: jobs at their minimum ask for the rest too."""


def volcano(search: str = "node") -> r.PolicyConfigured:
    """Volcano's first tier, in which `gang` has no say on who starves, and two of its second."""
    settings = {"votes": "tiers", "vetoes": "tiers"}
    gang = ("gang", {"whole": "never", "lost_first": "no"})
    made = policy(PRIORITY, gang, "drf", actions=ACTIONS, searches=search, settings=settings)
    first, second, third = made.tiers[0].policies
    tiers = (r.PolicyTier((first, replace(second, hooks=FEW))), r.PolicyTier((third,)))
    return replace(made, tiers=tiers)


def ranked(name: str, rank: int, replicas: int = 1, minimum: int = 0, **facts: Any) -> r.Role:
    return replace(role(name, replicas, minimum, cards=1), priority=rank, **facts)


def full(*low: r.Role, heads: int = 2, search: str = "node", **facts: Any) -> Cell:
    """A node whose four cards job `j` has, one of them for role `head`, which grows to `heads`."""
    cell = Cell().start(node("n", 4), rules=volcano(search))
    cell.submit("j", *low, ranked("head", 5), **facts)
    start(cell)
    assert sum(one.live for one in job_of(cell, "j").roles) == 4
    cell.update("j", scale=[("head", heads, 0)])
    return cell


def test_a_pod_takes_from_a_later_role_of_its_job() -> None:
    cell = full(ranked("low", 1, 3, 1))
    said = cell.tick()
    (gone,) = [one for one in said if one.kind is K.EVICT]
    assert (gone.job, gone.role, gone.for_job, gone.rule) == ("j", "low", "j", "preempt")
    assert (gone.reason, gone.order, gone.considered) == (Reason.PREEMPTED, 1, 3)
    cell.released(gone.job, gone.pod, gone.attempt)
    placed = [one for one in start(cell) if one.kind is K.ALLOCATE]
    assert [(one.job, one.role, one.node) for one in placed] == [("j", "head", "n")]
    assert [one.live for one in job_of(cell, "j").roles] == [2, 2]
    assert evicted(cell.tick()) == []  # the pod that had to go waits for a card


def test_it_takes_as_often_as_it_can_in_one_cycle_but_for_its_minimums() -> None:
    assert len(evicted(full(ranked("low", 1, 3, 1), heads=4).tick())) == 2
    assert len(evicted(full(ranked("low", 1, 3), heads=4).tick())) == 3
    assert len(evicted(full(ranked("low", 1, 3), heads=4, minimum=2).tick())) == 2


def test_the_last_role_goes_first_and_the_first_that_finds_nobody_ends_it() -> None:
    cell = full(ranked("low", 1, 2), ranked("middle", 3), heads=9)
    assert evicted(cell.tick()) == [("j", 3), ("j", 0), ("j", 1)]


@pytest.mark.parametrize(
    "low",
    [
        ranked("low", 5, 3),  # not below
        ranked("low", 1, 3, 3),  # all needed
        ranked("low", 1, 3, preemptable=Tri.NO),
    ],
)
def test_who_stays(low: r.Role) -> None:
    cell = full(low)
    assert evicted(cell.tick()) == []
    assert job_of(cell, "j").phase is Phase.RUNNING and not cell.state.claims


def test_a_role_that_never_preempts_takes_from_nobody() -> None:
    cell = Cell().start(node("n", 4), rules=volcano())
    cell.submit("j", ranked("low", 1, 3), ranked("head", 5, preempts=Tri.NO))
    start(cell)
    cell.update("j", scale=[("head", 2, 0)])
    assert evicted(cell.tick()) == []


def test_the_search_of_the_whole_cell_knows_no_second_phase() -> None:
    assert evicted(full(ranked("low", 1, 3), search="cell").tick()) == []


def test_others_are_taken_from_first() -> None:
    """A job that found victims in the first phase has its claim, and asks no more in the second."""
    cell = Cell().start(node("n", 5), rules=volcano())
    cell.submit("j", ranked("low", 1, 3), ranked("head", 5), priority=9)
    start(cell)
    cell.submit("other", role(minimum=0, cards=1))
    start(cell)
    cell.update("j", scale=[("head", 2, 0)])
    assert evicted(cell.tick()) == [("other", 0)]


def test_the_right_is_spent_and_returns_with_progress() -> None:
    cell = full(ranked("low", 1, 3))
    first = evicted(cell.tick())
    assert len(first) == 1
    cell.released(*first[0])
    start(cell)
    cell.update("j", scale=[("head", 3, 0)])  # an operator's word gives the right back
    assert len(evicted(cell.tick())) == 1


def test_evictions_inside_jobs_come_to_rest() -> None:
    world = World(Cell().start(node("n", 4), node("m", 2), rules=volcano()))
    for name in ("a", "b", "c"):
        world.cell.submit(name, ranked("low", 1, 3), ranked("head", 5, 3), ranked("mid", 3, 1, 1))
    counts = world.run()
    assert sum(counts.values()) <= 3 * 7


# ---- the same as published cases are told --------------------------------------------------------


def case(**facts: Any) -> dict[str, Any]:
    """One node with room for three tasks: two of low priority run, two of high priority wait."""
    request = {"cpu_m": 1000, "memory": 10}
    low = {"request": request, "phase": "running", "node": "n1", "priority": 1}
    high = {"request": request, "phase": "pending", "priority": 100}
    tasks = [{"name": f"low{n}", **low} for n in (1, 2)]
    tasks += [{"name": f"high{n}", **high} for n in (1, 2)]
    gang = {"plugin": "gang", "hooks": ["job_pipelined", "preemptable"]}
    ranks = {"plugin": "priority", "hooks": ["job_starving", "preemptable", "task_order"]}
    job = {"name": "j1", "queue": "q1", "phase": "inqueue", "min_member": 1, "priority": 0}
    return {
        "policy": {"actions": ["preempt"], "tiers": [[gang, ranks]]},
        "nodes": [{"name": "n1", "capacity": {"cpu_m": 2000, "memory": 100, "pods": 10}}],
        "queues": [{"name": "q1", "weight": 1, "state": "open"}],
        "jobs": [{**job, "tasks": tasks, **facts}],
    }


def test_a_case_of_tasks_in_one_job() -> None:
    """The gang's minimum of one leaves one task of two to be taken."""
    cycles.cycle({**case(), "expect": {"evicted": ["low2"], "pipelined": {"j1": ["n1"]}}})
    cycles.cycle({**case(min_member=2), "expect": {"evicted": []}})
    with pytest.raises(Mismatch):
        cycles.cycle({**case(), "expect": {"evicted": []}})


def test_a_case_in_which_only_jobs_below_their_minimum_starve() -> None:
    """As Volcano's default tiers have it: then no task is one too many either."""
    body = case()
    body["policy"]["tiers"][0][0]["hooks"].append("job_starving")
    cycles.cycle({**body, "expect": {"evicted": []}})

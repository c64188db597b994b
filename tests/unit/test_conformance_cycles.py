"""The conformance runner's way from a case to ledger records and back."""

from typing import Any

import pytest

from conformance import cycles, kai, policies
from conformance.cases import Mismatch, Unsupported
from conformance.workload import Tiers, adoptions, plan
from conformance.world import nodes_of, paths_of, queues_of, zones_of
from ganger.schemas import records as r
from ganger.schemas.enums import LimitScope, QueueState, Tri

GANG = {"plugin": "gang", "hooks": ["job_order"]}


def task(name: str, **facts: Any) -> dict[str, Any]:
    request = {"cpu_m": 1000, "memory": 10}
    return {"name": name, "request": request, "phase": "pending", **facts}


def job(name: str, *tasks: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {
        "name": name,
        "queue": "q1",
        "phase": "inqueue",
        "min_member": 1,
        "priority": 0,
        "tasks": list(tasks),
        **facts,
    }


def case(*jobs: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {
        "policy": {"actions": ["allocate"], "tiers": []},
        "nodes": [{"name": "n1", "capacity": {"cpu_m": 2000, "memory": 100, "pods": 10}}],
        "queues": [{"name": "q1", "weight": 1, "state": "open"}],
        "jobs": list(jobs),
        "expect": {"binds": {}, "evicted": []},
        **facts,
    }


def test_tasks_alike_are_one_role() -> None:
    made = plan(
        job(
            "j",
            task("t1", phase="running", node="n1"),
            task("t2", role="ps", priority=5),
            task("t3"),
            role_min={"default": 2},
            min_member=2,
        )
    )
    first, second = made.submission.roles
    assert (first.name, first.replicas, first.min_available, first.priority) == ("t1", 2, 2, 1)
    assert (second.name, second.replicas, second.min_available, second.priority) == ("t2", 1, 0, 5)
    assert made.pods == {"t1": 0, "t3": 2, "t2": 1}
    [adopted] = adoptions([made])
    assert (adopted.role, adopted.pod, adopted.node, adopted.cpu_milli) == ("t1", 0, "n1", 1000)


def test_a_minimum_over_different_tasks_is_a_group() -> None:
    made = plan(
        job("j", task("t1"), task("t2", preemptable=False), role_min={"default": 2}, min_member=2)
    )
    assert made.submission.groups == (r.PodGroup("default", "", 2),)
    assert [role.group for role in made.submission.roles] == ["default", "default"]
    assert [role.preemptable for role in made.submission.roles] == [Tri.YES, Tri.NO]


def test_minimums_of_roles_that_the_jobs_own_does_not_cover_do_not_count() -> None:
    made = plan(job("j", task("t1"), task("t2"), role_min={"default": 2}, min_member=1))
    assert [role.min_available for role in made.submission.roles] == [0]
    assert made.submission.min_available == 1


def test_cards_of_adopted_pods_are_taken_in_turn() -> None:
    tasks = [
        task(name, request={"gpu": 2, "cpu_m": 1}, phase="running", node="n1")
        for name in ("t1", "t2")
    ]
    spans = [record.cards for record in adoptions([plan(job("j", *tasks))])]
    assert spans == [(r.CardSpan(0, 2),), (r.CardSpan(2, 2),)]


@pytest.mark.parametrize(
    ("facts", "what"),
    [({"colour": 1}, "task fields"), ({"phase": "succeeded"}, "task phase")],
)
def test_what_no_record_says_is_unsupported(facts: dict[str, Any], what: str) -> None:
    with pytest.raises(Unsupported, match=what):
        plan(job("j", task("t1", **facts)))


def test_domains_become_paths_with_the_cell_outermost() -> None:
    body = case(
        nodes=[{"name": name, "capacity": {}} for name in ("n1", "n2", "n3")],
        topology={
            "domains": [
                {"name": "leaf", "tier": 0, "nodes": ["n1", "n2"]},
                {"name": "top", "tier": 4, "nodes": ["n1", "n2", "n3"]},
            ]
        },
    )
    assert paths_of(body) == {
        "n1": ("cell", "top", "leaf"),
        "n2": ("cell", "top", "leaf"),
        "n3": ("cell", "top", "n3 alone"),
    }
    assert [node.report.topology[0] for node in nodes_of(body)] == ["cell"] * 3
    tiers = Tiers((0, 4), {"wide": 4})
    for wish, want in (
        ({"mode": "hard", "highest_tier": 0}, r.Topology(1, 0)),
        ({"mode": "hard", "highest_tier_name": "wide"}, r.Topology(2, 0)),
        ({"mode": "hard", "highest_tier": 5}, r.Topology(3, 0)),
        ({"mode": "soft"}, r.Topology(0, 3)),
    ):
        assert plan(job("j", task("t1"), topology=wish), tiers).submission.topology == want


def test_queues_come_parents_first_and_closed_ones_start_nothing() -> None:
    body = case(
        queues=[
            {"name": "a", "weight": 2, "parent": "root", "state": "closed"},
            {"name": "root", "weight": 1, "state": "open", "capability": {"gpu": 2}},
        ],
        tenant_quotas=[{"tenant": "t", "hard": {"cpu_m": 5}}],
    )
    root, leaf = queues_of(body)
    assert (root.queue, root.capability) == ("root", (r.Amount("cards_milli", 2000),))
    assert (leaf.queue, leaf.parent, leaf.state) == ("a", "root", QueueState.DRAINING)
    assert leaf.limits == (r.Limit(LimitScope.TENANT, "t", "cpu_milli", 5),)
    assert queues_of(body, as_open=True)[1].state is QueueState.OPEN


def test_zones_of_a_policy_are_records() -> None:
    tiers = [[{"plugin": "tdm", "hooks": [], "args": {"zones": {"z": "active", "y": "inactive"}}}]]
    shut, always = zones_of({"tiers": tiers})
    assert (shut.zone, shut.open) == ("y", ())
    assert always.open[0].from_ns == 0


def test_a_policy_that_is_not_there_is_unsupported_by_name() -> None:
    tiers = [[{"plugin": "magic", "hooks": ["job_order"]}]]
    with pytest.raises(Unsupported, match=r"tiers\[0\]\.policies\[0\] = 'magic'"):
        policies.volcano_policy({"actions": ["allocate"], "tiers": tiers})
    with pytest.raises(Unsupported, match=r"actions\[0\] = 'dance'"):
        policies.volcano_policy({"actions": ["dance"], "tiers": []})


def test_only_hooks_that_are_on_come_along() -> None:
    tiers = [[{"plugin": "priority", "hooks": ["job_order"]}, {"plugin": "drf", "hooks": []}]]
    record = policies.volcano_policy({"actions": ["allocate"], "tiers": tiers})
    [tier] = record.tiers
    assert [(one.policy, one.hooks) for one in tier.policies] == [("priority", ("job_order",))]


def test_a_cycle_is_run_and_compared() -> None:
    one = job("j1", task("t1"), task("t2"), task("t3"))
    full = case(one, expect={"binds": {"t1": "n1", "t2": "*"}, "evicted": []})
    cycles.cycle(full)
    with pytest.raises(Mismatch, match="placed"):
        cycles.cycle({**full, "expect": {"binds": {"t1": "n1"}}})
    with pytest.raises(Mismatch, match="evicted"):
        cycles.cycle({**full, "expect": {"evicted": ["t1"]}})
    with pytest.raises(Mismatch, match="phase of j1"):
        cycles.cycle({**full, "expect": {"job_phase": {"j1": "pending"}}})
    with pytest.raises(Unsupported, match="wonders"):
        cycles.cycle({**full, "expect": {"wonders": 1}})


def test_pods_that_run_are_adopted_and_hold_their_room() -> None:
    busy = job("j1", task("t1", phase="running", node="n1"), phase="running")
    waits = job("j2", task("u1"), task("u2"))
    cycles.cycle(case(busy, waits, expect={"binds": {"u1": "n1"}, "evicted": []}))


def test_a_job_of_no_queue_is_ignored() -> None:
    cycles.cycle(case(job("j1", task("t1"), queue="none")))


def test_steps_go_on_where_the_last_ended() -> None:
    first, second = job("j1", task("t1")), job("j2", task("u1"), phase="pending")
    steps = [
        {"add_jobs": ["j1"], "actions": ["allocate"], "expect": {"binds": {"t1": "n1"}}},
        {"add_jobs": ["j2"], "actions": ["allocate"], "expect": {"binds": {"u1": "n1"}}},
    ]
    cycles.steps(case(first, second, steps=steps))


def test_shares_of_cards_by_parts_and_by_memory() -> None:
    by_parts = kai.request_of({"gpu": 0, "gpu_memory": 25, "cpu_m": 1, "memory": 1})
    assert (by_parts.cards, by_parts.card_milli, by_parts.card_memory_mib) == (0, 250, 25)
    with pytest.raises(Unsupported, match="tiers"):
        kai.policy_of({"tiers": [[{"plugin": "gpuspread"}]], "actions": []})

"""Jobs that wait though they need not, or of which nobody says why: faults of admission that users
of other schedulers reported in public. None may come.

Each test is named by what must hold; its number is that of the line in our list of such faults
(README.md beside this file).
"""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, LimitScope, Phase, QueueState
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.explain import Explanation, explain
from support.builders import Cell, node, placed, policy, queue, role, submission
from support.decision_lines import job_of
from support.quotas import kueue, leaf, quota_cell

K = DecisionKind
STRICT = ("overcommit", {"into_idle": "0"})
GATES = [("capability", STRICT), (STRICT, "proportion"), (STRICT, "capacity")]
"""Rules that hold jobs at the gate: ganger's own, and Volcano's two."""


def told(cell: Cell, job: str) -> Explanation:
    found = explain(cell.state, job)
    assert found is not None
    return found


def from_tenant(tenant: str, job: str, pods: int, **facts: int) -> r.JobSubmitRequested:
    return replace(submission(job, role(replicas=pods, cards=1), **facts), tenant=tenant)


def phase(cell: Cell, job: str) -> Phase:
    return job_of(cell, job).phase


def test_51_a_job_that_the_gate_refuses_says_so_and_not_only_that_its_gang_waits() -> None:
    rules = policy("priority", "gang", STRICT, "fair_share", "pack")
    cell = Cell().start(node("n1", 4), node("n2", 4), rules=rules)
    cell.submit("busy", role(replicas=8, cards=1))
    cell.submit("next", role(replicas=2, cards=1))  # 8 + 2 of 9.6
    cell.tick()
    found = told(cell, "next")
    assert phase(cell, "next") is Phase.PENDING
    first = found.reasons[0]
    assert (first.reason, first.rule) == (Reason.OVERCOMMIT, "overcommit")
    assert (first.asked, first.free, first.limit) == (2000, 1600, 9600)
    assert Reason.GANG_BELOW_MINIMUM in [one.reason for one in found.reasons[1:]]


@pytest.mark.parametrize("refuser", ["before", "behind"])
def test_54_a_job_that_another_rule_refuses_books_nothing(refuser: str) -> None:
    """Whatever the order of the rules: what it asked is there for the next."""
    names = [STRICT, "resourcequota"]
    if refuser == "before":
        names.reverse()
    rules = policy("priority", "gang", *names, "pack", actions=("enqueue", "allocate"))
    limits = (r.Limit(LimitScope.TENANT, "u", "cards_milli", 4000),)
    cell = Cell().start(replace(queue("q"), limits=limits), node("n1", 4), rules=rules)
    for number in range(3):
        cell.put(from_tenant("u", f"barred{number}", 4, priority=9))
    cell.tick()
    running = [job for job, *_ in placed(cell.decisions)]
    assert set(running) == {"barred0"}
    assert [phase(cell, f"barred{n}") for n in (1, 2)] == [Phase.PENDING] * 2
    cell.succeeded("barred0", 0)  # of its tenant's 4 cards 3 are still in use
    cell.put(from_tenant("v", "other", 1, time_ns=cell.now_ns))
    assert [job for job, *_ in placed(cell.tick())] == ["other"]
    assert cell.state.admitted[0] == 0


@pytest.mark.parametrize("rules", GATES)
def test_55_nobody_waits_at_the_gate_of_a_queue_that_has_room(rules: tuple[object, ...]) -> None:
    """Room that jobs leave without having started, in whatever way, is there again at once."""
    actions = ("enqueue", "allocate")
    made = policy("priority", "gang", *rules, "pack", actions=actions)  # type: ignore[arg-type]
    mine = queue("q", capability={"cards_milli": 4000}, deserved={"cards_milli": 4000})
    cell = Cell().start(mine, node("n1", 2), node("n2", 2), rules=made)
    for way in ("cancel", "hold", "scale", "drain"):
        name = f"wide-{way}"
        cell.submit(name, role(replicas=2, minimum=1, cards=3))  # no node holds one
        cell.tick()
        if way == "cancel":
            cell.cancel(name)
        elif way == "hold":
            cell.update(name, held=True)
        elif way == "scale":
            cell.update(name, scale=[("worker", 1, 1)])
            cell.cancel(name)
        else:
            cell.put(replace(mine, state=QueueState.DRAINING, time_ns=cell.now_ns))
            cell.cancel(name)
            cell.put(replace(mine, time_ns=cell.now_ns))
        cell.submit(f"whole-{way}", role(replicas=4, cards=1))
        cell.tick()
        assert phase(cell, f"whole-{way}") in (Phase.ALLOCATED, Phase.RUNNING), way
        for pod in range(4):
            cell.started(f"whole-{way}", pod)
            cell.succeeded(f"whole-{way}", pod)
    cell.tick()
    assert cell.state.used[0] == 0


def test_56_a_job_larger_than_any_node_is_told_so() -> None:
    cell = Cell().start(node("n1", 8), node("n2", 8))
    cell.submit("never", role(cards=16))
    cell.tick()
    found = [one for one in told(cell, "never").reasons if one.role]
    assert [one.reason for one in found] == [Reason.NEVER_FITS, Reason.CARDS_TOO_FEW]
    assert (found[1].count, found[1].asked, found[1].free) == (2, 16, 8)


def test_56_nobody_is_admitted_on_sums_that_no_nodes_hold() -> None:
    """Eight cards are free, but no six on one node: neither admitted, nor is anybody evicted."""
    cell = quota_cell(leaf("q", {"f": 8}), cards=4, nodes=2)
    cell.submit("never", role(cards=6), priority=9)
    cell.submit("fits", role(cards=4))
    cell.tick()
    assert [job for job, *_ in placed(cell.decisions)] == ["fits"]
    assert phase(cell, "never") is Phase.PENDING
    alone = quota_cell(leaf("q", {"f": 8}), cards=4, nodes=2, rules=kueue(then="quota_alone"))
    alone.submit("never", role(cards=6))
    alone.tick()
    assert phase(alone, "never") is Phase.INQUEUE  # only a policy that asks for quota alone


@pytest.mark.parametrize("beyond_due", ["yields", "stays"])
def test_58_gangs_that_borrow_do_not_keep_a_queue_from_all_of_its_due(beyond_due: str) -> None:
    """Two cards, each queue is due one. A gang of two alone is more than that: it ends for a job of
    the queue that has nothing, unless the policy lets it stay; then it is said why. Its card that
    is idle now goes to who fits, and the gang, which asks more than is due, takes nothing back.
    """
    actions = ("enqueue", "allocate", "reclaim")
    fair = ("fair_share", {"beyond_due": beyond_due})
    rules = policy("priority", "gang", fair, "capability", "pack", actions=actions)
    cell = Cell().start(queue("q1"), queue("q2"), node("n1", 1), node("n2", 1), rules=rules)
    cell.submit("gang", role(replicas=2, cards=1), queue="q1")
    cell.tick()
    for pod in range(2):
        cell.started("gang", pod)
    cell.submit("one", queue="q2")
    evicted = [d for d in cell.tick(3600) if d.kind is K.EVICT]
    if beyond_due == "stays":
        assert not evicted
        spared = told(cell, "one").spared
        assert {one.jobs for one in spared} == {("gang",)}
        assert "fair_share" in [one.rule for one in spared]
        return
    assert [(d.job, d.for_job) for d in evicted] == [("gang", "one")] * 2
    for pod in range(2):
        cell.released("gang", pod)
    assert [job for job, *_ in placed(cell.tick())] == ["one"]
    cell.started("one")
    cell.submit("single", queue="q1")
    assert [job for job, *_ in placed(cell.tick())] == ["single"]
    cell.started("single")
    for _ in range(3):
        assert not [d for d in cell.tick(3600) if d.kind in (K.EVICT, K.ALLOCATE)]
    cell.succeeded("one")
    cell.succeeded("single")
    assert [job for job, *_ in placed(cell.tick())] == ["gang"] * 2

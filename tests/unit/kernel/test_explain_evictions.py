"""Explanations of who may take from whom: rules by name, numbers on both sides, pods that stay."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.explain import Explanation, Finding, explain
from ganger.streams.kernel.preemption.spared import Spared
from support.builders import SECOND, Cell, node, policy, queue, role, submission

TAKING = ("enqueue", "allocate", "backfill", "preempt", "reclaim")


def cell(*rules: str, queues: tuple[r.QueueConfigured, ...] = (queue("q"),)) -> Cell:
    made = policy("priority", "gang", *rules, "pack", actions=TAKING)
    return Cell().start(*queues, node("n", 2), rules=made)


def told(one: Cell, job: str) -> Explanation:
    found = explain(one.state, job)
    assert found is not None
    return found


def run(one: Cell, job: str, **facts: object) -> None:
    one.put(replace(submission(job, time_ns=one.now_ns), **facts))
    one.tick()
    one.started(job)


def reasons(found: Explanation) -> list[Reason]:
    return [finding.reason for finding in found.reasons]


def test_pods_of_no_lower_priority_stay() -> None:
    one = cell()
    run(one, "a")
    run(one, "b")
    one.submit("waits")
    one.tick()
    [spared] = told(one, "waits").spared
    assert spared == Spared(Reason.NOT_LOWER_PRIORITY, "", 0, 0, 2, 2, ("a", "b"))


def test_protected_pods_say_for_how_long() -> None:
    one = cell("cooldown")
    run(one, "young", protected_ns=60 * SECOND)
    run(one, "own-word", preemptable=Tri.NO)
    one.submit("urgent", priority=9)
    assert not [d for d in one.tick() if d.kind is DecisionKind.EVICT]
    found = {one.reason: one for one in told(one, "urgent").spared}
    assert found[Reason.CRITICAL].jobs == ("own-word",)
    kept = found.get(Reason.PROTECTED) or found[Reason.COOLDOWN]
    assert kept.jobs == ("young",)
    assert 0 < kept.asked < 60 * SECOND


def test_a_rule_that_spares_is_named() -> None:
    one = cell("pdb")
    budget = r.Budget(min_available_count=1)
    run(one, "first", budget=budget)
    run(one, "second", budget=budget)
    one.submit("urgent", priority=9)
    assert not [d for d in one.tick() if d.kind is DecisionKind.EVICT]
    [spared] = told(one, "urgent").spared
    assert (spared.reason, spared.rule, spared.pods) == (Reason.BUDGET, "pdb", 2)
    assert (spared.asked, spared.limit) == (0, 1)


def test_a_claim_counts_those_who_have_not_left() -> None:
    one = cell()
    run(one, "a")
    run(one, "b")
    one.submit("urgent", role(replicas=2, cards=1), priority=9)
    evicted = [d for d in one.tick() if d.kind is DecisionKind.EVICT]
    assert [(d.job, d.for_job, d.order, d.rule) for d in evicted] == [
        ("b", "urgent", 1, "preempt"),
        ("a", "urgent", 2, "preempt"),
    ]
    assert told(one, "urgent").reasons == (Finding(Reason.CLAIM_MADE, 2),)
    one.released("a")
    assert told(one, "urgent").reasons == (Finding(Reason.CLAIM_MADE, 1),)


def test_a_job_without_its_right_says_so() -> None:
    one = cell()
    run(one, "low")
    run(one, "other", priority=5)
    one.submit("urgent", priority=9)
    one.tick()
    one.released("low")
    one.tick()
    assert Reason.EVICTION_RIGHT_USED in reasons(told(one, "low"))
    assert told(one, "low").spared == ()


def test_a_job_that_never_evicts_says_so() -> None:
    one = cell()
    run(one, "a")
    run(one, "b")
    one.put(replace(submission("meek", priority=9, time_ns=one.now_ns), preempts=Tri.NO))
    one.tick()
    assert Reason.NEVER_PREEMPTS in reasons(told(one, "meek"))


def test_a_queue_at_its_due_is_told_with_rule_and_queue() -> None:
    queues = (queue("q"), queue("p"))
    made = policy("priority", "gang", "proportion", "pack", actions=("enqueue", "allocate"))
    one = Cell().start(*queues, node("n", 2), rules=made)
    for name, of in (("a", "q"), ("b", "q"), ("c", "p"), ("d", "p")):
        one.submit(name, queue=of)
    one.tick()
    waiting = [found for found in (told(one, name) for name in "abcd") if not found.pods]
    assert waiting
    for found in waiting:
        named = [(f.rule, f.queue) for f in found.reasons if f.rule]
        assert ("proportion", found.queue) in named

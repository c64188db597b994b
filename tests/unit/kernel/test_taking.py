"""Who may take, who may be taken from, and how they are told."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, Phase, Tier, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.jobs.gangs import counts_of, needed, standing, surplus
from ganger.streams.kernel.preemption.candidates import Hunt
from ganger.streams.kernel.preemption.taking import why_not
from ganger.streams.kernel.step import next_wake
from support.builders import SECOND, Cell, node, policy, queue, role, submission
from support.decision_lines import job_of
from support.taking import evicted, start

K = DecisionKind
RULES = ("priority", "gang", "fair_share", "conformance", "pdb", "capability", "pack")
ACTIONS = ("enqueue", "allocate", "backfill", "reclaim", "preempt")


def cell_of(*more: str, records: tuple[r.Record, ...] = (), **settings: str) -> Cell:
    """Four cards; all rules that keep somebody from being a victim, and more."""
    rules = policy(*RULES, *more, actions=ACTIONS, settings=settings)
    vital, meek = r.PriorityClass("vital", 0, True, True), r.PriorityClass("meek", 9, False)
    rules = replace(rules, priority_classes=(vital, meek))
    return Cell().start(node("n", 4), *records, rules=rules)


def put(
    cell: Cell, job: str, *roles: r.Role, queue_: str = "q", priority: int = 0, **facts: object
) -> None:
    """Submit a job with rarely used fields."""
    made = submission(job, *roles, queue=queue_, priority=priority, time_ns=cell.now_ns)
    cell.put(replace(made, **facts))


def test_an_eviction_says_for_whom_by_what_right_and_of_how_many() -> None:
    cell = cell_of()
    put(cell, "low", role(replicas=4, minimum=1, cards=1))
    start(cell)
    put(cell, "high", role(replicas=2, cards=1), priority=5)
    said = cell.tick()
    first, second = [one for one in said if one.kind is K.EVICT]
    assert (first.for_job, first.queue, first.rule) == ("high", "q", "preempt")
    assert (first.order, second.order, first.considered) == (1, 2, 4)  # 3 spare, 1 whole
    assert (first.reason, first.asked, first.free) == (Reason.PREEMPTED, 2_000, 0)
    claims = [one for one in said if one.kind is K.CLAIM]
    assert [(one.job, one.pod, one.node, one.rule) for one in claims] == [
        ("high", -1, "n", "preempt")
    ] * 2
    assert claims[0].until_ns == cell.now_ns + 600 * SECOND


def test_spare_pods_leave_before_whole_jobs_and_the_latest_first() -> None:
    cell = cell_of()
    put(cell, "whole", role(cards=1))
    put(cell, "elastic", role(replicas=3, minimum=1, cards=1))
    start(cell)
    put(cell, "high", role(replicas=2, cards=1), priority=5)
    assert evicted(cell.tick()) == [("elastic", 2), ("elastic", 1)]


def test_work_in_gaps_yields_before_work_in_turn() -> None:
    cell = cell_of()
    put(cell, "a", role(replicas=2, minimum=0, cards=1))
    put(cell, "b", role(replicas=2, minimum=0, cards=1))
    start(cell)
    for pod in (job_of(cell, "a").pods or {}).values():
        pod.tier = Tier.BACKFILL
        cell.state.touch(pod)
    put(cell, "high", role(cards=1), priority=5)
    assert evicted(cell.tick())[0][0] == "a"


def test_a_gang_leaves_whole_or_not_at_all() -> None:
    cell = cell_of()
    put(cell, "gang", role(replicas=4, cards=1))
    start(cell)
    put(cell, "high", role(cards=1), priority=5)
    assert len(evicted(cell.tick())) == 4
    other = cell_of()
    put(other, "gang", role(replicas=3, cards=1), role("stays", cards=1))
    start(other)
    spec = replace(role("stays", cards=1), preemptable=Tri.NO)
    third = cell_of()
    put(third, "gang", role(replicas=3, cards=1), spec)
    start(third)
    put(third, "high", role(cards=1), priority=5)
    assert evicted(third.tick()) == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"preempts": Tri.NO}, Reason.NEVER_PREEMPTS),
        ({"priority_class": "meek"}, Reason.NEVER_PREEMPTS),
        ({"roles": (replace(role(cards=1), preempts=Tri.NO),)}, Reason.NEVER_PREEMPTS),
        ({"priority": 0}, Reason.NOT_LOWER_PRIORITY),
        ({}, Reason.UNKNOWN),
    ],
)
def test_who_never_takes(facts: dict[str, object], reason: Reason) -> None:
    cell = cell_of()
    put(cell, "low", role(replicas=4, minimum=0, cards=1))
    start(cell)
    put(cell, "high", **{"priority": 9, **facts})  # type: ignore[arg-type]
    said = cell.tick()
    assert bool(evicted(said)) == (reason is Reason.UNKNOWN)
    hunt = Hunt("preempt", Reason.PREEMPTED, False, None)
    if reason is not Reason.UNKNOWN:
        assert why_not(cell.state, job_of(cell, "high"), hunt) is reason


@pytest.mark.parametrize(
    "facts",
    [
        {"preemptable": Tri.NO},
        {"priority_class": "vital"},
        {"budget": r.Budget(min_available_count=4)},
        {"budget": r.Budget(max_unavailable_milli=0)},
        {"roles": (replace(role(replicas=4, minimum=0, cards=1), preemptable=Tri.NO),)},
    ],
)
def test_who_is_never_taken_from(facts: dict[str, object]) -> None:
    cell = cell_of()
    put(cell, "low", role(replicas=4, minimum=0, cards=1), **facts)
    start(cell)
    put(cell, "high", priority=9)
    assert evicted(cell.tick()) == []


def test_a_budget_counts_those_that_leave_already() -> None:
    cell = cell_of()
    budget = r.Budget(max_unavailable_count=2)
    put(cell, "low", role(replicas=4, minimum=0, cards=1), budget=budget)
    start(cell)
    for number in range(3):
        put(cell, f"high{number}", priority=9)
    assert len(evicted(cell.tick())) == 2
    assert len(evicted(cell.tick())) == 0


def test_a_queue_that_gives_nothing_back_keeps_what_it_has() -> None:
    tight = replace(queue("a"), reclaimable=False)
    cell = cell_of(records=(tight, queue("b")))
    put(cell, "a", role(replicas=4, minimum=0, cards=1), queue_="a")
    start(cell)
    put(cell, "b", queue_="b")
    assert evicted(cell.tick()) == []
    cell.put(queue("a", time_ns=cell.now_ns))
    assert evicted(cell.tick()) == [("a", 3)]


def test_a_cooldown_ends_by_itself_and_asks_for_its_tick() -> None:
    cell = cell_of("cooldown")
    put(cell, "low", role(replicas=4, minimum=0, cards=1), protected_ns=90 * SECOND)
    start(cell)
    pods = (job_of(cell, "low").pods or {}).values()
    assert [pod.protected_until_ns for pod in pods] == [cell.now_ns + 90 * SECOND] * 4
    put(cell, "high", priority=9)
    assert evicted(cell.tick(5)) == []
    copy = snapshot.fork(cell.state)
    assert next_wake(cell.state) == next_wake(copy) == cell.now_ns + 85 * SECOND
    assert evicted(cell.tick(84)) == []
    assert evicted(cell.tick(1)) == [("low", 3)]


def test_the_least_run_time_of_the_nearest_queue_counts_and_spares_no_surplus() -> None:
    above = replace(queue("top"), preempt_min_runtime_ns=100 * SECOND)
    cell = cell_of("min_runtime", records=(above, queue("q", parent="top")))
    put(cell, "low", role(replicas=3, minimum=2, cards=1))
    put(cell, "single", role(cards=1))
    start(cell)
    put(cell, "high", role(replicas=2, cards=1), priority=9)
    assert evicted(cell.tick(5)) == []
    put(cell, "small", role(cards=1), priority=8)
    assert evicted(cell.tick(5)) == [("low", 2)]
    cell.released("low", 2)
    assert len(evicted(cell.tick(90))) > 0


def test_a_warning_comes_first_and_is_taken_back_when_the_claim_goes() -> None:
    cell = cell_of(grace_ns="30s")
    put(cell, "low", role(replicas=4, minimum=0, cards=1))
    start(cell)
    put(cell, "high", priority=9)
    said = cell.tick()
    (notice,) = [one for one in said if one.kind is K.NOTICE]
    assert (notice.job, notice.for_job, notice.until_ns) == (
        "low",
        "high",
        cell.now_ns + 30 * SECOND,
    )
    assert evicted(said) == [] and job_of(cell, "high").seq in cell.state.claims
    assert evicted(cell.tick(10)) == []
    cell.cancel("high")
    assert all(pod.notice_until_ns == 0 for pod in (job_of(cell, "low").pods or {}).values())
    assert evicted(cell.tick(60)) == []
    put(cell, "again", priority=9)
    cell.tick()
    copy = Cell()
    copy.state, copy.now_ns = snapshot.fork(cell.state), cell.now_ns
    assert next_wake(copy.state) == next_wake(cell.state) == cell.now_ns + 30 * SECOND
    said = cell.tick(30)
    (ended,) = [one for one in said if one.kind is K.EVICT]
    assert (ended.reason, ended.for_job) == (Reason.PREEMPTED, "again")
    assert [one.body for one in copy.tick(30)] == [one.body for one in said]
    assert copy.digest == cell.digest


def test_the_own_notice_of_a_job_goes_before_the_policy_s() -> None:
    cell = cell_of(grace_ns="30s")
    put(cell, "low", role(replicas=4, minimum=0, cards=1), notice_ns=7 * SECOND)
    start(cell)
    put(cell, "high", priority=9)
    (notice,) = [one for one in cell.tick() if one.kind is K.NOTICE]
    assert notice.until_ns == cell.now_ns + 7 * SECOND
    assert evicted(cell.tick(7)) == [("low", 3)]


def test_a_right_that_is_spent_returns_with_progress() -> None:
    cell = cell_of()
    put(cell, "low", role(replicas=4, minimum=0, cards=1))
    start(cell)
    put(cell, "mid", priority=3)
    assert evicted(cell.tick()) == [("low", 3)]
    cell.released("low", 3)
    start(cell)
    put(cell, "high", role(cards=4), priority=9)
    said = cell.tick()
    assert len(evicted(said)) == 4
    for job, pod in evicted(said):
        cell.released(job, pod)
    start(cell)
    assert job_of(cell, "mid").right and job_of(cell, "high").phase is Phase.RUNNING
    cell.succeeded("high")
    start(cell)
    assert job_of(cell, "mid").phase is Phase.RUNNING


def test_many_who_wait_cost_nothing_while_nothing_changes() -> None:
    cell = cell_of()
    put(cell, "low", role(replicas=4, minimum=0, cards=1), preemptable=Tri.NO)
    start(cell)
    put(cell, "high", priority=9)
    cell.tick()
    cell.tick()
    seen = cell.state.indexes.evict_seen
    assert seen == (cell.state.digest, cell.state.indexes.evict_epoch)
    cell.put(queue("q", time_ns=cell.now_ns))
    assert seen != (cell.state.digest, cell.state.indexes.evict_epoch)


def test_counts_of_a_gang() -> None:
    cell = cell_of()
    put(cell, "j", role("a", 2, 1, cards=1), role("b", 2, 0, cards=1), min_available=3)
    start(cell)
    job = job_of(cell, "j")
    counts = counts_of(job)
    assert (counts.live, counts.pending, counts.leaving) == ((2, 2), (0, 0), (0, 0))
    assert standing(job) == [2, 2] and needed(job) == (0, 0)
    pods = [pod for _, pod in sorted((job.pods or {}).items())]
    assert [pod.index for pod in surplus(job, pods)] == [0]
    cell.released("j", 0)
    cell.released("j", 2)
    assert standing(job) == [0, 2] and needed(job) == (1, 0)
    assert surplus(job, []) == []

"""Who stays though a job waits, or beside those who leave: the reason, the rule, both numbers."""

from typing import Any

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, Tri
from ganger.schemas.reasons import Reason
from ganger.services.cli.why import _finding_text, _spared_text
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.explain import Explanation, Finding, explain
from ganger.streams.kernel.preemption.spared import Spared
from support.builders import SECOND, Cell, node, policy, queue, role, submission

K = DecisionKind
MINUTE = 60 * SECOND
TAKING = ("enqueue", "allocate", "backfill", "reclaim", "preempt")


def cell_of(*rules: str, cards: int = 2, **reclaim: str) -> Cell:
    """Two queues of equal weight, and their takers bounded by arguments of reclaim."""
    made = policy("priority", "gang", *rules, "pack", actions=TAKING)
    pairs = tuple(r.Argument(*pair) for pair in reclaim.items())
    actions = tuple(
        replace(one, arguments=pairs) if one.action == "reclaim" else one for one in made.actions
    )
    return Cell().start(
        queue("p"), queue("q"), node("n", cards), rules=replace(made, actions=actions)
    )


def run(cell: Cell, job: str, *roles: r.Role, queue_: str = "q", **facts: Any) -> None:
    """Submit a job, have it placed and running."""
    made = submission(job, *roles, queue=queue_, time_ns=cell.now_ns)
    cell.put(replace(made, **facts))
    for said in cell.tick():
        if said.kind is K.ALLOCATE:
            cell.started(said.job, said.pod, said.attempt)


def told(cell: Cell, job: str) -> Explanation:
    """What is explained of a job; asking changes nothing."""
    before = (seal(cell.state), cell.state.indexes.evict_epoch)
    found = explain(cell.state, job)
    assert found is not None and (seal(cell.state), cell.state.indexes.evict_epoch) == before
    return found


def stays(cell: Cell, job: str) -> dict[Reason, Spared]:
    return {one.reason: one for one in told(cell, job).spared}


def test_patience_is_told_of_who_waits() -> None:
    cell = cell_of("fair_share", patience_ns="10m")
    run(cell, "a")
    run(cell, "b")
    cell.submit("due", queue="p")
    assert not [one for one in cell.tick(120) if one.kind is K.EVICT]
    findings = {one.rule: one for one in told(cell, "due").reasons}
    waits = findings["reclaim.patience_ns"]
    waited_ns = cell.now_ns - cell.state.jobs[cell.state.job_by_key["due"]].submitted_ns
    assert (waits.reason, waits.asked, waits.limit) == (
        *(Reason.PROTECTED, 10 * MINUTE - waited_ns, 10 * MINUTE),
    )
    assert "takes from others when it has waited 10m" in _finding_text(waits)
    assert [one for one in cell.tick(600) if one.kind is K.EVICT]


def test_what_would_be_lost_is_told_with_its_bound() -> None:
    cell = cell_of("fair_share", lost_max_ns="1m")
    run(cell, "a")
    run(cell, "b")
    cell.submit("due", queue="p")
    cell.tick(90)
    cell.tick(10)
    kept = stays(cell, "due")[Reason.LOST_WORK_BOUND]
    assert (kept.rule, kept.pods, kept.limit) == ("reclaim.lost_max_ns", 2, MINUTE)
    assert kept.asked == 101 * SECOND  # the longer of the two
    assert "the work lost, 1m 41s, would be above 1m" in _spared_text(kept)


def test_work_that_was_saved_is_not_lost() -> None:
    cell = cell_of("fair_share", lost_max_ns="1m")
    run(cell, "a")
    cell.put(r.PodCheckpointed(cell.now_ns, "", None, "a", 0, 1, 500, cell.now_ns))
    pod = next(iter((cell.state.jobs[cell.state.job_by_key["a"]].pods or {}).values()))
    assert pod.checkpoint_milli == 500
    run(cell, "b")
    cell.submit("due", queue="p")
    said = cell.tick(90)
    assert [one.job for one in said if one.kind is K.EVICT] == ["a"]
    kept = stays(cell, "due")
    assert kept[Reason.LOST_WORK_BOUND].jobs == ("b",)


def test_who_has_begun_anew_too_often_is_told_with_its_bound() -> None:
    cell = cell_of("fair_share", cards=1, evictions_max="1")
    run(cell, "a", role(minimum=0, cards=1))
    cell.put(r.NodeDrained(cell.now_ns, "", None, "n", "ops", 0))
    cell.released("a")
    cell.put(r.NodeUncordoned(cell.now_ns, "", None, "n", "ops"))
    for said in cell.tick():
        if said.kind is K.ALLOCATE:
            cell.started(said.job, said.pod, said.attempt)
    cell.submit("due", queue="p")
    assert not [one for one in cell.tick() if one.kind is K.EVICT]
    kept = stays(cell, "due")[Reason.REQUEUE_LIMIT]
    assert (kept.rule, kept.asked, kept.limit) == ("reclaim.evictions_max", 1, 1)
    assert "begun anew 1 times, and may be 1 times (rule reclaim.evictions_max)" in (
        _spared_text(kept)
    )


def test_cooldown_names_what_is_left_of_what() -> None:
    cell = cell_of("fair_share", "cooldown", cards=1)
    run(cell, "young", protected_ns=60 * SECOND)
    cell.submit("urgent", priority=9, queue="q")
    cell.tick(20)
    kept = stays(cell, "urgent")[Reason.COOLDOWN]
    assert (kept.rule, kept.asked, kept.limit) == ("cooldown", 40 * SECOND, 60 * SECOND)


def test_min_runtime_names_that_of_the_action() -> None:
    cell = cell_of("fair_share", "min_runtime")
    least = {"preempt_min_runtime_ns": 30 * SECOND, "reclaim_min_runtime_ns": MINUTE}
    cell.put(replace(queue("q"), **least))
    run(cell, "older")
    run(cell, "young")  # the numbers are those of who stays longest
    cell.submit("urgent", priority=9, queue="q")
    cell.submit("due", queue="p")
    cell.tick(9)
    kept = stays(cell, "urgent")[Reason.MIN_RUNTIME]
    assert (kept.rule, kept.asked, kept.limit) == ("min_runtime", 21 * SECOND, 30 * SECOND)
    kept = stays(cell, "due")[Reason.MIN_RUNTIME]
    assert (kept.rule, kept.asked, kept.limit) == ("min_runtime", 50 * SECOND, MINUTE)


def test_a_due_is_told_with_what_would_be_left_beside_it() -> None:
    cell = cell_of("fair_share")
    run(cell, "gang", role(replicas=2, cards=1))
    cell.submit("due", queue="p")
    assert not [one for one in cell.tick() if one.kind is K.EVICT]
    kept = stays(cell, "due")[Reason.QUEUE_WITHIN_DUE]
    assert (kept.rule, kept.pods, kept.asked, kept.limit) == ("fair_share", 1, 0, 1000)
    text = "without it its queue would have 0 cards; its due is 1 card (rule fair_share)"
    assert text in _spared_text(kept)


def test_a_budget_names_what_must_stay_and_what_would() -> None:
    cell = cell_of("fair_share", "pdb", cards=4)
    budget = r.Budget(min_available_count=3)
    run(cell, "many", role(replicas=4, minimum=0, cards=1), budget=budget)
    cell.submit("urgent", role(replicas=2, cards=1), priority=9, queue="q")
    assert not [one for one in cell.tick() if one.kind is K.EVICT]
    kept = stays(cell, "urgent")[Reason.BUDGET]
    assert (kept.rule, kept.pods, kept.asked, kept.limit) == ("pdb", 3, 2, 3)


def test_a_gang_of_which_one_pod_stays_stays_whole() -> None:
    cell = cell_of("fair_share", cards=3)
    stays_put = replace(role("firm", cards=1), preemptable=Tri.NO)
    run(cell, "gang", role(replicas=2, cards=1), stays_put)
    cell.submit("urgent", priority=9, queue="q")
    cell.tick()
    kept = stays(cell, "urgent")
    assert (kept[Reason.CRITICAL].pods, kept[Reason.GANG_MINIMUM].pods) == (1, 2)


def test_pods_that_would_make_no_room_are_told_as_such() -> None:
    cell = cell_of(cards=2)
    cell.put(node("m", 2))
    for name in ("a", "b"):  # fill one node, then the other
        run(cell, f"firm-{name}", preemptable=Tri.NO)
        run(cell, f"soft-{name}")
    cell.submit("wide", role(cards=2), priority=9, queue="q")
    assert not [one for one in cell.tick() if one.kind is K.EVICT]
    kept = stays(cell, "wide")[Reason.GANG_BELOW_MINIMUM]
    assert (kept.jobs, kept.asked) == (("soft-a", "soft-b"), 1)
    assert "would make no room for the 1 pods" in _spared_text(kept)


def test_an_eviction_says_why_these_and_not_others() -> None:
    cell = cell_of("fair_share", "cooldown", cards=5)
    run(cell, "low", priority=1)
    run(cell, "lower", priority=0)
    run(cell, "high", priority=5)
    run(cell, "young", protected_ns=MINUTE)
    run(cell, "firm", preemptable=Tri.NO)
    cell.submit("urgent", priority=9, queue="q")
    said = cell.tick()
    assert [one.job for one in said if one.kind is K.EVICT] == ["lower"]
    found = {one.reason: one for one in told(cell, "urgent").spared}
    dearer = found[Reason.NOT_LOWER_PRIORITY]
    assert (dearer.pods, dearer.asked, dearer.limit) == (2, 5, 0)
    assert sorted(dearer.jobs) == ["high", "low"]
    assert (found[Reason.COOLDOWN].jobs, found[Reason.CRITICAL].jobs) == (("young",), ("firm",))
    assert told(cell, "urgent").reasons == (Finding(Reason.CLAIM_MADE, 1),)


def test_a_lost_node_is_counted_once() -> None:
    cell = Cell().start(node("n", 2), node("m", 2), rules=policy())
    cell.put(r.NodeLost(cell.now_ns, "", None, "m", cell.state.claim, 30 * SECOND))
    cell.submit("wide", role(replicas=2, cards=2))
    cell.submit("full", role(cards=2))
    cell.tick()
    found = {one.reason: one for one in told(cell, "wide").reasons}
    assert found[Reason.NODE_UNREACHABLE].nodes == ("m",)
    assert found[Reason.CARDS_TOO_FEW].nodes == ("n",)

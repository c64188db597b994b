"""Quota admission: whom a job has evicted, what it claims meanwhile, and that it ends."""

from msgspec.structs import replace

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase, Tri, VictimRule
from ganger.schemas.reasons import Reason
from support.builders import Cell, node, placed, role, submission
from support.quotas import CARDS, held, kueue, leaf, quota_cell

LOWER, ANY = VictimRule.LOWER_PRIORITY, VictimRule.ANY


def evicted(decisions: list[Decision]) -> list[tuple[str, str, Reason]]:
    """Whom, for whom, why."""
    kinds = (DecisionKind.EVICT, DecisionKind.NOTICE)
    return [(one.job, one.for_job, one.reason) for one in decisions if one.kind in kinds]


def kinds(decisions: list[Decision]) -> list[str]:
    return [one.kind.name for one in decisions]


def phase(cell: Cell, job: str) -> Phase:
    return cell.state.jobs[cell.state.job_by_key[job]].phase


def test_a_job_of_higher_priority_takes_the_quota_and_claims_the_cards() -> None:
    cell = quota_cell(leaf("q", {"f": 4}, within=LOWER), cards=4)
    cell.submit("low", role(replicas=2, cards=2))
    cell.tick()
    cell.submit("high", role(cards=3), priority=1)
    made = cell.tick()
    assert kinds(made) == ["EVICT", "EVICT", "ADMIT", "CLAIM"]
    said = made[0]
    assert evicted(made) == [("low", "high", Reason.SAME_QUEUE)] * 2
    assert (said.asked, said.free, said.queue, said.rule) == (3000, 0, "q", "cohort")
    assert held(cell, "q") == {("f", CARDS): 7000}  # the taker's, and the victims' until they leave
    cell.submit("late", role(cards=1), priority=9)
    assert kinds(cell.tick()) == ["ADMIT", "CLAIM"]  # what they leave beside, without more victims
    cell.released("low", 0)
    cell.tick()
    cell.released("low", 1)
    assert phase(cell, "low") is Phase.PENDING
    assert held(cell, "q") == {("f", CARDS): 4000}
    cell.tick()
    assert [job for job, *_ in placed(cell.decisions)] == ["low", "low", "high", "late"]


def test_a_claim_waits_for_its_victims_even_where_other_cards_are_idle() -> None:
    cell = quota_cell(leaf("q", {"f": 3}, within=LOWER), cards=3)
    cell.put(node("small", 2))
    cell.submit("low", role(cards=2))
    assert [where for *_, where in placed(cell.tick())] == ["small"]
    cell.submit("high", role(cards=3), priority=1)
    assert [one.node for one in cell.tick() if one.kind is DecisionKind.CLAIM] == ["n0"]
    assert not cell.tick()
    cell.released("low")
    assert [job for job, *_ in placed(cell.tick())] == ["high"]


def test_a_claim_that_is_not_met_in_time_gives_its_quota_back() -> None:
    cell = quota_cell(leaf("q", {"f": 2}, within=LOWER), rules=kueue({"claim_ns": "5m"}))
    cell.submit("low", role(cards=2))
    cell.tick()
    cell.submit("high", role(cards=2), priority=1)
    cell.tick()
    assert held(cell, "q") == {("f", CARDS): 4000}
    assert "UNCLAIM" in kinds(cell.tick(301, cycle=False))
    assert phase(cell, "high") is Phase.PENDING
    assert held(cell, "q") == {("f", CARDS): 2000}
    cell.tick()
    cell.released("low")
    assert [job for job, *_ in placed(cell.tick())] == ["high"]


def test_nobody_leaves_for_a_job_that_no_node_could_hold_then() -> None:
    cell = quota_cell(leaf("q", {"f": 4}, within=LOWER), cards=2, nodes=2)
    cell.submit("low", role(replicas=2, cards=2))
    cell.tick()
    cell.submit("high", role(cards=4), priority=1)
    assert not cell.tick()
    assert held(cell, "q") == {("f", CARDS): 4000}


def test_what_was_lent_is_taken_back() -> None:
    cell = quota_cell(
        leaf("all", {}),
        leaf("a", {"f": 4}, parent="all", reclaim=ANY),
        leaf("b", {"f": 4}, parent="all"),
    )
    for place in range(4):
        cell.submit(f"b{place}", role(cards=2), queue="b", priority=5)
        cell.tick()
    assert held(cell, "b") == {("f", CARDS): 8000}
    cell.submit("a", role(cards=3), queue="a")
    made = cell.tick()
    assert evicted(made) == [
        ("b3", "a", Reason.RECLAIM_IN_COHORT),
        ("b2", "a", Reason.RECLAIM_IN_COHORT),
    ]
    assert made[0].limit == 4000


def test_a_queue_within_its_quota_loses_nothing() -> None:
    cell = quota_cell(
        leaf("all", {}),
        leaf("a", {"f": 4}, parent="all", reclaim=ANY),
        leaf("b", {"f": 4}, parent="all"),
    )
    cell.submit("b", role(cards=4), queue="b")
    cell.submit("a", role(cards=4), queue="a")
    cell.tick()
    cell.submit("more", role(cards=1), queue="a", priority=9)
    assert not cell.tick()


def test_a_borrower_takes_from_lower_priority_only_where_it_may() -> None:
    for rule, names in ((VictimRule.NEVER, []), (LOWER, ["low"])):
        cell = quota_cell(
            leaf("all", {}),
            leaf("a", {"f": 1}, parent="all", reclaim=LOWER, borrow=rule),
            leaf("b", {"f": 1}, parent="all"),
            leaf("c", {"f": 4}, parent="all"),
        )
        cell.submit("mine", role(cards=1), queue="a", priority=9)
        cell.submit("low", role(cards=5), queue="b")
        cell.tick()
        cell.submit("high", role(cards=3), queue="a", priority=5)
        assert [job for job, *_ in evicted(cell.tick())] == names, rule


def test_shares_decide_where_sharing_is_fair() -> None:
    cell = quota_cell(
        leaf("all", {}),
        leaf("a", {"f": 0}, parent="all", reclaim=ANY),
        leaf("b", {"f": 0}, parent="all", reclaim=ANY),
        leaf("c", {"f": 6}, parent="all"),
        rules=kueue(fair="both"),
    )
    for place in range(6):
        cell.submit(f"b{place}", role(cards=1), queue="b")
    cell.tick()
    for place in range(6):
        cell.submit(f"a{place}", role(cards=1), queue="a")
    made = cell.tick()
    assert len(evicted(made)) == 3
    assert {reason for *_, reason in evicted(made)} == {Reason.FAIR_SHARE}
    for one in made:
        if one.kind is DecisionKind.EVICT:
            cell.released(one.job)
    assert len(placed(cell.tick())) == 3
    assert held(cell, "a") == held(cell, "b") == {("f", CARDS): 3000}
    assert not cell.tick()


def test_two_jobs_do_not_evict_each_other_in_turn() -> None:
    rule = VictimRule.LOWER_OR_NEWER_EQUAL
    cell = quota_cell(
        leaf("all", {}),
        leaf("a", {"f": 0}, parent="all", reclaim=ANY, borrow=LOWER),
        leaf("b", {"f": 0}, parent="all", reclaim=ANY, borrow=LOWER, within=rule),
        leaf("c", {"f": 2}, parent="all"),
        rules=kueue(fair="initial"),
    )
    cell.submit("one", role(cards=2), queue="a")
    cell.tick()
    cell.submit("two", role(cards=2), queue="b", priority=1)
    count = 0
    for _ in range(12):
        made = cell.tick()
        count += len(evicted(made))
        for one in made:
            if one.kind is DecisionKind.EVICT:
                cell.released(one.job, one.pod, one.attempt)
    assert count <= 1


def test_jobs_that_are_not_to_be_evicted_stay() -> None:
    cell = quota_cell(leaf("q", {"f": 2}, within=LOWER))
    request = submission("low", role(cards=2), time_ns=cell.now_ns)
    cell.put(replace(request, preemptable=Tri.NO))
    cell.tick()
    cell.submit("high", role(cards=2), priority=1)
    assert not cell.tick()


def test_a_job_that_never_preempts_waits() -> None:
    cell = quota_cell(leaf("q", {"f": 2}, within=LOWER))
    cell.submit("low", role(cards=2))
    cell.tick()
    request = submission("meek", role(cards=2), priority=1, time_ns=cell.now_ns)
    cell.put(replace(request, preempts=Tri.NO))
    assert not cell.tick()
    cell.succeeded("low")
    assert [job for job, *_ in placed(cell.tick())] == ["meek"]


def test_with_quota_alone_the_taker_waits_in_line_and_evicts_once() -> None:
    cell = quota_cell(leaf("q", {"f": 2}, within=LOWER), rules=kueue(then="quota_alone"))
    cell.submit("low", role(replicas=2, cards=1))
    cell.tick()
    cell.submit("high", role(cards=2), priority=1)
    cell.submit("behind", role(cards=1))
    made = cell.tick()
    assert kinds(made) == ["EVICT", "EVICT"]
    assert phase(cell, "high") is Phase.PENDING
    assert not cell.tick()
    cell.released("low", 0)
    assert not cell.tick()  # nobody takes the half that is free
    cell.released("low", 1)
    made = cell.tick()
    assert [(one.job, one.kind.name) for one in made] == [("high", "ADMIT"), ("high", "ALLOCATE")]


def test_an_admitted_job_without_pods_gives_its_quota_back_at_once() -> None:
    rules = kueue(then="quota_alone")
    cell = quota_cell(leaf("q", {"f": 4}, within=LOWER), cards=1, rules=rules)
    cell.submit("low", role(cards=4))
    cell.tick()
    cell.submit("high", role(cards=1), priority=1)
    cell.submit("higher", role(cards=4), priority=2)
    made = cell.tick()
    assert [(one.job, one.kind.name, one.reason) for one in made] == [
        ("low", "REQUEUE", Reason.SAME_QUEUE)
    ]
    assert phase(cell, "low") is Phase.PENDING
    assert held(cell, "q") == {}


def test_overlapping_victims_are_left_to_the_first() -> None:
    for word in ("skip", "recompute"):
        cell = quota_cell(
            leaf("all", {}),
            leaf("a", {"f": 2}, parent="all", reclaim=ANY),
            leaf("b", {"f": 2}, parent="all", reclaim=ANY),
            leaf("c", {"f": 0}, parent="all"),
            rules=kueue(then="quota_alone", heads="one_per_queue", overlap=word),
        )
        cell.submit("c", role(cards=4), queue="c")
        cell.tick()
        cell.submit("a", role(cards=2), queue="a")
        cell.submit("b", role(cards=2), queue="b")
        assert evicted(cell.tick()) == [("c", "a", Reason.RECLAIM_IN_COHORT)]
        cell.released("c")
        assert len(placed(cell.tick())) == 2, word


def test_a_grace_period_is_granted() -> None:
    cell = quota_cell(leaf("q", {"f": 2}, within=LOWER), rules=kueue({"grace_ns": "30s"}))
    cell.submit("low", role(cards=2))
    cell.tick()
    cell.started("low")
    cell.submit("high", role(cards=2), priority=1)
    made = cell.tick()
    assert kinds(made) == ["NOTICE", "ADMIT", "CLAIM"]
    assert kinds(cell.tick(30)) == ["EVICT"]
    cell.released("low")
    assert [job for job, *_ in placed(cell.tick())] == ["high"]

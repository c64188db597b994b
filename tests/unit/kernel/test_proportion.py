"""proportion: what queues are due, and what follows from it for order, placement and admission."""

import pytest

from ganger.schemas.enums import DecisionKind, Phase, QueueState
from ganger.schemas.reasons import Reason
from ganger.schemas.records import NodeCordoned, NodeUncordoned
from ganger.streams.kernel.entities import Taker, Victim
from ganger.streams.kernel.policies import proportion
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.refusals import PERMIT, Refusal
from ganger.streams.kernel.resources import CARDS, CPU
from support.builders import Cell, node, placed, policy, queue, role

RULES = policy("priority", "gang", "proportion")


def cell(*records: object) -> Cell:
    return Cell().start(*records, rules=RULES)  # type: ignore[arg-type]


def cards_due(made: Cell) -> dict[str, int]:
    """Whole cards that queues with jobs are due."""
    dues = quota_tree.dues(made.state).amounts
    return {
        q.config.queue: dues[q.index][CARDS] // 1000 for q in made.state.queues if q.index in dues
    }


def test_weight_divides_what_is_asked_for() -> None:
    made = cell(node("n1"), queue("a", weight=3), queue("b"), queue("c"))
    made.submit("j1", role(replicas=20, minimum=1, cards=1), queue="a")
    made.submit("j2", role(replicas=20, minimum=1, cards=1), queue="b")
    assert cards_due(made) == {"a": 6, "b": 2}


def test_what_one_does_not_ask_for_is_the_others() -> None:
    made = cell(node("n1"), queue("a", weight=3), queue("b"))
    made.submit("j1", role(cards=1), queue="a")
    made.submit("j2", role(replicas=20, minimum=1, cards=1), queue="b")
    assert cards_due(made) == {"a": 1, "b": 7}


def test_bounds_are_the_guarantee_and_the_capability() -> None:
    made = cell(
        node("n1"),
        queue("a", guarantee={"cards_milli": 5000}),
        queue("b", weight=9),
        queue("c", weight=9, capability={"cards_milli": 1000}),
    )
    for name in "abc":
        made.submit(f"j-{name}", role(replicas=20, minimum=1, cards=1), queue=name)
    assert cards_due(made) == {"a": 5, "b": 2, "c": 1}


def test_guarantees_of_idle_queues_are_kept() -> None:
    made = cell(node("n1"), queue("a", guarantee={"cards_milli": 3000}), queue("b"))
    made.submit("j", role(replicas=20, minimum=1, cards=1), queue="b")
    assert cards_due(made) == {"b": 5}


def test_a_due_that_was_given_is_had_as_far_as_it_is_asked_for() -> None:
    made = cell(node("n1"), queue("a", deserved={"cards_milli": 6000}), queue("b", weight=9))
    made.submit("j1", role(replicas=20, minimum=1, cards=1), queue="a")
    made.submit("j2", role(replicas=20, minimum=1, cards=1), queue="b")
    assert cards_due(made) == {"a": 6, "b": 2}


def test_children_divide_what_their_parent_is_due() -> None:
    made = cell(
        node("n1"),
        queue("p"),
        queue("p1", parent="p", weight=3),
        queue("p2", parent="p"),
        queue("q"),
    )
    for name in ("p1", "p2", "q"):
        made.submit(f"j-{name}", role(replicas=20, minimum=1, cards=1), queue=name)
    assert cards_due(made) == {"p": 4, "p1": 3, "p2": 1, "q": 4}


def test_cordoned_nodes_are_not_shared() -> None:
    made = cell(node("n1"), node("n2"), queue("a"), queue("b"))
    for name in "ab":
        made.submit(f"j-{name}", role(replicas=20, minimum=1, cards=1), queue=name)
    assert cards_due(made) == {"a": 8, "b": 8}
    made.put(NodeCordoned(made.now_ns, "", None, "n2", "me"))
    assert cards_due(made) == {"a": 4, "b": 4}
    made.put(NodeUncordoned(made.now_ns, "", None, "n2", "me"))
    assert cards_due(made) == {"a": 8, "b": 8}


def test_nobody_is_placed_beyond_his_due() -> None:
    made = cell(node("n1"), queue("a"), queue("b"))
    made.submit("j1", role(replicas=20, minimum=1, cards=1), queue="a")
    made.submit("j2", role(replicas=20, minimum=1, cards=1), queue="b")
    assert sorted(job for job, _, _, _ in placed(made.tick())) == ["j1"] * 4 + ["j2"] * 4
    assert placed(made.tick()) == []


def test_a_due_that_grows_is_used_in_the_next_cycle() -> None:
    made = cell(node("n1"), queue("a"), queue("b"))
    made.submit("j1", role(replicas=20, minimum=1, cards=1), queue="a")
    made.submit("j2", role(replicas=20, minimum=1, cards=1), queue="b")
    made.tick()
    made.cancel("j2")
    for pod in range(4):
        made.released("j2", pod)
    assert len(placed(made.tick())) == 4


def test_the_queue_with_less_of_its_due_is_served_first() -> None:
    made = cell(node("n1", 4), queue("a"), queue("b"))
    made.submit("j1", role(cards=2), queue="a")
    made.tick()
    made.submit("j2", role(cards=2), queue="a")
    made.submit("j3", role(cards=2), queue="b")
    assert placed(made.tick())[0][0] == "j3"


def test_priority_of_queues_goes_before_shares() -> None:
    made = cell(node("n1", 4), queue("a", priority=1), queue("b"))
    made.submit("j1", role(cards=1), queue="a")
    made.tick()
    made.submit("j2", role(cards=1), queue="a")
    made.submit("j3", role(cards=1), queue="b")
    assert [job for job, *_ in placed(made.tick())] == ["j2", "j3"]


def test_overused_is_who_has_all_of_his_due() -> None:
    made = cell(node("n1"), queue("a"), queue("b"))
    made.submit("j1", role(replicas=8, minimum=1, cards=1, cpu=1000), queue="a")
    made.submit("j2", role(replicas=8, minimum=1, cards=1, cpu=1000), queue="b")
    made.tick()
    a = made.state.queues[0]
    refusal = proportion._overused(made.state, a)
    assert refusal is None  # cpu is not short, so it is due all that it asks of it
    made.state.queues[0].used[CPU] += 4000
    refusal = proportion._overused(made.state, a)
    assert refusal == Refusal(Reason.QUEUE_OVERUSED, 4000, 0, 4000, a.index, CARDS)


def test_who_may_take_and_from_whom() -> None:
    made = cell(node("n1"), queue("a"), queue("b"))
    made.submit("j1", role(replicas=8, minimum=1, cards=1), queue="a")
    made.tick()
    made.submit("j2", role(replicas=8, minimum=1, cards=1), queue="b")
    state = made.state
    have, want = state.jobs[state.job_by_key["j1"]], state.jobs[state.job_by_key["j2"]]
    quota_tree.dues(state)
    b = state.queues[1]
    assert proportion._preemptive(state, b, Taker(want, (4,))) is None
    refusal = proportion._preemptive(state, b, Taker(want, (5,)))
    assert refusal == Refusal(Reason.QUEUE_DESERVED, 5000, 4000, 4000, b.index, CARDS)
    assert have.pods is not None
    candidates = [Victim(have, have.pods[i], i) for i in range(8)]
    # the last but one brings it to its due
    assert proportion._reclaimable(state, Taker(want, (1,)), candidates) == candidates[:4]


@pytest.mark.parametrize(("asked", "admitted"), [(4, True), (5, False)])
def test_admission_keeps_within_what_a_queue_can_have(asked: int, admitted: bool) -> None:
    made = cell(node("n1"), queue("a", guarantee={"cards_milli": 4000}), queue("b"), queue("other"))
    made.submit("j1", role(replicas=asked, cards=1), queue="b")
    kinds = [d.kind for d in made.tick()]
    assert (DecisionKind.ADMIT in kinds or DecisionKind.ALLOCATE in kinds) is admitted


def test_a_closed_queue_admits_and_places_nothing() -> None:
    made = cell(node("n1"), queue("a"))
    made.submit("j1", role(cards=1), queue="a", held=True)
    made.put(queue("a", state=QueueState.CLOSED))
    made.update("j1", held=False)
    assert made.tick() == []
    state = made.state
    job = state.jobs[state.job_by_key["j1"]]
    assert proportion._job_enqueue(state, job) == Refusal(Reason.QUEUE_CLOSED, queue=0)
    made.put(queue("a"))
    assert proportion._job_enqueue(state, job) is PERMIT
    assert len(placed(made.tick())) == 1


def test_surplus_pods_do_not_keep_others_out() -> None:
    made = cell(node("n1"), queue("a", capability={"cards_milli": 4000}))
    made.submit("j1", role(replicas=4, minimum=1, cards=1), queue="a")
    assert len(placed(made.tick())) == 4
    made.submit("j2", role(cards=3), queue="a")
    made.submit("j3", role(cards=4), queue="a")
    made.tick()
    phases = [made.state.jobs[made.state.job_by_key[name]].phase for name in ("j2", "j3")]
    assert phases == [Phase.INQUEUE, Phase.PENDING]

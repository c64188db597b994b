"""capacity: given dues, the most a queue can have, who may take and who loses."""

import pytest

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Taker, Victim
from ganger.streams.kernel.policies import capacity
from ganger.streams.kernel.policies.hooks import Hooks
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.refusals import PERMIT, Refusal
from ganger.streams.kernel.resources import CARDS, CPU
from support.builders import Cell, node, placed, policy, queue, role


def hooks(**arguments: str) -> Hooks:
    return capacity.build(tuple(Argument(*pair) for pair in arguments.items()), "here")


def cell(*records: object, **arguments: str) -> Cell:
    rules = policy("priority", "gang", ("capacity", arguments))
    return Cell().start(*records, rules=rules)  # type: ignore[arg-type]


def run(made: Cell, name: str, count: int = 1, **asks: int) -> None:
    """A job of one-pod minimum in the queue of its name's first part, placed at once."""
    made.submit(name, role(replicas=count, minimum=1, **asks), queue=name.split(".")[0])
    made.tick()


def victims(made: Cell, *names: str) -> list[Victim]:
    found = []
    for name in names:
        job = made.state.jobs[made.state.job_by_key[name]]
        found += [Victim(job, pod, 0) for _, pod in sorted((job.pods or {}).items())]
    return found


def taker(made: Cell, name: str, count: int = 1) -> Taker:
    return Taker(made.state.jobs[made.state.job_by_key[name]], (count,))


def gone(rule: Hooks, made: Cell, by: str, *names: str) -> list[str]:
    """Jobs that lose pods to a taker, one entry per pod."""
    assert rule.reclaimable is not None
    found = rule.reclaimable(made.state, taker(made, by), victims(made, *names))
    assert found is not None
    return [victim.job.request.job for victim in found]


def test_the_most_is_what_guarantees_of_others_leave() -> None:
    made = cell(
        node("n1"),
        queue("a", guarantee={"cards_milli": 2000}),
        queue("b", capability={"cards_milli": 7000}),
        queue("b1", parent="b", guarantee={"cards_milli": 1000}),
        queue("b2", parent="b"),
    )
    bounds = quota_tree.most(made.state)
    assert [bounds[i][CARDS] // 1000 for i in range(4)] == [8, 6, 6, 5]
    endless = quota_tree.most(made.state, endless=True)
    assert [endless[i][CARDS] // 1000 for i in (1, 2, 3)] == [7, 7, 6]


def test_a_queue_borrows_up_to_the_most() -> None:
    made = cell(
        node("n1"),
        queue("a", deserved={"cards_milli": 2000}),
        queue("b", guarantee={"cards_milli": 3000}),
    )
    made.submit("j", role(replicas=8, minimum=1, cards=1), queue="a")
    assert len(placed(made.tick())) == 5


def test_who_has_the_least_of_his_due_is_first_and_who_is_due_nothing_last() -> None:
    made = cell(
        node("n1"),
        queue("a", deserved={"cards_milli": 2000}),
        queue("b", deserved={"cards_milli": 4000}),
        queue("c"),
    )
    run(made, "a.1", cards=1)
    run(made, "b.1", cards=1)
    run(made, "c.1", cards=1)
    for name in ("a", "b", "c"):
        made.submit(f"{name}.2", role(cards=1), queue=name)
    assert [job for job, *_ in placed(made.tick())] == ["b.2", "a.2", "c.2"]


def test_who_may_take() -> None:
    made = cell(
        node("n1"),
        queue(
            "a", deserved={"cards_milli": 2000, "cpu_milli": 9000}, capability={"cards_milli": 5000}
        ),
    )
    rule = hooks()
    assert rule.preemptive is not None
    a = made.state.queues[0]
    run(made, "a.1", 2, cards=1)
    made.submit("a.2", role(replicas=9, minimum=1, cards=1, cpu=1000), queue="a")
    made.submit("a.3", role(replicas=9, minimum=1, cards=1), queue="a")
    assert rule.preemptive(made.state, a, taker(made, "a.2")) is None  # within its due of cpu
    refusal = rule.preemptive(made.state, a, taker(made, "a.3"))
    assert refusal == Refusal(Reason.QUEUE_DESERVED, 1000, 0, 2000, a.index, CARDS)
    refusal = rule.preemptive(made.state, a, taker(made, "a.2", 4))
    assert refusal == Refusal(Reason.QUEUE_CAPABILITY, 4000, 3000, 5000, a.index, CARDS)


def test_a_queue_loses_what_it_has_beyond_its_due() -> None:
    made = cell(
        node("n1"),
        queue("a", deserved={"cards_milli": 2000}),
        queue("b", deserved={"cards_milli": 4000}),
    )
    run(made, "a.1", 5, cards=1)
    made.submit("b.1", role(cards=1), queue="b")
    assert gone(hooks(), made, "b.1", "a.1") == ["a.1"] * 3


def test_a_guarantee_is_never_lost_and_only_what_helps_is() -> None:
    made = cell(
        node("n1"),
        queue("a", guarantee={"cards_milli": 3000}),
        queue("b", deserved={"cards_milli": 4000}),
    )
    run(made, "a.1", 4, cards=1)
    run(made, "a.2", 2, cpu=1000)
    made.submit("b.1", role(cards=1), queue="b")
    assert gone(hooks(), made, "b.1", "a.2", "a.1") == ["a.1"]


def test_what_is_not_due_to_a_queue_is_lost_at_once() -> None:
    made = cell(
        node("n1"),
        queue("a", deserved={"cpu_milli": 9000}),
        queue("b", deserved={"cards_milli": 4000}),
    )
    run(made, "a.1", 2, cards=1)
    run(made, "a.2", 2, cards=1, cpu=1000)
    made.submit("b.1", role(cards=1), queue="b")
    assert gone(hooks(), made, "b.1", "a.1", "a.2") == ["a.1", "a.1"]


TREE = (
    queue("p", deserved={"cpu_milli": 3000}),
    queue("p1", parent="p", deserved={"cpu_milli": 3000}),
    queue("r", deserved={"cpu_milli": 3000}),
    queue("r1", parent="r", deserved={"cpu_milli": 1000}),
    queue("r2", parent="r"),
)


@pytest.mark.parametrize(("level", "lost"), [("0", ["r1.1"]), ("1", [])])
def test_a_branch_within_its_due_loses_nothing_if_levels_count(level: str, lost: list[str]) -> None:
    rule = hooks(hierarchy="yes", ancestor_level=level)
    made = cell(node("n1", cpu=3000), *TREE, hierarchy="yes")
    run(made, "r1.1", 2, cpu=1000)
    made.submit("p1.1", role(cpu=1000), queue="p1")
    assert gone(rule, made, "p1.1", "r1.1") == lost


@pytest.mark.parametrize(("level", "lost"), [("0", ["r2.1"]), ("1", [])])
def test_siblings_to_whom_nothing_is_due_do_not_rob_each_other(level: str, lost: list[str]) -> None:
    rule = hooks(hierarchy="yes", ancestor_level=level)
    made = cell(node("n1", cpu=3000), *TREE, queue("r3", parent="r"), hierarchy="yes")
    run(made, "r2.1", cpu=1000)
    made.submit("r3.1", role(cpu=1000), queue="r3")
    assert gone(rule, made, "r3.1", "r2.1") == lost


@pytest.mark.parametrize(("level", "may"), [("0", False), ("1", True)])
def test_an_ancestor_takes_for_a_queue_that_is_due_nothing(level: str, may: bool) -> None:
    rule = hooks(hierarchy="yes", ancestor_level=level)
    made = cell(node("n1", cpu=3000), *TREE, hierarchy="yes")
    made.submit("r2.1", role(cpu=1000), queue="r2")
    assert rule.preemptive is not None
    refusal = rule.preemptive(made.state, made.state.queues[4], taker(made, "r2.1"))
    assert (refusal is None) is may


def test_admission_counts_what_was_admitted() -> None:
    made = cell(node("n1", 4), queue("a", capability={"cards_milli": 3000}))
    rule = hooks()
    assert rule.job_enqueue is not None
    made.submit("j1", role(replicas=2, cards=1), queue="a", held=True)
    made.submit("j2", role(replicas=2, cards=1), queue="a", held=True)
    jobs = list(made.state.jobs.values())
    assert rule.job_enqueue(made.state, jobs[0]) is PERMIT
    made.state.queues[0].admitted[CARDS] += 2000
    assert rule.job_enqueue(made.state, jobs[1]) == Refusal(
        Reason.QUEUE_CAPABILITY, 2000, 1000, 3000, 0, CARDS
    )
    assert made.state.queues[0].used[CPU] == 0

"""drf: shares of jobs, and of queues down the tree."""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Taker, Victim
from ganger.streams.kernel.fairness.dominant import ONE
from ganger.streams.kernel.jobs.lines import order_key
from ganger.streams.kernel.policies import drf
from ganger.streams.kernel.policies.hooks import Hooks
from support.builders import Cell, node, placed, policy, queue, role


def hooks(**arguments: str) -> Hooks:
    return drf.build(tuple(Argument(*pair) for pair in arguments.items()), "here")


def cell(*records: object, **arguments: str) -> Cell:
    rules = policy("gang", ("drf", arguments))
    return Cell().start(*records, rules=rules)  # type: ignore[arg-type]


def victims(made: Cell, name: str) -> list[Victim]:
    job = made.state.jobs[made.state.job_by_key[name]]
    return [Victim(job, pod, 0) for _, pod in sorted((job.pods or {}).items())]


def key(made: Cell, name: str) -> tuple[int, ...]:
    rule = hooks().job_order
    assert rule is not None
    return rule(made.state, made.state.jobs[made.state.job_by_key[name]])


def test_the_share_of_a_job_is_its_greatest_part_of_anything() -> None:
    made = cell(node("n1", 8, cpu=64_000))
    made.submit("j1", role(replicas=2, cards=1, cpu=1000))
    made.submit("j2", role(replicas=2, cards=1, cpu=16_000))
    made.submit("j3", role(replicas=5, cards=1))
    made.tick()
    assert [key(made, name) for name in ("j1", "j2", "j3")] == [(ONE // 4,), (ONE // 2,), (0,)]


def test_jobs_that_grow_are_ordered_by_what_they_have() -> None:
    made = cell(node("n1", 6))
    made.submit("j1", role(replicas=9, minimum=4, cards=1))
    made.submit("j2", role(replicas=9, minimum=1, cards=1))
    made.tick()
    made.put(node("n1", 7))
    assert order_key(made.state, made.state.jobs[made.state.job_by_key["j1"]])[1] > ONE // 2
    made.put(node("n1", 8))
    grown = placed(made.tick())
    assert grown and grown[0][0] == "j2"


def test_who_may_be_preempted_keeps_at_least_the_takers_share() -> None:
    made = cell(node("n1"))
    made.submit("j1", role(replicas=5, minimum=1, cards=1))
    made.submit("j2", role(replicas=2, minimum=1, cards=1))
    made.tick()
    made.submit("j3", role(replicas=2, cards=1))
    job = made.state.jobs[made.state.job_by_key["j3"]]
    candidates = victims(made, "j1") + victims(made, "j2")
    found = hooks().preemptable
    assert found is not None
    # with one card j3 may take from who keeps one: the fifth of j1 would leave it none
    assert found(made.state, Taker(job, (1,)), candidates) == candidates[:4] + candidates[5:6]
    assert found(made.state, Taker(job, (2,)), candidates) == candidates[:3]


def tree() -> Cell:
    """Below `p` one queue of cpu and one of memory; beside it one of both."""
    made = cell(
        node("n1", 0, cpu=10_000, memory=10_000),
        queue("p"),
        queue("cpu", parent="p"),
        queue("memory", parent="p"),
        queue("both"),
        hierarchy="yes",
    )
    made.submit("j1", role(replicas=10, minimum=1, cpu=1000, memory=1000), queue="both")
    made.submit("j2", role(replicas=10, minimum=1, cpu=1000), queue="cpu")
    made.submit("j3", role(replicas=10, minimum=1, memory=1000), queue="memory")
    return made


def test_a_branch_is_measured_by_its_least_served_child() -> None:
    made = tree()
    rule = hooks(hierarchy="yes").queue_order
    assert rule is not None
    state = made.state
    p, cpu, memory, both = state.queues
    cpu.used[1] = p.used[1] = 4000
    memory.used[2] = p.used[2] = 2000
    assert rule(state, cpu, False) == (0, ONE * 4 // 10)
    assert rule(state, memory, False) == (0, ONE * 2 // 10)
    # both children are seen as if they had the lesser share
    least = rule(state, p, False)
    assert least[0] == 0 and ONE * 19 // 100 < least[1] <= ONE * 2 // 10
    assert rule(state, both, False) == (0, 0)


def test_who_can_use_no_more_comes_last() -> None:
    made = tree()
    rule = hooks(hierarchy="yes").queue_order
    assert rule is not None
    state = made.state
    p, cpu, memory, both = state.queues
    both.used[1] = 6000
    cpu.used[1] = p.used[1] = 4000
    assert rule(state, cpu, False)[0] == 1  # there is no cpu left
    assert rule(state, both, False)[0] == 1
    assert rule(state, memory, False)[0] == 0
    assert rule(state, p, False)[0] == 0


def test_a_queue_is_robbed_while_the_taker_still_comes_before_it() -> None:
    made = cell(node("n1"), queue("a"), queue("b"), hierarchy="yes")
    made.submit("j1", role(replicas=8, minimum=1, cards=1), queue="a")
    made.tick()
    made.submit("j2", role(replicas=8, minimum=1, cards=1), queue="b")
    job = made.state.jobs[made.state.job_by_key["j2"]]
    candidates = victims(made, "j1")
    found = hooks(hierarchy="yes").reclaimable
    assert found is not None
    assert found(made.state, Taker(job, (3,)), candidates) == candidates
    assert found(made.state, Taker(job, (7,)), candidates) == []

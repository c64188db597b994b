"""fair_quota: quota first, the rest by weight; order, jobs that nobody may evict, who takes."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import Tri
from ganger.streams.kernel.entities import Taker, Victim
from ganger.streams.kernel.policies import fair_quota
from ganger.streams.kernel.policies.hooks import Hooks
from ganger.streams.kernel.resources import CARDS
from support.builders import Cell, node, placed, policy, queue, role, submission

RULES = policy("priority", "gang", "fair_quota", "pack", actions=("allocate",))


def cell(*records: object) -> Cell:
    return Cell().start(*records, rules=RULES)  # type: ignore[arg-type]


def quota(name: str, cards: int, weight: int = 1, parent: str = "") -> r.QueueConfigured:
    plain = queue(name, parent=parent, deserved={"cards_milli": cards * 1000})
    return replace(plain, over_quota_weights=(r.Amount("cards_milli", weight),))


def hooks(**arguments: str) -> Hooks:
    return fair_quota.build(tuple(r.Argument(*pair) for pair in arguments.items()), "here")


def submit(made: Cell, name: str, count: int = 1, firm: bool = False, minimum: int = 1) -> None:
    asked = role(replicas=count, minimum=minimum, cards=1)
    plain = submission(name, asked, queue=name[0], time_ns=made.now_ns)
    made.put(replace(plain, preemptable=Tri.NO if firm else Tri.YES))


def shares(made: Cell) -> dict[str, int]:
    found = fair_quota.shares(made.state)
    return {q.config.queue: found[q.index][CARDS] // 1000 for q in made.state.queues}


def victims(made: Cell, name: str) -> list[Victim]:
    job = made.state.jobs[made.state.job_by_key[name]]
    return [Victim(job, pod, index) for index, pod in sorted((job.pods or {}).items())]


def taker(made: Cell, name: str, count: int) -> Taker:
    return Taker(made.state.jobs[made.state.job_by_key[name]], (count,))


def test_quota_first_then_by_weight_in_whole_cards() -> None:
    made = cell(node("n1", 10), quota("a", 2), quota("b", 1, 2), quota("c", 9, 0))
    for name in ("a1", "b1"):
        submit(made, name, 20)
    assert shares(made) == {"a": 4, "b": 6, "c": 0}
    submit(made, "c1", 20)
    assert shares(made) == {"a": 2, "b": 1, "c": 9}  # quotas may exceed what there is


def test_who_stays_within_quota_is_first() -> None:
    made = cell(node("n1", 4), quota("a", 1), quota("b", 2))
    submit(made, "a1", 2, minimum=2)
    submit(made, "b1", 2, minimum=2)
    assert [job for job, *_ in placed(made.tick())] == ["b1", "b1", "a1", "a1"]


def test_jobs_that_nobody_may_evict_stay_within_quota() -> None:
    made = cell(node("n1"), quota("a", 2))
    submit(made, "a1", 4, firm=True)
    assert len(placed(made.tick())) == 2
    submit(made, "a2", 4)
    assert len(placed(made.tick())) == 4


def test_who_may_take_and_from_whom() -> None:
    made = cell(node("n1"), quota("a", 2), quota("b", 2))
    submit(made, "a1", 8)
    made.tick()
    submit(made, "b1", 8)
    rule = hooks()
    assert rule.preemptive is not None and rule.reclaimable is not None
    b = made.state.queues[1]
    assert rule.preemptive(made.state, b, taker(made, "b1", 4)) is None
    assert rule.preemptive(made.state, b, taker(made, "b1", 5)) is not None
    candidates = victims(made, "a1")
    # within its quota b may take all that a has beyond its own
    assert rule.reclaimable(made.state, taker(made, "b1", 1), candidates) == candidates[:6]
    # beyond quota only what a has above its share
    assert rule.reclaimable(made.state, taker(made, "b1", 3), candidates) == candidates[:4]
    # who leave together are one victim: judged by what a has before
    whole = [Victim(one.job, one.pod, 0) for one in candidates]
    assert rule.reclaimable(made.state, taker(made, "b1", 1), whole) == whole

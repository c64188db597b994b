"""Limits on what queues, users and tenants may have at once: admission, placement, upkeep."""

import msgspec
import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, LimitScope, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.policies import limits, resourcequota
from ganger.streams.kernel.queues import tallies
from ganger.streams.kernel.refusals import JOBS_PLACE, PERMIT, Refusal
from ganger.streams.kernel.resources import CARDS
from support.builders import Cell, node, placed, policy, queue, role, submission

RULES = policy("priority", "gang", "limits")
QUEUE, USER, TENANT = LimitScope.QUEUE, LimitScope.USER, LimitScope.TENANT


def limit(
    scope: LimitScope, resource: str, count: int, subject: str = "", tier: Tier = Tier.UNKNOWN
) -> r.Limit:
    return r.Limit(scope, subject, resource, count, tier)


def cell(*records: object) -> Cell:
    return Cell().start(*records, rules=RULES)  # type: ignore[arg-type]


def submit(
    made: Cell,
    name: str,
    *roles: r.Role,
    user: str = "u",
    tenant: str = "",
    spot: bool = False,
    queue: str = "q",
) -> None:
    plain = submission(name, *roles, user=user, queue=queue, time_ns=made.now_ns)
    made.put(msgspec.structs.replace(plain, tenant=tenant, spot=spot))


def phase(made: Cell, name: str) -> Phase:
    return made.state.jobs[made.state.job_by_key[name]].phase


@pytest.mark.parametrize("scope", [QUEUE, USER, TENANT])
def test_jobs_are_admitted_one_after_the_other(scope: LimitScope) -> None:
    made = cell(node("n1"), queue("q", limits=[limit(scope, "jobs", 1)]))
    submit(made, "j1", tenant="t")
    submit(made, "j2", tenant="t")
    assert [job for job, *_ in placed(made.tick())] == ["j1"]
    assert phase(made, "j2") is Phase.PENDING
    assert made.tick() == []
    made.started("j1")
    made.succeeded("j1")
    assert [job for job, *_ in placed(made.tick())] == ["j2"]


def test_users_do_not_stand_in_each_others_way() -> None:
    made = cell(node("n1"), queue("q", limits=[limit(USER, "jobs", 1)]))
    for name, user in (("j1", "ann"), ("j2", "ann"), ("j3", "bob")):
        submit(made, name, user=user)
    assert [job for job, *_ in placed(made.tick())] == ["j1", "j3"]


def test_a_limit_of_one_subject_is_his_alone() -> None:
    made = cell(node("n1"), queue("q", limits=[limit(USER, "jobs", 1, "ann")]))
    for name, user in (("j1", "ann"), ("j2", "ann"), ("j3", "bob"), ("j4", "bob")):
        submit(made, name, user=user)
    assert [job for job, *_ in placed(made.tick())] == ["j1", "j3", "j4"]


def test_a_limit_counts_what_is_below_its_queue() -> None:
    made = cell(
        node("n1"),
        queue("p", limits=[limit(USER, "cards_milli", 3000)]),
        queue("a", parent="p"),
        queue("b", parent="p"),
    )
    submit(made, "j1", role(cards=2), queue="a")
    submit(made, "j2", role(cards=2), queue="b")
    assert [job for job, *_ in placed(made.tick())] == ["j1"]
    state = made.state
    job = state.jobs[state.job_by_key["j2"]]
    refusal = Refusal(Reason.USER_LIMIT, 2000, 1000, 3000, state.queue_by_name["p"], CARDS)
    assert limits._job_enqueue(state, job) == refusal


def test_surplus_pods_stay_within_limits_on_resources() -> None:
    made = cell(node("n1"), queue("q", limits=[limit(USER, "cards_milli", 3000)]))
    submit(made, "j1", role(replicas=8, minimum=1, cards=1))
    assert len(placed(made.tick())) == 3
    assert made.tick() == []
    made.started("j1", 0)
    made.succeeded("j1", 0)
    assert len(placed(made.tick())) == 1


def test_only_what_is_asked_for_counts() -> None:
    made = cell(node("n1"), queue("q", limits=[limit(USER, "cards_milli", 0)]))
    submit(made, "j1", role(cards=1))
    submit(made, "j2", role(cpu=1000))
    assert [job for job, *_ in placed(made.tick())] == ["j2"]


def test_spot_jobs_have_limits_of_their_own() -> None:
    made = cell(
        node("n1"),
        queue("q", limits=[limit(QUEUE, "jobs", 1, tier=Tier.SPOT)]),
    )
    for name, spot in (("j1", True), ("j2", True), ("j3", False), ("j4", False)):
        submit(made, name, spot=spot)
    assert [job for job, *_ in placed(made.tick())] == ["j1", "j3", "j4"]


def test_limits_that_come_later_count_what_is_there() -> None:
    made = cell(node("n1"), queue("q"))
    submit(made, "j1")
    submit(made, "j2", held := role(cards=1))
    assert held.replicas == 1
    made.tick()
    made.put(queue("q", limits=[limit(USER, "jobs", 2)]))
    submit(made, "j3")
    assert placed(made.tick()) == []
    made.put(queue("q", limits=[limit(USER, "jobs", 3)]))
    assert [job for job, *_ in placed(made.tick())] == ["j3"]
    made.put(queue("q"))
    assert made.state.indexes.tallies is None


def test_nothing_is_left_when_all_is_over() -> None:
    made = cell(node("n1"), queue("q", limits=[limit(USER, "jobs", 9)]))
    submit(made, "j1", role(replicas=2, cards=1))
    made.tick()
    for pod in range(2):
        made.started("j1", pod)
        made.succeeded("j1", pod)
    assert made.state.indexes.tallies == {}


def test_resourcequota_votes_on_tenants_alone() -> None:
    made = cell(
        node("n1"),
        queue("q", limits=[limit(TENANT, "cards_milli", 2000), limit(USER, "jobs", 0)]),
    )
    submit(made, "j1", role(cards=2), tenant="t")
    submit(made, "j2", role(cards=3), tenant="t")
    state = made.state
    first, second = (state.jobs[state.job_by_key[name]] for name in ("j1", "j2"))
    assert resourcequota._job_enqueue(state, first) is PERMIT
    refusal = Refusal(Reason.TENANT_QUOTA, 3000, 2000, 2000, 0, CARDS)
    assert resourcequota._job_enqueue(state, second) == refusal
    assert tallies.refusal_to_admit(state, first) == Refusal(
        Reason.USER_LIMIT, 1, 0, 0, 0, JOBS_PLACE
    )


def test_a_start_request_is_what_counts_at_admission() -> None:
    made = cell(node("n1"), queue("q", limits=[limit(USER, "cards_milli", 3000)]))
    plain = submission("j1", role(replicas=2, cards=1), time_ns=made.now_ns)
    made.put(msgspec.structs.replace(plain, start_request=(r.Amount("cards_milli", 4000),)))
    assert made.tick() == []
    made.put(queue("q", limits=[limit(USER, "cards_milli", 4000)]))
    assert [d.kind for d in made.tick()] == [DecisionKind.ALLOCATE] * 2

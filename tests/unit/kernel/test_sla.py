"""sla: order by what is due when, and the vote of those whose time has come."""

import msgspec

from ganger.schemas import records as r
from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Counts
from ganger.streams.kernel.policies import sla
from ganger.streams.kernel.refusals import PERMIT
from support.builders import SECOND, Cell, node, placed, policy, role, submission

NONE = Counts((0,), (0,), (0,), (0,), (1,), (0,))


def cell(*rules: object, votes: str = "all", **arguments: str) -> Cell:
    made = policy(*rules, ("sla", arguments), settings={"votes": votes})  # type: ignore[arg-type]
    return Cell().start(node("n1", 4), rules=made)


def submit(made: Cell, name: str, *roles: r.Role, waits_s: int = 0) -> None:
    plain = submission(name, *roles, time_ns=made.now_ns)
    made.put(msgspec.structs.replace(plain, sla_waiting_ns=waits_s * SECOND))


def phase(made: Cell, name: str) -> Phase:
    return made.state.jobs[made.state.job_by_key[name]].phase


def test_what_is_due_first_is_first() -> None:
    made = cell()
    submit(made, "j1", role(cards=2))
    submit(made, "j2", role(cards=2), waits_s=100)
    submit(made, "j3", role(cards=2), waits_s=10)
    assert [job for job, *_ in placed(made.tick())] == ["j3", "j2"]


def test_the_promise_of_the_policy_is_for_jobs_without_their_own() -> None:
    made = cell(waiting_ns="20s")
    submit(made, "j1")
    submit(made, "j2", waits_s=10)
    state = made.state
    jobs = [state.jobs[state.job_by_key[name]] for name in ("j1", "j2")]
    assert [sla._job_key(state, job)[1] - job.submitted_ns for job in jobs] == [
        20 * SECOND,
        10 * SECOND,
    ]


def test_the_vote_comes_with_the_time() -> None:
    made = cell()
    submit(made, "j1", waits_s=10)
    submit(made, "j2")
    state = made.state
    first, second = (state.jobs[state.job_by_key[name]] for name in ("j1", "j2"))
    made.tick(9, cycle=False)
    assert sla._job_enqueue(state, first) is None
    made.tick(1, cycle=False)
    assert sla._job_enqueue(state, first) is PERMIT
    assert sla._job_pipelined(state, first, NONE) is PERMIT
    assert sla._job_enqueue(state, second) is None


def test_who_has_waited_long_enough_passes_the_gate() -> None:
    made = cell("overcommit")
    submit(made, "j1", role(cards=4))
    made.tick()
    submit(made, "j2", role(cards=3), waits_s=10)
    submit(made, "j3", role(cards=3))
    made.tick()
    assert [phase(made, name) for name in ("j2", "j3")] == [Phase.PENDING, Phase.PENDING]
    assert made.tick(8) == []
    made.tick(1)
    assert [phase(made, name) for name in ("j2", "j3")] == [Phase.INQUEUE, Phase.PENDING]
    for step in (made.state.indexes.overdue,):
        assert [job.request.job for job in step.values()] == ["j2"]
    made.cancel("j2")
    assert made.state.indexes.overdue == {}


def test_in_tiers_a_vote_before_the_gate_decides() -> None:
    rules = (
        r.PolicyTier((r.PolicyConfig("sla", (), (r.Argument("waiting_ns", "10s"),)),)),
        r.PolicyTier((r.PolicyConfig("overcommit", (), ()),)),
    )
    tiered = msgspec.structs.replace(policy(settings={"votes": "tiers"}), tiers=rules)
    made = Cell().start(node("n1", 4), rules=tiered)
    submit(made, "j1", role(cards=4))
    made.tick()
    submit(made, "j2", role(cards=3))
    made.tick()
    assert phase(made, "j2") is Phase.PENDING
    made.tick(10)
    assert phase(made, "j2") is Phase.INQUEUE


WITH_RESERVE = ("enqueue", "allocate", "backfill", "reserve")


def reserving(*rules: str) -> Cell:
    made = policy("priority", "gang", "sla", "overcommit", "pack", actions=WITH_RESERVE)
    return Cell().start(node("n1", 4), node("n2", 4), rules=made)


def long_run(made: Cell, name: str, cards: int, seconds: int) -> None:
    plain = submission(name, role(cards=cards), time_ns=made.now_ns)
    made.put(msgspec.structs.replace(plain, time_limit_ns=seconds * SECOND))
    made.tick(0)
    made.started(name)


def test_the_cards_that_become_free_first_are_kept() -> None:
    made = reserving()
    long_run(made, "j1", 3, 1000)
    long_run(made, "j2", 3, 100)
    submit(made, "late", role(cards=4), waits_s=10)
    made.tick()
    made.tick(10)
    claim = made.state.claims[made.state.job_by_key["late"]]
    assert [(entry.node, entry.mask) for entry in claim.entries] == [(1, 0b1111)]
    submit(made, "small", role(cards=1))
    submit(made, "next", role(cards=1))
    assert [(job, name) for job, _, _, name in placed(made.tick())] == [("small", "n1")]
    made.succeeded("j2")
    assert [(job, name) for job, _, _, name in placed(made.tick())] == [("late", "n2")]
    assert made.state.claims == {}


def test_one_job_at_a_time_has_such_a_claim() -> None:
    made = reserving()
    long_run(made, "j1", 4, 1000)
    long_run(made, "j2", 4, 100)
    for name in ("late", "later"):
        submit(made, name, role(cards=4), waits_s=10)
        made.tick()
    made.tick(20)
    assert list(made.state.claims) == [made.state.job_by_key["late"]]
    made.succeeded("j2")
    made.tick()
    made.tick()
    assert list(made.state.claims) == [made.state.job_by_key["later"]]


def test_a_claim_that_is_not_met_in_time_is_made_anew() -> None:
    made = reserving()
    long_run(made, "j1", 4, 1000)
    long_run(made, "j2", 4, 100)
    submit(made, "late", role(cards=4), waits_s=10)
    made.tick()
    made.tick(20)
    seq = made.state.job_by_key["late"]
    first = made.state.claims[seq]
    made.tick((first.until_ns - made.now_ns) // SECOND)
    second = made.state.claims[seq]
    assert second is not first and second.since_ns == made.now_ns


def test_what_could_never_start_claims_nothing() -> None:
    made = reserving()
    long_run(made, "j1", 4, 100)
    submit(made, "never", role(replicas=2, cards=4), role("other", cards=4), waits_s=10)
    made.tick(20)
    made.tick()
    assert made.state.claims == {}

"""Quota admission: what was admitted and did not start is put back, longer each time."""

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from support.builders import SECOND, Cell, placed, role
from support.quotas import held, kueue, leaf, quota_cell

TIMES = {"start_timeout_ns": "10s"}


def requeues(decisions: list[Decision]) -> list[tuple[str, int, int]]:
    """Job, how often, and when it may be tried again."""
    return [
        (one.job, one.count, one.until_ns) for one in decisions if one.kind is DecisionKind.REQUEUE
    ]


def time_out(cell: Cell, attempt: int) -> int:
    """Nothing starts for too long; the pods go. Returns for how many seconds the job waits."""
    made = cell.tick(10)
    evictions = [one for one in made if one.kind is DecisionKind.EVICT]
    assert [one.reason for one in evictions] == [Reason.START_TIMEOUT] * 2
    [(_, _, until_ns)] = requeues(made)
    for pod in (0, 1):
        cell.released("j", pod, attempt)
    return (until_ns - cell.now_ns) // SECOND


def test_a_job_that_does_not_start_waits_twice_as_long_each_time() -> None:
    cell = quota_cell(leaf("q", {"f": 2}), nodes=9, rules=kueue(TIMES))
    cell.submit("j", role(replicas=2, cards=1))
    for attempt, wait in enumerate((60, 120, 240, 480, 960, 1920, 3600, 3600), 1):
        assert len(placed(cell.tick())) == 2, attempt
        assert time_out(cell, attempt) == wait
        assert held(cell, "q") == {}
        assert not cell.tick(wait - 2)
        cell.tick(2, cycle=False)


def test_its_quota_is_for_others_meanwhile_and_it_stands_behind_them() -> None:
    cell = quota_cell(leaf("q", {"f": 2}), rules=kueue(TIMES))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    time_out(cell, 1)
    cell.submit("k", role(replicas=2, cards=1))
    assert [job for job, *_ in placed(cell.tick())] == ["k", "k"]
    for pod in (0, 1):
        cell.started("k", pod)
    cell.submit("l", role(replicas=2, cards=1))
    assert not cell.tick(70)
    for pod in (0, 1):
        cell.succeeded("k", pod)
    assert [job for job, *_ in placed(cell.tick())] == ["l", "l"]


def test_a_limit_ends_the_job() -> None:
    cell = quota_cell(leaf("q", {"f": 2}), nodes=9, rules=kueue({**TIMES, "requeue_limit": "1"}))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    time_out(cell, 1)
    cell.tick(60)
    cell.tick(10)
    made = [cell.released("j", 0, 2), cell.released("j", 1, 2)]
    [end] = made[1]
    assert (end.kind, end.reason, end.asked, end.limit) == (
        DecisionKind.FINISH,
        Reason.REQUEUE_LIMIT,
        2,
        1,
    )
    assert cell.state.jobs[cell.state.job_by_key["j"]].phase is Phase.FAILED
    assert held(cell, "q") == {}


def test_a_job_that_ran_whole_begins_to_count_anew() -> None:
    cell = quota_cell(leaf("q", {"f": 2}), nodes=9, rules=kueue(TIMES))
    cell.submit("j", role(replicas=2, cards=1))
    cell.tick()
    assert time_out(cell, 1) == 60
    cell.tick(60)
    for pod in (0, 1):
        cell.started("j", pod, 2)
    assert cell.state.jobs[cell.state.job_by_key["j"]].requeues == 0


def test_a_gang_that_stays_below_its_minimum_gives_its_quota_back() -> None:
    cell = quota_cell(leaf("q", {"f": 4}), rules=kueue({"stale_ns": "60s"}))
    cell.submit("j", role(replicas=2, cards=2), retries=1, backoff_ns=3600 * SECOND)
    cell.tick()
    for pod in (0, 1):
        cell.started("j", pod)
    cell.failed("j", 0)
    cell.tick()
    assert held(cell, "q")
    made = cell.tick(61)
    assert [one.reason for one in made if one.kind is DecisionKind.EVICT] == [Reason.GANG_STALE]
    cell.released("j", 1)
    assert held(cell, "q") == {}
    assert cell.state.jobs[cell.state.job_by_key["j"]].phase is Phase.PENDING

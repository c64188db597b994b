"""The clock: whose Ticks count, what they date, what they let expire."""

import msgspec
import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.step import next_wake
from support.builders import GENESIS, SECOND, Cell, node, policy, role, submission
from support.decision_lines import give_back, job_of, lose, places, reserve, said


def tick_of(epoch: int, time_ns: int, *, cycle: bool = True) -> r.Tick:
    """A Tick as it stands in a ledger."""
    return r.Tick(time_ns, "", None, epoch, cycle)


def test_only_ticks_of_the_latest_owner_count() -> None:
    cell = Cell().start(node("n1"))
    old = cell.state.epoch
    cell.put(r.OwnerClaimed(cell.now_ns, "", None, "other"))
    assert cell.state.epoch == cell.state.next_seq - 1
    cell.submit("j")
    for epoch in (old, -1, cell.state.epoch + 1):
        assert cell.put(tick_of(epoch, GENESIS + SECOND)) == []
    assert cell.state.clock_ns == 0
    assert places(cell.tick()) == ["j/0@n1"]


def test_before_any_claim_no_tick_counts() -> None:
    cell = Cell()
    assert cell.put(tick_of(0, GENESIS)) == []
    assert cell.state.clock_ns == 0


def test_the_clock_never_goes_back_and_may_stand_still() -> None:
    cell = Cell().start(node("n1"))
    cell.tick(10)
    clock = cell.state.clock_ns
    assert cell.put(tick_of(cell.state.epoch, clock - 1)) == []
    assert cell.state.clock_ns == clock
    (closed,) = cell.put(tick_of(cell.state.epoch, clock))
    assert (closed.kind, closed.time_ns) == (DecisionKind.CYCLE_CLOSED, clock)


def test_a_tick_without_a_cycle_moves_the_clock_alone() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j")
    assert cell.put(tick_of(cell.state.epoch, GENESIS + 5, cycle=False)) == []
    assert cell.state.clock_ns == GENESIS + 5


def test_every_cycle_is_closed_with_counts() -> None:
    cell = Cell().start(node("n1", 2))
    for key in "abc":
        cell.submit(key)
    *_, closed = cell.put(tick_of(cell.state.epoch, GENESIS + SECOND))
    assert closed.kind is DecisionKind.CYCLE_CLOSED
    assert (closed.started_count, closed.evicted_count, closed.waiting_count) == (2, 0, 1)
    assert closed.digest == cell.digest


@pytest.mark.parametrize(
    ("tick_max_s", "said_s", "dated_s"),
    [(0, -50, 0), (0, 0, 0), (0, 500, 500), (60, -50, 0), (60, 59, 59), (60, 500, 60)],
)
def test_a_record_is_dated_within_the_clock_and_the_longest_tick(
    tick_max_s: int, said_s: int, dated_s: int
) -> None:
    rules = policy(settings={"tick_max_ns": str(tick_max_s * SECOND)})
    cell = Cell().start(node("n1"), rules=rules)
    cell.tick()
    clock = cell.state.clock_ns
    cell.put(submission("j", time_ns=clock + said_s * SECOND))
    assert job_of(cell, "j").submitted_ns == clock + dated_s * SECOND


@pytest.mark.parametrize("ttl_s", [-1, 0, 7])
def test_an_ended_job_is_remembered_for_its_time_to_live(ttl_s: int) -> None:
    cell = Cell().start(node("n1"), rules=policy(settings={"ttl_ns": str(30 * SECOND)}))
    cell.submit("j", ttl_ns=ttl_s * SECOND if ttl_s >= 0 else -1)
    cell.tick()
    cell.succeeded("j")
    ttl = 30 if ttl_s < 0 else ttl_s
    assert next_wake(cell.state) is None  # nobody waits for the end of a memory
    if ttl:
        cell.tick(ttl - 1, cycle=False)
        assert "j" in cell.state.job_by_key
    cell.tick(1, cycle=False)
    assert cell.state.jobs == {}
    assert cell.state.shapes.jobs == {}


def test_a_job_is_remembered_while_a_lost_node_may_hold_a_pod_of_it() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", ttl_ns=SECOND)
    cell.tick()
    lose(cell, "n1")
    cell.cancel("j")
    cell.tick(5)
    assert "j" in cell.state.job_by_key
    give_back(cell, "n1", 1, boot="boot-2")
    cell.tick()
    assert "j" not in cell.state.job_by_key


def test_a_shorter_time_to_live_acts_on_jobs_that_ended_before() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j")
    cell.tick()
    cell.succeeded("j")
    cell.put(policy(settings={"ttl_ns": "0"}))
    cell.tick()
    assert cell.state.jobs == {}


def test_next_wake_is_the_earliest_of_all_that_time_alone_changes() -> None:
    cell = Cell().start(node("n1"), node("n2", 8))
    assert next_wake(cell.state) is None
    reserve(cell, "r", "n2", after_s=50, until_s=90)
    assert next_wake(cell.state) == GENESIS + 50 * SECOND
    cell.submit("j", retries=1, backoff_ns=20 * SECOND)
    cell.tick()
    cell.failed("j")
    assert next_wake(cell.state) == cell.now_ns + 20 * SECOND
    cell.cancel("j")
    assert next_wake(cell.state) == GENESIS + 50 * SECOND
    cell.tick(49)
    assert next_wake(cell.state) == GENESIS + 90 * SECOND
    reserve(cell, "r", "n2", cancelled=True)
    assert next_wake(cell.state) is None


def test_next_wake_of_a_backoff_that_was_prolonged_is_the_later_moment() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=2, cards=1), retries=3, backoff_ns=10 * SECOND)
    cell.tick()
    cell.failed("j", 0)
    cell.now_ns += 5 * SECOND
    cell.failed("j", 1)
    assert next_wake(cell.state) == cell.now_ns + 10 * SECOND


def test_time_that_a_reporter_states_decides_nothing() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j")
    cell.tick()
    fact = r.PodStarted(cell.now_ns, "", None, "j", 0, 1, "", GENESIS * 99)
    cell.put(fact)
    assert job_of(cell, "j").first_started_ns == cell.now_ns
    late = msgspec.structs.replace(fact, time_ns=cell.now_ns + SECOND)
    assert cell.put(late) == []
    assert said(cell.succeeded("j")) == ["FINISH j ALL_PODS_SUCCEEDED"]
    assert job_of(cell, "j").ended_ns == cell.now_ns

"""A graceful end: notice, then told to end or to stop with a grace, then gone."""

from typing import Any

import pytest
from msgspec.structs import replace

from ganger.replay.executor import Executor
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.step import next_wake
from support.builders import SECOND, Cell, node, policy, role, submission
from support.decision_lines import job_of
from support.lent_cells import lent_policy
from support.taking import start

K = DecisionKind
RULES = ("priority", "gang", "fair_share", "conformance", "capability", "pack")
ACTIONS = ("enqueue", "allocate", "backfill", "reclaim", "preempt", "stale")
TOLD = (K.NOTICE, K.EVICT, K.SUSPEND, K.RESUME)


def cell_of(**settings: str) -> Cell:
    return Cell().start(node("n", 4), rules=policy(*RULES, actions=ACTIONS, settings=settings))


def put(cell: Cell, job: str, *roles: r.Role, priority: int = 0, **facts: Any) -> None:
    cell.put(replace(submission(job, *roles, priority=priority, time_ns=cell.now_ns), **facts))


def told(cell: Cell, said: list[Decision]) -> list[tuple[str, str, int]]:
    """What attempts are told: kind, job, seconds until `until_ns`; -1 where there is none."""
    return [
        (one.kind.name, one.job, (one.until_ns - cell.now_ns) // SECOND if one.until_ns else -1)
        for one in said
        if one.kind in TOLD
    ]


GRACEFUL = {"notice_ns": 20 * SECOND, "grace_ns": 30 * SECOND}


def test_a_victim_is_warned_then_told_to_end_and_given_its_grace() -> None:
    cell = cell_of(claim_ns="1s", start_timeout_ns="60s")
    put(cell, "low", role(cards=4), **GRACEFUL)
    start(cell)
    put(cell, "high", priority=9)
    said = cell.tick()
    assert told(cell, said) == [("NOTICE", "low", 20)]
    (claim,) = [one for one in said if one.kind is K.CLAIM]
    assert claim.until_ns == cell.now_ns + (20 + 30 + 60) * SECOND  # so long it may have to wait
    assert told(cell, cell.tick(19)) == []
    said = cell.tick(1)
    assert told(cell, said) == [("EVICT", "low", 30)]
    (ended,) = [one for one in said if one.kind is K.EVICT]
    assert (ended.reason, ended.for_job) == (Reason.PREEMPTED, "high")
    assert job_of(cell, "low").phase is not Phase.CANCELLED
    cell.tick(30)
    assert "high" in [state.request.job for state in cell.state.jobs.values()]
    cell.released("low")
    assert [one.job for one in start(cell) if one.kind is K.ALLOCATE] == ["high"]


@pytest.mark.parametrize(
    ("facts", "settings", "want"),
    [
        ({}, {}, ("EVICT", "low", -1)),
        ({"grace_ns": 0}, {"release_ns": "40s"}, ("EVICT", "low", -1)),
        ({}, {"release_ns": "40s"}, ("EVICT", "low", 40)),
        ({"grace_ns": 5 * SECOND}, {"release_ns": "40s"}, ("EVICT", "low", 5)),
        ({}, {"grace_ns": "10s"}, ("NOTICE", "low", 10)),
        ({"notice_ns": 3 * SECOND}, {"grace_ns": "10s"}, ("NOTICE", "low", 3)),
    ],
)
def test_the_word_of_the_job_goes_before_that_of_the_policy(
    facts: dict[str, int], settings: dict[str, str], want: tuple[str, str, int]
) -> None:
    cell = cell_of(**settings)
    put(cell, "low", role(cards=4), **facts)
    start(cell)
    put(cell, "high", priority=9)
    assert told(cell, cell.tick()) == [want]


def test_who_does_not_run_is_told_to_end_at_once_without_a_grace() -> None:
    cell = cell_of(grace_ns="10s", release_ns="10s")
    put(cell, "low", role(cards=4), **GRACEFUL)
    cell.tick()  # placed, and not reported running
    put(cell, "high", priority=9)
    assert told(cell, cell.tick()) == [("EVICT", "low", -1)]


def test_who_is_cancelled_is_given_its_grace_and_no_notice() -> None:
    cell = cell_of()
    put(cell, "j", **GRACEFUL)
    start(cell)
    assert told(cell, cell.cancel("j")) == [("EVICT", "j", 30)]
    assert job_of(cell, "j").ending is Phase.CANCELLED


def test_a_drained_node_is_left_after_notices_and_graces() -> None:
    cell = cell_of()
    put(cell, "warned", role(cards=1), **GRACEFUL)
    put(cell, "plain", role(cards=1))
    start(cell)
    drain = r.NodeDrained(cell.now_ns, "", None, "n", "ops", 0)
    assert told(cell, cell.put(drain)) == [("NOTICE", "warned", 20), ("EVICT", "plain", -1)]
    assert told(cell, cell.put(drain)) == []  # once is enough
    copy = Cell()
    copy.state, copy.now_ns = snapshot.fork(cell.state), cell.now_ns
    assert next_wake(copy.state) == cell.now_ns + 20 * SECOND
    said = cell.tick(20)
    assert told(cell, said) == [("EVICT", "warned", 30)]
    assert [one.reason for one in said if one.kind is K.EVICT] == [Reason.NODE_DRAINED]
    assert [one.body for one in copy.tick(20)] == [one.body for one in said]


def test_an_operator_s_time_for_a_drain_counts_for_all_at_once() -> None:
    cell = cell_of()
    put(cell, "warned", role(cards=1), **GRACEFUL)
    put(cell, "plain", role(cards=1))
    start(cell)
    said = cell.put(r.NodeDrained(cell.now_ns, "", None, "n", "ops", 90 * SECOND))
    assert told(cell, said) == [("EVICT", "warned", 90), ("EVICT", "plain", 90)]


def test_a_drain_that_is_called_off_takes_notices_back() -> None:
    cell = cell_of()
    put(cell, "warned", role(cards=1), **GRACEFUL)
    start(cell)
    cell.put(r.NodeDrained(cell.now_ns, "", None, "n", "ops", 0))
    cell.put(r.NodeUncordoned(cell.now_ns, "", None, "n", "ops"))
    assert told(cell, cell.tick(60)) == []
    assert job_of(cell, "warned").phase is Phase.RUNNING


def test_who_is_warned_for_others_leaves_a_drained_node_though_they_give_up() -> None:
    cell = cell_of()
    put(cell, "low", role(cards=4), **GRACEFUL)
    start(cell)
    put(cell, "high", priority=9)
    assert told(cell, cell.tick()) == [("NOTICE", "low", 20)]
    cell.put(r.NodeDrained(cell.now_ns, "", None, "n", "ops", 0))
    cell.tick(1)
    assert cell.state.claims == {}  # its places are no more
    said = cell.tick(19)
    assert told(cell, said) == [("EVICT", "low", 30)]
    assert [one.reason for one in said if one.kind is K.EVICT] == [Reason.NODE_DRAINED]


# ---- suspensions ---------------------------------------------------------------------------------


def in_a_gap(**facts: Any) -> Cell:
    """A job in a gap that can be suspended, and the first in line that waits for its cards."""
    cell = Cell().start(node("n", 4), rules=lent_policy())
    put(cell, "busy", role(cards=2), runtime_estimate_ns=100 * SECOND)
    start(cell)
    put(cell, "head", role(cards=4), runtime_estimate_ns=50 * SECOND)
    asks = {"can_checkpoint": True, "accepts_suspend": True, "runtime_estimate_ns": 900 * SECOND}
    put(cell, "gap", role(cards=2), **asks, **facts)
    start(cell)
    assert job_of(cell, "gap").phase is Phase.RUNNING
    return cell


def test_who_makes_way_in_a_gap_is_warned_and_then_suspended() -> None:
    cell = in_a_gap(**GRACEFUL)
    cell.tick(50)
    cell.succeeded("busy")
    said = cell.tick()
    assert told(cell, said) == [("NOTICE", "gap", 20)]
    assert told(cell, cell.tick(5)) == []
    said = cell.tick(15)
    assert told(cell, said) == [("SUSPEND", "gap", 30)]
    cell.put(r.PodSuspended(cell.now_ns, "", None, "gap", 0, 1, 100, cell.now_ns))
    assert [one.job for one in start(cell) if one.kind is K.ALLOCATE] == ["head"]
    cell.tick(10)
    cell.succeeded("head")
    assert told(cell, cell.tick()) == [("RESUME", "gap", -1)]


def test_without_a_notice_it_is_suspended_at_once() -> None:
    cell = in_a_gap()
    cell.tick(50)
    cell.succeeded("busy")
    assert told(cell, cell.tick()) == [("SUSPEND", "gap", -1)]


def test_a_warned_one_stays_when_the_head_is_gone() -> None:
    cell = in_a_gap(**GRACEFUL)
    cell.tick(50)
    cell.succeeded("busy")
    cell.tick()
    cell.cancel("head")
    assert told(cell, cell.tick(60)) == []
    assert job_of(cell, "gap").phase is Phase.RUNNING


# ---- what an executor makes of it ----------------------------------------------------------------


def test_an_executor_uses_the_grace_that_a_decision_names() -> None:
    cell = cell_of()
    put(cell, "j", **GRACEFUL)
    executor = Executor({"j": 10**12}, grace_ns=SECOND)
    for fact in executor.observe(cell.tick(), cell.now_ns):
        cell.put(fact)
    assert executor.observe(cell.cancel("j"), cell.now_ns) == []
    assert executor.due() == cell.now_ns + 30 * SECOND
    (gone,) = executor.take(cell.now_ns + 30 * SECOND) or []
    assert isinstance(gone, r.PodReleased)
    cell.put(gone)
    assert job_of(cell, "j").phase is Phase.CANCELLED

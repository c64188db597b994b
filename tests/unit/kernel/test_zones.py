"""Time-division zones, and admissions that expire."""

import pytest

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.nodes import zones
from ganger.streams.kernel.step import next_wake
from support.builders import GENESIS, SECOND, Cell, node, placed, policy, queue, role
from support.decision_lines import job_of, phase_of, said


def open_in(cell: Cell, zone: str, *spans: tuple[int, int], removed: bool = False) -> list[str]:
    """A zone is open from, and up to, so many seconds from the cell's beginning."""
    intervals = tuple(
        r.Interval(GENESIS + first * SECOND, GENESIS + last * SECOND) for first, last in spans
    )
    return said(cell.put(r.ZoneConfigured(cell.now_ns, "", None, zone, intervals, removed)))


@pytest.mark.parametrize(
    ("second", "is_open", "edge"),
    [(0, False, 10), (9, False, 10), (10, True, 20), (19, True, 20), (20, False, 30),
     (30, True, 31), (31, False, None), (99, False, None)],
)  # fmt: skip
def test_when_a_zone_is_open(second: int, is_open: bool, edge: int | None) -> None:
    cell = Cell().start(node("n1"))
    open_in(cell, "z", (10, 20), (30, 31))
    now = GENESIS + second * SECOND
    assert zones.is_open(cell.state, "z", now) is is_open
    assert not zones.is_open(cell.state, "other", now)
    due = zones.next_edge(cell.state.zones["z"], now)
    assert due == (None if edge is None else GENESIS + edge * SECOND)


def test_time_itself_opens_and_closes_a_zone() -> None:
    cell = Cell().start(node("n1"))
    cell.tick()
    open_in(cell, "z", (10, 20), (30, 31))
    open_in(cell, "y", (15, 99))
    for second in (10, 15, 20, 30, 31, 99):
        assert next_wake(cell.state) == GENESIS + second * SECOND
        if second == 20:
            cell.state = snapshot.fork(cell.state)
        epoch = cell.state.indexes.evict_epoch
        cell.tick(second - (cell.now_ns - GENESIS) // SECOND)
        assert cell.state.indexes.evict_epoch > epoch  # who must leave is looked for
        assert zones.is_open(cell.state, "z") is (second in (10, 15, 30))
    assert next_wake(cell.state) is None


def test_a_zone_whose_times_were_changed_keeps_only_its_new_ones() -> None:
    cell = Cell().start(node("n1"))
    cell.tick()
    open_in(cell, "z", (10, 20))
    open_in(cell, "z", (50, 60))
    assert next_wake(cell.state) == GENESIS + 50 * SECOND
    assert open_in(cell, "z", removed=True) == []
    assert next_wake(cell.state) is None
    assert open_in(cell, "z", removed=True) == ["REJECT  ZONE_UNKNOWN"]


@pytest.mark.parametrize(
    "spans", [[(20, 10)], [(10, 10)], [(10, 20), (15, 30)], [(10, 20), (20, 30)]]
)
def test_intervals_follow_each_other_apart(spans: list[tuple[int, int]]) -> None:
    cell = Cell().start(node("n1"))
    assert open_in(cell, "z", *spans) == ["REJECT  VALUE_OUT_OF_RANGE"]
    assert cell.state.zones == {}


# ---- admissions ---------------------------------------------------------------------------------

HELD_UP = {"inqueue_ns": "30s", "requeue_base_ns": "60s", "requeue_max_ns": "100s"}


def requeued(decisions: list[Decision]) -> list[tuple[str, int, int]]:
    """Reason, how often, and seconds to wait, of the jobs put back."""
    return [
        (d.reason.name, d.count, (d.until_ns - d.time_ns) // SECOND)
        for d in decisions
        if d.kind is DecisionKind.REQUEUE
    ]


def crowded(limit: int = -1) -> Cell:
    """Job `big` is admitted beside one that holds a card of the only node, and cannot start."""
    settings = {**HELD_UP, "requeue_limit": str(limit)}
    rules = policy("priority", "gang", "fair_share", "pack", settings=settings)
    cell = Cell().start(node("n1", 2), queue("q"), rules=rules)
    cell.submit("small", role(cards=1))
    cell.tick()
    cell.submit("big", role(cards=2))
    cell.tick()
    assert phase_of(cell, "big") is Phase.INQUEUE
    return cell


def test_an_admission_that_is_not_used_is_taken_back_for_a_while() -> None:
    cell = crowded()
    assert next_wake(cell.state) == cell.now_ns + 30 * SECOND
    assert requeued(cell.tick(29)) == []
    cell.state = snapshot.fork(cell.state)
    assert requeued(cell.tick(1)) == [("CLAIM_EXPIRED", 1, 60)]
    assert phase_of(cell, "big") is Phase.PENDING
    cell.tick(59)
    assert phase_of(cell, "big") is Phase.PENDING
    cell.tick(1)
    assert phase_of(cell, "big") is Phase.INQUEUE
    assert requeued(cell.tick(30)) == [("CLAIM_EXPIRED", 2, 100)]


def test_a_job_that_was_put_back_too_often_fails() -> None:
    cell = crowded(limit=1)
    cell.tick(30)
    cell.tick(60)
    (end,) = [d for d in cell.tick(30) if d.kind is DecisionKind.FINISH]
    assert (end.reason.name, end.asked, end.limit) == ("REQUEUE_LIMIT", 2, 1)


def test_a_job_that_runs_whole_is_put_back_for_the_first_time_again() -> None:
    cell = crowded()
    cell.tick(30)
    cell.succeeded("small")
    assert placed(cell.tick(60)) == [("big", 0, 1, "n1")]
    assert job_of(cell, "big").requeues == 1
    cell.started("big")
    assert job_of(cell, "big").requeues == 0
    assert requeued(cell.tick(300)) == []


def test_admissions_last_where_the_policy_does_not_bound_them() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("a")
    cell.submit("b")
    cell.tick()
    assert job_of(cell, "b").admitted_ns == 0
    assert said(cell.tick(100_000)) == ["EVICT a/0#1@n1 START_TIMEOUT"]

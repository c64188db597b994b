"""What reclaim may cost at most: how long a job waits before it takes, and what victims may lose.

The invariants that every record of these cells is checked for compare the candidates that are kept
between cycles with those made anew.
"""

import pytest

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.schemas.records import ActionConfig, Argument
from ganger.streams.kernel.entities import Pod
from ganger.streams.kernel.handlers.time import next_wake
from ganger.streams.kernel.preemption.candidates import Hunt, Pool, losable_until_ns
from support.builders import Cell, node, policy, queue, role
from support.decision_lines import job_of

K = DecisionKind
S = 10**9
TAKING = ("enqueue", "allocate", "reclaim")
HUNT = Hunt("reclaim", Reason.RECLAIMED, True, None, lost_max_ns=100 * S)
RULES = ("priority", "gang", "fair_share", "pack")


def cell_with(**bounds: int) -> Cell:
    """Four cards, all held by jobs of queue `rich` since a second ago."""
    rules = policy(*RULES, actions=TAKING)
    pairs = tuple(Argument(key, str(value)) for key, value in bounds.items())
    actions = (*rules.actions[:2], ActionConfig("reclaim", pairs))
    rules = type(rules)(
        **{**{name: getattr(rules, name) for name in rules.__struct_fields__}, "actions": actions}
    )
    cell = Cell().start(queue("rich"), queue("poor"), node("n", 4), rules=rules)
    for number in range(4):
        cell.submit(f"r{number}", queue="rich")
    cell.tick()
    for number in range(4):
        cell.started(f"r{number}")
    return cell


def evicted(cell: Cell, after_s: int = 1) -> list[str]:
    return [one.job for one in cell.tick(after_s) if one.kind is K.EVICT]


def test_a_job_takes_at_once_where_nobody_asks_for_patience() -> None:
    cell = cell_with()
    cell.submit("mine", queue="poor")
    assert evicted(cell) == ["r3"]


def test_a_job_takes_when_it_has_waited_and_not_before() -> None:
    cell = cell_with(patience_ns=60 * S)
    cell.submit("mine", queue="poor")
    assert evicted(cell, 30) == []
    assert evicted(cell, 29) == []
    assert evicted(cell, 1) == ["r3"]


def test_a_quiet_cell_wakes_when_patience_ends() -> None:
    cell = cell_with(patience_ns=60 * S)
    cell.submit("mine", queue="poor")
    assert evicted(cell) == []
    assert next_wake(cell.state) == job_of(cell, "mine").submitted_ns + 60 * S
    assert evicted(cell, 59) == ["r3"]
    assert cell.state.indexes.patient == {}


def test_patience_begins_anew_for_who_was_evicted() -> None:
    cell = cell_with(patience_ns=60 * S)
    cell.submit("mine", queue="poor")
    evicted(cell, 60)
    cell.released("r3")
    cell.tick()
    assert job_of(cell, "r3").waiting_since_ns == cell.state.now_ns - S


def test_nobody_loses_more_than_it_may() -> None:
    cell = cell_with(lost_max_ns=100 * S)
    cell.submit("before", queue="poor")
    assert evicted(cell, 50) == ["r3"]  # has run for 50 s
    cell = cell_with(lost_max_ns=100 * S)
    cell.tick(200)
    cell.submit("after", queue="poor")
    assert evicted(cell) == []


def test_who_was_begun_anew_often_enough_stays() -> None:
    cell = cell_with(evictions_max=1)
    cell.submit("mine", queue="poor")
    assert evicted(cell) == ["r3"]
    cell.released("r3")
    cell.tick()
    cell.started("mine")
    cell.succeeded("mine")
    cell.tick()
    cell.started("r3", attempt=2)
    cell.submit("again", queue="poor")
    assert evicted(cell) == ["r2"]  # r3 started last, but for the second time


@pytest.mark.parametrize(
    ("progress", "saved", "until_s"),
    [(-1, -1, 1100), (0, 0, 1100), (500, 0, 1100), (500, 250, 1200), (500, 400, 1500)],
)
def test_what_is_saved_is_not_lost(progress: int, saved: int, until_s: int) -> None:
    """Half of what is done is saved, say: so only half of the time it runs is lost."""
    pod = pod_of(progress, saved)
    assert losable_until_ns(HUNT, pod) == until_s * S


def test_who_has_saved_all_may_always_leave() -> None:
    assert losable_until_ns(HUNT, pod_of(500, 500)) == 0


def pod_of(progress: int, saved: int) -> Pod:
    cell = cell_with()
    pods = job_of(cell, "r0").pods
    assert pods is not None
    pod = pods[0]
    pod.started_ns, pod.progress_milli, pod.checkpoint_milli = 1000 * S, progress, saved
    return pod


def test_candidates_are_kept_and_follow_what_happens() -> None:
    cell = cell_with()
    cell.submit("wide", role(replicas=1, cards=4), queue="poor")
    assert evicted(cell) == []  # asks for more than the queue's due
    kept = cell.state.indexes.candidates["reclaim"]
    assert isinstance(kept, Pool)
    cell.succeeded("r0")
    cell.submit("r4", queue="rich")
    cell.tick()
    cell.started("r4")
    cell.tick()
    again = cell.state.indexes.candidates["reclaim"]
    assert again is kept
    names = [bundle.job.request.job for bundle in kept.lists[job_of(cell, "r4").queue]]
    assert names == ["r4", "r3", "r2", "r1"]

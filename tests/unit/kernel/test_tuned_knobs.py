"""What the controller of gaps has set: it outlives a snapshot, and never a policy's bounds."""

from collections.abc import Mapping

from msgspec.structs import replace

from ganger.streams.kernel import snapshot
from ganger.streams.kernel.backfill import tuning
from ganger.streams.kernel.foresight.controller import Knobs
from ganger.streams.kernel.step import step
from support.builders import SECOND
from support.lent_cells import LentHistory, lent_policy

YIELDING = {"evict_after_ns": "2s", "floor_ns": "1s"}
TUNE = {"window_ns": "30s", "runtime_max_ns": "60s", "runtime_least_ns": "30s"}
STEPS = 145


def tuned() -> LentHistory:
    """A history in which both knobs have been moved."""
    history = LentHistory(lent_policy(yielding=YIELDING, tune=TUNE), 4)
    history.cell.checks = False
    for _ in range(STEPS):
        history.step()
    assert tuning.knobs_of(history.cell.state) == Knobs(45 * SECOND, 169)
    return history


def bounded(history: LentHistory, tune: Mapping[str, str]) -> Knobs:
    """The knobs under the same policy with other bounds."""
    rules = lent_policy(yielding=YIELDING, tune={**TUNE, **tune})
    history.cell.put(replace(rules, time_ns=history.cell.now_ns))
    return tuning.knobs_of(history.cell.state)


def test_a_policy_with_narrower_bounds_counts_at_once() -> None:
    history = tuned()
    assert bounded(history, {"runtime_max_ns": "40s"}) == Knobs(40 * SECOND, 169)
    assert bounded(history, {"runtime_least_ns": "50s"}) == Knobs(50 * SECOND, 169)
    assert bounded(history, {"protection_max_milli": "160"}) == Knobs(45 * SECOND, 160)
    longer = {"protection_least_milli": "180", "protection_milli": "180"}
    assert bounded(history, longer) == Knobs(45 * SECOND, 180)
    assert bounded(history, {}) == Knobs(45 * SECOND, 169)


def test_who_goes_on_from_a_snapshot_gives_gaps_for_as_long() -> None:
    history = tuned()
    seen = len(history.cell.records)
    other = snapshot.decode(snapshot.encode(history.cell.state))
    assert tuning.knobs_of(other) == Knobs(45 * SECOND, 169)
    for _ in range(40):
        history.step()
    for record in history.cell.records[seen:]:
        step(other, other.next_seq, record)
    assert other.chain == history.cell.state.chain
    assert other.knobs == history.cell.state.knobs

"""Jobs in gaps that make way: what holds in every history."""

from collections.abc import Mapping
from hashlib import sha256

import pytest

from ganger.schemas.enums import BackfillPreference, DecisionKind, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.entities import ENDED
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support import builders as b
from support.decision_lines import job_of
from support.lent_cells import LentHistory, lent_policy

STEPS = 150
SEEDS = range(6)

EAGER = {"yielding": {"evict_after_ns": "5s", "floor_ns": "3s"}}
"""Arguments under which jobs are evicted often."""


def history_of(seed: int, **arguments: Mapping[str, str]) -> LentHistory:
    history = LentHistory(lent_policy(**arguments), seed)
    for _ in range(STEPS):
        history.step()
    return history


@pytest.mark.parametrize("seed", SEEDS)
def test_who_was_suspended_ends(seed: int) -> None:
    """The invariants hold after every record; once nobody comes any more, everybody ends."""
    history = history_of(seed)
    history.drain()
    state = history.cell.state
    assert not history.rests and not history.waiting
    assert all(job.phase in ENDED for job in state.jobs.values())
    told = [d for d in history.cell.decisions if d.kind is DecisionKind.SUSPEND]
    assert {d.for_job for d in told} <= set(history.requests)
    assert len(told) >= history.suspended > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refused_gap_is_never_given_and_risk_is_what_its_owner_takes(seed: int) -> None:
    history = history_of(seed, **EAGER)
    fills = [d for d in history.cell.decisions if d.kind is DecisionKind.BACKFILL]
    assert fills
    for fill in fills:
        request = history.requests[fill.job]
        if fill.reason is Reason.SPOT_FILL:
            assert request.spot and fill.tier is Tier.SPOT
            continue
        assert request.backfill is not BackfillPreference.REFUSE, fill
        if request.backfill is BackfillPreference.LOW_RISK_ONLY and fill.idle:
            assert fill.risk_milli <= request.backfill_risk_milli
        if fill.reason is Reason.SUSPENDABLE:
            assert request.can_checkpoint and request.accepts_suspend and fill.for_job


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_evicted_inside_its_window_or_loses_more_than_the_bound(seed: int) -> None:
    history = history_of(seed, yielding={**EAGER["yielding"], "lost_max_ns": "6s"})
    began: dict[tuple[str, int, int], tuple[int, int]] = {}
    for decision in history.cell.decisions:
        attempt = (decision.job, decision.pod, decision.attempt)
        if decision.kind is DecisionKind.BACKFILL:
            began[attempt] = (decision.time_ns, decision.protect_ns)
        elif decision.kind is DecisionKind.EVICT and decision.for_job:
            since_ns, protect_ns = began[attempt]
            assert decision.time_ns >= since_ns + protect_ns
            if not history.requests[decision.job].spot:
                assert protect_ns >= 3 * b.SECOND
                assert decision.limit <= 6 * b.SECOND
                assert history.cell.state.jobs


def test_some_are_evicted_and_are_made_up_for_below_every_main_job() -> None:
    evicted = 0
    for seed in SEEDS:
        history = LentHistory(lent_policy(**EAGER), seed)
        for _ in range(STEPS):
            history.step()
            state = history.cell.state
            waiting = [job for job in state.jobs.values() if job.key is not None]
            main = [job.key for job in waiting if not (job.credit or job.request.spot)]
            for job in waiting:
                if job.credit and job.last_tier is Tier.BACKFILL:
                    evicted += 1
                    assert job.key is not None
                    assert all(key is not None and key < job.key for key in main)
    assert evicted


@pytest.mark.parametrize("seed", SEEDS)
def test_who_goes_on_from_a_snapshot_decides_the_same(seed: int) -> None:
    history = history_of(seed, tune={"window_ns": "10s"})
    other = State("cell", sha256(b"cell").digest())
    for place, record in enumerate(history.cell.records):
        step(other, other.next_seq, record)
        if place % 7 == 0:
            other = snapshot.decode(snapshot.encode(other))
    assert other.chain == history.cell.state.chain
    assert other.knobs == history.cell.state.knobs


def test_a_moved_job_goes_on_from_where_it_stopped() -> None:
    """Told to stop for the first in line, it is started elsewhere when its own cards are taken."""
    moved = 0
    for seed in SEEDS:
        history = history_of(seed)
        for decision in history.cell.decisions:
            if decision.kind is DecisionKind.BACKFILL and decision.reason is Reason.RESUMED:
                moved += 1
                assert decision.attempt > 1
                job = job_of(history.cell, decision.job)
                pod = (job.pods or {}).get(decision.pod)
                if pod is not None and pod.attempt == decision.attempt:
                    assert pod.earlier_ns > 0
    assert moved

"""Jobs in gaps in rough cells: nodes are lost, queues close, owners and policies change.

The state is checked after every record.
"""

from hashlib import sha256

import pytest
from msgspec.structs import replace

from ganger.replay.promises import PromiseCheck
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import BackfillPreference, DecisionKind, Tier, Tri
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Tick
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.digest import recompute, seal
from ganger.streams.kernel.entities import ENDED
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import next_wake, step
from support.rough_cells import RoughHistory
from support.timed_cells import timed_policy

STEPS = 160
SEEDS = range(8)


def history_of(seed: int, steps: int = STEPS) -> RoughHistory:
    history = RoughHistory(seed)
    for _ in range(steps):
        history.step()
    return history


@pytest.mark.parametrize("seed", SEEDS)
def test_everybody_ends_and_nobody_rests_beside_free_cards(seed: int) -> None:
    history = history_of(seed)
    history.settle_down()
    history.drain()
    state = history.cell.state
    assert [job.request.job for job in state.jobs.values() if job.phase not in ENDED] == []
    assert not history.stuck
    assert history.suspended > 0 and len(history.disturbed) > 5, "else it shows nothing"


@pytest.mark.parametrize("preset", ["default", "hpc-easy"])
def test_everybody_ends_though_the_policy_lets_nobody_go_on(preset: str) -> None:
    """Who was suspended under the policy before is placed anew."""
    rested = 0
    for seed in SEEDS:
        history = history_of(seed, 100)
        history.settle_down()
        rested += len(history.rests) + len(history.stopping)
        rules = replace(timed_policy(preset), time_ns=history.cell.now_ns)
        history.see(history.cell.put(rules))
        history.drain()
        assert all(job.phase in ENDED for job in history.cell.state.jobs.values())
    assert rested


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refused_gap_is_never_given(seed: int) -> None:
    """Neither to who has refused since it came, nor while the queue takes none."""
    history = RoughHistory(seed)
    for _ in range(STEPS):
        for decision in history.step():
            if decision.kind is not DecisionKind.BACKFILL:
                continue
            request = history.requests[decision.job]
            assert request.backfill is not BackfillPreference.REFUSE, decision
            assert history.cell.state.queues[0].config.backfill is not Tri.NO, decision
            if decision.reason is Reason.SUSPENDABLE:
                assert request.can_checkpoint and request.accepts_suspend and decision.for_job
            if request.backfill is BackfillPreference.LOW_RISK_ONLY and decision.idle:
                assert request.spot or decision.risk_milli <= request.backfill_risk_milli


def test_the_protection_that_was_told_is_kept() -> None:
    """Nobody is evicted for others inside its window, or suspended that was promised one."""
    fills = evictions = 0
    for seed in SEEDS:
        history = history_of(seed)
        windows: dict[tuple[str, int, int], int] = {}
        for decision in history.cell.decisions:
            attempt = (decision.job, decision.pod, decision.attempt)
            if decision.kind is DecisionKind.BACKFILL and decision.protect_ns:
                windows[attempt] = decision.protect_ns
                fills += 1
            elif decision.kind is DecisionKind.SUSPEND:
                assert attempt not in windows
            elif decision.kind is DecisionKind.EVICT and decision.for_job and attempt in windows:
                assert decision.time_ns >= history.began[attempt] + windows[attempt], decision
                evictions += decision.reason is Reason.MAIN_NEEDS_CARDS
    assert fills > 20 and evictions > 2, "else it shows nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_compensation_never_passes_a_main_job(seed: int) -> None:
    history = RoughHistory(seed)
    for _ in range(STEPS):
        history.step()
        state = history.cell.state
        if not state.policy.resumes:
            continue
        waiting = [job for job in state.jobs.values() if job.key is not None]
        made_up = [job.key for job in waiting if job.credit and job.last_tier is Tier.BACKFILL]
        main = [
            job.key
            for job in waiting
            if not job.request.spot and job.last_tier is not Tier.BACKFILL
        ]
        if made_up and main:
            assert max(key for key in main if key) < min(key for key in made_up if key)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_goes_on_from_a_snapshot_decides_the_same(seed: int) -> None:
    """And asks, after a cycle, to be called at the same time."""
    history = history_of(seed)
    other = State("cell", sha256(b"cell").digest())
    straight = State("cell", sha256(b"cell").digest())
    for place, record in enumerate(history.cell.records):
        step(other, other.next_seq, record)
        step(straight, straight.next_seq, record)
        if place % 5 == 0:
            other = snapshot.decode(snapshot.encode(other))
            assert seal(other) == recompute(other)
            if isinstance(record, Tick):
                assert next_wake(other) == next_wake(straight), place
    assert other.chain == straight.chain == history.cell.state.chain
    assert other.knobs == history.cell.state.knobs


@pytest.mark.parametrize("seed", SEEDS)
def test_no_start_in_a_gap_moves_a_reservation_made_before_it(seed: int) -> None:
    """Under the estimates that admitted them, which the decisions carry: as `ganger verify` has it,
    from records and decisions alone.
    """
    history = history_of(seed)
    decided: list[list[Decision]] = [[] for _ in history.cell.records]
    for decision in history.cell.decisions:
        decided[decision.cause_seq].append(decision)
    check = PromiseCheck()
    check.check(history.cell.records, decided)
    assert (check.violations, check.first) == (0, None)
    assert any(d.kind is DecisionKind.RESERVE for d in history.cell.decisions)

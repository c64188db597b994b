"""What a simulation assumes of run times, and what it is promised, on the head of a real log.

Published schedules are compared in `tests/regression/test_published_starts.py`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ganger.replay.assumptions import Assumptions, Guess
from ganger.replay.cluster import parse_nodes
from ganger.replay.gantt import Chart
from ganger.replay.simulate import MEMORY, Progress, run
from ganger.replay.summary import Summary
from ganger.replay.traces.detect import open_trace
from ganger.replay.traces.model import Trace
from ganger.replay.verify import Verification, verify
from ganger.schemas.enums import DecisionKind
from ganger.services.ledgers import open_ledger
from ganger.streams.presets.loader import load_policy
from support.archive import PROCESSORS, SHARED, has_log
from support.small_runs import decisions_of, payloads_of

LOG = "KTH-SP2"
LIMIT = 1200

needs_log = pytest.mark.skipif(
    not has_log(LOG), reason=f"the log {LOG} is not beside this checkout, in ../shared/traces/swf"
)


def simulated(policy: str, ledger: Path | str = MEMORY, limit: int = LIMIT) -> Summary:
    log = open_trace(SHARED / f"{LOG}.swf.gz", limit)
    return run(log, parse_nodes(f"1x{PROCESSORS[LOG]}"), load_policy(policy), ledger, limit=limit)


def verified(ledger: Path) -> Verification:
    with open_ledger(str(ledger)) as streams:
        return verify(streams)


@needs_log
def test_predicted_runs_promise_starts_and_keep_reservations(tmp_path: Path) -> None:
    summary = simulated("hpc-predict", tmp_path / "l")
    found = verified(tmp_path / "l")
    assert (found.mismatches, found.digest.hex()) == (0, summary.digest)
    assert summary.backfill_completed == summary.backfill_started > 0
    assert summary.eta_p50_coverage is not None
    assert summary.eta_p90_coverage is not None
    assert 0.3 < summary.eta_p50_coverage < summary.eta_p90_coverage < 1
    told = [
        decision
        for decision in decisions_of(tmp_path / "l")
        if decision.kind is DecisionKind.ADMIT and decision.start_ns
    ]
    assert len(told) > 100
    assert all(d.time_ns < d.start_ns <= d.start_late_ns for d in told)


class _Enough(Exception):
    """The run is broken off."""


def breaking_off(commits: int) -> Callable[[Progress], None]:
    left = [commits]

    def tell(now: Progress) -> None:
        left[0] -= 1
        if not left[0]:
            raise _Enough

    return tell


def without_estimates(limit: int) -> Trace:
    log = open_trace(SHARED / f"{LOG}.swf.gz", limit)
    jobs = [replace(job, estimate_ns=0, user="") for job in log.jobs]
    return replace(log, jobs=jobs)


@needs_log
def test_a_run_with_assumptions_goes_on_and_draws_the_same(tmp_path: Path) -> None:
    log, nodes = without_estimates(400), parse_nodes(f"1x{PROCESSORS[LOG]}")
    assumptions = Assumptions(Guess.FACTOR, 1500, 300_000)

    def go(ledger: Path, commits: int = 0) -> Chart:
        chart = Chart(nodes)
        tell = breaking_off(commits) if commits else None
        run(
            log, nodes, load_policy("hpc-easy"), ledger,
            seed=5, assumptions=assumptions, chart=chart, on_progress=tell,
        )  # fmt: skip
        return chart

    whole = go(tmp_path / "whole")
    with pytest.raises(_Enough):
        go(tmp_path / "broken", 1)
    resumed = go(tmp_path / "broken")
    assert payloads_of(tmp_path / "broken") == payloads_of(tmp_path / "whole")
    span = (log.jobs[0].submit_ns, log.jobs[-1].submit_ns)
    assert resumed.svg(*span) == whole.svg(*span)
    assert "booked" in whole.svg(*span)


@needs_log
def test_what_nobody_declares_is_predicted_under_a_policy_that_plans(tmp_path: Path) -> None:
    log, nodes = without_estimates(800), parse_nodes(f"1x{PROCESSORS[LOG]}")
    run(log, nodes, load_policy("hpc-easy"), tmp_path / "l")
    told = [d for d in decisions_of(tmp_path / "l") if d.kind is DecisionKind.BACKFILL]
    assert {d.estimate_source.name for d in told if d.estimate_ns} == {"PREDICTED"}
    found = verified(tmp_path / "l")
    assert (found.mismatches, found.first_violation) == (0, None)

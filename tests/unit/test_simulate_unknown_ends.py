"""A simulation tells its policy nothing of how long a job will run that has not ended yet."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.replay.traces.model import TraceJob
from ganger.schemas.decisions import Decision
from ganger.streams.presets.loader import load_policy
from support.small_runs import SECOND, decisions_of, random_trace, trace
from support.timed_cells import STARTS

JOBS = 60
CHOSEN = 15


def jobs_of(chosen_run_s: int) -> list[TraceJob]:
    """A workload that declares more than it needs; one job of it runs so long."""
    jobs = []
    for place, job in enumerate(random_trace(JOBS, 0).jobs):
        run_ns = chosen_run_s * SECOND if place == CHOSEN else job.run_ns
        estimate_ns = 600 * SECOND if place == CHOSEN else 2 * job.run_ns + SECOND
        user = "ab"[place % 2]
        jobs.append(replace(job, run_ns=run_ns, estimate_ns=estimate_ns, user=user))
    return jobs


def simulated(folder: Path, preset: str, chosen_run_s: int) -> list[Decision]:
    run(trace(*jobs_of(chosen_run_s)), parse_nodes("1x8"), load_policy(preset), folder)
    return decisions_of(folder)


@pytest.mark.parametrize("preset", ["hpc-predict", "hpc-easy", "xirang"])
def test_two_logs_that_differ_in_a_run_time_lead_to_equal_decisions_until_one_ends(
    preset: str, tmp_path: Path
) -> None:
    shorter = simulated(tmp_path / "shorter", preset, 200)
    longer = simulated(tmp_path / "longer", preset, 500)
    name = jobs_of(0)[CHOSEN].id
    begin_ns = next(d.time_ns for d in shorter if d.kind in STARTS and d.job == name)
    end_ns = begin_ns + 200 * SECOND
    same = [d.body for d in shorter if d.time_ns < end_ns]
    assert same == [d.body for d in longer if d.time_ns < end_ns]
    assert [d.body for d in shorter] != [d.body for d in longer]
    assert any(begin_ns < d.time_ns < end_ns and d.kind in STARTS for d in shorter)

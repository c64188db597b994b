"""The kernel's pure planners give every start that is published for logs of the archive."""

import pytest

from support.archive import (
    PROCESSORS,
    Job,
    Machine,
    differences,
    has_log,
    mean_bounded_slowdown,
    read_log,
)
from support.planners import PLANNERS, Easy, Predicting
from support.promising import Promising


@pytest.fixture(scope="module")
def kth() -> list[Job]:
    return _log("KTH-SP2")


def _log(name: str) -> list[Job]:
    if not has_log(name):
        pytest.skip(f"the log ../shared/traces/swf/{name}.swf.gz is not here")
    return read_log(name)


@pytest.mark.parametrize("algorithm", list(PLANNERS))
def test_every_start_is_the_published_one(kth: list[Job], algorithm: str) -> None:
    machine = Machine(PROCESSORS["KTH-SP2"], PLANNERS[algorithm](PROCESSORS["KTH-SP2"]))
    assert differences("KTH-SP2", algorithm, machine.run(kth)) == 0
    assert machine.claimed, "no job was started on processors of one that ends in the same second"


def test_a_busier_machine_too() -> None:
    jobs = _log("CTC-SP2")
    machine = Machine(PROCESSORS["CTC-SP2"], PLANNERS["easy"](PROCESSORS["CTC-SP2"]))
    assert differences("CTC-SP2", "easy", machine.run(jobs)) == 0


def test_passes_at_submissions_that_do_not_fit_change_nothing(kth: list[Job]) -> None:
    """Nothing has grown since the last pass but what is due, whose end brings a pass itself."""
    machine = Machine(PROCESSORS["KTH-SP2"], Easy(PROCESSORS["KTH-SP2"], only_fitting=False))
    assert differences("KTH-SP2", "easy", machine.run(kth)) == 0


def test_predicted_run_times_beat_requested_ones_and_starve_nobody(kth: list[Job]) -> None:
    easy = Machine(PROCESSORS["KTH-SP2"], PLANNERS["easy"](PROCESSORS["KTH-SP2"])).run(kth)
    predicted = Machine(PROCESSORS["KTH-SP2"], Predicting(PROCESSORS["KTH-SP2"])).run(kth)
    assert mean_bounded_slowdown(kth, predicted) <= 55
    assert 2 * max(predicted.values()) <= 3 * max(easy.values())


def test_predictions_know_nothing_of_runs_that_go_on(kth: list[Job]) -> None:
    """Two logs that differ only in the run time of one job give equal starts until it ends."""
    some = kth[:3000]
    longest = max(some[500:], key=lambda job: min(job.run_s, job.requested_s - job.run_s))
    longer = longest._replace(run_s=longest.requested_s)
    changed = [longer if job is longest else job for job in some]
    first = Machine(PROCESSORS["KTH-SP2"], Predicting(PROCESSORS["KTH-SP2"])).run(some)
    second = Machine(PROCESSORS["KTH-SP2"], Predicting(PROCESSORS["KTH-SP2"])).run(changed)
    end_s = longest.submit_s + first[longest.number] + longest.run_s
    started_before = [job for job in some if job.submit_s + first[job.number] < end_s]
    assert len(started_before) > 100
    assert first != second
    assert all(first[job.number] == second[job.number] for job in started_before)


def test_promised_starts_are_kept_as_often_as_they_should_be(kth: list[Job]) -> None:
    planner = Promising(PROCESSORS["KTH-SP2"])
    Machine(PROCESSORS["KTH-SP2"], planner).run(kth)
    median, late = planner.promises.shares()
    assert 0.45 <= median <= 0.55
    assert 0.85 <= late <= 0.95
    assert planner.promises.medians_s()[1] <= 30_000

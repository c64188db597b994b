"""Seeded clusters under faults: promises are kept, and all jobs end once the faults stop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from support.chaos import Chaos, ChaosFailed, run_seed

SCRIPT = Path(__file__).with_name("chaos.py")
STEPS = 60


@pytest.mark.parametrize("seed", range(40))
def test_promises_hold_and_every_job_ends(seed: int) -> None:
    chaos = run_seed(seed, STEPS, check_every=2)
    finished = [d for d in chaos.cell.decisions if d.kind is DecisionKind.FINISH]
    submitted = len({d.job for d in finished})
    assert submitted > 3, "the seed submitted next to nothing"


def test_faults_of_every_kind_occur() -> None:
    """A simulation that meets no fault proves nothing."""
    reasons: dict[Reason, int] = {}
    for seed in range(12):
        for decision in run_seed(seed, STEPS, check_every=50).cell.decisions:
            reasons[decision.reason] = reasons.get(decision.reason, 0) + 1
    expected = (
        Reason.NODE_LOST,
        Reason.NODE_REBOOTED,
        Reason.NODE_DRAINED,
        Reason.CARD_FAILED,
        Reason.START_TIMEOUT,
        Reason.SCALED_DOWN,
        Reason.CANCEL_REQUESTED,
        Reason.RETRY_LIMIT,
        Reason.DEPENDENCY_FAILED,
        Reason.ALL_PODS_SUCCEEDED,
        Reason.PLACED_WITHOUT_RESOURCES,
        Reason.JOB_EXISTS,
        Reason.QUEUE_CLOSED,
    )
    assert [reason.name for reason in expected if reason not in reasons] == []


def test_a_failure_names_its_seed_and_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Chaos, limit: int = 0) -> None:
        raise AssertionError("of purpose")

    monkeypatch.setattr(Chaos, "calm", broken)
    with pytest.raises(ChaosFailed, match=r"seed 3, .*of purpose\n.*--seed 3 --steps 2$"):
        run_seed(3, 2)


def test_two_hash_seeds_agree() -> None:
    """Another process with another hash seed makes the same records, digest and chain."""
    found = {_in_process(sys.executable, hash_seed) for hash_seed in ("1", "2", "4711")}
    assert len(found) == 1, found
    assert len(found.pop().split()) == 4


@pytest.mark.parametrize("python", ["python3.12", "python3.13"])
def test_another_python_agrees(python: str) -> None:
    """Where another Python with the same packages is at hand, it comes to the same."""
    probe = "import msgspec, fastavro, hypothesis, ganger.streams.kernel.step"
    try:
        ready = subprocess.run([python, "-c", probe], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"{python} is not on the PATH")
    if ready.returncode:
        pytest.skip(f"{python} cannot import ganger and its packages")
    assert _in_process(python, "1") == _in_process(sys.executable, "2")


def _in_process(python: str, hash_seed: str) -> str:
    done = subprocess.run(
        [python, str(SCRIPT), "--seed", "5", "--steps", "50", "--print"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

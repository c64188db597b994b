"""The compiled kernel and its sources decide the same: what one simulated the other verifies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.streams.compiled.build import REQUIRED
from ganger.streams.compiled.finder import INTERPRETED, is_current
from support.random_runs import random_call

RUNS = range(1000, 1024)

# Prints a line of digest and chain for each call of a file, and at last where the kernel is from.
_CALLS = """
import json, sys
from pathlib import Path
import ganger.streams.kernel.step
from support.verbs import call_json
for call in json.loads(Path(sys.argv[1]).read_text()):
    found = call_json(*call)
    print(found["digest"], found["chain"])
print(ganger.streams.kernel.step.__file__)
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    if not is_current() and os.environ.get(REQUIRED) != "1":
        pytest.skip("the kernel is not compiled: make compiled")


def _results(folder: Path, calls: list[list[str]], *, interpreted: bool) -> list[str]:
    file = folder / "calls.json"
    file.write_text(json.dumps(calls))
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _CALLS, str(file)],
        env={**os.environ, INTERPRETED: str(int(interpreted)), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *results, origin = done.stdout.splitlines()
    assert origin.endswith(".py") == interpreted, "GANGER_INTERPRETED says which kernel is loaded"
    return results


@pytest.mark.parametrize("interpreted", [False, True])
def test_what_one_kernel_decided_the_other_verifies(interpreted: bool, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in RUNS]
    for folder in folders:
        folder.mkdir()
    runs = [random_call(number, folder) for number, folder in zip(RUNS, folders, strict=True)]
    checks = [["verify", str(folder / "led")] for folder in folders]
    ran = _results(tmp_path, runs, interpreted=interpreted)
    assert len(ran) == len(RUNS)
    assert _results(tmp_path, checks, interpreted=not interpreted) == ran

"""The compiled kernel and its sources decide the same: what one simulated the other verifies, and
recorded ledgers lead both through the same states, down to the types of what they say.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.streams.compiled.build import REQUIRED
from ganger.streams.compiled.finder import INTERPRETED, found
from support.random_runs import random_call
from support.source_tree import ROOT

RUNS = range(1000, 1024)
CORPUS = ROOT / "tests" / "replay" / "corpus"

# Both print a line for each call or ledger, and at last where the kernel was loaded from.
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

_LEDGERS = """
import sys
from hashlib import sha256
from pathlib import Path
import ganger.streams.kernel.step
from ganger.schemas.codec import decode_record
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.state import State
from support.corpus import load
for path in sorted(Path(sys.argv[1]).iterdir()):
    entry = load(path)
    state = State(entry.cell, entry.seed)
    said = sha256()
    for seq, payload in enumerate(entry.records):
        decisions = ganger.streams.kernel.step.step(state, seq, decode_record(payload))
        said.update(repr(decisions).encode())
        if seq % 5 == 0:
            said.update(snapshot.encode(state))
            said.update(repr([job.request for job in state.jobs.values()]).encode())
    print(path.name, said.hexdigest())
print(ganger.streams.kernel.step.__file__)
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    if not found() and os.environ.get(REQUIRED) != "1":
        pytest.skip("the kernel is not compiled: make compiled")


def _lines(code: str, about: Path, *, interpreted: bool) -> list[str]:
    """What the code prints about a path, run by one of the two kernels."""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code, str(about)],
        env={**os.environ, INTERPRETED: str(int(interpreted)), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *lines, origin = done.stdout.splitlines()
    assert origin.endswith(".py") == interpreted, "GANGER_INTERPRETED says which kernel is loaded"
    return lines


def _results(folder: Path, calls: list[list[str]], *, interpreted: bool) -> list[str]:
    file = folder / "calls.json"
    file.write_text(json.dumps(calls))
    return _lines(_CALLS, file, interpreted=interpreted)


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


def test_recorded_ledgers_lead_both_through_the_same_states() -> None:
    compiled = _lines(_LEDGERS, CORPUS, interpreted=False)
    assert len(compiled) == len(list(CORPUS.iterdir())) > 20
    assert _lines(_LEDGERS, CORPUS, interpreted=True) == compiled

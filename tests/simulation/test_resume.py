"""A simulation that is killed again and again ends as if it had not been."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ganger

sys.path.insert(0, str(Path(__file__).parent))

from kill_loop import loop

KILLS = int(os.environ.get("GANGER_KILLS", "8"))
SEED = int(os.environ.get("GANGER_SEED", "1"))


def test_killed_and_resumed(tmp_path: Path) -> None:
    found = loop(tmp_path, KILLS, SEED, jobs=200)
    assert found["kills"] == KILLS, found


# One process simulates with a hash seed of its own and prints what must not depend on it.
PRINT_OUTCOME = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from kill_loop import outcome, simulate
print(outcome(simulate(pathlib.Path(sys.argv[2]), 100)), file=sys.stderr)
"""


@pytest.mark.parametrize("hash_seeds", [("0", "1", "12345")])
def test_hash_seeds_change_nothing(tmp_path: Path, hash_seeds: tuple[str, ...]) -> None:
    source = str(Path(ganger.__file__).parents[1])
    outcomes = set()
    for hash_seed in hash_seeds:
        command = [sys.executable, "-c", PRINT_OUTCOME, str(Path(__file__).parent)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source}
        found = subprocess.run(
            [*command, str(tmp_path / hash_seed)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outcomes.add(found.stderr)
    assert len(outcomes) == 1, outcomes

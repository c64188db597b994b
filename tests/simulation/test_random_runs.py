"""Whatever is simulated, it ends, and `ganger verify` finds every decision equal and no promise
broken.
"""

from pathlib import Path

import pytest

from support.random_runs import random_call
from support.verbs import call_json

FAILED_ONCE = (
    *(1074, 1079, 1091, 1116, 1120, 1252, 1304, 1476),
    *(3040, 3651, 4108, 4890, 5021, 5154, 7079, 8007, 8927, 20564, 30373, 32176),
    *(40438, 50228),
)
"""A job booked twice, a wake beyond all time, an old timer of a claim, shares of cards in gaps, a
pod that starts late.
"""


@pytest.mark.parametrize("number", [*FAILED_ONCE, *range(30)])
def test_any_run_ends_and_is_verified(number: int, tmp_path: Path) -> None:
    ran = call_json(*random_call(number, tmp_path))
    found = call_json("verify", tmp_path / "led")
    assert (found["digest"], found["chain"]) == (ran["digest"], ran["chain"])

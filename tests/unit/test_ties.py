"""Ends of one second come in the order in which starts were decided, claims or not.

Each log is the smallest found in which that order changes a start; the waits are those of an
independent program that follows the rules under which the archive's published schedules were made.
"""

from pathlib import Path

import pytest

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.replay.traces.detect import open_trace
from ganger.streams.presets.loader import load_policy

Row = tuple[int, int, int, int, int]
"""Number, submit, run time, processors, requested time."""

CLAIMED_FIRST: list[Row] = [
    (28, 130, 20, 4, 40), (29, 130, 20, 1, 50), (30, 130, 10, 1, 30), (31, 130, 10, 1, 10),
    (32, 150, 10, 1, 40), (33, 150, 20, 1, 50), (34, 150, 30, 1, 30), (35, 170, 30, 1, 60),
    (37, 180, 20, 3, 40), (38, 180, 20, 1, 32), (39, 180, 20, 1, 20), (40, 180, 20, 1, 20),
    (41, 200, 30, 4, 30), (42, 220, 20, 1, 20),
]  # fmt: skip
RESERVED_FIRST: list[Row] = [
    (1, 120, 180, 1, 180), (2, 120, 120, 1, 120), (4, 120, 120, 2, 300), (5, 120, 180, 3, 300),
    (6, 240, 120, 1, 120), (7, 240, 180, 1, 300), (8, 240, 60, 3, 180), (9, 240, 180, 1, 180),
    (10, 240, 120, 1, 240), (13, 240, 120, 1, 300), (14, 360, 60, 1, 180), (16, 360, 180, 1, 180),
    (23, 600, 60, 1, 60), (24, 600, 180, 1, 180), (25, 600, 120, 1, 120), (37, 780, 180, 3, 240),
    (43, 900, 60, 1, 120),
]  # fmt: skip


def waits(path: Path, rows: list[Row], cards: int, policy: str) -> dict[str, int]:
    path.write_text(
        "".join(f"{n} {at} -1 {run_s} {p} -1 -1 {p} {asked} {'-1 ' * 9}\n"
                for n, at, run_s, p, asked in rows)
    )  # fmt: skip
    summary = run(open_trace(path, None), parse_nodes(f"1x{cards}"), load_policy(policy))
    return {start.job: start.wait_ns // 10**9 for start in summary.starts}


def test_a_claim_made_before_another_start_ends_before_it(tmp_path: Path) -> None:
    found = waits(tmp_path / "log.swf", CLAIMED_FIRST, 4, "hpc-easy")
    assert (found["41"], found["42"]) == (20, 30)


def test_a_start_reserved_before_another_was_moved_there_ends_before_it(tmp_path: Path) -> None:
    found = waits(tmp_path / "log.swf", RESERVED_FIRST, 3, "hpc-conservative")
    assert found["43"] == 360


@pytest.mark.parametrize("policy", ["hpc-easy", "hpc-conservative", "hpc-fcfs"])
def test_submissions_of_a_second_come_by_job_number(tmp_path: Path, policy: str) -> None:
    rows = [(9, 0, 10, 8, 20), (4, 0, 10, 8, 20), (10, 0, 10, 8, 20)]
    assert waits(tmp_path / "log.swf", rows, 8, policy) == {"4": 0, "9": 10, "10": 20}

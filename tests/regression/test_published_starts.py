"""Published schedules of the archive's logs, job by job, through intake, ledger and kernel.

Whole logs are compared by tests/bench/bench_starts.py; here the first thousands of jobs, as far as
no later job can have changed their start.
"""

from pathlib import Path

import pytest

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.replay.traces.detect import open_trace
from ganger.replay.verify import verify
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.presets.loader import load_policy
from support.archive import ALGORITHMS, PROCESSORS, SHARED, comparable, has_log, published_waits

LIMITS = {"KTH-SP2": 2500, "CTC-SP2": 1500}


@pytest.mark.parametrize("log", sorted(LIMITS))
@pytest.mark.parametrize("policy", ALGORITHMS)
def test_every_job_starts_when_it_was_published_to(policy: str, log: str, tmp_path: Path) -> None:
    if not has_log(log):
        pytest.skip(f"{log} is not beside this checkout, in ../shared/traces/swf")
    limit = LIMITS[log]
    summary = run(
        open_trace(SHARED / f"{log}.swf.gz", limit),
        parse_nodes(f"1x{PROCESSORS[log]}"),
        load_policy(policy),
        tmp_path / "ledger",
        limit=limit,
    )
    waits = {int(start.job): start.wait_ns // 10**9 for start in summary.starts}
    published = published_waits(log, ALGORITHMS[policy])
    numbers = comparable(log, published, limit)
    assert len(numbers) > limit // 2
    assert {n: waits.get(n) for n in numbers} == {n: published[n] for n in numbers}
    found = verify(LedgerDirectory.open_reader(tmp_path / "ledger"))
    assert (found.mismatches, found.violations, found.first_violation) == (0, 0, None)

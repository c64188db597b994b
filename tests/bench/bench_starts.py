"""Simulate logs of the archive through ledger and kernel; compare starts with what is published.

Run `PYTHONPATH=tests python tests/bench/bench_starts.py [--log KTH-SP2] [--policy hpc-easy]`, each
any number of times. Prints one JSON object per log and policy; CPU seconds of the run alone.

`--limit N` takes the first N jobs and compares those whose published start is not later than the
last submission among them: what comes later in the log cannot change these.
`--starts FILE` compares a file that `ganger simulate --starts` wrote instead; name one log and
policy with it.
"""

import argparse
import csv
import json
from pathlib import Path

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import MEMORY, run
from ganger.replay.traces.detect import open_trace
from ganger.streams.presets.loader import load_policy
from support.archive import ALGORITHMS, PROCESSORS, SHARED, comparable, has_log, published_waits

PRESETS = (*ALGORITHMS, "hpc-predict")
"""Of the last no schedule is published."""

SHOWN_COUNT = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", action="append", choices=sorted(PROCESSORS))
    parser.add_argument("--policy", action="append", choices=PRESETS)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--ledger", default=MEMORY, help="a folder; by default in memory")
    parser.add_argument("--starts", type=Path)
    options = parser.parse_args()
    for log in options.log or sorted(PROCESSORS):
        if not has_log(log):
            print(f"{log}: not beside this checkout, in ../shared/traces/swf; nothing to replay")
            continue
        for policy in options.policy or PRESETS:
            if options.starts is not None:
                with options.starts.open(encoding="utf-8", newline="") as file:
                    waits = {int(row["job"]): int(row["wait"]) for row in csv.DictReader(file)}
                measured: dict[str, object] = {"log": log, "policy": policy}
            else:
                waits, measured = simulate(log, policy, options.limit, options.ledger)
            if policy in ALGORITHMS:
                measured |= compared(log, policy, waits, options.limit)
            print(json.dumps(measured), flush=True)


def simulate(
    log: str, policy: str, limit: int | None, ledger: str
) -> tuple[dict[int, int], dict[str, object]]:
    """Waits in seconds by job number, and what the run came to."""
    folder = ledger if ledger == MEMORY else f"{ledger}/{log}-{policy}"
    summary = run(
        open_trace(SHARED / f"{log}.swf.gz", limit),
        parse_nodes(f"1x{PROCESSORS[log]}"),
        load_policy(policy),
        folder,
        limit=limit,
    )
    return {int(start.job): start.wait_ns // 10**9 for start in summary.starts}, {
        "log": log,
        "policy": policy,
        "jobs": summary.jobs,
        "bounded_slowdown": round(summary.bounded_slowdown_mean, 4),
        "longest_wait_s": max(start.wait_ns for start in summary.starts) // 10**9,
        "eta_p50_coverage": summary.eta_p50_coverage,
        "eta_p90_coverage": summary.eta_p90_coverage,
        "eta_p90_median_s": summary.eta_p90_median_s,
        "jobs_per_cpu_second": round(summary.jobs / summary.cpu_seconds),
    }


def compared(log: str, policy: str, waits: dict[int, int], limit: int | None) -> dict[str, object]:
    """How many starts differ, and the first of these jobs: number, wait here, wait published."""
    published = published_waits(log, ALGORITHMS[policy])
    if limit is not None:
        published = {n: published[n] for n in comparable(log, published, limit)}
        waits = {number: wait for number, wait in waits.items() if number in published}
    both = [(n, waits.get(n), published.get(n)) for n in sorted({*published, *waits})]
    differ = [one for one in both if one[1] != one[2]]
    return {"compared": len(published), "differences": len(differ), "first": differ[:SHOWN_COUNT]}


if __name__ == "__main__":
    main()

"""Replay logs of the archive through the kernel's pure planners; compare with what is published.

Run `PYTHONPATH=tests python tests/bench/bench_horizon.py [--log KTH-SP2] [--policy easy]`, each any
number of times. Prints one JSON object per log and policy; the time is CPU seconds of this process,
reading not counted. `differences` are jobs that start in another second than published.
"""

import argparse
import json
import time

from support.archive import (
    PROCESSORS,
    Job,
    Machine,
    differences,
    has_log,
    mean_bounded_slowdown,
    read_log,
)
from support.planners import PLANNERS, Predicting

PREDICT = "predict"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", action="append", choices=sorted(PROCESSORS))
    parser.add_argument("--policy", action="append", choices=[*PLANNERS, PREDICT])
    options = parser.parse_args()
    for log in options.log or sorted(PROCESSORS):
        if not has_log(log):
            print(f"{log}: not beside this checkout, in ../shared/traces/swf; nothing to replay")
            continue
        jobs = read_log(log)
        for policy in options.policy or [*PLANNERS, PREDICT]:
            print(json.dumps(replay(log, jobs, policy)), flush=True)


def replay(log: str, jobs: list[Job], policy: str) -> dict[str, object]:
    """One log under one policy, measured."""
    make = Predicting if policy == PREDICT else PLANNERS[policy]
    machine = Machine(PROCESSORS[log], make(PROCESSORS[log]))
    begin = time.process_time()
    waits = machine.run(jobs)
    cpu_s = time.process_time() - begin
    return {
        "log": log,
        "policy": policy,
        "jobs": len(jobs),
        "differences": None if policy == PREDICT else differences(log, policy, waits),
        "bounded_slowdown": round(mean_bounded_slowdown(jobs, waits), 4),
        "longest_wait_s": max(waits.values()),
        "claimed": machine.claimed,
        "jobs_per_cpu_second": round(len(jobs) / cpu_s),
    }


if __name__ == "__main__":
    main()

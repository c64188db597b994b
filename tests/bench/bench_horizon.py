"""Replay logs of the archive through the kernel's pure planners, and compare with what is published.

Run `PYTHONPATH=tests python tests/bench/bench_horizon.py [--log KTH-SP2] [--policy easy]`, each any
number of times. Prints one JSON object per log and policy; the time is CPU seconds of this process,
reading not counted. `differences` are jobs that start in another second than published.
"""

import argparse
import json
import time
from collections.abc import Callable

from support.archive import (
    PROCESSORS,
    Job,
    Machine,
    has_log,
    mean_bounded_slowdown,
    published_waits,
    read_log,
)
from support.planners import Conservative, Easy, Fcfs, Predicting, Queueing, exact, requested

POLICIES: dict[str, Callable[[int], Queueing]] = {
    "fcfs": lambda processors: Fcfs(processors, requested),
    "easy": lambda processors: Easy(processors, requested),
    "easy-clairvoyant": lambda processors: Easy(processors, exact),
    "sjbf-clairvoyant": lambda processors: Easy(
        processors, exact, order="shortest", only_fitting=False
    ),
    "conservative": lambda processors: Conservative(processors, requested),
    "predict": Predicting,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", action="append", choices=sorted(PROCESSORS))
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    options = parser.parse_args()
    for log in options.log or sorted(PROCESSORS):
        if not has_log(log):
            print(f"{log}: not beside this checkout, in ../shared/traces/swf; nothing to replay")
            continue
        jobs = read_log(log)
        for policy in options.policy or POLICIES:
            print(json.dumps(replay(log, jobs, policy)), flush=True)


def replay(log: str, jobs: list[Job], policy: str) -> dict[str, object]:
    planner = POLICIES[policy](PROCESSORS[log])
    machine = Machine(PROCESSORS[log], planner)
    begin = time.process_time()
    waits = machine.run(jobs)
    cpu_s = time.process_time() - begin
    differences = None
    if policy != "predict":
        published = published_waits(log, policy)
        differences = sum(waits.get(number) != wait for number, wait in published.items())
        differences += len(waits.keys() - published.keys())
    return {
        "log": log,
        "policy": policy,
        "jobs": len(jobs),
        "differences": differences,
        "bounded_slowdown": round(mean_bounded_slowdown(jobs, waits), 4),
        "longest_wait_s": max(waits.values()),
        "claimed": machine.claimed,
        "judged": planner.scans,
        "jobs_per_cpu_second": round(len(jobs) / cpu_s),
    }


if __name__ == "__main__":
    main()

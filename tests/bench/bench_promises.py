"""Measure promised starts on logs of the archive: how many were kept, and how far off they lay.

Run `PYTHONPATH=tests python tests/bench/bench_promises.py [--log KTH-SP2]`. Prints one JSON object
per log, of the jobs that did not start in their first pass, under predicted run times.
"""

import argparse
import json
import time

from support.archive import PROCESSORS, Machine, has_log, read_log
from support.promising import Promising


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", action="append", choices=sorted(PROCESSORS))
    for log in parser.parse_args().log or sorted(PROCESSORS):
        if not has_log(log):
            print(f"{log}: not beside this checkout, in ../shared/traces/swf; nothing to replay")
            continue
        print(json.dumps(measure(log)), flush=True)


def measure(log: str) -> dict[str, object]:
    """One log, measured."""
    jobs = read_log(log)
    planner = Promising(PROCESSORS[log])
    begin = time.process_time()
    Machine(PROCESSORS[log], planner).run(jobs)
    cpu_s = time.process_time() - begin
    kept = planner.promises.shares()
    medians_s = planner.promises.medians_s()
    return {
        "log": log,
        "jobs": len(jobs),
        "promised": len(planner.promises.made),
        "median_kept": round(kept[0], 4),
        "late_kept": round(kept[1], 4),
        "median_promise_s": round(medians_s[0]),
        "late_promise_s": round(medians_s[1]),
        "jobs_per_cpu_second": round(len(jobs) / cpu_s),
    }


if __name__ == "__main__":
    main()

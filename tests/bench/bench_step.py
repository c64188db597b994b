"""What the kernel spends per record on a cell where jobs come, run and end, in CPU time.

One JSON object: microseconds per job in all (submission, cycle, start, end, cycle), and jobs per
CPU-second of the kernel alone. Records are made beforehand; decisions, chain and digest are in the
figures.

`python tests/bench/bench_step.py [--jobs N] [--queues N] [--runs N]`
"""

import argparse
import gc
import json
import statistics
import sys
import time

from ganger.schemas import records as r
from ganger.streams.kernel.step import step
from support.builders import GENESIS, SECOND, Cell, node, queue, submission

RUNNING = 1000
"""Jobs that run at any moment."""


def life(jobs: int, queues: int) -> list[r.Record]:
    """The records of jobs that each run while the next thousand come."""
    records: list[r.Record] = []
    for i in range(jobs + RUNNING):
        now = GENESIS + i * SECOND
        if i < jobs:
            records.append(submission(f"job-{i}", queue=f"q{i % queues}", time_ns=now))
            records.append(r.Tick(now, "", None, 0, True))
            records.append(r.PodStarted(now, "", None, f"job-{i}", 0, 1, "n", now))
        if i >= RUNNING:
            job = f"job-{i - RUNNING}"
            records.append(r.PodSucceeded(now, "", None, job, 0, 1, now))
            records.append(r.Tick(now, "", None, 0, True))
    return records


def run(jobs: int, queues: int) -> dict[str, float]:
    """One pass; microseconds per job."""
    cell = Cell(checks=False)
    cell.start(*[queue(f"q{i}") for i in range(queues)], *[node(f"n{i:04d}") for i in range(500)])
    records = life(jobs, queues)
    clock = time.process_time_ns
    state = cell.state
    gc.collect()
    gc.freeze()
    gc.disable()
    start = clock()
    for seq, record in enumerate(records, state.next_seq):
        step(state, seq, record)
    total = clock() - start
    gc.enable()
    gc.unfreeze()
    return {"us_per_job": total / jobs / 1e3, "jobs_per_cpu_second": jobs / total * 1e9}


def main(argv: list[str]) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(argv)
    runs = [run(options.jobs, options.queues) for _ in range(options.runs)]
    print(json.dumps({key: round(statistics.median(r[key] for r in runs), 1) for key in runs[0]}))


if __name__ == "__main__":
    main(sys.argv[1:])

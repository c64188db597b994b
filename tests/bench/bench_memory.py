"""Memory of a large cell: 10,000 nodes x 8 cards and many queued jobs, each with its own key and
event id.

One JSON object: peak resident set in MiB, bytes per queued job, CPU microseconds per submission.
Jobs are decoded from their ledger bytes, so each has strings of its own, as in life. The cell is
full and one cycle has admitted what it may, so the jobs really wait.

`python tests/bench/bench_memory.py [--jobs N] [--nodes N]`
"""

import argparse
import gc
import json
import resource
import sys
import time

from ganger.schemas.codec import decode_record
from ganger.schemas.encoding import encode_record
from ganger.streams.kernel.step import step
from support.builders import Cell, node, queue, role, submission

QUEUES = 10


def resident_mib() -> float:
    """Peak resident set of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(jobs: int, nodes: int) -> dict[str, float]:
    """Fill the cell and queue the jobs."""
    cell = Cell(checks=False)
    cell.start(*[queue(f"q{i}") for i in range(QUEUES)])
    gc.disable()
    cell.put(*[node(f"node-{i:05d}") for i in range(nodes)])
    cell.put(submission("all", role("w", nodes * 8, cards=1), queue="q0", time_ns=cell.now_ns))
    cell.tick()
    cell.records.clear()
    cell.decisions.clear()
    gc.collect()
    gc.freeze()
    before = resident_mib()
    state = cell.state
    spent = 0
    sizes = (1, 1, 1, 1, 1, 2, 2, 4, 4, 8)
    for i in range(jobs):
        record = submission(
            f"team-{i % 97}-experiment-{i:07d}",
            role("worker", 1 + i % 4, cards=sizes[i % 10], cpu=8000, memory=65_536),
            queue=f"q{i % QUEUES}",
            user=f"user-{i % 211}",
            event_id=f"0195e7a2-{i:08x}-7000-8000-000000000000",
            time_ns=cell.now_ns,
        )
        payload = encode_record(record)
        start = time.process_time_ns()
        step(state, state.next_seq, decode_record(payload))
        spent += time.process_time_ns() - start
    cell.tick()
    assert state.waiting_count == jobs, state.waiting_count
    after = resident_mib()
    return {
        "jobs": jobs,
        "nodes": nodes,
        "peak_rss_mib": round(after),
        "bytes_per_job": round((after - before) * 1048576 / jobs),
        "us_per_submission": round(spent / jobs / 1e3, 1),
    }


def main(argv: list[str]) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    options = parser.parse_args(argv)
    print(json.dumps(measure(options.jobs, options.nodes)))


if __name__ == "__main__":
    main(sys.argv[1:])

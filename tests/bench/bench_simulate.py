"""Measure simulation of the Philly trace: real intake, ledger on disk, kernel, virtual time.

Run `python tests/bench/bench_simulate.py [--trace FILE] [--nodes SPEC] [--limit N] [--repeat N]
[--memory] [--dir DIR]`. Prints one JSON object; times are CPU seconds of this process, reading of
the trace not counted, medians over the repeats. Without the whole trace the bundled sample is
measured.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import MEMORY, run
from ganger.replay.traces.detect import open_trace
from ganger.streams.presets.loader import load_policy

REPO = Path(__file__).resolve().parents[2]
WHOLE = REPO.parent / "shared" / "traces" / "philly" / "jobs.csv.gz"
SAMPLE = REPO / "replay" / "samples" / "philly-2000.csv.gz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    whole = WHOLE.exists()
    parser.add_argument("--trace", type=Path, default=WHOLE if whole else SAMPLE)
    parser.add_argument("--nodes", default="264x8,271x4" if whole else "16x8")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="keep no ledger")
    parser.add_argument("--dir", type=Path, default=None, help="on the disk to be measured")
    options = parser.parse_args()
    trace, cluster = open_trace(options.trace), parse_nodes(options.nodes)
    summaries = []
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            ledger = MEMORY if options.memory else Path(folder) / "ledger"
            summaries.append(run(trace, cluster, load_policy(), ledger, limit=options.limit))
    assert len({summary.chain for summary in summaries}) == 1, "runs differ"
    cpu = median(summary.cpu_seconds for summary in summaries)
    first = summaries[0]
    print(
        json.dumps(
            {
                "trace": options.trace.name,
                "nodes": options.nodes,
                "ledger": "memory" if options.memory else "disk",
                "jobs": first.jobs,
                "records": first.records,
                "decisions": first.decisions,
                "cpu_seconds": round(cpu, 3),
                "wall_seconds": round(median(s.wall_seconds for s in summaries), 3),
                "cpu_us_per_job": round(cpu / first.jobs * 1e6, 1),
                "jobs_per_cpu_second": round(first.jobs / cpu),
                "records_per_cpu_second": round(first.records / cpu),
                "digest": first.digest,
                "chain": first.chain,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()

"""Speed of `verify` on a Philly ledger on disk: CPU per job with all its records and decisions.

Takes the whole trace where it lies beside the repository, else the bundled sample. The ledger is
made once and verified RUN_COUNT times; the median counts.
"""

import json
import tempfile
from pathlib import Path
from statistics import median

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.replay.traces.detect import open_trace
from ganger.replay.verify import verify
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.presets.loader import load_policy

RUN_COUNT = 5
NODES = "264x8,271x4"

_ROOT = Path(__file__).resolve().parents[2]
_WHOLE = _ROOT.parent / "shared" / "traces" / "philly" / "jobs.csv.gz"
_SAMPLE = _ROOT / "replay" / "samples" / "philly-2000.csv.gz"


def main() -> None:
    """Print one JSON object."""
    path = _WHOLE if _WHOLE.exists() else _SAMPLE
    trace = open_trace(path)
    with tempfile.TemporaryDirectory() as folder:
        run(trace, parse_nodes(NODES), load_policy(), folder)
        found = [verify(LedgerDirectory.open_reader(Path(folder))) for _ in range(RUN_COUNT)]
    assert all(result.is_equal for result in found)
    seconds = median(result.cpu_seconds for result in found)
    jobs, records = len(trace.jobs), found[0].records
    print(
        json.dumps(
            {
                "bench": "verify",
                "trace": path.name,
                "jobs": jobs,
                "records": records,
                "decisions": found[0].decisions,
                "cpu_us_per_job": round(seconds * 1e6 / jobs, 1),
                "records_per_cpu_second": round(records / seconds),
            }
        )
    )


if __name__ == "__main__":
    main()

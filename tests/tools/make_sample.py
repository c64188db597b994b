"""Makes the bundled sample from the Philly trace: 2,000 jobs that follow one another.

    python tests/tools/make_sample.py PHILLY_JOBS_CSV replay/samples/philly-2000.csv.gz

The window is the part of the trace (jobs 68,200 to 70,199 in order of submission) whose
work suits a cluster of 40 nodes with 8 cards and 20 with 4: its jobs ask for 1 to 32 cards, more
than half of them wait there, and the longest runs less than four days. Ids are the rows of the
original CSV, times are unchanged. The same input gives the same bytes.
"""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

from ganger.replay.traces.detect import open_trace
from ganger.replay.traces.native import write_native

FIRST = 68_200
COUNT = 2_000


def make_sample(philly: Path) -> bytes:
    """The sample's file: the window in our own format, gzip without a time or a name."""
    jobs = open_trace(philly).jobs[FIRST : FIRST + COUNT]
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(write_native(jobs))
    return out.getvalue()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_sample.py PHILLY_JOBS_CSV OUTPUT")
    Path(sys.argv[2]).write_bytes(make_sample(Path(sys.argv[1])))

"""Reader of the Philly CSV: `timestamp,duration,num_gpus,gpu_time,cluster`.

One job per row, in any order: when it was submitted (taken as UTC), how long it ran (s), its GPUs,
and its virtual cluster, which is its queue. The trace names neither jobs nor users and has no
estimates, so a job's id is its row. A job is pods of 8 cards, the machines of Philly, plus one pod
with the remainder. `gpu_time` is the product of two other columns and not read; `cluster` may be
absent. Rows without GPUs or with a negative duration are no work for cards: passed over, counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ganger.replay.traces.fields import (
    COUNT_MAX,
    NAME_REMEDY,
    Table,
    is_name,
    parse_seconds_ns,
    parse_utc_ns,
    parse_whole,
)
from ganger.replay.traces.model import PodsCache, Trace, TraceJob, make_trace
from ganger.replay.traces.source import Source

FORMAT = "philly"

COLUMNS = ("timestamp", "duration", "num_gpus")

CARDS_PER_POD = 8

SKIP_CARDS = "without GPUs"
SKIP_RUN = "with a negative duration"


def read_philly(source: Source, limit: int | None = None) -> Trace:
    """The jobs of a Philly CSV.

    Raises:
        InputError: a missing column, a value that is no time or number, no job.
    """
    skipped: dict[str, int] = {}
    return make_trace(source, FORMAT, list(_jobs(source, skipped)), skipped, limit)


def _jobs(source: Source, skipped: dict[str, int]) -> Iterator[TraceJob]:
    table = Table(source, COLUMNS)
    at_submit, at_run, at_cards = (table.columns.index(name) for name in COLUMNS)
    at_queue = table.index("cluster")
    pods = PodsCache()
    for row, line, cells in table.rows():
        submit_ns = parse_utc_ns(cells[at_submit])
        if submit_ns is None:
            remedy = "write a UTC time since 1970 as YYYY-MM-DD HH:MM:SS"
            source.refuse(line, "timestamp", cells[at_submit], remedy)
        run_ns = parse_seconds_ns(cells[at_run])
        if run_ns is None:
            source.refuse(line, "duration", cells[at_run], "write seconds")
        cards = parse_whole(cells[at_cards], 0, COUNT_MAX)
        if cards is None:
            remedy = f"write a whole number of GPUs from 0 to {COUNT_MAX}"
            source.refuse(line, "num_gpus", cells[at_cards], remedy)
        queue = "" if at_queue is None else cells[at_queue]
        if not is_name(queue):
            source.refuse(line, "cluster", queue, NAME_REMEDY)
        if cards == 0 or run_ns < 0:
            reason = SKIP_CARDS if cards == 0 else SKIP_RUN
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        yield TraceJob(
            str(row), submit_ns, run_ns, 0, queue, "", pods.split(cards, CARDS_PER_POD), row
        )

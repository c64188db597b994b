"""Reader of the pod lists of Alibaba's openb trace (cluster-trace-gpu-v2023).

One pod per row, and each pod is a job of its own. Columns used: `name`, `cpu_milli`, `memory_mib`,
`num_gpu`, `gpu_milli` (of each GPU; 1000 is a whole one), and where present `gpu_spec` (models that
will do, joined by bars), `creation_time`, `scheduled_time`, `deletion_time` (s from the trace's
zero).

* `num_gpu` 0: a pod for cpu and memory only. 1 with less than 1000 milli: a share of one card.
  Otherwise whole cards.
* A pod is submitted at `creation_time`. It runs from `scheduled_time` to `deletion_time`; a pod
  that was never scheduled runs, if it gets a place, for as long as it existed (from its creation).
* A pod without `deletion_time`, and every pod of a list without times (the `multigpu` and other
  variants made for packing studies), stays for ever (`STAYS_NS`), submitted at 0 in order of rows.
* No queue, no user, no estimate: `qos` is a class of service, not a queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from ganger.replay.traces.fields import (
    COUNT_MAX,
    MIB_MAX,
    MILLI_MAX,
    NAME_REMEDY,
    Table,
    is_name,
    parse_seconds_ns,
    parse_whole,
)
from ganger.replay.traces.model import (
    STAYS_NS,
    PodsCache,
    Trace,
    TraceJob,
    TracePods,
    make_trace,
)
from ganger.replay.traces.source import Source

FORMAT = "openb"

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

WHOLE_MILLI = 1000


def read_openb(source: Source, limit: int | None = None) -> Trace:
    """The pods of an openb list, each as a job.

    Raises:
        InputError: a missing column, a value that is no time or number, a name used twice, no pod.
    """
    return make_trace(source, FORMAT, list(_Rows(source).jobs()), {}, limit)


class _Rows:
    """One pass over a list."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._table = Table(source, COLUMNS)
        self._at = {name: index for index, name in enumerate(self._table.columns)}
        self._pods = PodsCache()

    def jobs(self) -> Iterator[TraceJob]:
        at_name = self._at["name"]
        for row, line, cells in self._table.rows():
            name = cells[at_name] or str(row)
            if not is_name(name):
                self._source.refuse(line, "name", name, NAME_REMEDY)
            submit_ns, run_ns = self._times(line, cells)
            pods = self._pods.share((self._group(line, cells),))
            yield TraceJob(name, submit_ns, run_ns, 0, "", "", pods, row)

    def _group(self, line: int, cells: list[str]) -> TracePods:
        cards = self._whole(line, cells, "num_gpu", COUNT_MAX)
        milli = self._whole(line, cells, "gpu_milli", WHOLE_MILLI)
        if cards == 0 or milli == WHOLE_MILLI:
            milli = 0
        elif cards == 1 and milli > 0:
            cards = 0
        else:
            remedy = "ask for 1 to 999 milli of one GPU, or 1000 of each of several"
            self._source.refuse(line, "gpu_milli", cells[self._at["gpu_milli"]], remedy)
        return TracePods(
            1,
            cards,
            milli,
            self._whole(line, cells, "cpu_milli", MILLI_MAX),
            self._whole(line, cells, "memory_mib", MIB_MAX),
            self._models(line, cells) if cards or milli else (),
        )

    def _models(self, line: int, cells: list[str]) -> tuple[str, ...]:
        text = self._cell(cells, "gpu_spec")
        models = tuple(dict.fromkeys(filter(None, text.split("|"))))
        if not all(map(is_name, models)):
            self._source.refuse(line, "gpu_spec", text, NAME_REMEDY)
        return models

    def _times(self, line: int, cells: list[str]) -> tuple[int, int]:
        submit_ns = self._seconds(line, cells, "creation_time") or 0
        start_ns = self._seconds(line, cells, "scheduled_time")
        end_ns = self._seconds(line, cells, "deletion_time")
        if end_ns is None:
            return submit_ns, STAYS_NS
        run_ns = end_ns - (submit_ns if start_ns is None else start_ns)
        if run_ns < 0:
            text = self._cell(cells, "deletion_time")
            remedy = "a pod is deleted at or after its scheduled_time and creation_time"
            self._source.refuse(line, "deletion_time", text, remedy)
        return submit_ns, run_ns

    def _cell(self, cells: list[str], column: str) -> str:
        index = self._at.get(column)
        return "" if index is None else cells[index]

    def _seconds(self, line: int, cells: list[str], column: str) -> int | None:
        text = self._cell(cells, column)
        if not text:
            return None
        value = parse_seconds_ns(text)
        if value is None or value < 0:
            self._source.refuse(line, column, text, "write seconds, at least 0, or nothing")
        return value

    def _whole(self, line: int, cells: list[str], column: str, high: int) -> int:
        text = cells[self._at[column]]
        value = parse_whole(text, 0, high)
        if value is None:
            self._source.refuse(line, column, text, f"write a whole number from 0 to {high}")
        return value

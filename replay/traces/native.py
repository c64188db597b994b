r"""Reader and writer of ganger's own format of traces: a CSV that a person can write by hand.

    # ganger trace 1
    job,submit_s,run_s,estimate_s,queue,user,pods,cards
    train-1,0,3600,4000,research,ann,2,8
    train-1,,,,,,1,4
    probe,60.5,90,,default,bob,1,1

The first line names format and version. The next line that is neither blank nor begins with `#`
names the columns, in any order. UTF-8, gzip or not; blanks around a cell do not count; a cell that
holds a comma or a quote is put into "..." with its quotes doubled.

| column | meaning | if empty or absent |
|---|---|---|
| job | unique id | the row number, from 1 |
| submit_s | submit time: seconds from any zero (also UTC since 1970), decimals allowed | needed |
| run_s | how long it runs, seconds | it stays to the end of the run |
| estimate_s | the run time that its user declares, seconds | none |
| queue, user | names | none |
| pods | how many equal pods | 1 |
| cards | whole cards of each pod | 0 |
| card_milli | instead of `cards`: a share of one card, 1 to 999 milli | 0 |
| cpu_milli, memory_mib | of each pod | 0 |
| models | card models that will do, joined by bars | any |

A row without `submit_s` adds a group of equal pods to the job of the row above it: its `job` is
that job's or empty, and only the columns from `pods` on may have values. `submit_s` is the one
column that must be there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from ganger.replay.traces.fields import (
    COUNT_MAX,
    MIB_MAX,
    MILLI_MAX,
    NAME_REMEDY,
    NS_PER_S,
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
from ganger.replay.traces.source import InputError, Source

FORMAT = "ganger"

MAGIC = "# ganger trace "
VERSION = "1"

_JOB_COLUMNS = ("run_s", "estimate_s", "queue", "user")
_POD_COLUMNS = ("pods", "cards", "card_milli", "cpu_milli", "memory_mib", "models")
COLUMNS = ("job", "submit_s", *_JOB_COLUMNS, *_POD_COLUMNS)


def read_native(source: Source, limit: int | None = None) -> Trace:
    """The jobs of a trace in our own format.

    Raises:
        InputError: another version, an unknown column, a value that is no time or number, an id
            used twice, a group of pods without a job, no job.
    """
    first = next((text for _, text in source.lines()), "")
    if first.rstrip() != MAGIC + VERSION:
        raise InputError(
            f"{source.path}:1",
            f"the first line is {first[:80]!r}",
            f"this version reads files whose first line is {MAGIC + VERSION!r}",
        )
    return make_trace(source, FORMAT, list(_Rows(source).jobs()), {}, limit)


def write_native(jobs: Iterable[TraceJob]) -> bytes:
    """`jobs` as text of our own format; equal jobs give equal bytes.

    Reading gives the jobs back in order of (submit_ns, place in `jobs`), with rows counted anew.

    Raises:
        ValueError: a name that the format cannot hold.
    """
    out = io.StringIO()
    out.write(f"{MAGIC}{VERSION}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job in jobs:
        _check_writable(job)
        head = (
            job.id,
            _seconds_text(job.submit_ns),
            "" if job.run_ns == STAYS_NS else _seconds_text(job.run_ns),
            _seconds_text(job.estimate_ns) if job.estimate_ns else "",
            job.queue,
            job.user,
        )
        for group in job.pods:
            writer.writerow((*head, *_group_cells(group)))
            head = (job.id, "", "", "", "", "")
    return out.getvalue().encode()


def _check_writable(job: TraceJob) -> None:
    models = [model for group in job.pods for model in group.models]
    for name in (job.id, job.queue, job.user, *models):
        if not is_name(name):
            raise ValueError(f"job {job.id!r}: the name {name!r} cannot be written; {NAME_REMEDY}")
    if not job.id or not job.pods or not all(models) or any("|" in model for model in models):
        raise ValueError(
            f"job {job.id!r}, row {job.row}: needs an id, pods, and models without bars"
        )


def _seconds_text(value_ns: int) -> str:
    whole, rest = divmod(value_ns, NS_PER_S)
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)


def _group_cells(group: TracePods) -> tuple[str, ...]:
    amounts = (group.cards, group.card_milli, group.cpu_milli, group.memory_mib)
    texts = (str(amount) if amount else "" for amount in amounts)
    return str(group.count), *texts, "|".join(group.models)


class _Rows:
    """One pass over a trace."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._table = Table(source, ("submit_s",), COLUMNS)
        self._at = {name: index for index, name in enumerate(self._table.columns)}
        self._pods = PodsCache()

    def jobs(self) -> Iterator[TraceJob]:
        at_submit = self._at["submit_s"]
        job: TraceJob | None = None
        groups: list[TracePods] = []
        for row, line, cells in self._table.rows():
            if not cells[at_submit]:
                self._check_addition(line, cells, job)
            else:
                if job is not None:
                    yield self._with_pods(job, groups)
                job = self._job(row, line, cells)
                groups = []
            groups.append(self._group(line, cells))
        if job is not None:
            yield self._with_pods(job, groups)

    def _with_pods(self, job: TraceJob, groups: list[TracePods]) -> TraceJob:
        pods = self._pods.share(tuple(groups))
        return TraceJob(
            job.id, job.submit_ns, job.run_ns, job.estimate_ns, job.queue, job.user, pods, job.row
        )

    def _check_addition(self, line: int, cells: list[str], job: TraceJob | None) -> None:
        """A row without a submit time must add pods to the job above it and say nothing else."""
        name = self._cell(cells, "job")
        if job is None or name not in ("", job.id):
            remedy = "write seconds, or put the row right below the job to which it adds pods"
            self._source.refuse(line, "submit_s", "", remedy)
        for column in _JOB_COLUMNS:
            text = self._cell(cells, column)
            if text:
                remedy = f"leave it empty: the row adds pods to job {job.id!r}"
                self._source.refuse(line, column, text, remedy)

    def _job(self, row: int, line: int, cells: list[str]) -> TraceJob:
        run_ns = self._seconds(line, cells, "run_s")
        return TraceJob(
            self._name(line, cells, "job") or str(row),
            self._seconds(line, cells, "submit_s") or 0,
            STAYS_NS if run_ns is None else run_ns,
            self._seconds(line, cells, "estimate_s") or 0,
            self._name(line, cells, "queue"),
            self._name(line, cells, "user"),
            (),
            row,
        )

    def _group(self, line: int, cells: list[str]) -> TracePods:
        cards = self._whole(line, cells, "cards", 0, COUNT_MAX)
        milli = self._whole(line, cells, "card_milli", 0, 999)
        if cards and milli:
            remedy = "ask for whole cards or for a share of one card, not for both"
            self._source.refuse(line, "card_milli", str(milli), remedy)
        text = self._cell(cells, "models")
        models = tuple(dict.fromkeys(filter(None, map(str.strip, text.split("|")))))
        if not all(map(is_name, models)):
            self._source.refuse(line, "models", text, NAME_REMEDY)
        return TracePods(
            self._whole(line, cells, "pods", 1, COUNT_MAX),
            cards,
            milli,
            self._whole(line, cells, "cpu_milli", 0, MILLI_MAX),
            self._whole(line, cells, "memory_mib", 0, MIB_MAX),
            models,
        )

    def _cell(self, cells: list[str], column: str) -> str:
        index = self._at.get(column)
        return "" if index is None else cells[index]

    def _name(self, line: int, cells: list[str], column: str) -> str:
        text = self._cell(cells, column)
        if not is_name(text):
            self._source.refuse(line, column, text, NAME_REMEDY)
        return text

    def _seconds(self, line: int, cells: list[str], column: str) -> int | None:
        text = self._cell(cells, column)
        if not text:
            return None
        value = parse_seconds_ns(text)
        if value is None or value < 0:
            self._source.refuse(line, column, text, "write seconds, at least 0")
        return value

    def _whole(self, line: int, cells: list[str], column: str, low: int, high: int) -> int:
        text = self._cell(cells, column)
        if not text:
            return low  # the empty cell's meaning: one pod, else none
        value = parse_whole(text, low, high)
        if value is None:
            self._source.refuse(line, column, text, f"write a whole number from {low} to {high}")
        return value

"""Reader of the Standard Workload Format (SWF, version 2.2) of the Parallel Workloads Archive.

One job per line, 18 fields between blanks, -1 where a value is unknown; lines that begin with `;`
are the header. Fields used, counted from 1: 1 job, 2 submit (s), 4 run (s), 5 processors used,
8 processors requested, 9 time requested (s), 11 status, 12 user, 15 queue.

Jobs submitted in the same second stand in order of their numbers, whatever the order of lines.

A job is one pod of n cards on one node: n is field 8, else field 5. Its estimate is field 9. Per-
processor memory (fields 7, 10) is not asked for: the archive's published schedules know processors
only. As the format's definition says, these lines are no jobs of the workload and are passed over,
counted: partial executions (status 2, 3, 4: the summary line of the same job carries the whole),
jobs cancelled before they started (status 5 without run time), jobs without processors and jobs
without run time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ganger.replay.traces.fields import (
    COUNT_MAX,
    NAME_REMEDY,
    is_name,
    parse_seconds_ns,
    parse_whole,
)
from ganger.replay.traces.model import PodsCache, Trace, TraceJob, make_trace
from ganger.replay.traces.source import InputError, Source

FORMAT = "swf"

FIELD_COUNT = 18

SKIP_PARTIAL = "partial executions"
SKIP_CANCELLED = "cancelled before they started"
SKIP_PROCESSORS = "without processors"
SKIP_RUN = "without run time"

_MAX_PROCS = re.compile(r";\s*MaxProcs:\s*([0-9]{1,9})(?!\S)", re.ASCII)


def read_swf(source: Source, limit: int | None = None) -> Trace:
    """The jobs of an SWF log; `Trace.processors` is the header's MaxProcs.

    Raises:
        InputError: a line without 18 fields, a field that is no number, an id used twice, no job.
    """
    reader = _Reader(source)
    jobs = sorted(reader.jobs(), key=_number)
    return make_trace(source, FORMAT, jobs, reader.skipped, limit, processors=reader.processors)


class _Reader:
    """One pass over a log."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pods = PodsCache()
        self.skipped: dict[str, int] = {}
        self.processors = 0

    def jobs(self) -> Iterator[TraceJob]:
        row = 0
        # Headers of the archive hold donors' names in several encodings; Latin-1 reads any byte.
        for line, text in self._source.lines("latin-1"):
            fields = text.split()
            if not fields:
                continue
            if fields[0].startswith(";"):
                header = _MAX_PROCS.match(text.lstrip())
                if header:
                    self.processors = int(header[1])
                continue
            row += 1
            if len(fields) != FIELD_COUNT:
                raise InputError(
                    f"{self._source.path}:{line}",
                    f"the line has {len(fields)} fields",
                    f"a job of the Standard Workload Format has {FIELD_COUNT}, -1 where unknown",
                )
            job = self._job(row, line, fields)
            if job is not None:
                yield job

    def _job(self, row: int, line: int, fields: list[str]) -> TraceJob | None:
        status = self._whole(line, fields, 11, "status")
        run_ns = self._seconds(line, fields, 4, "run time")
        requested = self._whole(line, fields, 8, "processors requested")
        used = self._whole(line, fields, 5, "processors used")
        submit_ns = self._seconds(line, fields, 2, "submit time")
        estimate_ns = self._seconds(line, fields, 9, "time requested")
        if submit_ns < 0:
            self._source.refuse(line, "2 (submit time)", fields[1], "write seconds, at least 0")
        cards = requested if requested > 0 else used
        reason = _skip_reason(status, run_ns, cards)
        if reason is not None:
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
            return None
        if not is_name(fields[0]):
            self._source.refuse(line, "1 (job)", fields[0], NAME_REMEDY)
        return TraceJob(
            fields[0],
            submit_ns,
            run_ns,
            max(estimate_ns, 0),
            self._name(line, fields, 15, "queue"),
            self._name(line, fields, 12, "user"),
            self._pods.split(cards, cards),
            row,
        )

    def _seconds(self, line: int, fields: list[str], number: int, name: str) -> int:
        value = parse_seconds_ns(fields[number - 1])
        if value is None:
            remedy = "write seconds, or -1 where unknown"
            self._source.refuse(line, f"{number} ({name})", fields[number - 1], remedy)
        return value

    def _whole(self, line: int, fields: list[str], number: int, name: str) -> int:
        value = parse_whole(fields[number - 1], -1, COUNT_MAX)
        if value is None:
            remedy = f"write a whole number up to {COUNT_MAX}, or -1 where unknown"
            self._source.refuse(line, f"{number} ({name})", fields[number - 1], remedy)
        return value

    def _name(self, line: int, fields: list[str], number: int, name: str) -> str:
        text = fields[number - 1]
        if text == "-1":
            return ""
        if not is_name(text):
            self._source.refuse(line, f"{number} ({name})", text, NAME_REMEDY)
        return text


def _number(job: TraceJob) -> int:
    """A job's number, or its row if its id is none."""
    number = parse_whole(job.id, 0, 10**18)
    return job.row if number is None else number


def _skip_reason(status: int, run_ns: int, cards: int) -> str | None:
    if status in (2, 3, 4):
        return SKIP_PARTIAL
    if status == 5 and run_ns <= 0:
        return SKIP_CANCELLED
    if cards <= 0:
        return SKIP_PROCESSORS
    if run_ns < 0:
        return SKIP_RUN
    return None

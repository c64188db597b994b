"""Traces made of rows, and what a simulated run left in its ledger, readable."""

import random
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from ganger.replay.traces.model import Trace, TraceJob, TracePods
from ganger.schemas import records as r
from ganger.schemas.codec import decode_decision, decode_record
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.streams.log.directory import LedgerDirectory

SECOND = 10**9


def trace_job(
    name: str,
    at_s: int,
    run_s: int,
    *pods: tuple[int, int] | TracePods,
    queue: str = "",
    row: int = 1,
) -> TraceJob:
    """A job; pods as (count, cards), one pod of one card unless given. `run_s` -1: stays."""
    groups = tuple(p if isinstance(p, TracePods) else TracePods(*p) for p in pods)
    run_ns = run_s * SECOND if run_s >= 0 else -1
    return TraceJob(name, at_s * SECOND, run_ns, 0, queue, "", groups or (TracePods(1, 1),), row)


def trace(*jobs: TraceJob, name: str = "t") -> Trace:
    """The jobs as a trace; equal jobs, equal digest."""
    ordered = sorted(jobs, key=lambda job: job.submit_ns)
    return Trace(name, "ganger", sha256(repr(ordered).encode()).hexdigest(), ordered, {})


def random_trace(count: int, seed: int, *, first_s: int = 0) -> Trace:
    """Jobs of one to three groups of pods in three queues, often at the same seconds.

    All ask for at most 12 cards in pods of at most 2.
    """
    source = random.Random(seed)
    jobs = []
    at_s = first_s
    for row in range(1, count + 1):
        at_s += source.choice((0, 0, 1, 7, 30))
        pods = [
            (source.choice((1, 1, 2)), source.choice((0, 1, 1, 2)))
            for _ in range(source.choice((1, 1, 2, 3)))
        ]
        run_s = source.choice((0, 1, 5, 30, 30, 60, 300))
        jobs.append(trace_job(f"j{row}", at_s, run_s, *pods, queue=source.choice("abc"), row=row))
    return trace(*jobs)


def ledger_of(path: Path) -> list[r.Record]:
    """All records of a ledger."""
    log = LedgerDirectory.open_reader(path).ledger
    return [decode_record(payload) for _, group in log.read_groups() for payload in group]


def decisions_of(path: Path) -> list[Decision]:
    """All its decisions."""
    log = LedgerDirectory.open_reader(path).decisions
    return [decode_decision(payload) for _, group in log.read_groups() for payload in group]


def payloads_of(path: Path) -> tuple[list[bytes], list[bytes]]:
    """Both streams as bytes."""
    readers = LedgerDirectory.open_reader(path)
    ledger, decisions = (
        [payload for _, group in log.read_groups() for payload in group]
        for log in (readers.ledger, readers.decisions)
    )
    return ledger, decisions


def story(path: Path) -> list[str]:
    """What happened after the set-up, a line per record and per decision on a pod or end.

    Records as `@second kind subject`, decisions as `  kind subject`.
    """
    by_cause: dict[int, list[Decision]] = {}
    for decision in decisions_of(path):
        by_cause.setdefault(decision.cause_seq, []).append(decision)
    lines: list[str] = []
    for seq, record in enumerate(ledger_of(path)):
        lines.append(f"@{record.time_ns // SECOND} {type(record).__name__} {_subject(record)}")
        lines += [
            f"  {d.kind.name} {d.job}" + (f"/{d.pod}/{d.attempt} {d.node}" if d.node else "")
            for d in by_cause.get(seq, ())
            if d.kind not in (DecisionKind.CYCLE_CLOSED, DecisionKind.ADMIT)
        ]
    first_tick = next(i for i, line in enumerate(lines) if " Tick" in line)
    return [line.rstrip() for line in lines[first_tick + 1 :] if "SnapshotSealed" not in line]


def _subject(record: r.Record) -> str:
    if isinstance(record, r.NodeChanged | r.NodeReturned):
        return record.report.node
    names: Iterable[str] = (getattr(record, name, "") for name in ("job", "node"))
    subject = next((name for name in names if name), "")
    if hasattr(record, "attempt"):
        subject += f"/{record.pod}/{record.attempt}"  # type: ignore[attr-defined]
    return subject

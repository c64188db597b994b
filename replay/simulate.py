"""Simulates a trace on a cluster: real intake, ledger and kernel; virtual time and nodes.

A run is a function of its arguments. Its ledger on disk can be cut short at any moment; the same
call then goes on from there, by running again from the beginning and comparing everything that is
recorded already. The last record of a finished run is `SnapshotSealed`: it stands for the final
state, and nothing comes after it.
"""

import gc
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ganger.replay.arguments import difference, run_arguments
from ganger.replay.assumptions import AS_TRACED, Assumptions, settled
from ganger.replay.attempts import Stretch, Watch
from ganger.replay.cell import VirtualCell
from ganger.replay.cluster import ClusterSpec
from ganger.replay.faults import NONE, Faults
from ganger.replay.gantt import Chart
from ganger.replay.machines import Machines
from ganger.replay.retrace import RetracedLog
from ganger.replay.summary import CARD_MILLI, Meter, Summary, mean, named_counts, waits_of
from ganger.replay.traces.fields import NS_PER_S
from ganger.replay.traces.model import Trace, TraceJob
from ganger.replay.traces.source import InputError
from ganger.replay.workload import flavors_of, queues_of
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.schemas.records import (
    FlagEnabled,
    OwnerClaimed,
    PolicyConfigured,
    QueueConfigured,
    Record,
    SnapshotSealed,
)
from ganger.schemas.registry import fingerprint
from ganger.streams.checkpoint import SnapshotStore
from ganger.streams.engine import Engine
from ganger.streams.intake import Intake
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.flags import ALL_FLAGS
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import build
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import NotALedger
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.log.protocol import Log, LogReader
from ganger.streams.payloads import read_record

CELL = "simulation"
"""Name of the simulated cell, of its owner and of its intake."""

MEMORY = "memory"
"""Given as the ledger: keep none."""

CHECKPOINT_RECORDS = 100_000
"""Records between two checkpoints: replayed in about a second."""


class RunRefused(InputError):
    """The ledger named for a run holds something else than an unfinished run of this call."""


class Progress(Struct, frozen=True):
    """How far a run is, as of its last commit."""

    jobs: int  # of the run
    submitted: int
    ended: int
    records: int
    decisions: int
    now_ns: int  # virtual time


def run(
    trace: Trace,
    cluster: ClusterSpec,
    policy: PolicyConfigured,
    ledger: str | os.PathLike[str] = MEMORY,
    *,
    limit: int | None = None,
    seed: int = 0,
    faults: Faults = NONE,
    assumptions: Assumptions = AS_TRACED,
    chart: Chart | None = None,
    snapshots: SnapshotStore | None = None,
    on_resume: Callable[[int], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Simulate a trace, from the beginning or from where an interrupted run of this call ended.

    Args:
        trace: the workload.
        cluster: the nodes and queues.
        policy: as `load_policy` gives it.
        ledger: a directory, made if missing; `MEMORY` for none.
        limit: simulate the first so many jobs only.
        seed: from which faults and assumptions draw; without either it changes nothing but the
            run's identity.
        faults: what goes wrong.
        assumptions: of what the trace does not say.
        chart: of the same cluster; told of all that runs.
        snapshots: where to keep the state now and then, for later queries.
        on_resume: called first if the directory holds an unfinished run, with its records.
        on_progress: called after each commit.

    Raises:
        RunRefused: the directory holds a finished run, or one with other arguments.
        InputError: an argument cannot be used.
        LedgerBusy: another process writes the ledger.
        LedgerFull: no room; the same call goes on when there is.
        LogCorrupt: the ledger does not check.
        Divergence: what is recorded is not what this ganger computes.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    if limit is not None and limit < 1:
        raise InputError("limit", f"it is {limit}", "give a number of jobs, at least 1")
    jobs = trace.jobs if limit is None else trace.jobs[:limit]
    assumed, policy = _settled(assumptions, policy, jobs)
    _check_set_up(policy, cluster, jobs)
    machines = Machines(cluster)
    arguments = run_arguments(
        trace, cluster, policy, limit=limit, seed=seed, faults=faults, assumptions=assumptions
    )
    with _logs(ledger, arguments, on_resume) as (records, decisions), _quiet_collector():
        engine = Engine.create(records, decisions, snapshots)
        intake = Intake(CELL, CELL, pause_ns=None)
        meter = Meter(jobs)
        cell = VirtualCell(
            engine,
            intake,
            machines,
            jobs,
            seed=seed,
            faults=faults,
            assumptions=assumed,
            watch=_watch(meter, chart),
            watches_all=chart is not None,
        )
        whole = _Run(engine, intake, cell, jobs, meter, chart, on_progress)
        whole.all(policy, cluster, records)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return _summary(engine, cell, meter, cluster, cpu, wall)


def _settled(
    assumptions: Assumptions, policy: PolicyConfigured, jobs: Sequence[TraceJob]
) -> tuple[Assumptions, PolicyConfigured]:
    """What is assumed in the run, and its policy, proved to compile.

    Raises:
        InputError: it does not.
    """
    policy = replace(policy, time_ns=0, event_id="", source=None)
    try:
        compiled = build(policy)
    except PolicyRefused as error:
        raise InputError(
            f"policy: {error.where}", f"it is {error.value!r}", error.remedy
        ) from error
    return settled(assumptions, policy, compiled, jobs)


def _watch(meter: Meter, chart: Chart | None) -> Watch:
    """Who is told of what ran."""
    if chart is None:
        return meter.lending.ran
    tell_meter, tell_chart = meter.lending.ran, chart.ran

    def tell(stretch: Stretch) -> None:
        tell_meter(stretch)
        tell_chart(stretch)

    return tell


class _Run:
    """One run from its first record to its last."""

    def __init__(
        self,
        engine: Engine,
        intake: Intake,
        cell: VirtualCell,
        jobs: Sequence[TraceJob],
        meter: Meter,
        chart: Chart | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._engine = engine
        self._intake = intake
        self._cell = cell
        self._jobs = jobs
        self._meter = meter
        self._chart = chart
        self._on_progress = on_progress
        self._checkpoint_seq = CHECKPOINT_RECORDS
        engine.on_commit = self._after_commit

    def all(self, policy: PolicyConfigured, cluster: ClusterSpec, ledger: Log) -> None:
        """Set the cell up, let everything happen, seal."""
        self._set_up(policy, cluster)
        while self._cell.advance():
            pass
        self._cell.close()
        self._seal(ledger)

    def _set_up(self, policy: PolicyConfigured, cluster: ClusterSpec) -> None:
        """All that comes before the first job, at the time of its submission."""
        cell, now_ns = self._cell, self._cell.now_ns
        cell.take(OwnerClaimed(now_ns, "", None, CELL))
        claim_seq = self._engine.state.next_seq
        cell.take(self._intake.claim(now_ns))
        self._intake.claimed(claim_seq)
        for request in _requests(policy, cluster, self._jobs, now_ns):
            for record in self._intake.accept(request, now_ns):
                cell.take(record)
        cell.begin()

    def _seal(self, ledger: Log) -> None:
        """Write that the run is over; only once every decision before is published."""
        engine = self._engine
        engine.commit()
        state = engine.state
        self._cell.take(
            SnapshotSealed(
                self._cell.now_ns,
                "",
                None,
                state.next_seq - 1,
                sha256(snapshot.encode(state)).digest(),
                state.chain,
                ledger.chain(),
            )
        )
        engine.commit()
        engine.save_checkpoint()

    def _after_commit(self, records: Sequence[bytes], decisions: Sequence[Decision]) -> None:
        engine = self._engine
        self._meter.observe(records, decisions)
        if self._chart is not None:
            self._chart.observe(decisions)
        if engine.committed_seq >= self._checkpoint_seq:
            engine.save_checkpoint()
            self._checkpoint_seq += CHECKPOINT_RECORDS
        if self._on_progress is not None:
            cell = self._cell
            self._on_progress(
                Progress(
                    len(self._jobs),
                    cell.submitted_count,
                    self._meter.ended_count,
                    engine.committed_seq,
                    engine.decision_count,
                    cell.now_ns,
                )
            )


def _requests(
    policy: PolicyConfigured, cluster: ClusterSpec, jobs: Sequence[TraceJob], now_ns: int
) -> list[Record]:
    """What configures the cell, in order."""
    return [
        *(FlagEnabled(now_ns, f"flag/{flag}", None, flag) for flag in ALL_FLAGS),
        replace(policy, time_ns=now_ns, event_id="policy"),
        *flavors_of(cluster, now_ns),
        *queues_of(cluster, jobs, now_ns),
    ]


def _check_set_up(policy: PolicyConfigured, cluster: ClusterSpec, jobs: Sequence[TraceJob]) -> None:
    """Ask the kernel whether it takes the configuration, before there is a ledger.

    Raises:
        InputError: it does not.
    """
    state = State(CELL, bytes(32))
    records = [OwnerClaimed(0, "", None, CELL), *_requests(policy, cluster, jobs, 0)]
    for seq, record in enumerate(records):
        for decision in step(state, seq, record):
            if decision.kind is DecisionKind.REJECT:
                what = type(record).__name__
                if isinstance(record, QueueConfigured):
                    what = f"queue {record.queue!r}"
                why = f"{decision.reason.name}, asked {decision.asked}, limit {decision.limit}"
                remedy = "change or leave out what it names"
                raise InputError("cluster", f"the kernel refuses {what} ({why})", remedy)


def _waiting(state: State) -> list[str]:
    """Keys of the jobs that wait for a place, in order of submission."""
    phases = (Phase.PENDING, Phase.INQUEUE)
    seqs = sorted(seq for seq, job in state.jobs.items() if job.phase in phases)
    return [state.jobs[seq].request.job for seq in seqs]


def _summary(
    engine: Engine, cell: VirtualCell, meter: Meter, cluster: ClusterSpec, cpu: float, wall: float
) -> Summary:
    starts = meter.starts()
    waits = waits_of(starts)
    main_waits = waits_of([start for start in starts if start.tier is Tier.MAIN])
    lending = meter.lending
    eta_p50_coverage, eta_p90_coverage = meter.coverage(cell.last_ns)
    late_ns = meter.promises.late_median_ns
    waiting = _waiting(engine.state)
    utilisation, series = meter.utilisation(cell.held, cluster.card_count, cell.last_ns)
    return Summary(
        jobs=cell.submitted_count,
        decisions=engine.decision_count,
        records=engine.state.next_seq,
        cpu_seconds=cpu,
        wall_seconds=wall,
        utilisation=utilisation,
        wait_mean_s=waits.mean_s,
        wait_p50_s=waits.p50_s,
        wait_p99_s=waits.p99_s,
        bounded_slowdown_mean=mean(meter.slowdowns(starts)),
        digest=seal(engine.state).hex(),
        chain=engine.state.chain.hex(),
        backfill_started=lending.started,
        backfill_completed=lending.completed,
        backfill_evicted=lending.evicted,
        backfill_suspended=lending.suspended,
        idle_card_seconds=_card_seconds(cell.idle.sum),
        idle_card_seconds_used=_card_seconds(lending.used),
        main_wait_mean_s=main_waits.mean_s,
        evicted_card_seconds_lost=_card_seconds(lending.lost),
        eta_p50_coverage=eta_p50_coverage,
        eta_p90_coverage=eta_p90_coverage,
        eta_p90_median_s=None if late_ns is None else late_ns / NS_PER_S,
        started=len(starts),
        ended=named_counts({reason.name: count for reason, count in meter.ended.items()}),
        waiting=len(waiting),
        waiting_job=waiting[0] if waiting else "",
        record_counts=named_counts(meter.record_counts),
        decision_counts=named_counts(
            {kind.name: count for kind, count in meter.decision_counts.items()}
        ),
        first_ns=meter.first_ns,
        last_ns=cell.last_ns,
        bin_ns=cell.held.bin_ns,
        series=series,
        starts=starts,
    )


def _card_seconds(milli_card_ns: int) -> int:
    return milli_card_ns // (CARD_MILLI * NS_PER_S)


# ---- the ledger ----------------------------------------------------------------------------------


@contextmanager
def _logs(
    ledger: str | os.PathLike[str], arguments: bytes, on_resume: Callable[[int], None] | None
) -> Iterator[tuple[Log, Log]]:
    """The ledger's two logs as if both were empty."""
    if os.fspath(ledger) == MEMORY:
        yield (
            MemoryLog(LogIdentity(Stream.LEDGER, CELL, fingerprint(), arguments)),
            MemoryLog(LogIdentity(Stream.DECISIONS, CELL, fingerprint(), arguments)),
        )
        return
    with _directory(Path(ledger), arguments) as directory:
        if on_resume is not None and directory.ledger.end():
            on_resume(directory.ledger.end())
        yield (
            RetracedLog(directory.ledger, holds_decisions=False),
            RetracedLog(directory.decisions, holds_decisions=True),
        )


def _directory(path: Path, arguments: bytes) -> LedgerDirectory:
    """The ledger in a directory: a new one, or an unfinished run with the same arguments."""
    try:
        _check_run(path, arguments)
    except NotALedger:
        try:
            return LedgerDirectory.create(
                path, CELL, arguments=arguments, fingerprint=fingerprint()
            )
        except OSError as error:
            raise InputError(
                "ledger", f"{path} cannot be made a ledger ({error})", "name another folder"
            ) from error
    return LedgerDirectory.open(path)


def _check_run(path: Path, arguments: bytes) -> None:
    """Refuse a ledger that is not an unfinished run with these arguments."""
    ledger = LedgerDirectory.open_reader(path).ledger
    remedy = f"delete {path} to begin anew, or name another folder"
    what = difference(ledger.arguments, arguments)
    if what:
        raise RunRefused("ledger", f"{path} holds another run: {what}", remedy)
    if ledger.fingerprint != fingerprint():
        raise RunRefused(
            "ledger",
            f"{path} was written with other schemas by another version of ganger",
            f"go on with that version, or {remedy}",
        )
    if is_finished(ledger):
        raise RunRefused(
            "ledger",
            f"{path} holds this run, and it is finished",
            f"prove it with `ganger verify {shlex.quote(os.fspath(path))}`; for its summary, "
            f"simulate into a new folder, which gives the same run; or {remedy}",
        )


def is_finished(ledger: LogReader) -> bool:
    """Whether a ledger ends with the seal of a finished run. O(one segment)."""
    end = ledger.end()
    if end == 0:
        return False
    payloads = [payload for _, group in ledger.read_groups(end - 1, end) for payload in group]
    return isinstance(read_record(end - 1, payloads[-1]), SnapshotSealed)


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep the collector from walking over the trace and the state again and again.

    Neither leaves cyclic garbage: what ends is freed at once.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()

"""Simulation: the order of events, what a run is, and how it goes on or is refused."""

import errno
import gc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ganger.replay import simulate
from ganger.replay.arguments import run_arguments
from ganger.replay.assumptions import Assumptions, Guess
from ganger.replay.cluster import Amount, ClusterSpec, QueueSpec, parse_nodes
from ganger.replay.faults import NONE, Faults
from ganger.replay.simulate import MEMORY, Progress, RunRefused, is_finished, run
from ganger.replay.summary import Summary
from ganger.replay.traces.model import Trace
from ganger.replay.traces.source import InputError
from ganger.schemas import records as r
from ganger.streams.divergence import Divergence
from ganger.streams.kernel.snapshot import decode
from ganger.streams.log import files, segments
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import LedgerBusy, LedgerFull
from ganger.streams.presets.loader import load_policy
from support.small_runs import (
    decisions_of,
    ledger_of,
    payloads_of,
    random_trace,
    story,
    trace,
    trace_job,
)

ONE_NODE = parse_nodes("1x2")
SMALL = parse_nodes("3x4,2x2")


def simulated(
    workload: Trace, ledger: Path | str = MEMORY, cluster: ClusterSpec = SMALL
) -> Summary:
    return run(workload, cluster, load_policy(), ledger)


def same(one: Summary, other: Summary) -> bool:
    """Equal in everything but the time it took."""
    clocks = {"cpu_seconds": 0.0, "wall_seconds": 0.0}
    return replace(one, **clocks) == replace(other, **clocks)


# --- the order of events --------------------------------------------------------------------------


def test_a_tick_follows_each_submission_and_each_end_and_no_start(tmp_path: Path) -> None:
    simulated(trace(trace_job("a", 0, 5), trace_job("b", 2, 5)), tmp_path, ONE_NODE)
    assert story(tmp_path) == [
        "@0 JobSubmitRequested a",
        "@0 Tick",
        "  ALLOCATE a/0/1 node-0001",
        "@0 PodStarted a/0/1",
        "@2 JobSubmitRequested b",
        "@2 Tick",
        "  ALLOCATE b/0/1 node-0001",
        "@2 PodStarted b/0/1",
        "@5 PodSucceeded a/0/1",
        "  FINISH a",
        "@5 Tick",
        "@7 PodSucceeded b/0/1",
        "  FINISH b",
        "@7 Tick",
    ]


def test_submissions_of_an_instant_come_before_its_ends_these_in_order_of_starts(
    tmp_path: Path,
) -> None:
    jobs = (
        trace_job("late", 5, 5),
        trace_job("early", 0, 10),
        trace_job("wide", 10, 1, (2, 1)),
        trace_job("last", 10, 9),
    )
    simulated(trace(*jobs), tmp_path, parse_nodes("1x4"))
    lines = [line for line in story(tmp_path) if line.startswith(("@10", "@11"))]
    assert lines == [
        "@10 JobSubmitRequested wide",
        "@10 Tick",
        "@10 PodStarted wide/0/1",
        "@10 PodStarted wide/1/1",
        "@10 JobSubmitRequested last",
        "@10 Tick",
        "@10 PodSucceeded early/0/1",
        "@10 Tick",
        "@10 PodStarted last/0/1",
        "@10 PodSucceeded late/0/1",
        "@10 Tick",
        "@11 PodSucceeded wide/0/1",
        "@11 PodSucceeded wide/1/1",
        "@11 Tick",
    ]


def test_a_job_without_run_time_ends_in_the_instant_of_its_start(tmp_path: Path) -> None:
    simulated(trace(trace_job("a", 3, 0), trace_job("b", 3, 0)), tmp_path, ONE_NODE)
    assert [line for line in story(tmp_path) if line.startswith("@")] == [
        "@3 JobSubmitRequested a",
        "@3 Tick",
        "@3 PodStarted a/0/1",
        "@3 JobSubmitRequested b",
        "@3 Tick",
        "@3 PodStarted b/0/1",
        "@3 PodSucceeded a/0/1",
        "@3 Tick",
        "@3 PodSucceeded b/0/1",
        "@3 Tick",
    ]


def test_a_trace_from_zero_starts_at_zero() -> None:
    summary = simulated(trace(trace_job("a", 0, 5_000)), cluster=ONE_NODE)
    assert summary.ended == {"ALL_PODS_SUCCEEDED": 1}
    assert (summary.first_ns, summary.last_ns) == (0, 5_000 * 10**9)


def test_who_never_fits_and_who_never_ends_do_not_keep_a_run_from_ending() -> None:
    summary = simulated(
        trace(trace_job("stays", 0, -1), trace_job("huge", 1, 5, (1, 9)), trace_job("a", 2, 5)),
        cluster=ONE_NODE,
    )
    assert (summary.jobs, summary.started) == (3, 2)
    assert summary.ended == {"ALL_PODS_SUCCEEDED": 1}
    assert summary.last_ns == 7 * 10**9


def test_a_policy_that_always_wants_to_be_woken_does_not_keep_a_run_from_ending() -> None:
    """The controller of `xirang` looks back every hour, as long as somebody waits."""
    jobs = (trace_job("huge", 1, 5, (1, 9)), trace_job("a", 2, 5))
    summary = run(trace(*jobs), ONE_NODE, load_policy("xirang"))
    assert (summary.started, summary.waiting, summary.waiting_job) == (1, 1, "huge")
    assert summary.last_ns == 7 * 10**9
    assert summary.idle_card_seconds == 6 * 2 - 5
    assert (summary.bin_ns, len(summary.series)) == (10**9, 6)


def test_a_job_that_is_turned_away_is_counted_and_nothing_waits_for_it() -> None:
    cluster = replace(ONE_NODE, queues=(QueueSpec("top"), QueueSpec("leaf", "top")))
    jobs = (trace_job("a", 0, 5, queue="top"), trace_job("b", 1, 5, queue="leaf"))
    summary = simulated(trace(*jobs), cluster=cluster)
    assert summary.ended == {"ALL_PODS_SUCCEEDED": 1, "QUEUE_NOT_A_LEAF": 1}
    assert [start.job for start in summary.starts] == ["b"]


def test_the_ledger_begins_with_all_that_decides(tmp_path: Path) -> None:
    cluster = replace(
        ONE_NODE,
        queues=(
            QueueSpec("leaf", "top", 3, Amount(1, 0, 0), Amount(2, -1, -1)),
            QueueSpec("top"),
        ),
    )
    jobs = [trace_job(f"j-{name}", 4, 1, queue=name) for name in ("zoo", "leaf", "")]
    run(trace(*jobs), cluster, load_policy(), tmp_path)
    records = ledger_of(tmp_path)
    names = [type(record).__name__ for record in records[:9]]
    assert names == [
        "OwnerClaimed",
        "IntakeClaimed",
        "PolicyConfigured",
        *["QueueConfigured"] * 4,
        "NodeChanged",
        "Tick",
    ]
    queues = [record for record in records if isinstance(record, r.QueueConfigured)]
    assert [(q.queue, q.parent, q.weight) for q in queues] == [
        ("top", "", 1),
        ("leaf", "top", 3),
        ("default", "", 1),
        ("zoo", "", 1),
    ]
    assert queues[1].guarantee == (r.Amount("cards_milli", 1000),)
    assert queues[1].capability == (r.Amount("cards_milli", 2000),)
    assert {record.time_ns for record in records[:9]} == {4 * 10**9}


# --- one run --------------------------------------------------------------------------------------


def test_a_run_is_the_same_every_time_and_wherever_it_is_written(tmp_path: Path) -> None:
    workload = random_trace(60, seed=1)
    first = simulated(workload, tmp_path / "a")
    assert same(first, simulated(workload, tmp_path / "b"))
    assert same(first, simulated(workload))
    assert payloads_of(tmp_path / "a") == payloads_of(tmp_path / "b")
    assert (first.records, first.decisions) == tuple(map(len, payloads_of(tmp_path / "a")))
    assert first.started == 60


@pytest.mark.parametrize("change", [{"seed": 1}, {"limit": 59}, {"faults": Faults(release_s=1)}])
def test_every_argument_names_the_run(change: dict[str, object]) -> None:
    workload = random_trace(60, seed=1)
    chains = {
        run(workload, SMALL, load_policy(), **arguments).chain  # type: ignore[arg-type]
        for arguments in ({}, change)
    }
    assert len(chains) == 2


def test_limit_takes_the_first_jobs() -> None:
    workload = random_trace(60, seed=1)
    summary = run(workload, SMALL, load_policy(), limit=7)
    assert summary.jobs == 7
    assert [start.job for start in summary.starts] == [job.id for job in workload.jobs[:7]]


def test_the_last_record_seals_the_final_state(tmp_path: Path) -> None:
    summary = simulated(random_trace(20, seed=2), tmp_path)
    records = ledger_of(tmp_path)
    sealed = records[-1]
    assert isinstance(sealed, r.SnapshotSealed)
    assert sum(isinstance(record, r.SnapshotSealed) for record in records) == 1
    assert sealed.snapshot_seq == len(records) - 2
    assert sealed.chain.hex() == summary.chain
    assert decisions_of(tmp_path)[-1].chain == sealed.chain


def test_progress_is_told_at_commits_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganger.streams.engine.GROUP_RECORDS_MAX", 50)
    told: list[Progress] = []
    summary = run(random_trace(60, seed=1), SMALL, load_policy(), on_progress=told.append)
    assert len(told) > 4
    assert all(a.records < b.records for a, b in pairwise(told))
    assert told[-1] == Progress(60, 60, 60, summary.records, summary.decisions, summary.last_ns)


def test_checkpoints_are_kept_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, bytes] = {}

    class Store:
        def save(self, seq: int, data: bytes) -> None:
            kept[seq] = data

        def newest(self, at_or_before: int) -> None:
            raise AssertionError("a run reads no checkpoint")

    monkeypatch.setattr("ganger.streams.engine.GROUP_RECORDS_MAX", 50)
    monkeypatch.setattr(simulate, "CHECKPOINT_RECORDS", 100)
    workload = random_trace(60, seed=1)
    summary = run(workload, SMALL, load_policy(), snapshots=Store())
    assert len(kept) > 2
    assert max(kept) == summary.records
    assert decode(kept[max(kept)][16:]).chain.hex() == summary.chain
    assert same(summary, simulated(workload))


def test_the_collector_is_as_it_was() -> None:
    assert gc.isenabled()
    simulated(random_trace(5, seed=1))
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


# --- going on, and refusing -----------------------------------------------------------------------


class Stop(Exception):
    """Breaks a run off."""


def broken_off(path: Path, workload: Trace, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave an unfinished run behind, after so many commits of 50 records."""
    count = 0

    def stop(progress: Progress) -> None:
        nonlocal count
        count += 1
        if count == after:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("ganger.streams.engine.GROUP_RECORDS_MAX", 50)
        with pytest.raises(Stop):
            run(workload, SMALL, load_policy(), path, on_progress=stop)


@pytest.mark.parametrize("after", [1, 2, 5])
def test_an_unfinished_run_goes_on(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = random_trace(60, seed=1)
    whole = simulated(workload, tmp_path / "whole")
    broken_off(tmp_path / "cut", workload, after, monkeypatch)
    left = payloads_of(tmp_path / "cut")
    assert not is_finished(LedgerDirectory.open_reader(tmp_path / "cut").ledger)
    told: list[int] = []
    again = run(workload, SMALL, load_policy(), tmp_path / "cut", on_resume=told.append)
    assert same(whole, again)
    assert told == [len(left[0])]
    expected = payloads_of(tmp_path / "whole")
    assert payloads_of(tmp_path / "cut") == expected
    for stream, full in zip(left, expected, strict=True):
        assert 0 < len(stream) < len(full)
        assert stream == full[: len(stream)]
    assert is_finished(LedgerDirectory.open_reader(tmp_path / "cut").ledger)


@pytest.mark.parametrize("writes", [1, 2, 7, 8])
def test_a_full_disk_stops_a_run_and_it_goes_on(
    tmp_path: Path, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an odd number of writes the decisions find no room, after an even one the ledger."""
    left = writes

    def write_at(fd: int, data: bytes, offset: int) -> None:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, "no space left")
        left -= 1
        files.write_at(fd, data, offset)

    workload = random_trace(60, seed=1)
    whole = simulated(workload, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("ganger.streams.engine.GROUP_RECORDS_MAX", 50)
        patch.setattr(segments, "write_at", write_at)
        with pytest.raises(LedgerFull):
            simulated(workload, tmp_path / "cut")
    ends = [len(stream) for stream in payloads_of(tmp_path / "cut")]
    assert ends[0] == 50 * ((writes + 1) // 2)
    assert same(whole, simulated(workload, tmp_path / "cut"))
    assert payloads_of(tmp_path / "cut") == payloads_of(tmp_path / "whole")


def test_a_finished_run_is_refused(tmp_path: Path) -> None:
    workload = random_trace(5, seed=1)
    simulated(workload, tmp_path)
    with pytest.raises(RunRefused) as caught:
        simulated(workload, tmp_path)
    for words in (
        f"it is finished; prove it with `ganger verify {tmp_path}`",
        "for its summary, simulate into a new folder",
        f"or delete {tmp_path} to begin anew",
    ):
        assert words in str(caught.value)


def test_queues_that_the_kernel_refuses_are_refused_before_there_is_a_ledger(
    tmp_path: Path,
) -> None:
    primes = [n for n in range(2, 4000) if all(n % d for d in range(2, 64) if d < n)]
    queues = tuple(QueueSpec(f"q{weight}", weight=weight) for weight in primes)
    cluster = replace(SMALL, queues=queues)
    with pytest.raises(InputError, match=r"cluster: the kernel refuses queue 'q\d+' \(VALUE_OUT"):
        run(random_trace(5, seed=1), cluster, load_policy(), tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


OTHERS: dict[str, Callable[[Trace, Path], object]] = {
    "seed was 0 and is now 4": lambda t, p: run(t, SMALL, load_policy(), p, seed=4),
    "limit was not given and is now 3": lambda t, p: run(t, SMALL, load_policy(), p, limit=3),
    '"default" and is now "spread"': lambda t, p: run(t, SMALL, load_policy("spread"), p),
    'cluster.nodes was [{"count":3,': lambda t, p: run(t, ONE_NODE, load_policy(), p),
    "cluster.nodes[0].count was 3 and is now 4": lambda t, p: run(
        t, parse_nodes("4x4,2x2"), load_policy(), p
    ),
    "faults.shuffle was not given and is now true": lambda t, p: run(
        t, SMALL, load_policy(), p, faults=Faults(shuffle=True)
    ),
    'assumptions.guess was "trace" and is now "factor"': lambda t, p: run(
        t, SMALL, load_policy(), p, assumptions=Assumptions(Guess.FACTOR, 2000)
    ),
    "suspendable_millionths was 0 and is now 300000": lambda t, p: run(
        t, SMALL, load_policy(), p, assumptions=Assumptions(suspendable_millionths=300_000)
    ),
    "trace_sha256 was ": lambda t, p: run(random_trace(60, seed=2), SMALL, load_policy(), p),
}


@pytest.mark.parametrize("words", OTHERS)
def test_a_run_with_other_arguments_is_refused_and_the_difference_named(
    tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = random_trace(60, seed=1)
    broken_off(tmp_path, workload, 2, monkeypatch)
    before = payloads_of(tmp_path)
    with pytest.raises(RunRefused, match="holds another run") as caught:
        OTHERS[words](workload, tmp_path)
    assert words in str(caught.value)
    assert payloads_of(tmp_path) == before


def test_a_run_of_the_version_before_goes_on_with_what_it_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = random_trace(60, seed=1)
    whole = simulated(workload, tmp_path / "whole")

    def before(*arguments: Any, **more: Any) -> bytes:
        known = msgspec.json.decode(run_arguments(*arguments, **more))
        assert known.pop("assumptions")
        return msgspec.json.encode(known | {"simulation": 1}, order="deterministic")

    with monkeypatch.context() as patch:
        patch.setattr(simulate, "run_arguments", before)
        broken_off(tmp_path / "a", workload, 2, monkeypatch)
    summary = simulated(workload, tmp_path / "a")
    assert (summary.records, summary.ended) == (whole.records, whole.ended)
    assert summary.chain != whole.chain  # it begins with the arguments, in their old form
    assert is_finished(LedgerDirectory.open_reader(tmp_path / "a").ledger)


def test_a_ledger_of_something_else_is_refused(tmp_path: Path) -> None:
    LedgerDirectory.create(tmp_path, "cell").close()
    with pytest.raises(RunRefused, match="it was not written by a simulation"):
        simulated(random_trace(5, seed=1), tmp_path)


def test_a_ledger_of_other_schemas_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = random_trace(60, seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(simulate, "fingerprint", lambda: b"older")
        broken_off(tmp_path, workload, 1, monkeypatch)
    with pytest.raises(RunRefused, match="other schemas"):
        simulated(workload, tmp_path)


def test_a_ledger_that_was_altered_is_refused_with_its_seq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = random_trace(60, seed=1)
    broken_off(tmp_path / "a", workload, 3, monkeypatch)
    source = LedgerDirectory.open_reader(tmp_path / "a").ledger
    ledger, _ = payloads_of(tmp_path / "a")
    ledger[100], ledger[101] = ledger[101], ledger[100]
    with LedgerDirectory.create(
        tmp_path / "b", source.cell, arguments=source.arguments, fingerprint=source.fingerprint
    ) as directory:
        directory.ledger.append(ledger)
    with pytest.raises(Divergence, match="seq 100: the recorded record is not the computed one"):
        simulated(workload, tmp_path / "b")


def test_a_busy_ledger_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = random_trace(60, seed=1)
    broken_off(tmp_path, workload, 1, monkeypatch)
    with LedgerDirectory.open(tmp_path), pytest.raises(LedgerBusy):
        simulated(workload, tmp_path)


def test_what_cannot_be_simulated_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    workload = random_trace(5, seed=1)
    path = tmp_path / "ledger"
    wrong = replace(load_policy(), actions=(r.ActionConfig("dance", ()),))
    with pytest.raises(InputError, match=r"policy: actions\[0\]: it is 'dance'"):
        run(workload, SMALL, wrong, path)
    with pytest.raises(InputError, match="limit: it is 0"):
        run(workload, SMALL, load_policy(), path, limit=0)
    assert not path.exists()
    path.write_text("a file")
    with pytest.raises(InputError, match="name another folder"):
        run(workload, SMALL, load_policy(), path)


def test_no_faults_is_the_default() -> None:
    workload = random_trace(5, seed=1)
    assert same(simulated(workload), run(workload, SMALL, load_policy(), faults=NONE))

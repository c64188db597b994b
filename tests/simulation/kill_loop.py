"""kill -9 of a simulation, again and again, each time resumed from what was left.

Run `python tests/simulation/kill_loop.py [--kills N] [--seed N] [--jobs N]` from anywhere. Each
ledger that a kill leaves must be a prefix of the uninterrupted run's, hold at least what the
process said to be committed, and be no shorter than the one before; the last process must come to
the very same records, decisions, digest and chain. Prints one JSON object. When a run ends before
it was killed often enough, another is begun.

`--child DIR` is the process to be killed: it simulates into DIR and says after each commit how
far it is.
"""

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ganger.replay.cluster import parse_nodes
from ganger.replay.faults import CardFault, Faults, NodeFault
from ganger.replay.simulate import RunRefused, run
from ganger.replay.summary import Summary
from ganger.streams import engine
from ganger.streams.log.errors import NotALedger
from ganger.streams.presets.loader import load_policy
from support.small_runs import payloads_of, random_trace

JOBS_DEFAULT = 400
GROUP_RECORDS = 16
"""Commits are small, so that there are many moments to be killed at."""

FINISHED_CODE = 2
"""How a process ends whose run was finished before, when it was killed after its last record."""

Payloads = tuple[list[bytes], list[bytes]]


def simulate(path: Path, jobs: int) -> Summary:
    """The run that is killed, or its end."""
    faults = Faults(
        duplicate_milli=50,
        late_milli=100,
        late_max_s=20,
        shuffle=True,
        release_s=3,
        nodes=(NodeFault("node-0002", 300, 200), NodeFault("node-0003", 900, 90, reboot=False)),
        cards=(CardFault("node-0001", 2, 600, 600),),
    )
    full_group = engine.GROUP_RECORDS_MAX
    engine.GROUP_RECORDS_MAX = GROUP_RECORDS
    try:
        return run(
            random_trace(jobs, seed=7),
            parse_nodes("4x4,4x2"),
            load_policy(),
            path,
            faults=faults,
            on_progress=lambda progress: print(progress.records, flush=True),
        )
    finally:
        engine.GROUP_RECORDS_MAX = full_group


def outcome(summary: Summary) -> list[object]:
    """What must be equal, however often a run was interrupted."""
    return [summary.records, summary.decisions, summary.digest, summary.chain]


def start(path: Path, jobs: int) -> subprocess.Popen[str]:
    """A process that simulates into `path`."""
    command = [sys.executable, __file__, "--child", str(path), "--jobs", str(jobs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def follow(output: IO[str]) -> Iterator[int]:
    """Records committed, as a process says it, up to its last line."""
    for line in output:
        if not line.endswith("\n") or not line.strip().isdigit():
            return
        yield int(line)


def kill_at(path: Path, jobs: int, target: int) -> int | None:
    """Kill a process as soon as it has said `target`; what it said last, None if it had ended."""
    with start(path, jobs) as child:
        assert child.stdout is not None
        said = 0
        if target > 0:
            for said in follow(child.stdout):
                if said >= target:
                    break
        child.kill()
        for later in follow(child.stdout):
            said = max(said, later)
        child.stdout.read()
    if child.returncode == -signal.SIGKILL:
        return said
    assert child.returncode in (0, FINISHED_CODE), f"it ended by itself with {child.returncode}"
    return None


def check_prefix(path: Path, whole: Payloads, said: int, before: list[int]) -> list[int]:
    """Lengths of both streams, proved to be prefixes that lost nothing."""
    try:
        left = payloads_of(path)
    except NotALedger:
        assert (said, before) == (0, [0, 0]), f"{said} records were acknowledged, none is there"
        return before
    for stream, full in zip(left, whole, strict=True):
        assert stream == full[: len(stream)], "what was left is no prefix of the whole run"
    ends = [len(stream) for stream in left]
    assert ends[0] >= said, f"{said} records were acknowledged, {ends[0]} are there"
    assert all(now >= then for now, then in zip(ends, before, strict=True)), (before, ends)
    return ends


def interrupted(
    path: Path, jobs: int, whole: Payloads, kills: int, most: int, source: random.Random
) -> int:
    """Kill a run up to `most` times; the number of kills that met it alive."""
    step_max = max(2 * len(whole[0]) // max(kills, 1), 2)
    ends = [0, 0]
    for done in range(most):
        said = kill_at(path, jobs, ends[0] + source.randrange(step_max) if done else 0)
        if said is None:
            return done
        ends = check_prefix(path, whole, said, ends)
    return most


def loop(folder: Path, kills: int, seed: int, jobs: int) -> dict[str, object]:
    """Kill so many times, in as many runs as it takes; the numbers of it."""
    source = random.Random(seed)
    with open(folder / "progress", "w") as output, contextlib.redirect_stdout(output):
        expected = outcome(simulate(folder / "whole", jobs))
    whole = payloads_of(folder / "whole")
    done = runs = 0
    while done < kills:
        path = folder / f"run-{runs}"
        runs += 1
        done += interrupted(path, jobs, whole, kills, kills - done, source)
        finish(path, jobs, expected, whole)
    return {"kills": done, "runs": runs, "seed": seed, "records": len(whole[0])}


def finish(path: Path, jobs: int, expected: list[object], whole: Payloads) -> None:
    """Let a run come to its end, unless it has; it must be the uninterrupted one."""
    with start(path, jobs) as child:
        assert child.stdout is not None
        last = child.stdout.read().splitlines()[-1:]
    if child.returncode == 0:
        assert json.loads(last[0]) == expected
    else:
        assert child.returncode == FINISHED_CODE, f"it ended with {child.returncode}"
    assert payloads_of(path) == whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=JOBS_DEFAULT)
    parser.add_argument("--child", type=Path)
    options = parser.parse_args()
    if options.child is not None:
        try:
            print(json.dumps(outcome(simulate(options.child, options.jobs))), flush=True)
        except RunRefused:
            sys.exit(FINISHED_CODE)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(loop(Path(folder), options.kills, options.seed, options.jobs)))


if __name__ == "__main__":
    main()

"""How long a worker takes to be ready again that was killed, over a long ledger on Kafka.

Simulates single-card jobs into a directory (five records a job), copies the ledger to a broker of
its own, lets a worker restore it from its beginning and stop, which leaves a snapshot, then starts
it again and kills it with SIGKILL, three times. Ready: the cell is claimed. A worker that is killed
at any moment has up to `SNAPSHOT_RECORDS` records more to read; they take that share of the first
figure. Prints one JSON object. Needs Java and Maven; without them it ends.

`python tests/bench/bench_restart.py [--jobs N]`
"""

import argparse
import json
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL, SIGTERM
from time import monotonic, sleep

from bench.bench_kafka import child, kafka

from ganger.streams.kafka.cluster.admin import create
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.log.directory import LedgerDirectory
from support.kafka_fleet import COMMAND

READY_SECONDS = 600.0
_PAUSE_SECONDS = 0.02


def trace(path: Path, jobs: int) -> None:
    """A job of one card every two seconds, for a minute and more."""
    lines = ["; MaxProcs: 800"]
    for number in range(1, jobs + 1):
        run_s = 60 + number % 37
        user = number % 50 + 1
        lines.append(f"{number} {number * 2} -1 {run_s} 1 -1 -1 1 300 -1 1 {user} 1 1 1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")


def called(*words: str | Path) -> None:
    """`ganger WORDS`, which must succeed."""
    subprocess.run([*COMMAND, *map(str, words)], check=True, capture_output=True)


def ready_seconds(worker: list[str], log: Path, end: int, stack: ExitStack) -> float:
    """From the start of a worker until it has claimed the cell; then it is sent a signal."""
    begin = monotonic()
    process = stack.enter_context(child(worker, log))
    while "event=cell_claimed" not in log.read_text():
        if process.poll() is not None or monotonic() - begin > READY_SECONDS:
            raise SystemExit(f"the worker was not ready: {log.read_text()[-2000:]}")
        sleep(_PAUSE_SECONDS)
    seconds = monotonic() - begin
    process.send_signal(end)
    process.wait()
    return seconds


def run(jobs: int) -> dict[str, object]:
    """The whole of it, in a folder that goes away."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ganger-bench-")))
        trace(folder / "jobs.swf", jobs)
        called("simulate", folder / "jobs.swf", "--nodes", "100x8", "--ledger", folder / "ledger")
        ledger = LedgerDirectory.open_reader(folder / "ledger").ledger
        settings = KafkaSettings(stack.enter_context(kafka(folder / "kafka")))
        create(settings, partitions=1)
        called("copy", folder / "ledger", f"kafka://{settings.bootstrap}/{ledger.cell}")
        words = ["worker", "--kafka", settings.bootstrap, "--data", str(folder / "data")]
        words += ["--id", "bench"]
        first = ready_seconds(words, folder / "first.log", SIGTERM, stack)
        logs = [folder / f"again-{number}.log" for number in range(3)]
        again = [ready_seconds(words, log, SIGKILL, stack) for log in logs]
        return {
            "ledger_records": ledger.end(),
            "from_the_beginning_seconds": round(first, 1),
            "restart_seconds_median": round(sorted(again)[1], 1),
            "restart_seconds_most": round(max(again), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=215_000, help="five records each")
    print(json.dumps(run(parser.parse_args().jobs)))


if __name__ == "__main__":
    main()

"""One worker on Kafka under load: decisions per second, how long events wait, what it costs.

Starts a broker, a worker and simulated nodes; a producer submits single-pod jobs at a given rate.
Measured from the topics, by the broker's clock: from the arrival of an event in `ganger.jobs` to
that of its Allocate in `ganger.decisions`, and from a record's arrival in the ledger to that of the
rows that include it. Prints one JSON object. Needs Java and Maven; without them it says so and
ends.

`python tests/bench/bench_kafka.py [--rate N] [--seconds S] [--nodes SPEC] [--run D]`
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from ganger.schemas.codec import decode_row
from ganger.schemas.decision_ids import decision_head
from ganger.schemas.decoding import decode_newest_decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.rows import RowsChanged
from ganger.services.answers import Answers
from ganger.services.client import JobSpec, Producer, RetrySpec
from ganger.streams.kafka.cluster.admin import create
from ganger.streams.kafka.cluster.cells import find_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import DECISIONS, JOBS, LEDGER, ROWS
from ganger.streams.kafka.wire.consumer import Arrival, PartitionReader
from ganger.streams.presets.loader import load_policy
from support.builders import queue
from support.kafka_fleet import COMMAND

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "infra" / "kafka" / "kafka"
CELL = "bench"
KAFKA_MISSING = 3
READY_SECONDS = 120.0
DRAIN_SECONDS = 120.0

_TICKS = os.sysconf("SC_CLK_TCK")
_BURST_SECONDS = 0.02


@dataclass
class Seen:
    """What the topics have shown so far; times in ms of the broker's clock."""

    submitted: dict[str, int] = field(default_factory=dict)  # job -> arrival of its event
    waits: list[int] = field(default_factory=list)  # of each Allocate, in order of arrival
    allocated: dict[int, int] = field(default_factory=dict)  # second -> Allocates
    ledger: dict[int, int] = field(default_factory=dict)  # seq -> arrival, of those not in rows
    records: int = 0
    rows_seq: int = -1
    behind: list[int] = field(default_factory=list)  # of each frame: age of its oldest news

    def take(self, arrivals: list[Arrival]) -> None:
        """Note messages of one read; decisions behind the events that they follow from."""
        for arrival in sorted(arrivals, key=lambda one: one.topic != JOBS):
            if arrival.topic == JOBS:
                self._job(arrival)
            elif arrival.topic == DECISIONS:
                self._decision(arrival)
            elif arrival.topic == LEDGER:
                self.records += 1
                if arrival.offset > self.rows_seq:
                    self.ledger[arrival.offset] = arrival.timestamp_ms
            else:
                self._rows(arrival)

    def _job(self, arrival: Arrival) -> None:
        name = arrival.value.partition(b"load-")[2][:7]
        if name:
            self.submitted[f"load-{name.decode()}"] = arrival.timestamp_ms

    def _decision(self, arrival: Arrival) -> None:
        decision_head(arrival.value)
        decision = decode_newest_decision(arrival.value)
        if decision.kind is DecisionKind.ALLOCATE:
            self.waits.append(arrival.timestamp_ms - self.submitted[decision.job])
            second = arrival.timestamp_ms // 1000
            self.allocated[second] = self.allocated.get(second, 0) + 1

    def _rows(self, arrival: Arrival) -> None:
        frame = decode_row(arrival.value)
        assert isinstance(frame, RowsChanged)
        if frame.seq <= self.rows_seq:
            return
        news = [
            self.ledger.pop(seq)
            for seq in range(self.rows_seq + 1, frame.seq + 1)
            if seq in self.ledger
        ]
        self.rows_seq = frame.seq
        if news:
            self.behind.append(arrival.timestamp_ms - news[0])


def share(values: list[int], milli: int) -> int:
    """The value that so many thousandths do not exceed; 0 of none."""
    return sorted(values)[min(len(values) - 1, len(values) * milli // 1000)] if values else 0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, with that of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def broker_pid(data: Path) -> int:
    """The broker, found by the folder of its data in its command line."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                words = (entry / "cmdline").read_bytes()
                if str(data).encode() in words and b"java" in words:
                    return int(entry.name)
    raise SystemExit(f"bench_kafka: no broker with data in {data}")


@contextlib.contextmanager
def kafka(data: Path) -> Iterator[str]:
    """A broker for the run; its address."""
    environment = {**os.environ, "KAFKA_JVM": "-XX:TieredStopAtLevel=4"}
    started = subprocess.run(
        [SCRIPT, "start", "--data", data],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if started.returncode == KAFKA_MISSING:
        print(json.dumps({"kafka": started.stderr.strip()}))
        raise SystemExit(0)
    try:
        if started.returncode:
            raise SystemExit(started.stderr)
        yield started.stdout.strip()
    finally:
        subprocess.run([SCRIPT, "wipe", "--data", data], check=False, capture_output=True)


@contextlib.contextmanager
def child(words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`ganger WORDS` for the run."""
    with log.open("wb") as output:
        process = subprocess.Popen([*COMMAND, *words], stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def load(settings: KafkaSettings, rate: int, seconds: float) -> None:
    """Submit jobs at a steady rate; runs as a process of its own."""
    retry = RetrySpec(limit=0)
    with Producer(settings, CELL, name="load") as producer:
        begin, sent = monotonic(), 0
        while (past := monotonic() - begin) < seconds:
            for number in range(sent, int(past * rate)):
                producer.submit(JobSpec(f"load-{number:07d}", queue="q", retry=retry))
            sent = max(sent, int(past * rate))
            producer.poll()
            sleep(_BURST_SECONDS)


def measure(
    settings: KafkaSettings, options: argparse.Namespace, pids: dict[str, int]
) -> dict[str, object]:
    """Put the load on, then read in the topics what became of it, until all of it was placed.

    Times are the broker's, so nothing has to be read meanwhile, on cores that the load needs.
    """
    place = find_cell(settings, CELL).partition
    reader = PartitionReader(settings, "bench")
    from_start = {(topic, place): 0 for topic in (JOBS, DECISIONS, LEDGER, ROWS)}
    reader.assign(from_start)
    seen = Seen()
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    words = [sys.executable, __file__, "--load", settings.bootstrap, "--rate", str(options.rate)]
    producer = subprocess.Popen([*words, "--seconds", str(options.seconds)])
    sleep(options.seconds)
    spent = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
    producer.wait()
    deadline = monotonic() + DRAIN_SECONDS
    while monotonic() < deadline:
        seen.take(reader.read(10_000, 0.25))
        if len(seen.waits) >= len(seen.submitted) >= 0.9 * options.rate * options.seconds:
            break
    whole = [count for _, count in sorted(seen.allocated.items())][1:-1]
    return {
        "rate": options.rate,
        "seconds": options.seconds,
        "jobs": len(seen.submitted),
        "allocated": len(seen.waits),
        "allocates_per_second_mean": round(sum(whole) / max(1, len(whole))),
        "allocates_per_second_least": min(whole, default=0),
        "event_to_decision_ms_p50": share(seen.waits, 500),
        "event_to_decision_ms_p99": share(seen.waits, 990),
        "event_to_decision_ms_most": max(seen.waits, default=0),
        "rows_behind_ms_p50": share(seen.behind, 500),
        "rows_behind_ms_most": max(seen.behind, default=0),
        "ledger_records": seen.records,
        "cores": os.cpu_count(),
        "cpu_share": {name: round(used / options.seconds, 2) for name, used in spent.items()},
    }


def run(options: argparse.Namespace) -> dict[str, object]:
    """The whole of it, in a folder that goes away."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ganger-bench-")))
        settings = KafkaSettings(stack.enter_context(kafka(folder / "kafka")))
        # One partition: what the load sends to it is what the cell gets.
        create(settings, partitions=1, cells=(CELL,))
        where = ["--kafka", settings.bootstrap]
        words = ["worker", *where, "--data", str(folder / "data"), "--id", "bench"]
        worker = stack.enter_context(child(words, folder / "worker.log"))
        words = ["nodes", "simulate", *where, "--cell", CELL, "--nodes", options.nodes]
        nodes = stack.enter_context(child([*words, "--run", options.run], folder / "nodes.log"))
        with Answers(settings, CELL) as answers, Producer(settings, CELL) as producer:
            sent = [producer.configure_policy(load_policy()), producer.configure_queue(queue("q"))]
            producer.flush()
            answers.wait(sent, READY_SECONDS)
        pids = {"worker": worker.pid, "nodes": nodes.pid, "broker": broker_pid(folder / "kafka")}
        return measure(settings, options, pids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1_200, help="jobs a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they come")
    parser.add_argument("--nodes", default="1000x8", help="as `ganger nodes simulate` takes them")
    parser.add_argument("--run", default="2s", help="run time of every job")
    parser.add_argument("--load", metavar="HOST:PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        load(KafkaSettings(options.load), options.rate, options.seconds)
    else:
        print(json.dumps(run(options)))


if __name__ == "__main__":
    main()

"""The whole loop on this machine, once: `python -m ganger.services.demo`, or `make demo`.

Starts Kafka, a worker and simulated nodes, submits a few hundred jobs through the client, shows
what is decided, waits until all have ended, and proves every decision from the ledger. Everything
lies in a temporary folder and ends with the demo, whatever happens. Exit code 0: all was verified.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Protocol

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, QueueState
from ganger.schemas.records import Amount, QueueConfigured
from ganger.services.answers import Answers
from ganger.services.decision_feed import Decisions
from ganger.services.job_spec import JobSpec, RetrySpec
from ganger.services.producer import Producer
from ganger.streams.kafka.cluster.admin import create
from ganger.streams.kafka.cluster.errors import KafkaFailed
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.presets.loader import load_policy

CELL = "demo"
NODES = "16x8"
PARTITIONS = 4
SPEED = 60
JOBS_DEFAULT = 300
PATIENCE_SECONDS = 90.0
"""How long the jobs may take; they need some twenty seconds on an idle machine."""

KAFKA_SCRIPT = Path(__file__).resolve().parents[1] / "infra" / "kafka" / "kafka"
_GANGER = (sys.executable, "-c", "from ganger.services.cli import main; main()")

_STOP_SECONDS = 20.0
_KAFKA_SECONDS = 300.0  # the first start may fetch Kafka's jars
_LOG_LINES = 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED = 130
_PLACES = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)


class DemoFailed(Exception):
    """A step of the demo did not do what it should."""


class Checked(Protocol):
    """Something without which the demo cannot go on."""

    def check(self) -> None:
        """Raise if it cannot."""


class Interruption:
    """A wish to end, by signal. The exception that it raises wherever the demo is just then may be
    lost in a library's C code, or come out of it as another one; so it is also kept.

    Attributes:
        has_come: whether there was one.
    """

    def __init__(self) -> None:
        """Listen from now on."""
        self.has_come = False
        for number in _SIGNALS:
            signal.signal(number, self._come)

    def check(self) -> None:
        """Raise if it has come."""
        if self.has_come:
            raise KeyboardInterrupt

    def _come(self, number: int, frame: FrameType | None) -> None:
        for other in _SIGNALS:
            signal.signal(other, signal.SIG_IGN)  # what was started is being stopped
        self.has_come = True
        raise KeyboardInterrupt


class Steps:
    """Says what is done, and how long it has taken so far."""

    def __init__(self) -> None:
        self._begin = monotonic()

    def say(self, text: str) -> None:
        """One line."""
        print(f"[{monotonic() - self._begin:5.1f} s] {text}", flush=True)


class Child:
    """A process of the demo, with its output in a file.

    Attributes:
        name: what it is, for people.
    """

    def __init__(self, name: str, words: Sequence[str], folder: Path) -> None:
        """Start `ganger WORDS`; in a session of its own, so that Ctrl-C reaches the demo alone."""
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*_GANGER, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            raise DemoFailed(f"the {self.name} ended with code {code}")

    def tail(self) -> str:
        """The last lines of its output."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:])

    def stop(self) -> None:
        """SIGTERM, and SIGKILL where that is not enough."""
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def draw_jobs(count: int, seed: int) -> list[JobSpec]:
    """Jobs of a research team and of a batch queue, small ones and gangs."""
    chance = random.Random(seed)
    jobs = []
    for number in range(1, count + 1):
        is_gang = chance.random() < 0.25
        jobs.append(
            JobSpec(
                f"job-{number:03d}",
                queue=chance.choice(("research", "batch")),
                user=chance.choice(("ann", "bob", "eve")),
                replicas=chance.choice((2, 4)) if is_gang else 1,
                cards=chance.choice((4, 8)) if is_gang else chance.choice((1, 1, 2, 4)),
                estimate=f"{chance.randint(20, 120)}s",
                retry=RetrySpec(limit=5, backoff="1s", backoff_max="5s"),
            )
        )
    return jobs


def queue_of(name: str, weight: int, cards_max: int | None = None) -> QueueConfigured:
    """A queue at the root."""
    capability = () if cards_max is None else (Amount("cards_milli", cards_max * 1000),)
    return QueueConfigured(
        0, "", None, name, "", weight, 0, (), (), capability, (), (), True, QueueState.OPEN, False
    )


def check(needed: Sequence[Checked]) -> None:
    """Raise if the demo cannot go on."""
    for one in needed:
        one.check()


def configure(settings: KafkaSettings, needed: Sequence[Checked]) -> None:
    """Set policy and queues, and wait until they are in force: jobs travel another way.

    Raises:
        DemoFailed: one was refused, or a process has ended.
        Unanswered: no worker took them in time.
    """
    with Answers(settings, CELL, "demo") as answers:
        with Producer(settings, CELL, name="demo") as producer:
            sent = [
                producer.configure_policy(load_policy()),
                producer.configure_queue(queue_of("research", 3)),
                producer.configure_queue(queue_of("batch", 1, cards_max=96)),
            ]
        found = answers.wait(sent, PATIENCE_SECONDS, partial(check, needed))
        for answer in found.values():
            if answer.refusal is not None:
                raise DemoFailed(f"seq {answer.seq} was refused: {answer.refusal.reason.name}")


@contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """A Kafka of one broker with its data in `folder`; its address."""
    if not KAFKA_SCRIPT.exists():
        raise DemoFailed(f"{KAFKA_SCRIPT} is missing; run the demo from a checkout of ganger")
    try:
        started = _kafka("start", folder)
        if started.returncode:
            raise DemoFailed(f"Kafka did not start: {started.stderr.strip()}")
        yield started.stdout.strip().splitlines()[-1]
    finally:
        _kafka("wipe", folder)


def _kafka(verb: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(KAFKA_SCRIPT), verb, "--data", str(folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_KAFKA_SECONDS,
        check=False,
        start_new_session=True,
    )


def show(decisions: list[Decision]) -> Iterator[str]:
    """A line for each job that was placed, evicted, refused or that ended."""
    placed: dict[tuple[str, int], list[Decision]] = {}
    for decision in decisions:
        if decision.kind in _PLACES:
            placed.setdefault((decision.job, decision.cause_seq), []).append(decision)
    for decision in decisions:
        match decision.kind:
            case DecisionKind.ALLOCATE | DecisionKind.BACKFILL:
                pods = placed.pop((decision.job, decision.cause_seq), None)
                if pods:
                    nodes = ", ".join(dict.fromkeys(pod.node for pod in pods))
                    count = f"{len(pods)} pod" + ("s" if len(pods) > 1 else "")
                    yield f"{decision.kind.name:<8} {decision.job}: {count} on {nodes}"
            case DecisionKind.EVICT | DecisionKind.REJECT | DecisionKind.FINISH:
                yield f"{decision.kind.name:<8} {decision.job}: {decision.reason.name.lower()}"


def follow(
    decisions: Decisions, jobs: Sequence[JobSpec], needed: Sequence[Checked], steps: Steps
) -> None:
    """Show decisions until every job has ended.

    Raises:
        DemoFailed: a process ended, a job was refused, or it takes too long.
    """
    left = {job.job for job in jobs}
    deadline = monotonic() + PATIENCE_SECONDS
    while left:
        check(needed)
        if monotonic() > deadline:
            raise DemoFailed(f"{len(left)} jobs have not ended in {PATIENCE_SECONDS:g} s")
        found = decisions.take(1.0)
        for line in show(found):
            steps.say(line)
        for decision in found:
            if decision.kind is DecisionKind.REJECT:
                raise DemoFailed(
                    f"{decision.job or 'a request'} was refused: {decision.reason.name}"
                )
            if decision.kind is DecisionKind.FINISH:
                left.discard(decision.job)


def run(job_count: int, seed: int, interruption: Interruption) -> None:
    """The demo.

    Raises:
        DemoFailed: a step failed.
        KeyboardInterrupt: it was interrupted; what that came as may be anything.
    """
    steps = Steps()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="ganger-demo-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        steps.say("starting Kafka")
        bootstrap = stack.enter_context(kafka(folder / "kafka"))
        settings = KafkaSettings(bootstrap)
        create(settings, partitions=PARTITIONS, cells=(CELL,))
        steps.say(f"Kafka at {bootstrap}; topics made, cell {CELL} placed")
        on_kafka = ("--kafka", bootstrap)
        worker = Child(
            "worker",
            ("worker", *on_kafka, "--data", str(folder / "worker"), "--id", "demo"),
            folder,
        )
        stack.callback(worker.stop)
        speed = ("--nodes", NODES, "--speed", str(SPEED))
        nodes = Child("nodes", ("nodes", "simulate", *on_kafka, "--cell", CELL, *speed), folder)
        stack.callback(nodes.stop)
        steps.say("a worker and the nodes start")
        try:
            needed = (interruption, worker, nodes)
            work(settings, draw_jobs(job_count, seed), needed, steps)
        except (DemoFailed, KafkaFailed) as error:
            logs = (f"Last words of the {child.name}:\n{child.tail()}" for child in (worker, nodes))
            raise DemoFailed("\n".join([str(error), *logs])) from error
        steps.say("all jobs have ended; stopping the nodes and the worker")
        nodes.stop()
        worker.stop()
        interruption.check()
        url = f"kafka://{bootstrap}/{CELL}"
        steps.say(f"ganger verify {url}")
        verified = subprocess.run([*_GANGER, "verify", url], check=False, start_new_session=True)
        if verified.returncode:
            raise DemoFailed(f"verify ended with code {verified.returncode}")
        steps.say("every decision was recomputed from the ledger and is equal")


def work(
    settings: KafkaSettings, jobs: Sequence[JobSpec], needed: Sequence[Checked], steps: Steps
) -> None:
    """Configure the cell, submit the jobs and follow them to their ends.

    Raises:
        DemoFailed: see `configure` and `follow`.
        KafkaFailed: Kafka or the worker did not do what it should.
    """
    configure(settings, needed)
    steps.say("policy and queues are in force")
    with Decisions(settings, CELL, begin="end") as decisions:
        with Producer(settings, CELL, name="demo") as producer:
            for job in jobs:
                producer.submit(job)
        steps.say(f"{len(jobs)} jobs submitted through the client, for {NODES} cards")
        follow(decisions, jobs, needed, steps)


def main() -> None:
    """Parse the call, run the demo, and end with its code."""
    parser = argparse.ArgumentParser(prog="python -m ganger.services.demo", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS_DEFAULT, help="how many, from 1")
    parser.add_argument("--seed", type=int, default=0, help="from which jobs are drawn")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error(f"--jobs: it is {options.jobs}; give at least 1")
    interruption = Interruption()
    try:
        run(options.jobs, options.seed, interruption)
    except BaseException as error:
        if interruption.has_come:
            print("demo: interrupted; everything it started is stopped", file=sys.stderr)
            os._exit(_INTERRUPTED)
        if not isinstance(error, DemoFailed | KafkaFailed):
            raise
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

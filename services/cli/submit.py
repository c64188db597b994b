"""`ganger submit`: jobs into a cell on Kafka, from options or from a file."""

import sys
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import click

from ganger.replay.traces.source import InputError
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.records import JobSubmitRequested
from ganger.services.cli.connection import DURATION, SENDER, cell_option, kafka_options
from ganger.services.cli.errors import FAILED_CHECK, Failure
from ganger.services.cli.events import decision_text
from ganger.services.cli.sending import check_cell
from ganger.services.cli.units import Clock, count_text, duration_text
from ganger.services.decision_feed import Decisions
from ganger.services.job_files import JobLine, checked_job, parse_jobs, read_text
from ganger.services.job_spec import JobSpec
from ganger.services.producer import NotDelivered, Producer
from ganger.streams.kafka.cluster.settings import KafkaSettings

STDIN = "-"
WAIT_DEFAULT = "60s"

_SHOWN_KINDS = (
    DecisionKind.ADMIT,
    DecisionKind.ALLOCATE,
    DecisionKind.BACKFILL,
    DecisionKind.REJECT,
    DecisionKind.FINISH,
)
_ANSWERS = (
    DecisionKind.ALLOCATE,
    DecisionKind.BACKFILL,
    DecisionKind.REJECT,
    DecisionKind.FINISH,
)
_KEY_CHARS = 12
_SECOND_NS = 10**9


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@kafka_options
@cell_option
@click.option("--job", metavar="KEY", help="The job's own key. Default: a fresh one.")
@click.option("--queue", metavar="Q", help="Default: default.")
@click.option("--cards", type=click.IntRange(min=0), help="Whole cards of each pod. Default: 1.")
@click.option("--replicas", type=click.IntRange(min=1), help="Pods. Default: 1.")
@click.option("--estimate", metavar="D", help="How long it is expected to run, as 90s or 1h30m.")
@click.option("--limit", "time_limit", metavar="D", help="How long it may run.")
@click.option("--model", "models", metavar="M", multiple=True, help="A card model that will do.")
@click.option("--user", metavar="NAME", help="Whose job it is.")
@click.option("--tenant", metavar="NAME", help="For whom it runs.")
@click.option("--priority-class", metavar="NAME", help="A class that the policy names.")
@click.option("--priority", type=int, help="Within the class; higher goes first.")
@click.option("--event-id", metavar="ID", help="Sent again under the same id it counts once.")
@click.option("--wait", is_flag=True, help="Print decisions until each job is placed or refused.")
@click.option(
    "--timeout",
    "timeout_ns",
    type=DURATION,
    default=WAIT_DEFAULT,
    show_default=True,
    help="How long --wait waits.",
)
def submit(
    file: str | None,
    settings: KafkaSettings,
    cell: str,
    wait: bool,
    timeout_ns: int,
    **options: Any,
) -> None:
    """Submit the job that the options describe, or those in FILE, to a cell.

    FILE is one job in TOML, or many as lines of JSON with the same keys, of which docs/jobs.md has
    all; `-` is standard input. A file with an error in it has no effect. One line is printed for
    each job when it is safe in Kafka; whether it is taken the cell decides: see --wait.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    jobs = _from_file(file, given) if file is not None else [_from_options(given)]
    if not jobs:
        raise InputError(file or STDIN, "there is no job in it", "see docs/jobs.md")
    check_cell(settings, cell)
    if not wait:
        _send(settings, cell, jobs)
        return
    with closing(Decisions(settings, cell, begin="end", name=SENDER)) as decisions:
        _send(settings, cell, jobs)
        _await(decisions, {job.request.job: job.request for job in jobs}, timeout_ns)


def _from_options(given: dict[str, Any]) -> JobLine:
    spec = JobSpec(**{"job": f"job-{uuid4().hex[:_KEY_CHARS]}", **given})
    return JobLine("", checked_job(spec.request(), "the options"))


def _from_file(file: str, given: dict[str, Any]) -> list[JobLine]:
    if given:
        option = "--" + next(iter(given)).replace("_", "-")
        raise InputError(option, f"the job is described in {file}", "write it into the file")
    if file == STDIN:
        return parse_jobs(read_text(sys.stdin.buffer, "standard input"), "standard input")
    try:
        with Path(file).open("rb") as stream:
            text = read_text(stream, file)
    except OSError as error:
        raise InputError(
            file, f"cannot be read ({error.strerror})", "give the path of a file, or - "
        ) from error
    return parse_jobs(text, file)


def _send(settings: KafkaSettings, cell: str, jobs: list[JobLine]) -> None:
    """Send all; where something fails, say which are safe and which are not."""
    safe: dict[str, bool] = {}
    keys: dict[str, str] = {}

    def delivered(event_id: str) -> None:
        safe[event_id] = True
        click.echo(f"sent {keys[event_id]}")

    producer = Producer(settings, cell, name=SENDER, on_delivered=delivered)
    try:
        for _, request in jobs:
            event_id = request.event_id or str(uuid4())
            keys[event_id] = request.job
            producer.submit(request, event_id=event_id)
        producer.flush()
    except NotDelivered:
        click.echo(
            f"{count_text(len(safe), 'job')} of {len(jobs):,} were sent: those listed above.",
            err=True,
        )
        raise


def _await(decisions: Decisions, requests: dict[str, JobSubmitRequested], timeout_ns: int) -> None:
    """Print what is decided about jobs until each is placed or refused."""
    open_keys = dict.fromkeys(requests)
    refused = 0
    clock = Clock()
    end = monotonic() + timeout_ns / _SECOND_NS
    while open_keys and monotonic() < end:
        for decision in decisions.take(min(1.0, max(0.0, end - monotonic()))):
            if decision.job in requests and decision.kind in _SHOWN_KINDS:
                click.echo(_line(decision, requests[decision.job], clock))
                if decision.kind in _ANSWERS and decision.job in open_keys:
                    del open_keys[decision.job]
                    refused += decision.kind is DecisionKind.REJECT
    if open_keys:
        raise Failure(
            f"{count_text(len(open_keys), 'job')} of {len(requests):,} neither placed nor refused "
            f"within {duration_text(timeout_ns)}: {', '.join(list(open_keys)[:5])}"
            f"{', ...' if len(open_keys) > 5 else ''}. They wait: `ganger why` says for what. If "
            "nothing was printed, see whether a worker runs.",
            FAILED_CHECK,
        )
    if refused:
        raise Failure(f"{count_text(refused, 'job')} of {len(requests):,} refused.", FAILED_CHECK)


def _line(decision: Decision, request: JobSubmitRequested, clock: Clock) -> str:
    text = decision_text(decision, request)
    return f"{clock.text(decision.time_ns)}  {decision.kind.name} {text}"

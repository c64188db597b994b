"""`ganger queue`: the queues of a cell on Kafka."""

from pathlib import Path

import click

from ganger.replay.traces.source import InputError
from ganger.services.cli.connection import cell_option, kafka_options, wait_options
from ganger.services.cli.events import decision_text
from ganger.services.cli.sending import send_all
from ganger.services.job_files import parse_queues, read_text
from ganger.streams.kafka.cluster.settings import KafkaSettings


@click.group()
def queue() -> None:
    """Make, change and remove queues of a cell on Kafka."""


@queue.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@kafka_options
@cell_option
@wait_options
def apply(file: Path, settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """Make the queues of a cell as FILE describes them, in TOML as docs/jobs.md says.

    Queues that FILE does not name stay as they are. One line is printed for each queue when its
    event is safe in Kafka; one that cannot be as described is refused by a decision.
    """
    try:
        with file.open("rb") as stream:
            text = read_text(stream, str(file))
    except OSError as error:
        raise InputError(
            str(file), f"cannot be read ({error.strerror})", "give the path of a file"
        ) from error
    queues = parse_queues(text, str(file))
    if not queues:
        raise InputError(str(file), "it has no queues", "begin each with [[queues]] and name = ...")
    send_all(
        settings,
        cell,
        ((queue, queue.queue + (" (removed)" if queue.removed else "")) for queue in queues),
        wait_ns,
        decision_text,
    )

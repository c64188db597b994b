"""`ganger queue`: the queues of a cell on Kafka."""

from pathlib import Path
from time import time_ns

import click

from ganger.replay.traces.source import InputError
from ganger.schemas.records import Record
from ganger.services.cell_files import parse_flavors, parse_zones
from ganger.services.cli.connection import cell_option, kafka_options, wait_options
from ganger.services.cli.sending import send_all
from ganger.services.job_files import parse_queues, read_text
from ganger.streams.kafka.cluster.settings import KafkaSettings


@click.group()
def queue() -> None:
    """Configure queues, flavors and zones of a cell on Kafka."""


@queue.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@kafka_options
@cell_option
@wait_options
def apply(file: Path, settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """Make the flavors, zones and queues of a cell as FILE describes them, in TOML as docs/jobs.md
    says.

    Those that FILE does not name stay as they are. One line is printed for each when its event is
    safe in Kafka; one that cannot be as described is refused by a decision.
    """
    try:
        with file.open("rb") as stream:
            text = read_text(stream, str(file))
    except OSError as error:
        raise InputError(
            str(file), f"cannot be read ({error.strerror})", "give the path of a file"
        ) from error
    named = _records(text, str(file))
    if not named:
        raise InputError(str(file), "it has no queues", "begin each with [[queues]] and name = ...")
    send_all(settings, cell, named, wait_ns)


def _records(text: str, place: str) -> list[tuple[Record, str]]:
    """The events that a file makes, each with the name of what it is about: what queues refer to
    before them, and what they no longer refer to after them.
    """
    flavors = [(flavor, flavor.flavor) for flavor in parse_flavors(text, place)]
    zones = [(zone, zone.zone) for zone in parse_zones(text, place, time_ns())]
    queues = [(queue, queue.queue) for queue in parse_queues(text, place)]
    made: list[tuple[Record, str]] = []
    made += [(flavor, f"flavor {name}") for flavor, name in flavors if not flavor.removed]
    made += [(zone, f"zone {name}{_gone(zone.removed)}") for zone, name in zones]
    made += [(queue, f"{name}{_gone(queue.removed)}") for queue, name in queues]
    made += [(flavor, f"flavor {name} (removed)") for flavor, name in flavors if flavor.removed]
    return made


def _gone(removed: bool) -> str:
    return " (removed)" if removed else ""

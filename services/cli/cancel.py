"""`ganger cancel`: ends jobs of a cell on Kafka."""

import click

from ganger.schemas.records import JobCancelRequested
from ganger.services.cli.connection import (
    cell_option,
    kafka_options,
    requester,
    wait_options,
)
from ganger.services.cli.sending import send_all
from ganger.streams.kafka.cluster.settings import KafkaSettings


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@kafka_options
@cell_option
@wait_options
def cancel(jobs: tuple[str, ...], settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """End jobs: waiting ones at once, running ones by evicting their pods.

    One line is printed for each request when it is safe in Kafka. A job that the cell does not know
    is refused by a decision.
    """
    by = requester()
    send_all(
        settings,
        cell,
        ((JobCancelRequested(0, "", None, job, by), job) for job in jobs),
        wait_ns,
        done="accepted",
    )

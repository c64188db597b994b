"""`ganger policy`: the scheduling policy of a cell on Kafka."""

import click

from ganger.services.cli.connection import cell_option, kafka_options, wait_options
from ganger.services.cli.sending import send_all
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.presets.loader import load_policy


@click.group()
def policy() -> None:
    """Set the scheduling policy of a cell on Kafka."""


@policy.command()
@click.argument("policy", metavar="NAME|FILE")
@kafka_options
@cell_option
@wait_options
def apply(policy: str, settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """Put a policy in force from the cell's next cycle on: a preset by NAME, or a TOML FILE.

    It is proved to compile before it is sent.
    """
    record = load_policy(policy)
    send_all(settings, cell, [(record, record.policy)], wait_ns)

"""`ganger node`: what operators do to single nodes of a cell on Kafka."""

import click

from ganger.schemas.records import NodeCordoned, NodeDrained, NodeUncordoned
from ganger.services.cli.connection import (
    cell_option,
    kafka_options,
    requester,
    wait_options,
)
from ganger.services.cli.events import decision_text
from ganger.services.cli.sending import send_all
from ganger.streams.kafka.cluster.settings import KafkaSettings

_nodes = click.argument("nodes", metavar="NODE...", nargs=-1, required=True)


@click.group()
def node() -> None:
    """Cordon, drain and uncordon nodes of a cell on Kafka."""


@node.command()
@_nodes
@kafka_options
@cell_option
@wait_options
def cordon(nodes: tuple[str, ...], settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """Place no new pods on nodes; those there run on."""
    by = requester()
    send_all(
        settings,
        cell,
        ((NodeCordoned(0, "", None, name, by), name) for name in nodes),
        wait_ns,
        decision_text,
    )


@node.command()
@_nodes
@kafka_options
@cell_option
@wait_options
def drain(nodes: tuple[str, ...], settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """Place no new pods on nodes, and evict those that are there."""
    by = requester()
    send_all(
        settings,
        cell,
        ((NodeDrained(0, "", None, name, by, 0), name) for name in nodes),
        wait_ns,
        decision_text,
    )


@node.command()
@_nodes
@kafka_options
@cell_option
@wait_options
def uncordon(nodes: tuple[str, ...], settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """End the cordon or the drain of nodes."""
    by = requester()
    send_all(
        settings,
        cell,
        ((NodeUncordoned(0, "", None, name, by), name) for name in nodes),
        wait_ns,
        decision_text,
    )

"""`ganger node`: what operators do to single nodes of a cell on Kafka."""

from collections.abc import Callable

import click

from ganger.schemas.records import NodeCordoned, NodeDrained, NodeUncordoned, Record
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
    _ask(settings, cell, nodes, wait_ns, lambda name, by: NodeCordoned(0, "", None, name, by))


@node.command()
@_nodes
@kafka_options
@cell_option
@wait_options
def drain(nodes: tuple[str, ...], settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """Place no new pods on nodes, and evict those that are there."""
    _ask(settings, cell, nodes, wait_ns, lambda name, by: NodeDrained(0, "", None, name, by, 0))


@node.command()
@_nodes
@kafka_options
@cell_option
@wait_options
def uncordon(nodes: tuple[str, ...], settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """End the cordon or the drain of nodes."""
    _ask(settings, cell, nodes, wait_ns, lambda name, by: NodeUncordoned(0, "", None, name, by))


def _ask(
    settings: KafkaSettings,
    cell: str,
    nodes: tuple[str, ...],
    wait_ns: int,
    request: Callable[[str, str], Record],
) -> None:
    """Send what `request` makes of each node's name and the caller's."""
    by = requester()
    send_all(settings, cell, ((request(name, by), name) for name in nodes), wait_ns, decision_text)

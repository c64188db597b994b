"""`ganger node`: what operators do to single nodes of a cell on Kafka."""

from collections.abc import Callable
from time import time_ns
from typing import Any

import click

from ganger.replay.traces.source import InputError
from ganger.schemas.enums import IslandPolicy
from ganger.schemas.records import (
    NodeCordoned,
    NodeDrained,
    NodeUncordoned,
    PodRequest,
    Record,
    ReservationRequested,
)
from ganger.services.cli.connection import (
    DURATION,
    cell_option,
    kafka_options,
    requester,
    wait_options,
)
from ganger.services.cli.sending import send_all
from ganger.services.cli.units import utc_ns
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kernel.limits import TIME_MAX

_nodes = click.argument("nodes", metavar="NODE...", nargs=-1, required=True)


@click.group()
def node() -> None:
    """Cordon, drain, uncordon and reserve nodes of a cell on Kafka."""


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


@node.command()
@click.argument("name", metavar="NAME")
@click.argument("nodes", metavar="[NODE...]", nargs=-1)
@click.option("--cards", type=click.IntRange(1), help="So many of each node; all by default.")
@click.option("--pods", type=click.IntRange(1), help="Places for so many pods, on any nodes.")
@click.option("--pod-cards", type=click.IntRange(1), help="Cards of each of these pods.")
@click.option("--model", "models", multiple=True, help="A model that these cards may have.")
@click.option("--from", "begin", metavar="TIME", help="UTC, as 2027-01-31T08:00; now by default.")
@click.option("--for", "lasts_ns", type=DURATION, required=True, help="For how long.")
@click.option("--queue", "queues", multiple=True, help="A queue whose jobs may use it.")
@click.option("--user", "users", multiple=True, help="A user whose jobs may.")
@click.option("--tenant", "tenants", multiple=True, help="A tenant whose jobs may.")
@click.option("--maintenance", "is_maintenance", is_flag=True, help="Nobody may.")
@kafka_options
@cell_option
@wait_options
def reserve(
    name: str,
    nodes: tuple[str, ...],
    cards: int | None,
    pods: int | None,
    pod_cards: int | None,
    models: tuple[str, ...],
    begin: str | None,
    lasts_ns: int,
    settings: KafkaSettings,
    cell: str,
    wait_ns: int,
    **whose: Any,
) -> None:
    """Keep nodes, cards of nodes or places for pods as reservation NAME, for some jobs or for none.

    Jobs that are not for it and would run into it do not start there; what runs there stays. A
    reservation of the same name is replaced.
    """
    if bool(nodes) == (pods is not None) or (pods is None) != (pod_cards is None):
        remedy = "name nodes, or give --pods and --pod-cards"
        raise InputError("reserve", "it does not say what is to be kept", remedy)
    if pods is None and models:
        raise InputError("--model", "it is of --pods, and nodes are named", "leave it out")
    if pods is not None and cards is not None:
        raise InputError("--cards", "it is of nodes, and none is named", "give --pod-cards alone")
    request = None
    if pod_cards is not None:
        request = PodRequest(pod_cards, 0, 0, 0, models, IslandPolicy.ANY, 0, 0, (), (), ())
    from_ns = time_ns() if begin is None else _moment_ns(begin)
    span = from_ns, from_ns + lasts_ns
    made = ReservationRequested(
        *(0, "", None, name, requester(), nodes, cards or 0, *span, False),
        request=request,
        pods=pods or 0,
        **whose,
    )
    send_all(settings, cell, [(made, name)], wait_ns)


@node.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@kafka_options
@cell_option
@wait_options
def release(names: tuple[str, ...], settings: KafkaSettings, cell: str, wait_ns: int) -> None:
    """Give reservations back before their time is over."""
    _ask(
        *(settings, cell, names, wait_ns),
        lambda name, by: ReservationRequested(0, "", None, name, by, (), 0, 0, 0, True),
    )


def _moment_ns(text: str) -> int:
    """A time in UTC, as nanoseconds since 1970."""
    try:
        moment_ns = utc_ns(text.removesuffix("Z"))
    except ValueError as error:
        raise InputError("--from", f"it is {text!r}", "write it as 2027-01-31T08:00") from error
    if not 0 <= moment_ns <= TIME_MAX:
        raise InputError("--from", f"it is {text!r}", "give a time between 1970 and 2116")
    return moment_ns


def _ask(
    settings: KafkaSettings,
    cell: str,
    nodes: tuple[str, ...],
    wait_ns: int,
    request: Callable[[str, str], Record],
) -> None:
    """Send what `request` makes of each node's name and the caller's."""
    by = requester()
    send_all(settings, cell, ((request(name, by), name) for name in nodes), wait_ns)

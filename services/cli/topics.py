"""`ganger topics`: the topics of ganger on a Kafka, and the cells in them."""

from collections.abc import Sequence

import click
import msgspec

from ganger.services.cli.arguments import json_option
from ganger.services.cli.connection import kafka_options
from ganger.services.cli.errors import FAILED_CHECK
from ganger.services.cli.render import echo_columns, terminal_columns
from ganger.streams.kafka.cluster import admin, asyncapi
from ganger.streams.kafka.cluster.cells import Placement, read_placements
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import CELLS, LEDGER, PARTITIONS_DEFAULT, TOPICS

_FOREVER = "unlimited"
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))

partitions_option = click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(min=1),
    help="Partitions of topics with one per cell, the most cells there can be. Default: those of "
    f"the topics that are there, else {PARTITIONS_DEFAULT}.",
)
replication_option = click.option(
    "--replication",
    metavar="R",
    type=click.IntRange(min=1),
    help="Copies of each partition. Default: 3, or one per broker where there are fewer.",
)


@click.group()
def topics() -> None:
    """Create, check and list ganger's topics on a Kafka."""


@topics.command()
@kafka_options
@partitions_option
@replication_option
@click.option(
    "--cell", "cells", metavar="NAME", multiple=True, help="Give a cell a partition; repeatable."
)
@json_option
def create(
    settings: KafkaSettings,
    partitions: int | None,
    replication: int | None,
    cells: Sequence[str],
    as_json: bool,
) -> None:
    """Make the topics that are missing, and place cells.

    Topics that are there are left as they are; `ganger topics check` compares them. A cell that
    has a partition keeps it. May be called again, and by several at once.
    """
    done = admin.create(settings, partitions=partitions, replication=replication, cells=cells)
    if as_json:
        places = {place.cell: place.partition for place in done.placements}
        plain = {"made": done.made, "kept": done.kept, "cells": places}
        click.echo(msgspec.json.encode(plain))
        return
    for name in done.made:
        click.echo(f"made {name}")
    if done.kept:
        click.echo(f"{len(done.kept)} topics were there already")
    for place in done.placements:
        click.echo(f"cell {place.cell} has partition {place.partition}")


@topics.command()
@kafka_options
@partitions_option
@replication_option
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    settings: KafkaSettings,
    partitions: int | None,
    replication: int | None,
    as_json: bool,
) -> None:
    """Compare the topics with their declaration.

    Ends with 0 if nothing differs, else with 1 and one line for each difference: topic, setting,
    what is declared, what was found, and what to do.
    """
    found = admin.check(settings, partitions=partitions, replication=replication)
    if as_json:
        click.echo(msgspec.json.encode(found))
    elif found:
        for finding in found:
            click.echo(str(finding))
    else:
        click.echo(f"{len(TOPICS)} topics are as declared")
    ctx.exit(FAILED_CHECK if found else 0)


@topics.command("list")
@kafka_options
@json_option
def list_(settings: KafkaSettings, as_json: bool) -> None:
    """Show the topics and the partition of each cell."""
    found = admin.describe(settings)
    names = {topic.name for topic in found}
    # Without these two no cell can be placed.
    placed = read_placements(settings) if {CELLS, LEDGER} <= names else {}
    cells = sorted(placed.values(), key=lambda place: place.partition)
    if as_json:
        plain = {
            "topics": found,
            "cells": {place.cell: place.partition for place in cells},
        }
        click.echo(msgspec.json.encode(plain))
        return
    _echo_topics(found, cells)


@topics.command("asyncapi")
def asyncapi_() -> None:
    """Print the AsyncAPI document of the topics and their messages. Asks no Kafka."""
    click.echo(asyncapi.text(), nl=False)


def _echo_topics(found: Sequence[admin.Topic], cells: Sequence[Placement]) -> None:
    header = ("topic", "partitions", "copies", "cleanup", "retention", "id")
    rows = [
        (
            topic.name,
            topic.partitions,
            topic.replication,
            topic.configs.get("cleanup.policy", "?"),
            _retention(topic),
            topic.topic_id,
        )
        for topic in found
    ]
    echo_columns(header, rows, expendable=("id", "copies"), columns=terminal_columns())
    missing = [name for name in TOPICS if name not in {topic.name for topic in found}]
    if missing:
        click.echo(f"Note: missing: {', '.join(missing)}; `ganger topics create`.", err=True)
    if cells:
        click.echo()
        echo_columns(("cell", "partition"), [(place.cell, place.partition) for place in cells])


def _retention(topic: admin.Topic) -> str:
    """How long the topic's messages are kept: what compaction keeps has no age."""
    text = topic.configs.get("retention.ms", "?")
    if topic.configs.get("cleanup.policy") == "compact":
        return "newest"
    if not text.isdigit():
        return _FOREVER if text.startswith("-") else text
    for unit, size_ms in _UNITS_MS:
        if int(text) % size_ms == 0 and int(text):
            return f"{int(text) // size_ms} {unit}"
    return f"{text} ms"

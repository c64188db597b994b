"""Requests of operators sent to a cell, with a line for each and its answer where it is wanted."""

from collections.abc import Iterable
from contextlib import suppress

import click

from ganger.schemas.records import Record
from ganger.services.answers import Answers
from ganger.services.cli.connection import SENDER
from ganger.services.cli.events import decision_text
from ganger.services.cli.units import count_text
from ganger.services.producer import Producer
from ganger.streams.kafka.cluster.cells import find_cell
from ganger.streams.kafka.cluster.errors import KafkaFailed, RequestRefused
from ganger.streams.kafka.cluster.settings import KafkaSettings

_SECOND_NS = 10**9


class RequestsRefused(KafkaFailed):
    """The cell refuses requests; which, and why, was printed."""


def send_all(
    settings: KafkaSettings,
    cell: str,
    records: Iterable[tuple[Record, str]],
    wait_ns: int,
    done: str = "in force",
) -> None:
    """Send requests and wait until they are safe; a line for each, with its answer if wanted.

    Args:
        settings: how to reach Kafka.
        cell: to which they go.
        records: the requests, each with the name of what it is about.
        wait_ns: how long to wait for answers; 0: not at all.
        done: what is said of each that was not refused.

    Raises:
        InputRefused: one is none; those before it may have been sent.
        NotDelivered: lists what is not safe.
        Unanswered: answers did not come in time.
        RequestsRefused: one was refused.
    """
    if not wait_ns:
        for _, name in _sent(settings, cell, records).values():
            click.echo(f"sent {name}")
        return
    with Answers(settings, cell, SENDER) as answers:
        sent = _sent(settings, cell, records)
        found = answers.wait(sent, wait_ns / _SECOND_NS)
    refused = 0
    for event_id, (record, name) in sent.items():
        seq, refusal = found[event_id]
        if refusal is None:
            click.echo(f"seq {seq:,}  {name}: {done}")
        else:
            refused += 1
            click.echo(f"seq {seq:,}  {name}: REJECT {decision_text(refusal, record)}")
    if refused:
        raise RequestsRefused(f"{refused} of {count_text(len(sent), 'request')} refused")


def check_cell(settings: KafkaSettings, cell: str) -> None:
    """Refuse a cell that is not placed: what is sent to it would become dead letters.

    Raises:
        CellUnknown: it is not.
        TopicMissing: the topics were not made.
        KafkaFailed: Kafka does not answer.
    """
    with suppress(RequestRefused):  # who may only write cannot look
        find_cell(settings, cell)


def _sent(
    settings: KafkaSettings, cell: str, records: Iterable[tuple[Record, str]]
) -> dict[str, tuple[Record, str]]:
    """Send, and give the requests with their names by event id once all are safe."""
    check_cell(settings, cell)
    with Producer(settings, cell, name=SENDER) as producer:
        return {producer.send(record): (record, name) for record, name in records}

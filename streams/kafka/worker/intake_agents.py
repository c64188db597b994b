"""Faust's side of a worker: agents that hand every message on, one by one and in order.

An event of the stream says that messages are there; they are taken from the batch, of which it is
one. Nothing is awaited between two messages and nothing is acknowledged to Faust: the topics are
declared without acknowledgements, and `acks` says what `app` commits.
"""

from collections.abc import Callable
from typing import Any, Protocol

import faust

from ganger.streams.kafka.cluster.topics import INPUTS
from ganger.streams.kafka.worker.desk import Message
from ganger.streams.kafka.worker.haste import Batches


class Receiver(Protocol):
    """Takes messages of a topic."""

    def take(self, message: Message) -> None:
        """Handle a message; messages of a partition come in their order."""


def install(app: "faust.App", desk: Receiver) -> Batches:
    """Give an app its agents: the desk gets every message of the input topics.

    Returns:
        Where the messages wait for their agents.
    """
    batches = Batches(INPUTS)
    batches.gather(app.topics)
    for topic in INPUTS:
        _agent(app, topic, desk, batches)
    return batches


def _agent(app: "faust.App", topic: str, receiver: Receiver, batches: Batches) -> None:
    channel = app.topic(
        topic,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=app.conf.topic_partitions,
        acks=False,
        allow_empty=True,
        internal=False,
    )

    async def hand_on(stream: Any) -> None:
        take: Callable[[Message], None] = receiver.take
        async for _ in stream.noack().events():
            for found in batches.take(topic):
                take(
                    Message(
                        found.topic,
                        found.partition,
                        found.offset,
                        found.key,
                        found.value,
                        found.headers or (),
                    )
                )

    app.agent(channel, name=f"ganger.take.{topic}", concurrency=1)(hand_on)

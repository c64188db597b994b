"""Makes Faust's fetch loop cheap for messages that are handed on at once, as nearly all are.

For each message Faust waits for the first of four things: that the message was handed on, that the
flow is suspended, that the consumer stops or crashes. Each of them becomes a task, which costs more
than all that is done with the message. Here the handing on is begun at once, outside of any task;
only if it has to wait do the others come into play, as before.

And a stream costs several times what an agent here does with a message. So an agent is woken by the
first of those that came since it last ran, and takes all of them: `Batches`.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from inspect import iscoroutine
from types import coroutine
from typing import Any

WAKE_EVERY = 128
"""An agent whose waking was called off is woken again after so many messages. Faust's fetch loop
lets agents run after each 100, so this is not met while all goes well."""


class Batches:
    """The messages of some topics that came since their agent last took them.

    All messages go through here, also the one that wakes the agent, so that they are taken in the
    order in which they were fetched whatever becomes of the waking.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        """No message has come."""
        self._waiting: dict[str, deque[Any]] = {topic: deque() for topic in topics}

    def gather(self, conductor: Any) -> None:
        """Get messages before a Faust conductor; before anything else is made from it."""
        wake = conductor.on_message
        waiting = self._waiting

        def on_message(message: Any) -> Coroutine[Any, Any, None] | None:
            """Returns what is to be awaited, if anything is."""
            batch = waiting.get(message.topic)
            if batch is not None:
                batch.append(message)
                if len(batch) % WAKE_EVERY != 1:
                    return None
            woken: Coroutine[Any, Any, None] = wake(message)
            return woken

        conductor.on_message = on_message

    def take(self, topic: str) -> Iterator[Any]:
        """The messages of a topic, in order; they are gone then."""
        batch = self._waiting[topic]
        while batch:
            yield batch.popleft()

    def forget(self) -> None:
        """Faust has emptied its queues: nobody is woken for what is here. It is read again."""
        for batch in self._waiting.values():
            batch.clear()


FETCH_WAIT_MS = 50
"""Longest that a fetch waits at the broker where nothing is to be had. Faust fixes it at 1,500 ms.
While one waits, no other goes to that broker, and partitions whose messages were still being
handled when it went out are not in it: each would have to wait for as long."""


def shorten_fetches(consumer: Any) -> None:
    """Let the fetches of a Faust consumer that has started wait for `FETCH_WAIT_MS` at most.

    Raises:
        AttributeError: Faust or aiokafka name it otherwise than in the versions that are locked.
    """
    fetcher = consumer._thread._consumer._fetcher
    assert fetcher._fetch_max_wait_ms > 0
    fetcher._fetch_max_wait_ms = FETCH_WAIT_MS


def hasten(consumer: Any) -> None:
    """Let a Faust consumer hand messages on without tasks where it need not wait."""
    patient = consumer.wait_first

    async def wait_first(*awaited: Any, timeout: Any = None) -> Any:
        first, *others = awaited
        if first is None:  # handed on already
            others[0].close()  # a coroutine that nobody will await
            return None
        if len(others) != 1 or not iscoroutine(first):
            return await patient(*awaited, timeout=timeout)
        try:
            waits_for = first.send(None)
        except BaseException as end:
            others[0].close()
            if isinstance(end, StopIteration):
                return None
            raise
        return await patient(_from_there(first, waits_for), *others, timeout=timeout)

    consumer.wait_first = wait_first


async def _from_there(begun: Coroutine[Any, Any, Any], waits_for: Any) -> Any:
    """The rest of a coroutine that was begun, and waits for a future."""
    return await _drive(begun, waits_for)


@coroutine
def _drive(begun: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    while True:
        step: Callable[[Any], Any]
        argument: Any
        try:
            argument = yield waits_for
            step = begun.send
        except BaseException as error:
            argument = error
            step = begun.throw
        try:
            waits_for = step(argument)
        except StopIteration as end:
            return end.value

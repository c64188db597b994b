"""Makes Faust's fetch loop cheap for messages that are handed on at once, as nearly all are.

For each message Faust waits for the first of four things: that the message was handed on, that the
flow is suspended, that the consumer stops or crashes. Each of them becomes a task, which costs more
than all that is done with the message. Here the handing on is begun at once, outside of any task;
only if it has to wait do the others come into play, as before.
"""

from collections.abc import Callable, Coroutine, Generator
from inspect import iscoroutine
from types import coroutine
from typing import Any


def hasten(consumer: Any) -> None:
    """Let a Faust consumer hand messages on without tasks where it need not wait."""
    patient = consumer.wait_first

    async def wait_first(*awaited: Any, timeout: Any = None) -> Any:
        first, *others = awaited
        if len(others) != 1 or not iscoroutine(first):
            return await patient(*awaited, timeout=timeout)
        try:
            waits_for = first.send(None)
        except BaseException as end:
            others[0].close()  # a coroutine that nobody will await
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

"""Handing on without tasks: the same results where it ends at once, waits, or fails."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from mode import Service

from ganger.streams.kafka.worker.haste import WAKE_EVERY, Batches, hasten


class Consumer(Service):
    """As much of Faust's consumer as waits."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.suspended = asyncio.Event()
        self.handed: list[str] = []
        self.tasks = 0

    async def hand_on(self, message: str, *, waits: bool = False) -> None:
        if waits:
            await self.gate.wait()
            await asyncio.sleep(0)
        if message == "bad":
            raise ValueError(message)
        self.handed.append(message)

    async def drain(self, message: str, *, waits: bool = False) -> Any:
        return await self.wait_first(self.hand_on(message, waits=waits), self.suspended.wait())


def consumer() -> Consumer:
    made = Consumer()
    hasten(made)
    return made


def test_what_ends_at_once_needs_no_task() -> None:
    async def scene() -> None:
        quick = consumer()
        before = len(asyncio.all_tasks())
        for number in range(3):
            await quick.drain(f"m{number}")
        assert quick.handed == ["m0", "m1", "m2"]
        assert len(asyncio.all_tasks()) == before

    asyncio.run(scene())


def test_what_waits_is_waited_for() -> None:
    async def scene() -> None:
        slow = consumer()
        draining = asyncio.ensure_future(slow.drain("m", waits=True))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not draining.done()
        slow.gate.set()
        await draining
        assert slow.handed == ["m"]

    asyncio.run(scene())


def test_a_suspended_flow_ends_the_waiting() -> None:
    async def scene() -> None:
        slow = consumer()
        draining = asyncio.ensure_future(slow.drain("m", waits=True))
        await asyncio.sleep(0)
        slow.suspended.set()
        await draining
        slow.gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert slow.handed == [], "it was called off"

    asyncio.run(scene())


@pytest.mark.parametrize("waits", [False, True])
def test_failures_come_through(waits: bool) -> None:
    async def scene() -> None:
        failing = consumer()
        failing.gate.set()
        with pytest.raises(ValueError, match="bad"):
            await failing.drain("bad", waits=waits)

    asyncio.run(scene())


class Conductor:
    """As much of Faust's conductor as hands on."""

    def __init__(self) -> None:
        self.woken: list[Fetched] = []

    async def on_message(self, message: "Fetched") -> None:
        self.woken.append(message)


@dataclass(frozen=True)
class Fetched:
    topic: str
    offset: int


def gathered() -> tuple[Batches, Conductor, Consumer]:
    batches, conductor, consumer_ = Batches(["jobs", "pods"]), Conductor(), consumer()
    batches.gather(conductor)
    return batches, conductor, consumer_


async def fetch(conductor: Conductor, consumer_: Consumer, *messages: Fetched) -> None:
    for message in messages:
        await consumer_.wait_first(conductor.on_message(message), consumer_.suspended.wait())


def test_an_agent_is_woken_once_and_takes_all_in_order() -> None:
    async def scene() -> None:
        batches, conductor, consumer_ = gathered()
        messages = [Fetched("jobs", number) for number in range(5)]
        await fetch(conductor, consumer_, *messages, Fetched("pods", 0))
        assert conductor.woken == [messages[0], Fetched("pods", 0)]
        assert list(batches.take("jobs")) == messages
        assert list(batches.take("jobs")) == []
        await fetch(conductor, consumer_, Fetched("jobs", 5))
        assert conductor.woken[-1] == Fetched("jobs", 5)
        assert list(batches.take("pods")) == [Fetched("pods", 0)]

    asyncio.run(scene())


def test_other_topics_go_their_way() -> None:
    async def scene() -> None:
        _, conductor, consumer_ = gathered()
        messages = [Fetched("rows", number) for number in range(3)]
        await fetch(conductor, consumer_, *messages)
        assert conductor.woken == messages

    asyncio.run(scene())


def test_an_agent_whose_waking_was_called_off_is_woken_again() -> None:
    async def scene() -> None:
        batches, conductor, consumer_ = gathered()
        messages = [Fetched("jobs", number) for number in range(2 * WAKE_EVERY)]
        await fetch(conductor, consumer_, *messages)
        assert conductor.woken == [messages[0], messages[WAKE_EVERY]]
        batches.forget()
        await fetch(conductor, consumer_, messages[0])
        assert list(batches.take("jobs")) == messages[:1]
        assert len(conductor.woken) == 3

    asyncio.run(scene())

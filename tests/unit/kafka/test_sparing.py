"""Lines of libraries that come again and again are counted instead of written."""

import logging

from ganger.streams.kafka.worker.sparing import EVERY_S, Sparing


class Ear(logging.Handler):
    """Keeps what is said to it, at a time of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.heard: list[str] = []
        self.addFilter(Sparing(("aiokafka",), lambda: self.now_s))

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())

    def say(self, logger: str, line: str, *args: object, level: int = logging.ERROR) -> None:
        self.handle(logging.LogRecord(logger, level, __file__, 1, line, args, None))


def test_a_line_is_written_now_and_then_with_how_many_there_were() -> None:
    ear = Ear()
    for number in range(50):
        ear.say("aiokafka.client", "no node %d", number)
    ear.now_s = EVERY_S
    ear.say("aiokafka.client", "no node %d", 50)
    ear.say("aiokafka.client", "no node %d", 51)
    ear.now_s = 2 * EVERY_S
    ear.say("aiokafka.client", "no node %d", 52)
    ear.now_s = 3 * EVERY_S
    ear.say("aiokafka.client", "no node %d", 53)
    assert ear.heard == [
        "no node 0",
        "no node 50 (and 49 more like this)",
        "no node 52 (and 1 more like this)",
        "no node 53",
    ]


def test_other_lines_are_written_at_once() -> None:
    ear = Ear()
    ear.say("aiokafka", "a")
    ear.say("aiokafka", "a", level=logging.WARNING)
    ear.say("aiokafka.conn", "a")
    ear.say("aiokafka", "b")
    for _ in range(3):
        ear.say("ganger.worker", "a")
    assert ear.heard == ["a", "a", "a", "b", "a", "a", "a"]


def test_lines_that_are_ever_others_take_no_memory_for_ever() -> None:
    ear = Ear()
    for number in range(5000):
        ear.say("aiokafka", f"a{number}")
    assert len(ear.heard) == 5000
    (sparing,) = ear.filters
    assert isinstance(sparing, Sparing)
    assert len(sparing._said) <= 1000

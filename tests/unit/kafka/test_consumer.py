"""A reader whose client stops fetching in silence says so; one that is at the end does not."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.wire import consumer as module
from ganger.streams.kafka.wire.consumer import LOOK_SECONDS, PartitionReader, ReaderStands

LEDGER, DECISIONS = ("ledger", 0), ("decisions", 0)


class Arrived:
    """A message, or the end of a partition."""

    def __init__(self, place: tuple[str, int], offset: int, *, is_end: bool = False) -> None:
        self._place = place
        self._offset = offset
        self._error = KafkaError(KafkaError._PARTITION_EOF) if is_end else None

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"x"

    def timestamp(self) -> tuple[int, int]:
        return 0, 0


class Client:
    """Gives what it is told to, and knows the ends that brokers would tell."""

    def __init__(self) -> None:
        self.arrived: list[Arrived] = []
        self.ends = {LEDGER: 0, DECISIONS: 0}
        self.is_answered = True

    def assign(self, places: list[TopicPartition]) -> None:
        assert [(place.topic, place.partition) for place in places] == [LEDGER, DECISIONS]

    def poll(self, timeout_s: float) -> Arrived | None:
        return self.arrived.pop(0) if self.arrived else None

    def consume(self, count: int, timeout_s: float) -> list[Arrived]:
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        if not self.is_answered:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return 0, self.ends[place.topic, place.partition]


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def wait(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[tuple[str, int, int]]]:
    """Let the time between two looks pass, and read: what came, as topic, partition, offset."""
    now = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "Consumer", lambda options: client)
    reader = PartitionReader(KafkaSettings("127.0.0.1:1"), "test")
    reader.assign({LEDGER: 5, DECISIONS: 0})

    def wait() -> list[tuple[str, int, int]]:
        now[0] += LOOK_SECONDS
        return [(one.topic, one.partition, one.offset) for one in reader.read(100, 0.1)]

    return wait


Wait = Callable[[], list[tuple[str, int, int]]]


def test_a_client_that_does_not_fetch_what_is_there_is_found_out(
    client: Client, wait: Wait
) -> None:
    client.ends[LEDGER] = 5
    assert wait() == wait() == wait() == []
    client.ends[DECISIONS] = 3
    assert wait() == []  # found behind; it may be on its way
    with pytest.raises(ReaderStands, match=r"decisions/0: offset 0 is there, as all up to 3"):
        wait()


def test_it_is_found_out_while_another_place_goes_on(client: Client, wait: Wait) -> None:
    client.ends = {LEDGER: 100, DECISIONS: 3}
    client.arrived = [Arrived(LEDGER, 5)]
    assert wait() == [(*LEDGER, 5)]
    client.arrived = [Arrived(LEDGER, 6), Arrived(LEDGER, 7)]
    assert wait() == [(*LEDGER, 6), (*LEDGER, 7)]
    client.arrived = [Arrived(LEDGER, 8)]
    with pytest.raises(ReaderStands, match="decisions/0"):
        wait()


def test_what_comes_in_time_is_no_trouble(client: Client, wait: Wait) -> None:
    client.ends = {LEDGER: 5, DECISIONS: 3}
    assert wait() == wait() == []
    client.arrived = [Arrived(DECISIONS, 0)]
    assert wait() == [(*DECISIONS, 0)]
    assert wait() == []
    client.arrived = [Arrived(DECISIONS, 1), Arrived(DECISIONS, 2)]
    assert wait() == [(*DECISIONS, 1), (*DECISIONS, 2)]
    assert wait() == wait() == wait() == []


def test_an_end_behind_marks_of_transactions_is_an_end(client: Client, wait: Wait) -> None:
    client.ends = {LEDGER: 5, DECISIONS: 2}
    client.arrived = [Arrived(DECISIONS, 0), Arrived(DECISIONS, 2, is_end=True)]
    assert wait() == [(*DECISIONS, 0)]
    assert wait() == wait() == wait() == []


def test_nothing_is_said_while_no_broker_answers(client: Client, wait: Wait) -> None:
    client.ends = {LEDGER: 5, DECISIONS: 2}
    client.is_answered = False
    assert wait() == wait() == wait() == wait() == []
    client.is_answered = True
    assert wait() == []
    with pytest.raises(ReaderStands):
        wait()

"""Which errors pass by themselves, and that calls are made again until they have."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from ganger.streams.kafka.cluster import failures
from ganger.streams.kafka.cluster.failures import patiently

PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


class Broker:
    """Answers after so many errors; its time passes with each."""

    def __init__(self, code: int, errors: int) -> None:
        self.now_s = 0.0
        self.calls = 0
        self._code = code
        self._errors = errors

    def ask(self) -> str:
        self.calls += 1
        self.now_s += 1.0
        if self.calls <= self._errors:
            raise KafkaException(KafkaError(self._code))
        return "answer"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(failures.time, "sleep", lambda seconds: None)
    return monkeypatch


@pytest.mark.parametrize("code", PASSING)
def test_what_passes_is_waited_for(code: int, clock: pytest.MonkeyPatch) -> None:
    broker = Broker(code, 3)
    clock.setattr(failures.time, "monotonic", lambda: broker.now_s)
    assert patiently(broker.ask, 10.0) == "answer"
    assert broker.calls == 4


@pytest.mark.parametrize("code", PASSING)
def test_but_not_for_ever(code: int, clock: pytest.MonkeyPatch) -> None:
    broker = Broker(code, 1000)
    clock.setattr(failures.time, "monotonic", lambda: broker.now_s)
    with pytest.raises(KafkaException):
        patiently(broker.ask, 10.0)
    assert broker.calls == 11


def test_what_does_not_pass_is_told_at_once(clock: pytest.MonkeyPatch) -> None:
    broker = Broker(KafkaError.GROUP_AUTHORIZATION_FAILED, 1)
    clock.setattr(failures.time, "monotonic", lambda: broker.now_s)
    with pytest.raises(KafkaException):
        patiently(broker.ask, 10.0)
    assert broker.calls == 1

"""The mock cluster does to clients what the tests ask of it."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from support.mock_cluster import Api, MockCluster


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    with MockCluster(brokers=3) as cluster:
        cluster.create_topic("topic", partitions=5)
        yield cluster


def producer(mock: MockCluster, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": mock.bootstrap, "log_level": 0, **settings})


def delivered(sender: Producer, partition: int = 0) -> KafkaError | Message:
    """What became of one message: the error, or the message with its offset."""
    outcome: list[KafkaError | Message] = []
    sender.produce(
        "topic",
        b"value",
        partition=partition,
        on_delivery=lambda error, message: outcome.append(error or message),
    )
    assert sender.flush(60) == 0
    return outcome[0]


def test_topics_have_the_partitions_asked_for(mock: MockCluster) -> None:
    topics = producer(mock).list_topics(timeout=30).topics
    assert len(topics["topic"].partitions) == 5
    assert len(mock.bootstrap.split(",")) == 3


def test_messages_come_back(mock: MockCluster) -> None:
    sent = delivered(producer(mock), partition=4)
    assert isinstance(sent, Message) and sent.offset() == 0
    reader = Consumer({"bootstrap.servers": mock.bootstrap, "group.id": "reader"})
    try:
        reader.assign([TopicPartition("topic", 4, 0)])
        message = reader.poll(60)
        assert message is not None and message.value() == b"value"
    finally:
        reader.close()


def test_a_permanent_error_reaches_the_sender(mock: MockCluster) -> None:
    mock.push_errors(Api.PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE])
    sender = producer(mock)
    refused = delivered(sender)
    assert isinstance(refused, KafkaError) and refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert isinstance(delivered(sender), Message)


def test_a_passing_error_is_retried(mock: MockCluster) -> None:
    mock.push_errors(Api.PRODUCE, [KafkaError.REQUEST_TIMED_OUT] * 2)
    assert isinstance(delivered(producer(mock, **{"retry.backoff.ms": 10})), Message)


def test_cleared_errors_are_not_met(mock: MockCluster) -> None:
    mock.push_errors(Api.PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE])
    mock.clear_errors(Api.PRODUCE)
    assert isinstance(delivered(producer(mock)), Message)


def test_a_broker_that_is_down_delays_until_it_is_up(mock: MockCluster) -> None:
    for partition in range(5):
        mock.set_leader("topic", partition, 2)
    mock.broker_down(2)
    lost = delivered(producer(mock, **{"message.timeout.ms": 200}))
    assert isinstance(lost, KafkaError) and lost.code() == KafkaError._MSG_TIMED_OUT
    mock.broker_up(2)
    assert isinstance(delivered(producer(mock)), Message)


def test_slow_answers_time_out(mock: MockCluster) -> None:
    for broker in (1, 2, 3):
        mock.set_rtt_ms(broker, 5000)
    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT"):
        producer(mock).list_topics(timeout=0.2)
    for broker in (1, 2, 3):
        mock.set_rtt_ms(broker, 0)
    assert isinstance(delivered(producer(mock)), Message)


def test_wrong_calls_are_refused(mock: MockCluster) -> None:
    with pytest.raises(ValueError, match="TOPIC_ALREADY_EXISTS"):
        mock.create_topic("topic")
    with pytest.raises(ValueError, match=r"UNKNOWN|BROKER"):
        mock.broker_down(9)
    mock.close()
    mock.close()
    with pytest.raises(ValueError, match="closed"):
        mock.broker_up(1)

"""The brokers that tests get: shared, killed and started again, and gone when their run is."""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.kafka import KafkaBroker, KafkaCluster
from support.source_tree import ROOT


def make_topic(bootstrap: str, topic: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, 1, replicas)]).values():
        made.result(30)


def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def everything(bootstrap: str, topic: str) -> list[bytes]:
    """All values of a one-partition topic. Asks for no offsets: that query does not follow a leader
    that has just died, while fetching does.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values = []
        while (message := consumer.poll(60)) is not None:
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error
                return values
            values.append(message.value())
        raise AssertionError(f"no end of {topic} after {values}")
    finally:
        consumer.close()


def test_the_shared_broker_serves(kafka: KafkaBroker, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    make_topic(kafka.bootstrap, topic, 1)
    send(kafka.bootstrap, topic, [b"a", b"b"])
    assert everything(kafka.bootstrap, topic) == [b"a", b"b"]


def test_names_differ(unique_name: Callable[[str], str]) -> None:
    assert unique_name("cell") != unique_name("cell")
    assert unique_name("cell").startswith("cell-test-names-differ-")


def test_a_broker_of_three_is_killed_and_comes_back(
    kafka_cluster: Callable[..., KafkaCluster],
) -> None:
    cluster = kafka_cluster(brokers=3)
    make_topic(cluster.bootstrap, "topic", 3)
    send(cluster.bootstrap, "topic", [b"before"])
    cluster.kill(2)
    assert "broker 2 down" in cluster.status()
    send(cluster.bootstrap, "topic", [b"meanwhile"])
    cluster.start()
    assert cluster.status().count(" up, ") == 3
    cluster.kill(1)
    assert everything(cluster.bootstrap, "topic") == [b"before", b"meanwhile"]


def test_settings_reach_the_broker(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    cluster = kafka_cluster(settings=["auto.create.topics.enable=true"])
    send(cluster.bootstrap, "made-by-sending", [b"a"])
    assert everything(cluster.bootstrap, "made-by-sending") == [b"a"]


KILLED_RUN = """
import os, pathlib, signal

def test_kafka(kafka):
    folder = os.environ["GANGER_TEST_KAFKA_RUN"].partition(":")[2]
    print("broker is process", pathlib.Path(folder, "shared/1/pid").read_text(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_no_broker(kafka: KafkaBroker, tmp_path: Path) -> None:
    (tmp_path / "test_killed.py").write_text(KILLED_RUN, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "support.kafka", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stdout + run.stderr
    pid = re.search(r"broker is process (\d+)", run.stdout)
    assert pid is not None, run.stdout
    try:
        broker = os.pidfd_open(int(pid[1]))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([broker], [], [], 60)
    os.close(broker)
    assert ended, f"process {pid[1]} is still there"

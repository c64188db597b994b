"""Whatever is sent to an input topic and is no input ends in the dead letters, byte for byte."""

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from ganger.schemas.encoding import encode_record
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import DEAD_LETTERS, INPUTS
from ganger.streams.kafka.worker.app import GROUP
from ganger.streams.kafka.worker.desk import CUT_HEADER
from support.bad_messages import KINDS_MIN, BadMessage, bad_messages, good
from support.kafka import KafkaCluster
from support.kafka_fleet import Fleet

PARTITIONS = 3
PATIENCE_S = 90.0
TRACE = ("trace", b"\xff\0 no text")


def test_every_kind_ends_in_the_dead_letters_with_its_bytes(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with Fleet(settings, tmp_path) as fleet:
        fleet.make_topics(["north"], PARTITIONS)
        sent = send_all(settings)
        counts = {topic: sum(place[0] == topic for place in sent) for topic in INPUTS}
        assert min(counts.values()) >= KINDS_MIN, counts
        worker = fleet.worker("w1")
        fleet.until("no input is left", lambda: lag(settings) == 0, PATIENCE_S)
        letters = dead_letters(settings)
        assert worker.crashes == []
        fleet.stop_workers()
    found: dict[tuple[str, str], list[Message]] = {}
    for letter in letters:
        headers = dict(letter.headers() or ())
        topic, kind = headers["ganger.source.topic"], headers["kind"]
        assert isinstance(topic, bytes)
        assert isinstance(kind, bytes)
        found.setdefault((topic.decode(), kind.decode()), []).append(letter)
    missing = [place for place in sent if place not in found]
    assert missing == []
    assert [place for place in found if place not in sent] == [], "good ones are no dead letters"
    for place, bad in sent.items():
        assert [wrong for letter in found[place] if (wrong := defect_of(bad, letter))] == [], place


def send_all(settings: KafkaSettings) -> dict[tuple[str, str], BadMessage]:
    """Every bad message, in turn over the partitions, and a good one behind each topic's last.

    Returns:
        Topic and kind to the message.
    """
    sent: dict[tuple[str, str], BadMessage] = {}
    producer = Producer(
        settings.client(
            **{"compression.type": "gzip", "message.max.bytes": 8 << 20, "linger.ms": 0}
        )
    )
    for topic in INPUTS:
        for number, bad in enumerate(bad_messages(topic, "north")):
            assert (topic, bad.kind) not in sent, bad.kind
            sent[topic, bad.kind] = bad
            headers = [*bad.headers, TRACE, ("kind", bad.kind.encode())]
            # an origin is believed, or not, in the partition that is forwarded to
            partition = 0 if bad.headers else number % PARTITIONS
            producer.produce(topic, bad.value, bad.key, partition, headers=headers)
            producer.flush(30)
        producer.produce(
            topic, encode_record(good(topic)), b"north", 0, headers=[("kind", b"good")]
        )
    assert producer.flush(30) == 0
    return sent


def defect_of(bad: BadMessage, letter: Message) -> str:
    """What is wrong with a dead letter."""
    headers = list(letter.headers() or ())
    named = dict(headers)
    if not named.get("ganger.error.class") or not named.get("ganger.error.detail"):
        return "it does not say why"
    if CUT_HEADER in named:
        value = letter.value() or b""
        is_start = bad.value is not None and bad.value.startswith(value) and len(value) > 1 << 20
        return "" if is_start and len(bad.value or b"") > 2 << 20 else "it is cut for no reason"
    if (letter.key(), letter.value()) != (bad.key, bad.value):
        return f"key {letter.key()!r}, value of {len(letter.value() or b'')} bytes"
    if TRACE not in headers:
        return "its own headers are gone"
    return ""


def consumer(settings: KafkaSettings) -> Consumer:
    """A consumer that asks for the workers' group without joining it."""
    return Consumer(
        settings.client(
            **{"group.id": GROUP, "enable.auto.commit": False, "enable.partition.eof": True}
        )
    )


def lag(settings: KafkaSettings) -> int:
    """Messages of the input topics that are not committed."""
    reader = consumer(settings)
    try:
        places = [TopicPartition(topic, n) for topic in INPUTS for n in range(PARTITIONS)]
        committed = reader.committed(places, timeout=20)
        return sum(
            reader.get_watermark_offsets(place, timeout=20)[1] - max(0, place.offset)
            for place in committed
        )
    finally:
        reader.close()


def dead_letters(settings: KafkaSettings) -> list[Message]:
    """All dead letters there are."""
    reader = consumer(settings)
    found: list[Message] = []
    ends = 0
    try:
        reader.assign(
            [TopicPartition(DEAD_LETTERS, n, OFFSET_BEGINNING) for n in range(PARTITIONS)]
        )
        while ends < PARTITIONS:
            message = reader.poll(20)
            assert message is not None, "no answer"
            if message.error() is None:
                found.append(message)
            else:
                ends += 1
        return found
    finally:
        reader.close()

"""What the client's producer puts into the input topics."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message

from ganger.replay.cluster import parse_nodes
from ganger.replay.machines import Machines
from ganger.schemas import records as r
from ganger.schemas.codec import decode_untrusted
from ganger.schemas.enums import FailureKind
from ganger.services.client import JobSpec, Producer
from ganger.services.producer import FRAME_NODES
from ganger.streams.intake import InputRefused
from ganger.streams.kafka.cluster.cells import read_placements
from ganger.streams.kafka.cluster.topics import CONTROL, HEARTBEATS, JOBS, PODS
from ganger.streams.kafka.wire.partition import Partition
from ganger.streams.presets.loader import load_policy
from support.builders import queue
from support.kafka_cells import KafkaCell

REPORTS = tuple(Machines(parse_nodes("250x8")).reports.values())


class Inputs:
    """What a cell finds in an input topic, from where it ended when this was made."""

    def __init__(self, cell: KafkaCell, topic: str, partitions: int) -> None:
        self._key = cell.placement.cell.encode()
        self._parts = [Partition(cell.settings, topic, number) for number in range(partitions)]
        self._begins = [part.watermarks()[1] for part in self._parts]

    def messages(self) -> Iterator[Message]:
        for part, begin in zip(self._parts, self._begins, strict=True):
            for batch in part.read(begin, part.watermarks()[1]):
                yield from (message for message in batch if message.key() == self._key)


def inputs(cell: KafkaCell, topic: str) -> Inputs:
    with Producer(cell.settings, cell.placement.cell) as producer:
        producer.poll()
    found = cell.publisher._producer.list_topics(topic, timeout=10).topics[topic]
    return Inputs(cell, topic, len(found.partitions))


def records(messages: Iterator[Message]) -> list[Any]:
    return [decode_untrusted(message.value() or b"") for message in messages]


def test_every_event_goes_to_its_topic_with_its_id(cell: KafkaCell) -> None:
    topics = {topic: inputs(cell, topic) for topic in (JOBS, PODS, CONTROL)}
    delivered: list[str] = []
    adopted = r.PodAdopted(
        *(0, "", None, "old", "w", "q", "ann", "", 0, 0, 1, "node-1", (r.CardSpan(0, 2),)),
        *(0, 0, 0, 0, 5, 0),
    )
    reservation = r.ReservationRequested(0, "", None, "r", "ops", ("n",), 0, 1, 2, False)
    with Producer(
        cell.settings, cell.placement.cell, name="ops", on_delivered=delivered.append
    ) as producer:
        sent = [
            producer.submit(JobSpec("a", estimate="1m"), event_id="mine"),
            producer.submit(JobSpec("b", event_id="its own")),
            producer.cancel("a"),
            producer.update("b", priority=3, held=False, scale=[r.RoleScale("main", 2, 1)]),
            producer.started("a", 0, 1, "node-1"),
            producer.progressed("a", 0, 1, 500),
            producer.checkpointed("a", 0, 1, 400),
            producer.succeeded("a", 0, 1),
            producer.failed("b", 0, 1, FailureKind.OUT_OF_MEMORY, exit_code=137, message="oom"),
            producer.released("b", 1, 2),
            producer.adopted(adopted),
            producer.configure_queue(queue("q")),
            producer.configure_policy(load_policy()),
            producer.cordon("node-1"),
            producer.uncordon("node-1"),
            producer.drain("node-2", grace_ns=7),
            producer.reserve(reservation),
            producer.enable_flag(1),
        ]
    assert sent[:2] == ["mine", "its own"]
    assert len(set(sent)) == len(sent) and all(sent)
    assert sorted(delivered) == sorted(sent) and producer.undelivered == []
    found = {topic: list(reader.messages()) for topic, reader in topics.items()}
    kinds = {
        topic: [type(record).__name__ for record in records(iter(messages))]
        for topic, messages in found.items()
    }
    assert kinds == {
        JOBS: [*["JobSubmitRequested"] * 2, "JobCancelRequested", "JobUpdateRequested"],
        PODS: [
            *("PodStarted", "PodProgressed", "PodCheckpointed", "PodSucceeded"),
            *("PodFailed", "PodReleased", "PodAdopted"),
        ],
        CONTROL: [
            *("QueueConfigured", "PolicyConfigured", "NodeCordoned", "NodeUncordoned"),
            *("NodeDrained", "ReservationRequested", "FlagEnabled"),
        ],
    }
    messages = [message for topic in (JOBS, PODS, CONTROL) for message in found[topic]]
    assert [decode_untrusted(m.value() or b"").event_id for m in messages] == sent
    for message, event_id in zip(messages, sent, strict=True):
        headers = dict(message.headers() or ())
        assert headers["ce_id"] == event_id.encode()
        assert headers["ce_specversion"] == b"1.0"
        record = decode_untrusted(message.value() or b"")
        assert headers["ce_type"] == f"ganger.{type(record).__name__}".encode()
        assert record.time_ns > 0


def test_heartbeats_travel_in_frames_to_the_partition_of_the_cell(cell: KafkaCell) -> None:
    place = cell.placement
    assert read_placements(cell.settings)[place.cell] == place
    part = Partition(cell.settings, HEARTBEATS, place.partition)
    begin = part.watermarks()[1]
    with Producer(cell.settings, place.cell) as producer:
        ids = producer.heartbeat(REPORTS)
    batches = part.read(begin, part.watermarks()[1])
    frames = records(message for batch in batches for message in batch)
    assert all(isinstance(frame, r.NodeHeartbeat) for frame in frames)
    assert [frame.event_id for frame in frames] == ids
    assert [len(frame.reports) for frame in frames] == [FRAME_NODES, FRAME_NODES, 50]
    assert tuple(x for frame in frames for x in frame.reports) == REPORTS


def test_what_intake_would_refuse_is_not_sent(cell: KafkaCell) -> None:
    reader = inputs(cell, JOBS)
    with Producer(cell.settings, cell.placement.cell) as producer:
        with pytest.raises(InputRefused, match=r"JobSubmitRequested.job is '' .* give 1 to 253"):
            producer.submit(JobSpec(""))
        with pytest.raises(InputRefused, match=r"attempt is 0; attempts count from 1"):
            producer.succeeded("a", 0, 0)
        assert producer.undelivered == []
    assert list(reader.messages()) == []

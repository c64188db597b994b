"""A ledger in its partition: what is read, and what is refused."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ganger.replay.reader import LedgerCut, initial_state
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.errors import TopicMissing
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import LEDGER
from ganger.streams.kafka.log.ledger import KafkaLedger
from ganger.streams.kafka.wire.partition import GROUP_RECORDS_MAX, Partition
from ganger.streams.kafka.wire.publisher import Publisher, PublishingStopped
from ganger.streams.log.errors import LogUnreachable, PartitionCorrupt, PartitionFailed
from support.kafka import KafkaCluster
from support.kafka_cells import KafkaCell, make_topics, new_cell

MANY = 5 * GROUP_RECORDS_MAX // 2


def payloads(count: int, begin: int = 0) -> list[bytes]:
    return [b"record %d" % number for number in range(begin, begin + count)]


def read(ledger: KafkaLedger, *bounds: int | None) -> list[bytes]:
    found: list[bytes] = []
    begin = bounds[0] if bounds and bounds[0] is not None else 0
    for first, group in ledger.read_groups(*bounds):
        assert first == begin + len(found)
        assert 0 < len(group) <= GROUP_RECORDS_MAX
        found += group
    return found


def test_offsets_are_seqs_and_groups_are_small(cell: KafkaCell) -> None:
    assert cell.write(LEDGER, payloads(MANY)) == list(range(MANY))
    with cell.ledger() as ledger:
        assert (ledger.first_seq, ledger.end()) == (0, MANY)
        assert read(ledger) == payloads(MANY)
        assert read(ledger, 1000, 2100) == payloads(1100, 1000)
        assert read(ledger, MANY - 1) == payloads(1, MANY - 1)
        assert read(ledger, MANY) == read(ledger, 7, 7) == []


def test_two_readings_at_a_time_and_one_that_is_left(cell: KafkaCell) -> None:
    cell.write(LEDGER, payloads(MANY))
    with cell.ledger() as ledger:
        left = ledger.read_groups()
        first = next(left)
        assert read(ledger, 3, 9) == payloads(6, 3)
        assert first == (0, payloads(len(first[1])))
        del left
        assert read(ledger) == payloads(MANY)


def test_a_reading_ends_where_the_ledger_did_when_it_began(cell: KafkaCell) -> None:
    cell.write(LEDGER, payloads(3))
    with cell.ledger() as ledger:
        reading = ledger.read_groups()
        cell.write(LEDGER, payloads(2, 3))
        assert [record for _, group in reading for record in group] == payloads(3)
        assert ledger.end() == 5


@pytest.mark.parametrize(
    ("value", "key", "what"),
    [(b"theirs", b"someone", "the key is b'someone'"), (None, None, "the record has no value")],
)
def test_a_foreign_record_is_refused_by_seq(
    cell: KafkaCell, value: bytes | None, key: bytes | None, what: str
) -> None:
    cell.write(LEDGER, payloads(2))
    cell.write(LEDGER, [value], key)
    cell.write(LEDGER, payloads(2, 3))
    with cell.ledger() as ledger:
        with pytest.raises(PartitionCorrupt, match=what) as caught:
            read(ledger)
        assert (caught.value.seq, caught.value.offset) == (2, 2)
        assert caught.value.file.parts == (LEDGER, str(cell.placement.partition))
        assert read(ledger, 0, 2) == payloads(2)
        assert read(ledger, 3) == payloads(2, 3)


@pytest.mark.parametrize("behind", [0, 3])
def test_a_gap_is_refused_by_seq(
    cell: KafkaCell, behind: int, unique_name: Callable[[str], str]
) -> None:
    """A transaction leaves a marker at an offset of its own: no record is there."""
    cell.write(LEDGER, payloads(2))
    producer = Producer(cell.settings.client(**{"transactional.id": unique_name("tx")}))
    producer.init_transactions()
    producer.begin_transaction()
    key = cell.placement.cell.encode()
    producer.produce(LEDGER, b"record 2", key, cell.placement.partition)
    producer.commit_transaction()
    with cell.ledger() as ledger:
        while ledger.end() < 4:  # the broker writes the marker in its own time
            pass
        cell.write(LEDGER, payloads(behind, 4))
        assert ledger.end() == 4 + behind
        with pytest.raises(PartitionCorrupt, match="offset 3: it has no record") as caught:
            read(ledger)
        assert caught.value.seq == 3
        assert read(ledger, 0, 3) == payloads(3)


def test_a_ledger_that_was_cut_says_so(cell: KafkaCell) -> None:
    cell.write(LEDGER, payloads(10))
    before = cell.ledger()
    reading = before.read_groups()  # bounds are those of now
    place = TopicPartition(LEDGER, cell.placement.partition, 4)
    admin = AdminClient(cell.settings.client())  # must outlive what it promises
    for done in admin.delete_records([place]).values():
        done.result(30)
    with cell.ledger() as ledger:
        assert ledger.first_seq == 4
        assert read(ledger, 4) == payloads(6, 4)
        with pytest.raises(ValueError, match="from_seq: 3 is below 4"):
            ledger.read_groups(3)
        with pytest.raises(LedgerCut, match="begins at seq 4"):
            initial_state(ledger)
    with pytest.raises(PartitionCorrupt, match="no record at offset 0 any more"):
        list(reading)


def test_an_appender_beside_the_only_writer_is_found_out(cell: KafkaCell) -> None:
    with cell.ledger_log() as log:
        assert log.append(payloads(2)) == 0
        cell.write(LEDGER, [b"theirs"])
        with pytest.raises(PartitionCorrupt, match="somebody else writes"):
            log.append(payloads(2, 2))


def test_what_is_not_there_is_named(cell: KafkaCell) -> None:
    far = KafkaLedger(cell.settings, Placement("far", 999, b"", b""))
    with pytest.raises(PartitionCorrupt, match="no partition 999"):
        far.end()
    with pytest.raises(TopicMissing, match=r"ganger\.nowhere"):
        Partition(cell.settings, "ganger.nowhere", 0).watermarks()


def test_a_broker_that_is_gone_ends_reading_and_writing(
    kafka_cluster: Callable[..., KafkaCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ganger.streams.kafka.wire.publisher.DELIVERY_TIMEOUT_S", 1.0)
    cluster = kafka_cluster()
    settings = KafkaSettings(cluster.bootstrap)
    make_topics(settings)
    cell = new_cell(settings, "lonely")
    log = cell.ledger_log()
    log.append(payloads(3))
    partition = Partition(cell.settings, LEDGER, cell.placement.partition, timeout_s=1.0)
    assert partition.watermarks() == (0, 3)
    cluster.kill()
    for use in (partition.watermarks, lambda: list(partition.read(1, 3))):
        with pytest.raises(LogUnreachable) as caught:
            use()
        assert cluster.bootstrap in str(caught.value)
        assert f"{LEDGER}/{cell.placement.partition}" in str(caught.value)
    with pytest.raises(PartitionFailed, match="not acknowledged"):
        log.append(payloads(2, 3))
    assert len(cell.failures) == 1
    with pytest.raises(PublishingStopped):
        cell.publisher.poll()


def test_an_address_where_nobody_is() -> None:
    settings = KafkaSettings("127.0.0.1:1")
    partition = Partition(settings, LEDGER, 0, timeout_s=1.0)
    with pytest.raises(LogUnreachable, match=r"127\.0\.0\.1:1"):
        partition.watermarks()


def test_a_record_that_no_broker_takes_stops_the_publisher(cell: KafkaCell) -> None:
    """Nothing is written behind it: no gap without a word."""
    failures: list[str] = []
    publisher = Publisher(cell.settings, name="t", on_failure=failures.append)
    key, number = cell.placement.cell.encode(), cell.placement.partition
    publisher.send(LEDGER, number, key, b"a", [])
    publisher.flush()
    with pytest.raises(PublishingStopped):
        publisher.send(LEDGER, number, key, b"x" * (3 << 20), [])
    with pytest.raises(PublishingStopped):
        publisher.send(LEDGER, number, key, b"b", [])
    assert len(failures) == 1
    with cell.ledger() as ledger:
        assert read(ledger) == [b"a"]

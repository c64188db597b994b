"""What every log promises, asked of each kind of log."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganger.streams.kafka.cluster.admin import Admin
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.log.logs import LedgerLog
from ganger.streams.kafka.wire.partition import Partition
from ganger.streams.kafka.wire.publisher import Publisher
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.log.protocol import Log
from ganger.streams.log.segments import SegmentLog

IDENTITY = LogIdentity(Stream.LEDGER, "berlin/a100", b"schema ids", b'{"seed":7}')
SMALL_SEGMENT_BYTES = 400

NewLog = Callable[[], Log]


class TopicLog(LedgerLog):
    """A ledger on Kafka in a topic of its own, which saves a cell for each of these tests."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        admin = AdminClient(settings.client())
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        Admin(settings).settle({topic: 1})
        placement = Placement(IDENTITY.cell, 0, IDENTITY.fingerprint, IDENTITY.arguments)
        publisher = Publisher(settings, name="contract", on_failure=pytest.fail)
        super().__init__(settings, placement, publisher)
        self.partition = Partition(settings, topic, 0)


@pytest.fixture(params=["memory", "segments", "kafka"])
def new_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewLog]:
    """Makes empty logs of one kind; segments are small enough to roll after a few groups."""
    opened: list[Log] = []

    def make() -> Log:
        if request.param == "memory":
            opened.append(MemoryLog(IDENTITY))
        elif request.param == "kafka":
            broker = request.getfixturevalue("kafka")
            topic = request.getfixturevalue("unique_name")("log")
            opened.append(TopicLog(KafkaSettings(broker.bootstrap), topic))
        else:
            folder = tmp_path / str(len(opened))
            folder.mkdir()
            SegmentLog.create(folder, IDENTITY)
            opened.append(SegmentLog(folder, IDENTITY.stream, segment_bytes=SMALL_SEGMENT_BYTES))
        return opened[-1]

    yield make
    for log in opened:
        log.close()


def records_of(log: Log, from_seq: int | None = None, to_seq: int | None = None) -> list[bytes]:
    records: list[bytes] = []
    begin = log.first_seq if from_seq is None else from_seq
    for seq, group in log.read_groups(from_seq, to_seq):
        assert seq == begin + len(records)
        assert group
        records += group
    return records


def chain_of(records: list[bytes]) -> bytes:
    chain = IDENTITY.seed()
    for record in records:
        chain = sha256(chain + record).digest()
    return chain


def test_new_log_is_empty_and_knows_who_it_is(new_log: NewLog) -> None:
    log = new_log()
    assert (log.first_seq, log.end(), records_of(log)) == (0, 0, [])
    assert (log.cell, log.fingerprint, log.arguments) == (
        "berlin/a100",
        b"schema ids",
        b'{"seed":7}',
    )
    assert log.chain() == IDENTITY.seed()


def test_append_returns_the_seq_of_the_groups_first_record(new_log: NewLog) -> None:
    log = new_log()
    assert [log.append([b"a"]), log.append([b"b", b"c"]), log.append([b"d"])] == [0, 1, 3]
    assert log.end() == 4
    assert records_of(log) == [b"a", b"b", b"c", b"d"]


def test_an_empty_group_changes_nothing(new_log: NewLog) -> None:
    log = new_log()
    log.append([b"a"])
    chain = log.chain()
    assert log.append([]) == log.end() == 1
    assert log.chain() == chain


@pytest.mark.parametrize("payload", [b"", b"\0", b"\0" * 68, b"GANGERSG", bytes(range(256)) * 40])
def test_any_bytes_are_a_record(new_log: NewLog, payload: bytes) -> None:
    log = new_log()
    log.append([payload, b"", payload])
    log.append([payload])
    assert records_of(log) == [payload, b"", payload, payload]


def test_a_callers_list_may_change_after_append(new_log: NewLog) -> None:
    log = new_log()
    group = [b"a"]
    log.append(group)
    group[0] = b"b"
    assert records_of(log) == [b"a"]


@pytest.mark.parametrize("begin", [None, *range(13)])
def test_reading_any_range(new_log: NewLog, begin: int | None) -> None:
    log = new_log()
    records = [f"record {number}".encode() * 5 for number in range(12)]
    for at in range(0, 12, 3):
        log.append(records[at : at + 3])
    for end in (None, None, *range(0, 14, 2), 7):
        assert records_of(log, begin, end) == records[begin:end]


def test_reading_below_the_first_record_is_a_callers_mistake(new_log: NewLog) -> None:
    log = new_log()
    with pytest.raises(ValueError, match="from_seq: -1"):
        log.read_groups(-1)


def test_a_reading_ends_where_the_log_ended_when_it_began(new_log: NewLog) -> None:
    log = new_log()
    log.append([b"a", b"b"])
    log.append([b"c"])
    reading = log.read_groups()
    _, seen = next(reading)
    log.append([b"d"])
    for seq, group in reading:
        assert seq == len(seen)
        seen = seen + group
    assert seen == [b"a", b"b", b"c"]


def test_following_yields_each_record_once(new_log: NewLog) -> None:
    log = new_log()
    seen: list[bytes] = []
    wanted: list[bytes] = []
    for number in range(40):
        group = [f"{number}.{index}".encode() * 4 for index in range(number % 4)]
        log.append(group)
        wanted += group
        seen += records_of(log, len(seen))
        assert seen == wanted


def test_a_closed_log_says_so(new_log: NewLog) -> None:
    with new_log() as log:
        log.append([b"a"])
    for use in (log.end, log.chain, log.read_groups, lambda: log.append([b"b"])):
        with pytest.raises(ValueError, match="closed"):
            use()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(st.binary(max_size=120), max_size=6), max_size=12))
def test_records_and_chain_do_not_depend_on_the_grouping(
    new_log: NewLog, groups: list[list[bytes]]
) -> None:
    grouped, single = new_log(), new_log()
    records = [record for group in groups for record in group]
    for group in groups:
        grouped.append(group)
    for record in records:
        single.append([record])
    for log in (grouped, single):
        assert records_of(log) == records
        assert log.chain() == chain_of(records)


def test_the_chain_depends_on_who_the_log_is() -> None:
    identities = [
        IDENTITY,
        LogIdentity(Stream.DECISIONS, "berlin/a100", b"schema ids", b'{"seed":7}'),
        LogIdentity(Stream.LEDGER, "berlin/a10", b"0schema ids", b'{"seed":7}'),
        LogIdentity(Stream.LEDGER, "berlin/a100", b"schema ids2", b'{"seed":7}'),
        LogIdentity(Stream.LEDGER, "berlin/a100", b"schema ids", b'{"seed":8}'),
    ]
    assert len({identity.seed() for identity in identities}) == len(identities)

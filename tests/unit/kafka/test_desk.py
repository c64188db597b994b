"""Messages of the input topics become ledger records or dead letters, in order."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.encoding import encode_record
from ganger.streams.intake import Intake
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.topics import (
    CONTROL,
    DEAD_LETTERS,
    HEARTBEATS,
    INPUTS,
    JOBS,
    LEDGER,
    PODS,
)
from ganger.streams.kafka.wire.acks import Acks
from ganger.streams.kafka.worker.desk import CUT_HEADER, HELD_BYTES_MAX, Desk, Message
from support.builders import GENESIS, SECOND, queue, report, role, submission
from support.fake_kafka import FakeOutlet

LAB = Placement("lab", 2, b"f", b"")
IDS = {topic: f"id-{topic}" for topic in INPUTS}
HEADERS = [("trace", b"\xff\0"), ("trace", b"2"), ("none", None)]


class Bench:
    """A desk with a clock, and messages in order."""

    def __init__(self) -> None:
        self.now_ns = GENESIS
        self.outlet = FakeOutlet()
        self.desk = Desk("w1", self.outlet, IDS, lambda: self.now_ns, Acks())
        self.desk.place([LAB])
        self.desk.assign([2])
        self.desk.open()
        self._next: dict[tuple[str, int], int] = {}

    def own(self, claim: int = 5) -> Intake:
        intake = Intake("lab", "w1")
        intake.claim(self.now_ns)
        intake.claimed(claim)
        self.desk.adopt(2, intake)
        return intake

    def take(
        self,
        topic: str,
        record: r.Record | bytes | None,
        partition: int = 2,
        key: bytes | None = b"lab",
        headers: list[tuple[str, bytes | None]] = HEADERS,
    ) -> int:
        offset = self._next.get((topic, partition), 0)
        self._next[topic, partition] = offset + 1
        value = encode_record(record) if isinstance(record, r.Record) else record
        self.desk.take(Message(topic, partition, offset, key, value, headers))
        return offset


def job(name: str = "j", **facts: object) -> r.JobSubmitRequested:
    return submission(name, role(cards=1), event_id=f"e-{name}", **facts)  # type: ignore[arg-type]


def beat(*nodes: str, boot: str = "b", event_id: str = "hb") -> r.NodeHeartbeat:
    reports = tuple(report(name, boot=boot) for name in nodes)
    return r.NodeHeartbeat(1, event_id, None, reports)


def test_a_job_is_stamped_and_told_where_it_came_from() -> None:
    bench = Bench()
    bench.take(JOBS, job(), partition=1)
    (sent,) = bench.outlet.of(LEDGER)
    assert (sent.partition, sent.key) == (2, b"lab")
    (record,) = bench.outlet.records()
    assert isinstance(record, r.JobSubmitRequested)
    assert (record.time_ns, record.event_id) == (GENESIS, "e-j")
    assert record.source == r.Source("id-ganger.jobs", 1, 0, 0)
    assert bench.desk.acks.committable() == {}
    bench.outlet.deliver()
    assert bench.desk.acks.committable() == {(JOBS, 1): 1}


def test_a_source_that_a_producer_writes_is_not_believed() -> None:
    bench = Bench()
    bench.take(JOBS, replace(job(), source=r.Source("elsewhere", 9, 9, 9)))
    assert bench.outlet.records()[0].source == r.Source("id-ganger.jobs", 2, 0, 0)


def test_commits_wait_for_what_is_delivered_late() -> None:
    bench = Bench()
    for number in range(3):
        bench.take(JOBS, job(f"j{number}"))
    bench.outlet.deliver(2)
    assert bench.desk.acks.committable() == {(JOBS, 2): 2}


# topic, record, class of the defect
WRONG = [
    (JOBS, queue("q"), "wrong_topic"),
    (JOBS, beat("n1"), "wrong_topic"),
    (PODS, job(), "wrong_topic"),
    (HEARTBEATS, job(), "wrong_topic"),
    (CONTROL, r.PodSucceeded(1, "", None, "j", 0, 1, 1), "wrong_topic"),
    (CONTROL, r.Tick(1, "", None, 5, True), "not_an_input"),
    (PODS, r.OwnerClaimed(1, "", None, "me"), "not_an_input"),
    (HEARTBEATS, r.NodeLost(1, "", None, "n1", 5, 1), "not_an_input"),
    (JOBS, job(""), "bad_structure"),
    (HEARTBEATS, beat(""), "bad_structure"),
    (JOBS, None, "missing_value"),
    (JOBS, b"", "too_short"),
    (JOBS, encode_record(job())[:-1], "truncated"),
    (HEARTBEATS, b"{}xxxxxxxx", "bad_magic"),
]


@pytest.mark.parametrize(("topic", "record", "defect"), WRONG)
def test_what_is_wrong_goes_to_the_dead_letters_as_it_came(
    topic: str, record: r.Record | bytes | None, defect: str
) -> None:
    bench = Bench()
    bench.own()
    offset = bench.take(topic, record)
    value = encode_record(record) if isinstance(record, r.Record) else record
    assert bench.outlet.letters() == [(defect, value)]
    (sent,) = bench.outlet.of(DEAD_LETTERS)
    assert sent.key == b"lab"
    assert sent.headers[: len(HEADERS)] == HEADERS
    told = dict(sent.headers)
    assert told["ganger.source.topic"] == topic.encode()
    assert told["ganger.source.partition"] == b"2"
    assert told["ganger.source.offset"] == str(offset).encode()
    assert not bench.outlet.of(LEDGER)
    bench.outlet.deliver()
    assert bench.desk.acks.committable() == {(topic, 2): 1}


@pytest.mark.parametrize(
    ("key", "defect"), [(None, "missing_key"), (b"", "missing_key"), (b"\xff", "bad_key")]
)
def test_a_key_names_the_cell(key: bytes | None, defect: str) -> None:
    bench = Bench()
    bench.take(JOBS, job(), key=key)
    assert bench.outlet.letters() == [(defect, encode_record(job()))]
    assert bench.outlet.of(DEAD_LETTERS)[0].key == key


def test_a_message_that_was_larger_than_can_be_written_is_cut() -> None:
    bench = Bench()
    value = b"\0" * (5 << 20)
    bench.take(JOBS, value)
    ((defect, kept),) = bench.outlet.letters()
    assert defect == "too_large"
    assert kept is not None
    assert value.startswith(kept)
    assert len(kept) > 1 << 20
    headers = dict(bench.outlet.of(DEAD_LETTERS)[0].headers)
    size = headers[CUT_HEADER]
    assert isinstance(size, bytes)
    assert int(size) > len(value)


# ---- cells that are not known -------------------------------------------------------------------


def test_an_unknown_cell_waits_for_the_placements_and_keeps_its_order() -> None:
    bench = Bench()
    for number in range(3):
        bench.take(JOBS, job(f"j{number}"), key=b"new")
    bench.take(JOBS, job("other"))
    assert bench.desk.unplaced_count == 3
    bench.desk.place([Placement("new", 7, b"f", b"")])
    bench.take(JOBS, job("late"))
    bench.desk.settle_unplaced(2)
    by_new = [sent for sent in bench.outlet.of(LEDGER) if sent.key == b"new"]
    assert [sent.partition for sent in by_new] == [7, 7, 7]
    assert [getattr(record, "job", "") for record in bench.outlet.records()] == [
        *("other", "late"),
        *("j0", "j1", "j2"),
    ]


def test_a_cell_that_nobody_placed_is_a_dead_letter_once_that_was_looked_up() -> None:
    bench = Bench()
    for number in range(3):
        bench.take(JOBS, job(f"j{number}"), key=b"nowhere")
    bench.desk.settle_unplaced(2)
    assert [defect for defect, _ in bench.outlet.letters()] == ["unknown_cell"] * 2
    assert bench.desk.unplaced_count == 1
    bench.outlet.deliver()
    assert bench.desk.acks.committable() == {(JOBS, 2): 2}


# ---- heartbeats ---------------------------------------------------------------------------------


def test_reports_of_a_frame_are_told_apart_by_their_place_in_it() -> None:
    bench = Bench()
    intake = bench.own()
    intake.know(report("n2", boot="b"))
    bench.take(HEARTBEATS, beat("n1", "n2", "n3"))
    records = bench.outlet.records()
    assert [type(record) for record in records] == [r.NodeChanged, r.NodeChanged]
    sources = [record.source for record in records]
    topic = IDS[HEARTBEATS]
    assert sources == [r.Source(topic, 2, 0, 0), r.Source(topic, 2, 0, 2)]
    assert [record.event_id for record in records] == ["", ""], "one id would drop all but one"


def test_heartbeats_wait_for_the_takeover_and_hold_up_no_other_topic() -> None:
    bench = Bench()
    bench.take(HEARTBEATS, beat("n1"))
    bench.take(HEARTBEATS, beat("n1", boot="b2"))
    bench.take(JOBS, job())
    bench.outlet.deliver()
    assert bench.desk.acks.committable() == {(JOBS, 2): 1}
    bench.own()
    assert [type(record) for record in bench.outlet.records()] == [
        r.JobSubmitRequested,
        r.NodeChanged,
        r.NodeChanged,
    ]
    bench.outlet.deliver()
    assert bench.desk.acks.committable() == {(JOBS, 2): 1, (HEARTBEATS, 2): 2}


def test_a_cell_may_be_taken_over_before_messages_come() -> None:
    bench = Bench()
    bench.desk.close()
    bench.desk.assign([2])
    bench.own()
    bench.desk.open()
    bench.take(HEARTBEATS, beat("n1"))
    assert len(bench.outlet.records()) == 1


def test_of_too_many_waiting_heartbeats_the_oldest_are_let_go() -> None:
    bench = Bench()
    payload = b"\0" * (1 << 20)
    count = (HELD_BYTES_MAX >> 20) + 3
    for _ in range(count):
        bench.take(HEARTBEATS, payload)
    assert bench.desk.acks.committable() == {(HEARTBEATS, 2): 3}


def test_a_heartbeat_that_changes_nothing_is_done_with_at_once() -> None:
    bench = Bench()
    bench.own()
    bench.take(HEARTBEATS, beat("n1"))
    bench.take(HEARTBEATS, beat("n1", event_id="hb2"))
    bench.outlet.deliver()
    assert len(bench.outlet.records()) == 1
    assert bench.desk.acks.committable() == {(HEARTBEATS, 2): 2}


def test_a_heartbeat_in_another_partition_is_forwarded_and_keeps_its_origin() -> None:
    bench = Bench()
    bench.own()
    bench.take(HEARTBEATS, beat("n1"), partition=1)
    (sent,) = bench.outlet.of(HEARTBEATS)
    assert (sent.partition, sent.key, sent.value) == (2, b"lab", encode_record(beat("n1")))
    assert not bench.outlet.of(LEDGER)
    headers = [(name, value) for name, value in sent.headers if not isinstance(value, str)]
    bench.take(HEARTBEATS, sent.value, headers=headers)
    assert bench.outlet.records()[0].source == r.Source(IDS[HEARTBEATS], 1, 0, 0)


@pytest.mark.parametrize(
    "origin", [b"id-ganger.heartbeats/2/9", b"other/1/9", b"id-ganger.heartbeats/1", b"", b"\xff"]
)
def test_an_origin_that_cannot_be_is_refused(origin: bytes) -> None:
    bench = Bench()
    bench.own()
    bench.take(HEARTBEATS, beat("n1"), headers=[("ganger_source", origin)])
    assert [defect for defect, _ in bench.outlet.letters()] == ["bad_source"]


def test_silent_nodes_are_lost_by_the_claim_of_their_intake() -> None:
    bench = Bench()
    bench.own(claim=17)
    bench.take(HEARTBEATS, beat("n1", "n2"))
    for _ in range(40):
        bench.now_ns += SECOND
        bench.take(HEARTBEATS, beat("n2", event_id=""))
        bench.desk.silence()
    lost = [record for record in bench.outlet.records() if isinstance(record, r.NodeLost)]
    assert [(record.node, record.claim) for record in lost] == [("n1", 17)]


def test_silence_does_not_count_while_nobody_listens() -> None:
    bench = Bench()
    bench.own()
    bench.take(HEARTBEATS, beat("n1"))
    for step_s in (15, 15, 15):
        bench.desk.close()
        bench.now_ns += step_s * SECOND
        assert bench.desk.silence() == 0
        bench.desk.assign([2])
        bench.desk.open()
        assert bench.desk.silence() == 0


def test_a_cell_that_is_taken_away_is_heard_no_more() -> None:
    bench = Bench()
    bench.own()
    bench.take(HEARTBEATS, beat("n1"))
    bench.desk.orphan(2, False)
    bench.now_ns += 60 * SECOND
    assert bench.desk.silence() == 0
    bench.take(HEARTBEATS, beat("n1", boot="b2"))
    assert len(bench.outlet.records()) == 1


def test_heartbeats_of_a_refused_cell_are_let_go() -> None:
    bench = Bench()
    bench.take(HEARTBEATS, beat("n1"))
    bench.desk.orphan(2, True)
    bench.take(HEARTBEATS, beat("n2"))
    bench.take(HEARTBEATS, b"junk")
    bench.outlet.deliver()
    assert not bench.outlet.of(LEDGER)
    assert bench.desk.acks.committable() == {(HEARTBEATS, 2): 3}


# ---- rebalances ---------------------------------------------------------------------------------


def test_a_closed_desk_takes_nothing_and_reads_it_again_later() -> None:
    bench = Bench()
    bench.take(JOBS, job("j0"))
    bench.desk.close()
    bench.desk.take(Message(JOBS, 2, 1, b"lab", encode_record(job("j1")), []))
    bench.outlet.deliver()
    assert bench.desk.acks.committable() == {}
    bench.desk.assign([2])
    bench.desk.open()
    bench.desk.take(Message(JOBS, 2, 0, b"lab", encode_record(job("j0")), []))
    bench.outlet.deliver()
    assert bench.desk.acks.committable() == {(JOBS, 2): 1}
    assert [record.source for record in bench.outlet.records()] == [
        r.Source(IDS[JOBS], 2, 0, 0)
    ] * 2, "the kernel takes the first of them"


def test_what_is_known_of_nodes_outlives_a_rebalance_that_changes_nothing() -> None:
    bench = Bench()
    bench.own()
    bench.take(HEARTBEATS, beat("n1"))
    bench.desk.close()
    bench.desk.assign([2, 3])
    bench.desk.open()
    bench.take(HEARTBEATS, beat("n1", event_id=""))
    assert len(bench.outlet.records()) == 1
    bench.desk.close()
    bench.desk.assign([3])
    bench.desk.open()
    bench.desk.assign([2])
    bench.desk.open()
    bench.take(HEARTBEATS, beat("n1", event_id=""))
    assert len(bench.outlet.records()) == 1, "it waits for a takeover"


def test_messages_are_taken_once_and_in_order() -> None:
    bench = Bench()
    bench.desk.acks.begin({(JOBS, 2): 0})
    for offset in (2, 0, 1, 1, 2):
        payload = encode_record(job(f"j{offset}"))
        bench.desk.take(Message(JOBS, 2, offset, b"lab", payload, HEADERS))
    found = [record.job for record in bench.outlet.records() if hasattr(record, "job")]
    assert found == ["j0", "j1", "j2"]

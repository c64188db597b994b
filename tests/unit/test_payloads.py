"""Payloads read in groups are what they are one by one."""

import pytest

from ganger.schemas.encoding import decision_payload, decision_payloads, encode_record
from ganger.schemas.records import NodeHeartbeat, Record
from ganger.streams.payloads import RecordUnreadable, read_record, read_records
from support.builders import Cell, node, role

HEARTBEAT = encode_record(NodeHeartbeat(1, "", None, ()))


def life() -> Cell:
    """A cell in which jobs of one pod and of several run and end."""
    cell = Cell().start(node("n1"))
    cell.submit("lone")
    cell.submit("gang", role(replicas=3, cards=1))
    cell.tick()
    cell.started("lone")
    cell.succeeded("lone")
    cell.tick()
    return cell


def test_a_group_holds_what_its_payloads_hold() -> None:
    records: list[Record] = life().records
    payloads = [encode_record(record) for record in records]
    assert read_records(0, payloads) == records
    assert read_records(7, payloads) == [read_record(7, payload) for payload in payloads]


@pytest.mark.parametrize("bad", [HEARTBEAT, b"", b"\0\0\0\0\0", HEARTBEAT[:-1]])
def test_the_first_payload_that_is_no_record_is_named(bad: bytes) -> None:
    payloads = [encode_record(record) for record in life().records]
    with pytest.raises(RecordUnreadable) as caught:
        read_records(100, [*payloads[:3], bad, *payloads[3:], bad])
    assert caught.value.seq == 103


def test_decisions_have_the_bytes_that_each_has_alone() -> None:
    cell = Cell().start(node("n1"))
    for job in ("plain", "bare", "odd"):
        cell.submit(job)
    decisions = cell.tick()
    assert [decision.job for decision in decisions[:3]] == ["plain", "bare", "odd"]
    decisions[1].body = b""
    decisions[2].chain = b"short"
    assert decision_payloads(decisions) == [decision_payload(one) for one in decisions]

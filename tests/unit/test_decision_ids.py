"""Ids read from the first bytes of decisions, against the decoder of whole ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.schemas.codec import decode_decision
from ganger.schemas.decision_ids import decision_head, decision_number, number_reader
from ganger.schemas.encoding import decision_payload
from ganger.schemas.errors import PayloadCorrupt, SchemaUnknown
from support.decisions import decision

LONG = st.integers(0, 2**63 - 1)


@given(st.text(max_size=40), LONG, st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_the_same_as_decoding_all(cell: str, cause_seq: int, index: int, time_ns: int) -> None:
    payload = decision_payload(decision(cell, cause_seq, index, time_ns))
    head, whole = decision_head(payload), decode_decision(payload)
    assert (head.cell, head.cause_seq, head.index, head.time_ns) == (
        *(whole.cell, whole.cause_seq, whole.index, whole.time_ns),
    )
    assert number_reader(cell)(payload) == decision_number(cause_seq, index)
    with pytest.raises(PayloadCorrupt, match="of cell"):
        number_reader(cell + "x")(payload)


@given(st.lists(st.tuples(LONG, st.integers(0, 2**31 - 1)), min_size=1))
def test_numbers_ascend_with_ids(ids: list[tuple[int, int]]) -> None:
    assert sorted(ids) == sorted(ids, key=lambda parts: decision_number(*parts))
    assert decision_number(-1, -1) < decision_number(0, 0)


def test_every_cut_before_their_end_is_told() -> None:
    payload = decision_payload(decision("lab", 300, 7, 1_700_000_000 * 10**9))
    end = 5 + 1 + 3 + 2 + 1 + 9
    for size in range(end):
        with pytest.raises((PayloadCorrupt, SchemaUnknown)):
            decision_head(payload[:size])
    for size in range(end - 10):
        with pytest.raises((PayloadCorrupt, SchemaUnknown)):
            number_reader("lab")(payload[:size])
    assert decision_head(payload[:end]).time_ns == 1_700_000_000 * 10**9


@pytest.mark.parametrize(
    "body", [b"\x01", b"\x02\xff", b"\x06lab" + b"\xff" * 30, b"\xff\xff\xff\xff\x0flab"]
)
def test_bytes_that_are_no_decision(body: bytes) -> None:
    payload = decision_payload(decision("lab", 1, 0, 0))
    with pytest.raises(PayloadCorrupt):
        decision_head(payload[:5] + body)
    with pytest.raises(PayloadCorrupt):
        number_reader("lab")(payload[:5] + body)

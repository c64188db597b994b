"""Logs that are written anew over what they hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.replay.retrace import RetracedLog
from ganger.schemas.encoding import encode_record
from ganger.streams.divergence import Divergence
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from support.builders import submission

PAYLOADS = [encode_record(submission(f"j{number}")) for number in range(30)]


def holding(*sizes: int) -> MemoryLog:
    """A log that holds groups of these sizes."""
    log = MemoryLog(LogIdentity(Stream.LEDGER, "cell", b"f", b"a"))
    for size in sizes:
        log.append(PAYLOADS[log.end() : log.end() + size])
    return log


def payloads(log: MemoryLog | RetracedLog) -> list[bytes]:
    return [payload for _, group in log.read_groups() for payload in group]


@given(st.lists(st.integers(0, 6), max_size=4), st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_equal_payloads_pass_and_the_rest_is_appended(held: list[int], given_: list[int]) -> None:
    log = holding(*held)
    before = log.end()
    retraced = RetracedLog(log, holds_decisions=False)
    assert (retraced.end(), payloads(retraced)) == (0, [])
    at = 0
    for size in given_:
        size = min(size, len(PAYLOADS) - at)
        assert retraced.append(PAYLOADS[at : at + size]) == at
        at += size
        assert retraced.end() == at
        assert log.end() == max(before, at)
        assert payloads(retraced) == PAYLOADS[:at]
    assert payloads(log) == PAYLOADS[: max(before, at)]


@pytest.mark.parametrize("at", [0, 2, 3, 4])
def test_another_payload_is_named_and_nothing_appended(at: int) -> None:
    log = holding(3, 2)
    computed = PAYLOADS[:8]
    computed[at] = encode_record(submission("other"))
    retraced = RetracedLog(log, holds_decisions=False)
    with pytest.raises(Divergence, match=f"job 'j{at}' was recorded, 'other' computed") as caught:
        retraced.append(computed)
    assert (caught.value.seq, caught.value.want, caught.value.got) == (
        at,
        PAYLOADS[at],
        computed[at],
    )
    assert log.end() == 5


def test_the_chain_is_known_at_the_end_only() -> None:
    log = holding(5)
    retraced = RetracedLog(log, holds_decisions=False)
    retraced.append(PAYLOADS[:4])
    with pytest.raises(ValueError, match="retraced to 4 of 5"):
        retraced.chain()
    retraced.append(PAYLOADS[4:6])
    assert retraced.chain() == log.chain() == holding(6).chain()


def test_it_is_of_the_same_cell_and_run() -> None:
    with RetracedLog(holding(1), holds_decisions=False) as log:
        assert (log.cell, log.fingerprint, log.arguments, log.first_seq) == ("cell", b"f", b"a", 0)

"""Which decisions of a partition count, when owners of the cell overlap."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.streams.kafka.log.ledger import BEGINNING, COPIES_WINDOW, DecisionScan
from ganger.streams.log.errors import PartitionCorrupt
from support.decisions import payload, payloads

CELL = "lab"
PLACE = Path("decisions", "3")


def interleaved(wanted: list[bytes], seed: int) -> list[bytes]:
    """What the partition holds after owners came and went at random: each begins anywhere in what
    was published by then, and writes on from there beside the others."""
    source = random.Random(seed)
    stored: list[bytes] = []
    known = 0
    owners = [0]
    while known < len(wanted):
        owner = source.randrange(len(owners))
        for place in range(owners[owner], min(owners[owner] + source.randint(1, 9), len(wanted))):
            stored.append(wanted[place])
            owners[owner] = place + 1
        known = max(known, owners[owner])
        if source.random() < 0.3:
            owners.append(source.randint(max(0, known - 20), known))
        owners = owners[-3:]
    return stored


@given(st.integers(0, 10**9), st.integers(0, 120), st.integers(1, 17))
def test_each_decision_counts_once_in_order(seed: int, count: int, batch: int) -> None:
    wanted = payloads(CELL, count)
    stored = interleaved(wanted, seed)
    scan = DecisionScan(PLACE, BEGINNING)
    fresh: list[bytes] = []
    for begin in range(0, len(stored), batch):
        fresh += scan.take(CELL, stored[begin : begin + batch])
        assert (scan.position, scan.offset) == (len(fresh), min(begin + batch, len(stored)))
        # A bookmark leads to the newest decision, and on from there to the same end.
        again = DecisionScan(PLACE, scan.bookmark())
        assert again.take(CELL, stored[again.offset : scan.offset]) == fresh[-1:]
        assert again.here() == scan.here()
    assert fresh == wanted


def test_a_copy_with_other_bytes_names_both_places() -> None:
    scan = DecisionScan(PLACE, BEGINNING)
    scan.take(CELL, [payload(CELL, 4, 0), payload(CELL, 4, 1), payload(CELL, 9, 0)])
    with pytest.raises(PartitionCorrupt) as caught:
        scan.take(CELL, [payload(CELL, 4, 0), payload(CELL, 4, 1, job="other")])
    error = caught.value
    assert (error.file, error.seq, error.offset) == (PLACE, 3, 4)
    assert "decision 1 of seq 4 stands at offset 1 and, with other bytes, at offset 4" in error.what


@pytest.mark.parametrize("alien", [b"", b"\0\0\0\0\1rest", payload("other", 9, 0)])
def test_what_is_no_decision_of_the_cell_is_refused(alien: bytes) -> None:
    scan = DecisionScan(PLACE, BEGINNING)
    with pytest.raises(PartitionCorrupt, match="it is") as caught:
        scan.take(CELL, [payload(CELL, 1, 0), alien])
    assert caught.value.offset == 1


def test_only_the_newest_are_kept() -> None:
    scan = DecisionScan(PLACE, BEGINNING)
    count = 3 * COPIES_WINDOW
    for begin in range(0, count, 1024):
        scan.take(CELL, payloads(CELL, 1024, begin))
    assert scan.take(CELL, [payload(CELL, 0, 0, job="other")]) == []  # too old to be held against
    with pytest.raises(PartitionCorrupt, match="other bytes"):
        scan.take(CELL, [payload(CELL, 2 * ((count - COPIES_WINDOW) // 3), 2, job="other")])

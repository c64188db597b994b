"""Frames of rows, and which of them a table takes in."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.schemas.codec import decode_row
from ganger.schemas.encoding import encode_row
from ganger.schemas.rows import JobRow, NodeRow, RowChange, RowsChanged
from ganger.streams.kafka.tables.rows import (
    FRAME_BYTES_MAX,
    NEVER,
    Version,
    entries_of,
    entry_key,
    frames,
    mark_key,
    version_of,
)

TABLES = ("nodes", "jobs")
NODE = NodeRow("n", "open", 8, 8, 8, 0, 1, 1, 1, 1, 1, 1, 0, ("rack", "n"), "b")


def job(name: str, seq: int) -> JobRow:
    zeros = (0,) * 9
    return JobRow(name, "q", "u", "t", "PENDING", False, *zeros, 1, 0, 0, "UNKNOWN", seq)


def frame(epoch: int, seq: int, *rows: tuple[str, str, bytes]) -> RowsChanged:
    return RowsChanged("lab", epoch, seq, 7, tuple(RowChange(*row) for row in rows))


def fold(frames_: list[RowsChanged], cut: int = -1) -> dict[tuple[str, bytes], bytes]:
    """Tables after these frames; of the one at `cut` only a part comes in, then all again."""
    versions: dict[str, Version] = {}
    tables: dict[tuple[str, bytes], bytes] = {}
    for number, one in enumerate(frames_):
        before = dict(versions)
        for table, entries in entries_of(one, versions, TABLES).items():
            for key, value in entries[: len(entries) // 2] if number == cut else entries:
                if value is None:
                    tables.pop((table, key), None)
                else:
                    tables[table, key] = value
        if number == cut:
            versions = before
    return tables


def test_frames_hold_all_changes_in_order_within_their_limit() -> None:
    changes = [("jobs", f"job-{i}", job(f"job-{i}", i) if i % 3 else None) for i in range(9_000)]
    payloads = frames("lab", 5, 9, 11, changes)
    assert len(payloads) > 1
    assert all(len(payload) <= FRAME_BYTES_MAX for payload in payloads)
    assert len(payloads[0]) > FRAME_BYTES_MAX * 4 // 5
    read = [decode_row(payload) for payload in payloads]
    found = []
    for one in read:
        assert isinstance(one, RowsChanged)
        assert (one.cell, version_of(one), one.time_ns) == ("lab", (5, 9), 11)
        found += [(c.table, c.key, decode_row(c.row) if c.row else None) for c in one.rows]
    assert found == changes


def test_no_changes_are_one_frame_without_rows() -> None:
    (payload,) = frames("lab", 5, 9, 11, [])
    assert decode_row(payload) == RowsChanged("lab", 5, 9, 11, ())


def test_a_row_larger_than_a_frame_comes_alone() -> None:
    large = NodeRow("n", "open", 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, ("x" * FRAME_BYTES_MAX,), "b")
    payloads = frames("lab", 5, 9, 11, [("nodes", "m", NODE), ("nodes", "n", large)])
    assert [len(payload) > FRAME_BYTES_MAX for payload in payloads] == [False, True]


def test_entries_are_rows_then_the_mark() -> None:
    versions: dict[str, Version] = {}
    row = encode_row(NODE)
    found = entries_of(frame(2, 5, ("nodes", "n", row), ("nodes", "m", b"")), versions, TABLES)
    mark = encode_row(frame(2, 5))
    assert found == {
        "nodes": [(b"lab/n", row), (b"lab/m", None), (b"lab/", mark)],
        "jobs": [(b"lab/", mark)],
    }
    assert versions == {"nodes": (2, 5), "jobs": (2, 5)}
    assert entry_key("lab", "n") == b"lab/n" and mark_key("lab") == b"lab/"


@pytest.mark.parametrize(
    ("epoch", "seq", "is_taken"),
    [(2, 5, True), (2, 6, True), (3, 4, True), (2, 4, False), (1, 9, False)],
)
def test_older_frames_and_former_owners_are_let_go(epoch: int, seq: int, is_taken: bool) -> None:
    versions: dict[str, Version] = {"nodes": (2, 5), "jobs": (2, 5)}
    found = entries_of(frame(epoch, seq, ("nodes", "n", b"row")), versions, TABLES)
    assert bool(found) == is_taken
    assert versions["nodes"] == ((epoch, seq) if is_taken else (2, 5))


def test_a_table_that_is_behind_takes_a_frame_alone() -> None:
    versions: dict[str, Version] = {"nodes": (2, 5), "jobs": NEVER}
    found = entries_of(frame(2, 4, ("nodes", "n", b"r"), ("jobs", "j", b"r")), versions, TABLES)
    assert list(found) == ["jobs"]


@given(seed=st.integers(0, 1 << 20))
def test_frames_read_again_leave_the_tables_the_same(seed: int) -> None:
    chance = random.Random(seed)
    told = []
    epoch = seq = 0
    for _ in range(chance.randint(1, 12)):
        seq += chance.randint(1, 3)
        if chance.random() < 0.2:
            epoch = seq
        for _ in range(chance.randint(1, 2)):  # frames of one take have different keys
            half = chance.randrange(2)
            keys = [f"k{2 * chance.randrange(3) + half}" for _ in range(2)]
            rows = [
                (chance.choice(TABLES), key, chance.choice((b"", b"%d %d" % (seq, half))))
                for key in dict.fromkeys(keys)
            ]
            told.append(frame(epoch, seq, *rows))
    begin = chance.randrange(len(told))
    end = chance.randrange(begin, len(told)) + 1  # where a worker was killed, amid a frame
    assert fold(told[:end] + told[begin:], end - 1) == fold(told) or has_twice(told)


def has_twice(told: list[RowsChanged]) -> bool:
    """Whether two frames of one take name the same row, which `RowChanges` never does."""
    keys = [(version_of(one), c.table, c.key) for one in told for c in one.rows]
    return len(set(keys)) < len(keys)

"""Snapshots in the store: found by seq, checked, thinned."""

from itertools import pairwise
from pathlib import Path

import pytest

from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.tables.snapshots import CHUNK_BYTES, SNAPSHOT_COUNT_MAX, Snapshots
from ganger.streams.tables.store import Store


def opened(folder: Path) -> Store:
    log = MemoryLog(LogIdentity(Stream.LEDGER, "lab"))
    log.append([b"x"] * 10_000)
    return Store(folder, log)


def test_the_newest_at_or_before_a_seq(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        snapshots = Snapshots(store)
        assert snapshots.newest(10) is None
        for seq in (5, 300, 7):
            snapshots.save(seq, b"state %d" % seq)
        assert snapshots.seqs() == [5, 7, 300]
        assert snapshots.newest(4) is None
        assert snapshots.newest(6) == (5, b"state 5")
        assert snapshots.newest(7) == (7, b"state 7")
        assert snapshots.newest(9999) == (300, b"state 300")


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1])
def test_any_size_survives_reopening(tmp_path: Path, size: int) -> None:
    data = bytes(n % 251 for n in range(256)) * (size // 256 + 1)
    with opened(tmp_path) as store:
        Snapshots(store).save(9, data[:size])
    with opened(tmp_path) as store:
        assert Snapshots(store).newest(9) == (9, data[:size])
        assert store.seq == 9


@pytest.mark.parametrize("damage", ["changed", "missing", "shorter header"])
def test_a_bad_one_is_deleted_and_an_older_one_taken(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path) as store:
        snapshots = Snapshots(store)
        snapshots.save(5, b"old")
        snapshots.save(9, b"newer")
        with store.scan(b"s") as rows:
            *_, header, chunk = [key for key, _ in rows]
        if damage == "changed":
            store.write(0, [(chunk, b"newEr")])
        elif damage == "missing":
            store.write(0, [(chunk, None)])
        else:
            store.write(0, [(header, (store.get(header) or b"")[:-1])])
        assert snapshots.newest(9) == (5, b"old")
        assert snapshots.seqs() == [5]


def test_saving_again_replaces(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        snapshots = Snapshots(store)
        snapshots.save(9, b"a" * (CHUNK_BYTES + 1))
        snapshots.save(9, b"b")
        assert snapshots.newest(9) == (9, b"b")


def test_their_number_is_bounded_and_the_last_ones_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        snapshots = Snapshots(store)
        for seq in range(1, 101):
            snapshots.save(seq, b"state")
        seqs = snapshots.seqs()
    assert len(seqs) <= SNAPSHOT_COUNT_MAX
    assert seqs[0] == 1
    assert seqs[-SNAPSHOT_COUNT_MAX // 2 :] == list(range(101 - SNAPSHOT_COUNT_MAX // 2, 101))
    gaps = [later - sooner for sooner, later in pairwise(seqs)]
    assert gaps == sorted(gaps, reverse=True)

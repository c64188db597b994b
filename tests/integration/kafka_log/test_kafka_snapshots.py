"""Snapshots in their topic: cut off, damaged, thinned, and mixed with those of the disk."""

import random
import resource
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ganger.streams.kafka.cluster.topics import DECISIONS, LEDGER, SNAPSHOTS
from ganger.streams.kafka.log.ledger import BEGINNING
from ganger.streams.kafka.log.snapshots import CHUNK_BYTES, KEPT_COUNT, LayeredSnapshots
from ganger.streams.tables.store import StoreFailed
from support.decisions import payloads
from support.kafka_cells import KafkaCell


def data(seq: int, size: int) -> bytes:
    return random.Random(seq).randbytes(size)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 1])
def test_any_size_comes_back(cell: KafkaCell, size: int) -> None:
    store = cell.snapshots()
    assert store.newest(1 << 40) is None
    assert store.newest_seq() is None
    store.save(7, data(7, size))
    for again in (store, cell.snapshots()):
        assert again.newest_seq() == 7
        assert again.newest(7) == (7, data(7, size))
        assert again.newest(6) is None


def test_the_newest_at_or_before_a_seq_and_no_more_than_are_kept(cell: KafkaCell) -> None:
    store = cell.snapshots()
    for seq in range(10, 70, 10):
        store.save(seq, data(seq, CHUNK_BYTES + seq))
    for again in (store, cell.snapshots()):
        assert again.newest(1000) == (60, data(60, CHUNK_BYTES + 60))
        assert again.newest(59) == (50, data(50, CHUNK_BYTES + 50))
        assert again.newest(60 - 10 * KEPT_COUNT) is None


def test_a_saving_that_was_cut_off_is_no_snapshot(cell: KafkaCell) -> None:
    store = cell.snapshots()
    store.save(5, b"good")
    name = cell.placement.cell
    for number in range(1, 600):  # more than the first look at the end covers
        cell.publisher.send(
            SNAPSHOTS, cell.placement.partition, f"{name}/9/{number}".encode(), b"chunk", []
        )
    cell.publisher.flush()
    for again in (store, cell.snapshots()):
        assert again.newest(100) == (5, b"good")
        assert again.newest_seq() == 5
    again.save(9, b"whole now")
    assert cell.snapshots().newest(100) == (9, b"whole now")


@pytest.mark.parametrize("bad", [b"damaged", None])
def test_a_bad_chunk_leads_to_an_older_one(cell: KafkaCell, bad: bytes | None) -> None:
    store = cell.snapshots()
    store.save(5, data(5, 10))
    store.save(6, data(6, CHUNK_BYTES + 10))
    key = f"{cell.placement.cell}/6/2".encode()
    cell.write(SNAPSHOTS, [bad], key)
    for again in (store, cell.snapshots()):
        assert again.newest(6) == (5, data(5, 10))


@pytest.mark.parametrize("key", [b"", b"x", b"other/6/0", b"%s/6/x", b"%s/6"])
def test_what_is_no_snapshot_of_the_cell_is_passed_over(cell: KafkaCell, key: bytes) -> None:
    store = cell.snapshots()
    store.save(5, b"good")
    name = cell.placement.cell.encode()
    cell.write(SNAPSHOTS, [b"junk"], key.replace(b"%s", name))
    cell.write(SNAPSHOTS, [b"no header"], name + b"/8/0")
    assert cell.snapshots().newest(10) == (5, b"good")


def layered(cell: KafkaCell, folder: Path, every: int = 1) -> LayeredSnapshots:
    return LayeredSnapshots(
        *(folder, cell.ledger(), cell.decisions(), cell.publisher, cell.snapshots()),
        topic_every=every,
    )


def test_the_disk_first_and_the_topic_where_it_knows_more(cell: KafkaCell, tmp_path: Path) -> None:
    cell.write(LEDGER, [b"x"] * 40)
    cell.write(DECISIONS, payloads(cell.placement.cell, 12))
    with layered(cell, tmp_path / "a", every=2) as mine:
        assert mine.newest(40) is None
        for seq in (10, 20):
            mine.save(seq, b"a%d" % seq)  # the second one on the disk only
        assert mine.newest(40) == (20, b"a20")
    with layered(cell, tmp_path / "b") as theirs:
        assert theirs.newest(40) == (10, b"a10")
        theirs.save(30, b"b30")
    with layered(cell, tmp_path / "a") as mine:
        assert mine.newest(40) == (30, b"b30")
        assert mine.newest(29) == (20, b"a20")
        assert mine.newest(19) == (10, b"a10")
        assert mine.newest(9) is None


def test_the_decisions_count_from_the_bookmark_of_what_was_found(
    cell: KafkaCell, tmp_path: Path
) -> None:
    wanted = payloads(cell.placement.cell, 12)
    cell.write(LEDGER, [b"x"] * 40)
    cell.write(DECISIONS, wanted[:5])
    decisions = cell.decisions()
    seen: list[object] = []
    with LayeredSnapshots(
        tmp_path, cell.ledger(), decisions, cell.publisher, cell.snapshots()
    ) as store:
        store.save(10, b"ten")
        cell.write(DECISIONS, wanted[2:12])
        store.save(20, b"twenty")
        for at in (40, 19, 9):
            store.newest(at)
            seen.append(decisions._tail.here())
        assert [place.position for place in seen] == [11, 4, 0]  # type: ignore[attr-defined]
        assert seen[-1] == BEGINNING
        store.newest(40)
        assert decisions.end() == 12


@contextmanager
def small_files() -> Iterator[None]:
    """Files of this process stay below 64 KiB meanwhile, as if a disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_refuses_keeps_nothing_from_the_topic(cell: KafkaCell, tmp_path: Path) -> None:
    cell.write(LEDGER, [b"x"] * 40)
    with layered(cell, tmp_path, every=10) as mine:
        mine.save(10, b"ten")
        with small_files():
            for seq in (20, 30):  # the second after a store that was given up
                with pytest.raises(StoreFailed):
                    mine.save(seq, data(seq, 1 << 20))
                assert cell.snapshots().newest_seq() == seq
        mine.save(40, data(40, 1 << 20))
        assert mine.newest(40) == (40, data(40, 1 << 20))
        assert cell.snapshots().newest_seq() == 30, "the disk has it"
    with layered(cell, tmp_path) as mine:
        assert mine.newest(40) == (40, data(40, 1 << 20)), "and keeps it"


def test_a_disk_that_cannot_be_had_is_done_without(
    cell: KafkaCell, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cell.write(LEDGER, [b"x"] * 40)
    with layered(cell, tmp_path / "a") as theirs:
        theirs.save(10, b"ten")
    (tmp_path / "file").write_bytes(b"")
    with layered(cell, tmp_path / "file" / "b") as mine:
        assert mine.newest(40) == (10, b"ten")
        saving = mine.saving(20, lambda: b"twenty")
        with pytest.raises(StoreFailed, match="Not a directory"):
            deque(saving, 0)
    assert "store_failed" in caplog.text
    assert cell.snapshots().newest_seq() == 20

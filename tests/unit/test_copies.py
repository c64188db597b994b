"""Copies between folders, and names of ledgers: what needs no broker."""

from pathlib import Path

import pytest

from ganger.replay.reader import tell_nobody
from ganger.replay.traces.source import InputError
from ganger.replay.verify import verify
from ganger.services import copies
from ganger.services.copies import CopyDiffers, CopyRefused, Extent, copy_to_directory, extent_of
from ganger.services.ledgers import cache_folder, is_url, kafka_cell, open_ledger
from ganger.streams.kafka.cluster.errors import SettingsBad
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.payloads import DecisionUnreadable
from support.small_ledger import build


@pytest.fixture
def source(tmp_path: Path) -> Path:
    build(tmp_path / "source")
    return tmp_path / "source"


def test_a_copy_beside_has_the_same_chains_and_digest(source: Path, tmp_path: Path) -> None:
    readers = LedgerDirectory.open_reader(source)
    steps: list[int] = []
    copied = copy_to_directory(readers, extent_of(readers), tmp_path / "copy", steps.append)
    assert sum(steps) == 2 * (copied.records + copied.decisions)
    wanted, found = verify(readers), verify(LedgerDirectory.open_reader(tmp_path / "copy"))
    assert (found.digest, found.chain, found.record_hash) == (
        *(wanted.digest, wanted.chain, wanted.record_hash),
    )
    assert copied.record_chain == readers.ledger.chain()
    assert copied.decision_chain == readers.decisions.chain()


@pytest.mark.parametrize("group", [1, 3, 7, 1000])
@pytest.mark.parametrize("settled", [0, 4, 10**6])
def test_groups_of_any_size_hold_every_record_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, settled: int
) -> None:
    monkeypatch.setattr(copies, "GROUP_RECORDS", group)
    readers = LedgerDirectory.open_reader(source)
    whole = extent_of(readers)
    extent = Extent(whole.records, whole.decisions, min(settled, whole.records))
    copied = copy_to_directory(readers, extent, tmp_path / "copy", tell_nobody)
    assert copied.record_chain == readers.ledger.chain()
    groups = list(LedgerDirectory.open_reader(tmp_path / "copy").ledger.read_groups())
    if settled < whole.records:  # what may lack decisions is in the last group
        assert groups[-1][0] == settled


def test_decisions_of_later_records_are_left_out(source: Path) -> None:
    """A live ledger goes on between the look at its records and that at its decisions."""
    readers = LedgerDirectory.open_reader(source)
    whole = extent_of(readers)

    class Earlier:
        first_seq = 0

        def end(self) -> int:
            return 14

    class Streams:
        ledger = Earlier()
        decisions = readers.decisions

    found = extent_of(Streams())  # type: ignore[arg-type]
    assert found.records == 14
    assert 0 < found.decisions < whole.decisions
    assert found.settled_seq < 14


def test_what_exists_is_not_written_to(source: Path) -> None:
    readers = LedgerDirectory.open_reader(source)
    with pytest.raises(CopyRefused, match="exists already"):
        copy_to_directory(readers, extent_of(readers), source, tell_nobody)


def test_a_decision_that_is_none_is_named(tmp_path: Path) -> None:
    with LedgerDirectory.create(tmp_path / "bad", "lab") as directory:
        directory.ledger.append([b"x"])
        directory.decisions.append([b"no decision"])
    with pytest.raises(DecisionUnreadable, match="decision at seq 0"):
        extent_of(LedgerDirectory.open_reader(tmp_path / "bad"))


def test_a_copy_that_reads_back_otherwise_is_told(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = LedgerDirectory.open_reader(source)
    other = tmp_path / "other"
    with LedgerDirectory.create(other, "lab") as directory:
        directory.ledger.append([b"x"])
    wrong = LedgerDirectory.open_reader(other)
    monkeypatch.setattr(copies.LedgerDirectory, "open_reader", staticmethod(lambda _: wrong))
    with pytest.raises(CopyDiffers, match="Do not use the copy"):
        copy_to_directory(readers, extent_of(readers), tmp_path / "copy", tell_nobody)


def test_a_folder_keeps_its_store_beside_its_ledger(source: Path) -> None:
    with open_ledger(str(source)) as found:
        assert found.store == source / "store"
        assert found.settled_seq() is None
        assert found.ledger.cell == "lab"


def test_names_of_cells_on_kafka() -> None:
    assert is_url("kafka://a:1/c")
    assert not is_url("kafka")
    settings, cell = kafka_cell("kafka://a:1,b:2/lab", None, {})
    assert (settings.bootstrap, cell) == ("a:1,b:2", "lab")
    for url in ("kafka://", "kafka://a:1", "kafka://a:1/", "kafka:///lab", "kafka://a:1/x/y"):
        with pytest.raises(InputError, match="names no cell"):
            kafka_cell(url, None, {})
    with pytest.raises(SettingsBad):
        kafka_cell("kafka://a:x/lab", None, {})


def test_where_stores_of_kafka_ledgers_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/ganger")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for environ in ({}, {"XDG_CACHE_HOME": "not/absolute"}):
        assert cache_folder(environ) == tmp_path / ".cache" / "ganger"
    monkeypatch.setattr(Path, "home", _homeless)
    assert cache_folder({}) is None


def _homeless() -> Path:
    raise RuntimeError("no home")

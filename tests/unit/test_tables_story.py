"""The story index finds what a search finds; tables are kept and replaced."""

from pathlib import Path

import pytest

from ganger.replay.history import state_at
from ganger.replay.story import Entry, entries, known_ids, story
from ganger.schemas.records import NodeHeartbeat, ReservationRequested
from ganger.streams.log.directory import LedgerDirectory, LedgerReaders
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.tables import story as story_index
from ganger.streams.tables.projection import Projection
from ganger.streams.tables.rows import TABLES
from ganger.streams.tables.store import Store
from ganger.streams.tables.story import IdKind, StoryIndex, record_ids
from support.small_ledger import build, node_report

JOBS = ["small", "gang", "huge", "capped", "twin", "late"]


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerReaders:
    build(tmp_path / "ledger")
    return LedgerDirectory.open_reader(tmp_path / "ledger")


def kinds(found: list[Entry]) -> list[tuple[int, str]]:
    """Seqs and kinds, but for admissions: whether one is said is a matter of the cycle."""
    return [(entry.seq, entry.kind) for entry in found if entry.kind != "ADMIT"]


def test_a_story_holds_all_that_names_the_job(ledger: LedgerReaders) -> None:
    assert kinds(story(ledger, IdKind.JOB, "twin", 100)) == [
        (11, "JobSubmitRequested"),
        (12, "JobSubmitRequested"),
        (12, "REJECT"),
        (13, "ALLOCATE"),
        (17, "PodStarted"),
        (20, "EVICT"),
    ]
    assert kinds(story(ledger, IdKind.NODE, "node-b", 100)) == [
        (6, "NodeChanged"),
        (13, "ALLOCATE"),
        (13, "ALLOCATE"),
        (14, "PodStarted"),
        (17, "PodStarted"),
        (20, "NodeLost"),
        (20, "EVICT"),
    ]
    assert story(ledger, IdKind.JOB, "twi", 100) == []
    assert kinds(story(ledger, IdKind.JOB, "small", 8)) == [(7, "JobSubmitRequested")]


def test_index_and_search_agree(ledger: LedgerReaders, tmp_path: Path) -> None:
    with Store(tmp_path / "store", ledger.ledger) as store:
        index = StoryIndex(store)
        for kind in IdKind:
            names = known_ids(ledger, kind)
            for name in [*names, "nobody"]:
                found = story(ledger, kind, name, 100, index)
                assert found == story(ledger, kind, name, 100)
            assert sorted(index.ids(kind)) == sorted(names)
        assert sorted(index.ids(IdKind.JOB)) == sorted(JOBS)


def test_entries_interleave_decisions_after_their_causes(ledger: LedgerReaders) -> None:
    everything = list(entries(ledger, 0, 25, with_decisions=True))
    assert len(everything) == 25 + ledger.decisions.end()
    assert [entry.seq for entry in everything] == sorted(entry.seq for entry in everything)
    part = kinds(list(entries(ledger, 18, 20, with_decisions=True)))
    assert part == [
        (18, "PodSucceeded"),
        (18, "FINISH"),
        (19, "Tick"),
        (19, "CYCLE_CLOSED"),
    ]
    assert len(list(entries(ledger, 0, 25, with_decisions=False))) == 25


def part_of(log: MemoryLog, records: list[bytes], count: int) -> None:
    log.append(records[log.end() : count])


def test_the_index_catches_up(
    ledger: LedgerReaders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story_index, "STRETCH_COUNT_MAX", 3)
    records = [p for _, group in ledger.ledger.read_groups() for p in group]
    decisions = [p for _, group in ledger.decisions.read_groups() for p in group]
    ins = MemoryLog(LogIdentity(Stream.LEDGER, "lab"))
    outs = MemoryLog(LogIdentity(Stream.DECISIONS, "lab"))
    for record_count, decision_count in ((0, 0), (9, 0), (15, 6), (25, len(decisions))):
        part_of(ins, records, record_count)
        part_of(outs, decisions, decision_count)
        told: list[int] = []
        with Store(tmp_path / "store", ins) as store:
            StoryIndex(store).catch_up(ins, outs, told.append)
            assert store.rebuilt == ""
        with Store(tmp_path / "store", ins) as store:
            again: list[int] = []
            StoryIndex(store).catch_up(ins, outs, again.append)
            assert again == []
    with Store(tmp_path / "store", ins) as store:
        touches = StoryIndex(store).touches(IdKind.JOB, "twin")
    assert touches.records == [11, 12, 17]
    assert len(touches.decisions) >= 3


def test_an_index_of_another_ledger_is_made_anew(tmp_path: Path) -> None:
    build(tmp_path / "ledger")
    ledger = LedgerDirectory.open_reader(tmp_path / "ledger")
    payloads = [p for _, group in ledger.ledger.read_groups() for p in group]
    none = MemoryLog(LogIdentity(Stream.DECISIONS, "lab"))
    first = MemoryLog(LogIdentity(Stream.LEDGER, "lab"))
    first.append(payloads[:12])
    second = MemoryLog(LogIdentity(Stream.LEDGER, "lab"))
    second.append([*payloads[:11], *payloads[14:16]])
    with Store(tmp_path / "store", first) as store:
        StoryIndex(store).catch_up(first, none)
        assert StoryIndex(store).touches(IdKind.JOB, "twin").records == [11]
    with Store(tmp_path / "store", second) as store:
        StoryIndex(store).catch_up(second, none)
        assert "another ledger" in store.rebuilt
        assert StoryIndex(store).touches(IdKind.JOB, "twin").records == []
        assert StoryIndex(store).touches(IdKind.JOB, "small").records == [7, 11]


def test_records_of_many_nodes_touch_each_once() -> None:
    reports = (node_report("a", 1), node_report("b", 1), node_report("a", 2))
    assert record_ids(NodeHeartbeat(1, "", None, reports)) == [
        (IdKind.NODE, "a"),
        (IdKind.NODE, "b"),
    ]
    reservation = ReservationRequested(1, "", None, "r", "ada", ("a", "a"), 0, 0, 1, False)
    assert record_ids(reservation) == [(IdKind.NODE, "a")]


def test_tables_are_kept_and_replaced(ledger: LedgerReaders, tmp_path: Path) -> None:
    late, early = state_at(ledger, 25), state_at(ledger, 6)
    with Store(tmp_path / "store", ledger.ledger) as store:
        projection = Projection(store)
        assert projection.moment() is None
        for state in (late, early, late):
            projection.replace(state)
            moment = projection.moment()
            assert moment is not None
            assert (moment.seq, moment.clock_ns) == (state.next_seq, state.clock_ns)
            for name, (_, rows_of) in TABLES.items():
                assert list(projection.rows(name)) == list(rows_of(state))
    with Store(tmp_path / "store", ledger.ledger) as store:
        assert len(list(Projection(store).rows("jobs"))) == len(JOBS)

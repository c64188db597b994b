"""The state at a point of the past, with and without snapshots."""

from pathlib import Path

import pytest

from ganger.replay import history
from ganger.replay.history import (
    AtOffset,
    AtSeq,
    AtTime,
    Place,
    Point,
    PointBefore,
    PointOutside,
    locate,
    state_at,
)
from ganger.schemas.codec import decode_decision
from ganger.streams.kernel.digest import seal
from ganger.streams.log.directory import LedgerDirectory, LedgerReaders
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from support.small_ledger import START_NS, build

SECOND_NS = 10**9


class Kept(dict[int, bytes]):
    """Snapshots in a dict."""

    def save(self, seq: int, data: bytes) -> None:
        self[seq] = data

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        seq = max((seq for seq in self if seq <= at_or_before), default=None)
        return None if seq is None else (seq, self[seq])


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> LedgerReaders:
    path: Path = tmp_path_factory.mktemp("ledger")
    build(path)
    return LedgerDirectory.open_reader(path)


@pytest.mark.parametrize(
    ("point", "next_seq"),
    [
        (None, 25),
        (AtSeq(0), 1),
        (AtSeq(24), 25),
        (AtTime(START_NS), 7),
        (AtTime(START_NS + 12 * SECOND_NS - 1), 10),
        (AtTime(START_NS + 12 * SECOND_NS), 11),
        (AtTime(START_NS + 10**15), 25),
        (AtOffset(0), 7),
        (AtOffset(20 * SECOND_NS), 14),
    ],
)
def test_points(ledger: LedgerReaders, point: Point, next_seq: int) -> None:
    assert locate(ledger.ledger, point).next_seq == next_seq


@pytest.mark.parametrize(
    ("point", "place"),
    [
        (None, Place(25, START_NS + 51 * SECOND_NS, START_NS + 51 * SECOND_NS)),
        (AtSeq(13), Place(14, START_NS + 20 * SECOND_NS, START_NS + 20 * SECOND_NS)),
        (AtOffset(25 * SECOND_NS), Place(18, START_NS + 25 * SECOND_NS, START_NS + 21 * SECOND_NS)),
        (AtOffset(51 * SECOND_NS), Place(25, START_NS + 51 * SECOND_NS, START_NS + 51 * SECOND_NS)),
        (
            AtOffset(52 * SECOND_NS),
            Place(25, START_NS + 52 * SECOND_NS, START_NS + 51 * SECOND_NS, is_beyond=True),
        ),
    ],
)
def test_a_point_knows_its_time(ledger: LedgerReaders, point: Point, place: Place) -> None:
    assert locate(ledger.ledger, point) == place


def test_a_time_before_the_beginning_is_told_with_it(ledger: LedgerReaders) -> None:
    with pytest.raises(PointBefore) as caught:
        locate(ledger.ledger, AtOffset(-5))
    assert (caught.value.time_ns, caught.value.first_ns) == (START_NS - 5, START_NS)


@pytest.mark.parametrize("point", [AtSeq(25), AtTime(START_NS - 1), AtTime(0), AtOffset(-1)])
def test_points_outside(ledger: LedgerReaders, point: Point) -> None:
    with pytest.raises(PointOutside):
        locate(ledger.ledger, point)


def test_an_empty_ledger_has_no_points() -> None:
    with pytest.raises(PointOutside, match="no record"):
        locate(MemoryLog(LogIdentity(Stream.LEDGER, "lab")), None)


def test_states_are_those_that_the_cycles_recorded(ledger: LedgerReaders) -> None:
    closed = [
        decision
        for _, group in ledger.decisions.read_groups()
        for decision in map(decode_decision, group)
        if decision.digest
    ]
    assert len(closed) == 4
    for decision in closed:
        state = state_at(ledger, decision.cause_seq + 1)
        assert seal(state) == decision.digest
        assert state.chain == decision.chain


def test_snapshots_give_the_same_states(
    ledger: LedgerReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {seq: state_at(ledger, seq) for seq in range(1, 26)}
    monkeypatch.setattr(history, "SNAPSHOT_AFTER_COUNT", 1)
    kept = Kept()
    for seq in [*range(5, 26, 5), *range(1, 26)]:
        told: list[int] = []
        state = state_at(ledger, seq, kept, told.append)
        assert (seal(state), state.chain) == (seal(plain[seq]), plain[seq].chain)
        assert sum(told) == seq
    assert sorted(kept) == list(range(1, 26))


def test_snapshots_that_do_not_fit_are_left_aside(
    ledger: LedgerReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SNAPSHOT_AFTER_COUNT", 1)
    kept = Kept()
    state_at(ledger, 15, kept)
    state_at(ledger, 20, kept)
    wrong = {
        21: b"",
        22: b"rubbish" * 10,
        23: kept[20],  # of another moment
        24: kept[20][:16] + kept[20][16:].replace(b"lab", b"bal"),
    }
    state = state_at(ledger, 25, Kept(kept | wrong))
    assert seal(state) == seal(state_at(ledger, 25))


def test_a_snapshot_with_another_chain_is_left_aside(
    ledger: LedgerReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SNAPSHOT_AFTER_COUNT", 1)
    kept = Kept()
    right = state_at(ledger, 20, kept)
    kept[20] = kept[20].replace(right.chain, bytes(32))
    assert bytes(32) in kept[20]
    assert state_at(ledger, 25, kept).chain == state_at(ledger, 25).chain

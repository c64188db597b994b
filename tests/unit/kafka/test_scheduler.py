"""The thread that runs cells, without a thread: turn by turn, over logs in memory."""

from collections.abc import Callable

import pytest

from ganger.schemas import records as r
from ganger.schemas.encoding import encode_record
from ganger.streams.intake import Intake
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.topics import LEDGER
from ganger.streams.kafka.wire.envelope import FixedIds
from ganger.streams.kafka.wire.tail import Arrivals
from ganger.streams.kafka.worker import scheduler as module
from ganger.streams.kafka.worker.cell import CellPorts
from ganger.streams.kafka.worker.scheduler import Owner, Scheduler
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from support.builders import GENESIS, SECOND
from support.fake_kafka import FakeOutlet

CELLS = {0: "north", 1: "south"}


class Site:
    """Two ledgers, one worker's scheduler, and what it told others."""

    def __init__(self) -> None:
        self.ledgers = {p: self._log(Stream.LEDGER, cell) for p, cell in CELLS.items()}
        self.decisions = {p: self._log(Stream.DECISIONS, cell) for p, cell in CELLS.items()}
        self.outlet = FakeOutlet()
        self.followed: dict[int, int] = {}
        self.restores: list[int] = []
        self.progress_then: list[dict[int, int]] = []  # that others see while a cell is restored
        self.closed: list[int] = []
        self.adopted: dict[int, Intake] = {}
        self.orphaned: list[tuple[int, bool]] = []
        self.failures: list[str] = []
        owner = Owner(self.adopted.__setitem__, self._orphan, self.failures.append)
        self.scheduler = Scheduler(
            "w1", self, self.outlet, self._ports, owner, silence_ns=40 * SECOND
        )
        self.scheduler.place([Placement(cell, p, b"f", b"") for p, cell in CELLS.items()])
        self._moved = 0

    def _log(self, stream: Stream, cell: str) -> MemoryLog:
        return MemoryLog(LogIdentity(stream, cell, b"f", b""))

    def _orphan(self, partition: int, is_refused: bool) -> None:
        self.adopted.pop(partition, None)
        self.orphaned.append((partition, is_refused))

    def _ports(self, placement: Placement) -> CellPorts:
        p = placement.partition
        self.restores.append(p)
        self.progress_then.append(self.scheduler.progress())
        close: Callable[[], None] = lambda: self.closed.append(p)  # noqa: E731
        return CellPorts(
            p,
            self.ledgers[p],
            self.decisions[p],
            None,
            self.outlet,
            FixedIds(),
            lambda: None,
            close,
        )

    # as the tail of the ledgers

    def follow(self, partition: int, next_seq: int) -> None:
        self.followed[partition] = next_seq

    def leave(self, partition: int) -> None:
        del self.followed[partition]

    def take(self, timeout_s: float) -> dict[int, Arrivals]:
        for sent in self.outlet.of(LEDGER)[self._moved :]:
            self._moved += 1
            seq = self.ledgers[sent.partition].append([sent.value or b""])
            if sent.on_delivered is not None:
                sent.on_delivered(seq)
        arrivals = {}
        for partition, next_seq in self.followed.items():
            key = CELLS[partition].encode()
            payloads = [
                p for _, group in self.ledgers[partition].read_groups(next_seq) for p in group
            ]
            if payloads:
                self.followed[partition] += len(payloads)
                arrivals[partition] = Arrivals(next_seq, [key] * len(payloads), list(payloads))
        return arrivals

    def close(self) -> None: ...

    def turn(self, count: int = 4) -> None:
        for _ in range(count):
            self.scheduler._turn()

    def claim(self, partition: int) -> None:
        """Another worker claims a cell."""
        self.ledgers[partition].append([encode_record(r.OwnerClaimed(GENESIS, "", None, "w2"))])


def test_cells_that_are_given_are_restored_claimed_and_run() -> None:
    site = Site()
    site.scheduler.own([0, 1])
    site.turn()
    assert sorted(site.adopted) == [0, 1]
    ends = {partition: log.end() for partition, log in site.ledgers.items()}
    assert site.scheduler.progress() == ends
    ticks = [record for record in site.outlet.records() if isinstance(record, r.Tick)]
    assert len(ticks) >= 2


def test_nobody_is_blamed_for_what_waits_while_a_cell_is_restored() -> None:
    site = Site()
    site.scheduler.own([0])
    site.turn()
    site.scheduler.own([0, 1])
    site.turn()
    assert site.restores == [0, 1]
    assert site.progress_then == [{}, {}]
    assert sorted(site.scheduler.progress()) == [0, 1]


def test_a_cell_that_comes_back_in_a_rebalance_is_not_restored_anew() -> None:
    site = Site()
    site.scheduler.own([0, 1])
    site.turn()
    site.scheduler.suspend()
    site.turn()
    site.scheduler.own([1])
    site.turn()
    assert site.restores == [0, 1]
    assert site.closed == [0]
    assert site.orphaned == [(0, False)]
    site.scheduler.own([0, 1])
    site.turn()
    assert site.restores == [0, 1, 0]


def test_a_cell_that_is_placed_later_is_taken_up() -> None:
    site = Site()
    site.scheduler._placements.clear()
    site.scheduler._words.get_nowait()
    site.scheduler.own([0, 1])
    site.turn()
    assert site.restores == []
    site.scheduler.place([Placement("south", 1, b"f", b"")])
    site.turn()
    assert site.restores == [1]
    assert list(site.adopted) == [1]


def test_a_cell_that_cannot_be_run_is_refused_once_and_others_go_on() -> None:
    site = Site()
    site.ledgers[0].append([b"\0\0\0\0\1junk"])
    site.scheduler.own([0, 1])
    site.turn(8)
    assert site.restores == [0, 1]
    assert site.orphaned == [(0, True)]
    assert list(site.adopted) == [1]
    assert site.failures == []


def test_a_cell_that_breaks_while_it_runs_is_refused() -> None:
    site = Site()
    site.scheduler.own([0, 1])
    site.turn()
    site.ledgers[1].append([b"\0\0\0\0\1junk"])
    site.turn(8)
    assert site.orphaned == [(1, True)]
    assert list(site.followed) == [0]
    assert site.restores == [0, 1]


def test_another_owners_claim_ends_a_cell_here(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.scheduler.own([0, 1])
    site.turn()
    site.claim(0)
    site.turn()
    assert site.orphaned == [(0, False)]
    assert list(site.followed) == [1]
    assert site.failures == []
    monkeypatch.setattr(module, "GRACE_NS", -1)
    site.turn(1)
    assert "partition 0" in site.failures[0]


def test_a_new_assignment_takes_a_claimed_cell_back() -> None:
    site = Site()
    site.scheduler.own([0, 1])
    site.turn()
    site.claim(0)
    site.turn()
    site.scheduler.suspend()
    site.scheduler.own([0, 1])
    site.turn()
    assert site.restores == [0, 1, 0]
    assert sorted(site.adopted) == [0, 1]


def test_stop_leaves_every_cell() -> None:
    site = Site()
    site.scheduler.own([0, 1])
    site.turn()
    site.scheduler.stop()
    site.scheduler.run()
    assert sorted(site.closed) == [0, 1]
    assert site.followed == {}
    assert site.failures == []


def test_what_is_not_foreseen_ends_the_process() -> None:
    site = Site()
    site.scheduler.own([0])
    site.turn()
    site.take = lambda timeout_s: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(ZeroDivisionError):
        site.scheduler.run()
    assert "ZeroDivisionError" in site.failures[0]

"""Reads a cell's decisions, each once, from any point on.

Decisions may stand twice in their topic, when two owners of a cell overlap; copies are left out by
their ids. Where a reader stands is its own to keep: `position`, saved beside what it made of the
decisions, lets it go on exactly there.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from os import environ
from time import monotonic
from typing import Literal

from ganger.schemas.decisions import Decision
from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.cells import Placement, find_cell, read_placements
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import DECISIONS
from ganger.streams.kafka.log.ledger import BEGINNING, Bookmark, DecisionScan
from ganger.streams.kafka.wire.consumer import PartitionReader
from ganger.streams.kafka.wire.partition import Partition
from ganger.streams.payloads import read_decision

BATCH_COUNT = 5_000
"""Most messages taken at once."""

TAIL_RECORDS = 2_000
"""How far back the end is looked at, so that late copies of what stands there are known."""

Position = Mapping[str, Bookmark]
"""Where a reader stands, by cell. Plain numbers, fit for JSON."""

_POLL_SECONDS = 1.0

_Given = tuple[int, Bookmark, Decision]
"""A decision with its partition and the place behind it."""

From = Literal["beginning", "end"] | int | Position
"""Where to begin: at either end; at the decisions of a seq; where an earlier reader stood."""


class Decisions(Closing):
    """The decisions of one cell, of some, or of all that are placed. One thread uses it.

    Iterating waits for further decisions without end; `read` and `take` have a time limit.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str,
        cell: str | None = None,
        *,
        begin: From = "end",
        name: str = "ganger-client",
    ) -> None:
        """Connect.

        Args:
            kafka: `HOST:PORT`, or settings with logins and the like.
            cell: whose decisions; None: those of all cells that are placed by now.
            begin: "end", for what is decided from now on; "beginning"; a seq of the ledger, for
                what it and later ones caused (found by reading from the beginning); or a
                `position`, where cells that it does not name begin at their beginning.
            name: what brokers call this client.

        Raises:
            CellUnknown: the cell is not placed.
            KafkaFailed: Kafka does not answer.
        """
        if isinstance(kafka, str):
            kafka = KafkaSettings.from_arguments(kafka, None, environ)
        self._settings = kafka
        self._ready: deque[_Given] = deque()
        self._scans: dict[int, DecisionScan] = {}
        self._cells: dict[int, str] = {}
        self._given: dict[int, Bookmark] = {}  # behind the newest decision that was given out
        self._from_seq = begin if isinstance(begin, int) else 0
        for placement in _wanted(kafka, cell):
            scan = self._scan(placement, begin)
            self._scans[placement.partition] = scan
            self._cells[placement.partition] = placement.cell
            self._given[placement.partition] = scan.here()
        self._reader = PartitionReader(kafka, name)
        self._reader.assign(
            {(DECISIONS, partition): scan.offset for partition, scan in self._scans.items()}
        )

    @property
    def position(self) -> dict[str, Bookmark]:
        """Where reading goes on: behind every decision given out so far, by cell."""
        return {self._cells[partition]: mark for partition, mark in self._given.items()}

    def take(self, timeout_s: float, count_max: int = BATCH_COUNT) -> list[Decision]:
        """The decisions that have come, in order within each cell; waits only while there is none.

        Args:
            timeout_s: how long to wait at most.
            count_max: most messages to read; copies count too.

        Returns:
            Empty where nothing new came in time.

        Raises:
            KafkaFailed: Kafka refuses, or the topic was cut.
            LogCorrupt: what stands there is no decision of the cell, or a copy differs.
        """
        deadline = monotonic() + timeout_s
        while not self._ready:
            left = deadline - monotonic()
            if not self._fetch(max(0.0, left), count_max) and left <= 0:
                break
        given = list(self._ready)
        self._ready.clear()
        for partition, mark, _ in given:
            self._given[partition] = mark
        return [decision for _, _, decision in given]

    def read(self, timeout_s: float | None = None) -> Iterator[Decision]:
        """Decisions one by one, until none has come for `timeout_s`; None: without end.

        `position` is behind the last decision that the loop was given, so a loop may be left at
        any time and gone on with later.
        """
        heard = monotonic()
        while True:
            while self._ready:
                partition, mark, decision = self._ready.popleft()
                self._given[partition] = mark
                yield decision
                heard = monotonic()
            left = _POLL_SECONDS if timeout_s is None else heard + timeout_s - monotonic()
            if not self._fetch(max(0.0, left)) and left <= 0:
                return

    def __iter__(self) -> Iterator[Decision]:
        """`read` without end."""
        return self.read()

    def close(self) -> None:
        """Give the connections up."""
        self._reader.close()

    def _scan(self, placement: Placement, begin: From) -> DecisionScan:
        """A pass over a cell's decisions that begins where it is wanted."""
        partition = Partition(self._settings, DECISIONS, placement.partition)
        if begin == "end":
            low, end = partition.watermarks()
            scan = DecisionScan(partition.place, Bookmark(0, max(low, end - TAIL_RECORDS), -1, -1))
            for _, payloads in partition.records(scan.offset, end, placement.cell.encode()):
                scan.take(placement.cell, payloads)
        else:
            mark = BEGINNING
            if isinstance(begin, Mapping):
                mark = Bookmark(*begin.get(placement.cell, BEGINNING))
            scan = DecisionScan(partition.place, mark)
        partition.close()
        return scan

    def _fetch(self, timeout_s: float, count_max: int = BATCH_COUNT) -> bool:
        """Read on once; whether anything came, new or not."""
        batches: dict[int, list[bytes]] = {}
        for arrival in self._reader.read(count_max, timeout_s):
            batches.setdefault(arrival.partition, []).append(arrival.value)
        for partition, payloads in batches.items():
            self._take_in(partition, payloads)
        return bool(batches)

    def _take_in(self, partition: int, payloads: list[bytes]) -> None:
        """What is no copy, each with the place behind it, from which reading could go on."""
        scan = self._scans[partition]
        before = scan.here()
        fresh = scan.take(self._cells[partition], payloads)
        for position, payload in enumerate(fresh, before.position):
            decision = read_decision(position, payload)
            # Who resumes inside a batch reads it again from its start; what was given out is then
            # left out like any copy.
            mark = Bookmark(position + 1, before.offset, decision.cause_seq, decision.index)
            if decision.cause_seq >= self._from_seq:
                self._ready.append((partition, mark, decision))
            else:
                self._given[partition] = mark
        if not any(given[0] == partition for given in self._ready):
            self._given[partition] = scan.here()


def _wanted(settings: KafkaSettings, cell: str | None) -> list[Placement]:
    if cell is not None:
        return [find_cell(settings, cell)]
    return list(read_placements(settings).values())

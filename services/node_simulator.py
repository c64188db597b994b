"""Nodes that are not there: heartbeats, and decisions carried out, for a cell on Kafka.

The executor of `simulate` under a wall clock. Everything it does follows from the cell's ledger and
decisions, so after a crash it goes on where it was: what was placed and has no end in the ledger is
running since its `PodStarted`, and facts have ids made of the decision that they follow from, so
that one which is sent twice counts once.
"""

from collections import deque
from collections.abc import Callable, Iterable
from time import time_ns

from ganger.replay.cluster import ClusterSpec
from ganger.schemas.decisions import Decision
from ganger.schemas.records import Record
from ganger.services.producer import Producer
from ganger.services.simulated_nodes import Pace, SimulatedNodes
from ganger.streams.kafka.cluster.cells import Placement, find_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import DECISIONS, LEDGER
from ganger.streams.kafka.log.ledger import BEGINNING, DecisionScan
from ganger.streams.kafka.wire.consumer import Arrival, PartitionReader
from ganger.streams.kafka.wire.partition import Partition
from ganger.streams.payloads import read_decision

BATCH_COUNT = 5_000
"""Most messages taken at once."""

_WAIT_NS_MAX = 10**9 // 4
_SECOND_NS = 10**9


class NodeSimulator:
    """Drives simulated nodes of a cell on Kafka; one thread runs it.

    Attributes:
        nodes: what it drives.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        cell: str,
        cluster: ClusterSpec,
        pace: Pace,
        *,
        name: str = "ganger-nodes",
    ) -> None:
        """Connect and take in the cell's past.

        Args:
            settings: how to reach Kafka.
            cell: whose nodes they are.
            cluster: the nodes.
            pace: how time passes.
            name: what brokers call this client.

        Raises:
            CellUnknown: the cell is not placed.
            KafkaFailed: Kafka does not answer.
            LogError: the cell's past cannot be read.
        """
        self.nodes = SimulatedNodes(cluster, pace)
        self._interval_ns = pace.interval_ns
        self._placement = placement = find_cell(settings, cell)
        self._producer = Producer(settings, cell, name=name)  # early: its first send is slow
        self._is_stopped = False
        self._waiting: deque[Decision] = deque()  # whose cause was not read yet
        self._scan, self._ledger_seq = _past(settings, placement, self.nodes)
        self._reader = PartitionReader(settings, name)
        self._reader.assign(
            {
                (LEDGER, placement.partition): self._ledger_seq,
                (DECISIONS, placement.partition): self._scan.offset,
            }
        )

    def stop(self) -> None:
        """Let `run` return soon; may be called from a signal handler."""
        self._is_stopped = True

    def run(self, clock: Callable[[], int] = time_ns, duration_ns: int | None = None) -> None:
        """Carry out, report and beat until stopped; everything sent is safe then.

        Args:
            clock: UTC in ns.
            duration_ns: how long at most.

        Raises:
            KafkaFailed: something was not delivered, or cannot be read. Start again.
        """
        now_ns = clock()
        end_ns = None if duration_ns is None else now_ns + duration_ns
        beat_ns = now_ns
        self._send(self.nodes.begin(now_ns))
        while not self._is_stopped and (end_ns is None or now_ns < end_ns):
            if now_ns >= beat_ns:
                self._producer.heartbeat(self.nodes.reports(now_ns))
                beat_ns = now_ns + self._interval_ns
            until = (beat_ns, self.nodes.due_ns(), end_ns, now_ns + _WAIT_NS_MAX)
            wait_ns = max(0, min(at_ns for at_ns in until if at_ns is not None) - now_ns)
            arrivals = self._reader.read(BATCH_COUNT, wait_ns / _SECOND_NS)
            now_ns = clock()
            self._send(self.nodes.carry_out(self._take_in(arrivals), now_ns))
            self._send(self.nodes.take(now_ns))
            self._producer.poll()
        self._producer.flush()

    def close(self) -> None:
        """Give the connections up."""
        self._reader.close()

    def _send(self, facts: Iterable[Record]) -> None:
        for fact in facts:
            self._producer.send(fact)

    def _take_in(self, arrivals: list[Arrival]) -> list[Decision]:
        """The new decisions whose causes, and so their jobs, are known."""
        payloads = []
        for arrival in arrivals:
            if arrival.topic == LEDGER:
                self.nodes.learn(arrival.offset, arrival.value)
                self._ledger_seq = arrival.offset + 1
            else:
                payloads.append(arrival.value)
        if payloads:
            self._waiting.extend(_new(self._scan, self._placement.cell, payloads))
        known = []
        while self._waiting and self._waiting[0].cause_seq < self._ledger_seq:
            known.append(self._waiting.popleft())
        return known


def _past(
    settings: KafkaSettings, placement: Placement, nodes: SimulatedNodes
) -> tuple[DecisionScan, int]:
    """Let the nodes remember the cell's past.

    Returns:
        Where the decisions go on, and the seq that the next record will have.
    """
    key = placement.cell.encode()
    decisions = Partition(settings, DECISIONS, placement.partition)
    ledger = Partition(settings, LEDGER, placement.partition)
    # In this order, so that every decision read has its cause among the records read.
    decisions_end = decisions.watermarks()[1]
    first_seq, ledger_end = ledger.watermarks()
    scan = DecisionScan(decisions.place, BEGINNING)
    nodes.remember(
        (
            (seq, payload)
            for first, group in ledger.records(first_seq, ledger_end, key)
            for seq, payload in enumerate(group, first)
        ),
        (
            decision
            for _, group in decisions.records(0, decisions_end, key)
            for decision in _new(scan, placement.cell, group)
        ),
    )
    decisions.close()
    ledger.close()
    return scan, ledger_end


def _new(scan: DecisionScan, cell: str, payloads: list[bytes]) -> list[Decision]:
    """The decisions among these records that are no copies."""
    position = scan.position
    fresh = scan.take(cell, payloads)
    return [read_decision(place, payload) for place, payload in enumerate(fresh, position)]

"""Connects a cell to Kafka and to its store on the disk."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.log.ledger import KafkaLedger
from ganger.streams.kafka.log.logs import LiveDecisionLog
from ganger.streams.kafka.log.snapshots import LayeredSnapshots, TopicSnapshots
from ganger.streams.kafka.wire.envelope import Framing
from ganger.streams.kafka.wire.publisher import Publisher
from ganger.streams.kafka.worker.cell import CellPorts
from ganger.streams.kafka.worker.folder import CELLS_FOLDER
from ganger.streams.kafka.worker.pulse import Pulse


class BeatingLedger(KafkaLedger):
    """A ledger whose reader shows with every batch that it still reads: a restore may take long."""

    def __init__(self, settings: KafkaSettings, placement: Placement, pulse: Pulse) -> None:
        """Name a cell's ledger. Nothing is asked yet."""
        super().__init__(settings, placement)
        self._pulse = pulse

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Yield records as `LogReader.read_groups` says."""
        for group in super().read_groups(from_seq, to_seq):
            self._pulse.beat()
            yield group


def open_ports(
    settings: KafkaSettings,
    placement: Placement,
    publisher: Publisher,
    framing: Framing,
    folder: Path,
    pulse: Pulse,
) -> CellPorts:
    """What a cell is run with.

    Args:
        settings: how to reach Kafka.
        placement: the cell's.
        publisher: writes all that the cell publishes.
        framing: for rows.
        folder: the worker's data; the cell's snapshots go below it.
        pulse: beaten while the ledger is read.

    Raises:
        StoreBusy, StoreFailed: the store on the disk cannot be had.
        LogUnreachable: no broker answered.
    """
    ledger = BeatingLedger(settings, placement, pulse)
    decisions = LiveDecisionLog(settings, placement, publisher)
    topic = TopicSnapshots(settings, placement, publisher)
    with ExitStack() as stack:
        for opened in (ledger, decisions, topic):
            stack.callback(opened.close)
        store = folder / CELLS_FOLDER / placement.cell
        snapshots = LayeredSnapshots(store, ledger, decisions, publisher, topic)
        stack.callback(snapshots.close)
        return CellPorts(
            placement.partition,
            ledger,
            decisions,
            snapshots,
            publisher,
            framing,
            decisions.settle,
            stack.pop_all().close,
        )

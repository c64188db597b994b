"""From what a worker's parts count to its metrics."""

from ganger.streams.kafka.cluster.cells import PlacementWatch
from ganger.streams.kafka.cluster.topics import INPUTS, LEDGER
from ganger.streams.kafka.wire.acks import Place
from ganger.streams.kafka.worker.desk import Counts
from ganger.streams.metrics import Metrics


class Counting:
    """Tells metrics what was counted since the last time."""

    def __init__(self, metrics: Metrics | None, counts: Counts, placements: PlacementWatch) -> None:
        """Tells nothing yet; without metrics it never does."""
        self._metrics = metrics
        self._counts = counts
        self._placements = placements
        self._messages = dict(counts.messages)
        self._letters: dict[tuple[str, str], int] = {}

    def tell(self) -> None:
        """Messages and dead letters; in the thread that counts them."""
        if self._metrics is None:
            return
        for topic, count in self._counts.messages.items():
            if count > self._messages[topic]:
                self._metrics.received(topic, count - self._messages[topic])
                self._messages[topic] = count
        for place, count in self._counts.dead_letters.items():
            before = self._letters.get(place, 0)
            if count > before:
                self._metrics.refused(*place, count - before)
                self._letters[place] = count

    def waiting(self, counts: dict[Place, int]) -> None:
        """Messages that wait, by partition; in any thread."""
        if self._metrics is None:
            return
        for topic in INPUTS:
            self._metrics.input_behind(
                topic, sum(count for place, count in counts.items() if place[0] == topic)
            )
        for (topic, partition), count in counts.items():
            placement = self._placements.by_partition.get(partition)
            if topic == LEDGER and placement is not None:
                self._metrics.ledger_behind(placement.cell, count)

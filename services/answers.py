"""What became of requests: where they stand in a cell's ledger, and whether they were refused.

Requests of operators are not answered by a decision of their own unless they are refused. But
every input is followed by a cycle, so once a later record has led to a decision, what has not been
refused by then is in force.
"""

from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.services.decision_feed import Decisions
from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.cells import find_cell
from ganger.streams.kafka.cluster.errors import KafkaFailed
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import LEDGER
from ganger.streams.kafka.wire.consumer import PartitionReader
from ganger.streams.kafka.wire.partition import Partition
from ganger.streams.payloads import read_record

_BATCH_COUNT = 1_000
_POLL_SECONDS = 0.5


class Unanswered(KafkaFailed):
    """Requests did not reach the cell's ledger, or no cycle followed them, in time."""

    def __init__(self, cell: str, count: int, seconds: float) -> None:
        super().__init__(
            f"cell {cell!r}: {count} requests are safe in Kafka and were not answered within "
            f"{seconds:g} s. See whether a worker runs; they count once it does"
        )


class Answer(NamedTuple):
    """A request's seq in the ledger, and its refusal where it was refused."""

    seq: int
    refusal: Decision | None


class Answers(Closing):
    """Watches for what becomes of requests that are sent after this was made."""

    def __init__(self, settings: KafkaSettings, cell: str, name: str = "ganger-client") -> None:
        """Connect, and note where ledger and decisions end.

        Raises:
            CellUnknown: the cell is not placed.
            KafkaFailed: Kafka does not answer.
        """
        self._cell = cell
        place = (LEDGER, find_cell(settings, cell).partition)
        partition = Partition(settings, *place)
        end = partition.watermarks()[1]
        partition.close()
        self._decisions = Decisions(settings, cell, begin="end", name=name)
        self._reader = PartitionReader(settings, name)
        self._reader.assign({place: end})

    def wait(
        self,
        event_ids: Iterable[str],
        timeout_s: float,
        on_poll: Callable[[], None] = lambda: None,
    ) -> dict[str, Answer]:
        """The answers to these requests, by event id.

        Args:
            event_ids: as `Producer` gave them.
            timeout_s: how long to wait at most.
            on_poll: called every half second; what it raises ends the waiting.

        Raises:
            Unanswered: they did not all come in time.
        """
        wanted = dict.fromkeys(event_ids)
        deadline = monotonic() + timeout_s
        seqs: dict[str, int] = {}
        while len(seqs) < len(wanted):
            on_poll()
            self._check(deadline, len(wanted) - len(seqs), timeout_s)
            for arrival in self._reader.read(_BATCH_COUNT, _POLL_SECONDS):
                event_id = read_record(arrival.offset, arrival.value).event_id
                if event_id in wanted:
                    seqs.setdefault(event_id, arrival.offset)
        last = max(seqs.values(), default=-1)
        refusals: dict[int, Decision] = {}
        newest = -1 if seqs else 0
        while newest <= last:
            on_poll()
            self._check(deadline, len(wanted), timeout_s)
            for decision in self._decisions.take(_POLL_SECONDS):
                newest = max(newest, decision.cause_seq)
                if decision.kind is DecisionKind.REJECT:
                    refusals[decision.cause_seq] = decision
        return {event_id: Answer(seq, refusals.get(seq)) for event_id, seq in seqs.items()}

    def close(self) -> None:
        """Give the connections up."""
        self._reader.close()
        self._decisions.close()

    def _check(self, deadline: float, count: int, timeout_s: float) -> None:
        if monotonic() > deadline:
            raise Unanswered(self._cell, count, timeout_s)

"""What a worker tells Prometheus: names, labels, and the endpoint that serves them.

Names follow Prometheus' naming practice: prefix `ganger`, base units, unit last, `_total` on what
only grows. No label takes a value from outside without a bound: cells are those this worker owns
and go when they are lost, queues beyond `QUEUES_MAX` of a cell and classes that are not known are
counted under `OTHER`. Every method is meant to be called once per batch, from any thread.
"""

from collections import Counter as Counted
from collections.abc import Iterable, Mapping
from threading import Thread
from typing import TypeVar
from wsgiref.simple_server import WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
)

from ganger.schemas.decisions import Decision
from ganger.schemas.errors import Refusal

QUEUES_MAX = 100
"""Queues of one cell with a series of their own."""

OTHER = "other"
"""Label value of all that has no series of its own."""

CARD_STATES = ("free", "shared", "used", "failed", "closed")
"""Of a card: free; partly given away; given away; not healthy; on a node that takes no pods."""

GAP_FIGURES = ("completion", "use", "main_wait")
"""Of jobs in gaps: how many were completed; idle card-time used; wait of main jobs, to before."""

ERROR_CLASSES = tuple(refusal.value for refusal in Refusal)
"""Classes of dead letters that the codec finds; others are named to `Metrics`."""

_CYCLE_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_APPEND_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)

_Series = TypeVar("_Series", Counter, Gauge, Histogram)


class EndpointTaken(OSError):
    """The address of the metrics endpoint cannot be used; the message says why and what to do."""


class Metrics:
    """All series of one process, in a registry of their own.

    Attributes:
        registry: for tests and for other ways of exposition.
    """

    def __init__(self, version: str, *, error_classes: Iterable[str] = ()) -> None:
        """Makes the series; nothing is served yet.

        Args:
            version: of ganger, for `ganger_build_info`.
            error_classes: classes of dead letters beside `ERROR_CLASSES`.
        """
        disable_created_metrics()  # a second series beside each counter, and no one reads them
        self.registry = CollectorRegistry()
        self._error_classes = frozenset((*ERROR_CLASSES, *error_classes))
        self._cells: dict[str, dict[tuple[object, ...], Counter | Gauge | Histogram]] = {}
        self._queues: dict[str, set[str]] = {}
        self._server: tuple[WSGIServer, Thread] | None = None
        ProcessCollector(registry=self.registry)
        Info("ganger_build", "Version that runs", registry=self.registry).info({"version": version})
        self._make_cell_series()
        self._make_process_series()

    def _make_cell_series(self) -> None:
        self._applied = self._counter(
            "ganger_records_applied", "Ledger records that the kernel has applied", "cell"
        )
        self._ledger_lag = self._gauge(
            "ganger_ledger_lag_records", "Ledger records that wait to be applied", "cell"
        )
        self._cycle = self._histogram(
            "ganger_cycle_seconds",
            "Time from taking a batch of records to handing over its decisions",
            _CYCLE_BUCKETS_S,
            "cell",
        )
        self._decisions = self._counter(
            "ganger_decisions", "Decisions made", "cell", "kind", "reason"
        )
        self._jobs_pending = self._gauge(
            "ganger_jobs_pending", "Jobs that wait to be placed", "cell", "queue"
        )
        self._cards = self._gauge("ganger_cards", "Cards of the cell", "cell", "state")
        self._gaps = self._gauge(
            "ganger_gaps_ratio",
            "How jobs in gaps fare in the window under way: share of them that was completed, share"
            " of idle card-time that they used, wait of main jobs against before",
            "cell",
            "figure",
        )
        self._restore = self._gauge(
            "ganger_restore_seconds", "Time that the latest restore of the cell took", "cell"
        )
        self._table_lag = self._gauge(
            "ganger_table_lag_seconds", "Age of what the tables show, behind the kernel", "cell"
        )
        self._snapshot_seq = self._gauge(
            "ganger_snapshot_seq", "Last record that the newest snapshot covers", "cell"
        )
        self._snapshot_bytes = self._gauge(
            "ganger_snapshot_bytes", "Size of the newest snapshot", "cell"
        )
        self._snapshot_failures = self._counter(
            "ganger_snapshot_failures", "Snapshots that could not be saved", "cell"
        )

    def _make_process_series(self) -> None:
        self._inputs = self._counter("ganger_inputs", "Messages taken from input topics", "topic")
        self._input_lag = self._gauge(
            "ganger_input_lag_records", "Messages of an input topic not yet acknowledged", "topic"
        )
        self._dead_letters = self._counter(
            "ganger_dead_letters", "Messages sent to the dead letters", "topic", "error_class"
        )
        self._append = self._histogram(
            "ganger_ledger_append_seconds",
            "Time from producing ledger records to the broker's acknowledgement",
            _APPEND_BUCKETS_S,
        )
        self._rows = self._counter("ganger_rows_published", "Rows of tables published")
        self._owned = self._gauge("ganger_owned_cells", "Cells that this worker owns")

    # --- What happened to a cell -----------------------------------------------------------------

    def applied(self, cell: str, records: int) -> None:
        """The kernel applied so many ledger records."""
        self._of(self._applied, cell).inc(records)

    def ledger_behind(self, cell: str, records: int) -> None:
        """So many records of the ledger are not applied yet."""
        self._of(self._ledger_lag, cell).set(records)

    def cycled(self, cell: str, seconds: float) -> None:
        """A batch of records was taken, applied, and its decisions handed over."""
        self._of(self._cycle, cell).observe(seconds)

    def decided(self, cell: str, decisions: Iterable[Decision]) -> None:
        """The kernel made these decisions."""
        for (kind, reason), count in Counted((d.kind, d.reason) for d in decisions).items():
            self._of(self._decisions, cell, kind.name, reason.name).inc(count)

    def waiting(self, cell: str, jobs_by_queue: Mapping[str, int]) -> None:
        """So many jobs wait in each queue; a queue that is not named has none.

        A queue keeps the series it has while it is named, so that no series changes its meaning;
        free ones go to the queues with most jobs.
        """
        kept = self._queues.setdefault(cell, set())
        for queue in kept - jobs_by_queue.keys():
            self._drop(self._jobs_pending, cell, queue)
            kept.discard(queue)
        fresh = jobs_by_queue.keys() - kept
        by_jobs = sorted(fresh, key=lambda queue: (-jobs_by_queue[queue], queue))
        kept.update(by_jobs[: QUEUES_MAX - len(kept)])
        sums: Counted[str] = Counted()
        for queue, jobs in jobs_by_queue.items():
            sums[queue if queue in kept else OTHER] += jobs
        if OTHER not in sums:
            self._drop(self._jobs_pending, cell, OTHER)
        for queue, jobs in sums.items():
            self._of(self._jobs_pending, cell, queue).set(jobs)

    def cards(self, cell: str, count_by_state: Mapping[str, int]) -> None:
        """So many cards are in each of `CARD_STATES`; a state that is not named has none."""
        other = sum(n for state, n in count_by_state.items() if state not in CARD_STATES)
        for state in CARD_STATES:
            self._of(self._cards, cell, state).set(count_by_state.get(state, 0))
        if other:
            self._of(self._cards, cell, OTHER).set(other)
        else:
            self._drop(self._cards, cell, OTHER)

    def gaps(self, cell: str, milli_by_figure: Mapping[str, int]) -> None:
        """Health of backfill in thousandths, by `GAP_FIGURES`; negative where it is unknown."""
        for figure in GAP_FIGURES:
            milli = milli_by_figure.get(figure, -1)
            if milli < 0:
                self._drop(self._gaps, cell, figure)
            else:
                self._of(self._gaps, cell, figure).set(milli / 1000)

    def restored(self, cell: str, seconds: float) -> None:
        """The cell was restored from a snapshot and the tail of its ledger."""
        self._of(self._restore, cell).set(seconds)
        self._of(self._snapshot_failures, cell)  # from 0 on, so that a first one is an increase

    def tables_behind(self, cell: str, seconds: float) -> None:
        """What the tables show is so old."""
        self._of(self._table_lag, cell).set(seconds)

    def snapshotted(self, cell: str, seq: int, size_bytes: int) -> None:
        """A snapshot was kept that covers all records up to `seq`."""
        self._of(self._snapshot_seq, cell).set(seq)
        self._of(self._snapshot_bytes, cell).set(size_bytes)

    def unsaved(self, cell: str) -> None:
        """A snapshot could not be saved; it is tried again."""
        self._of(self._snapshot_failures, cell).inc()

    def lost(self, cell: str) -> None:
        """Another worker has the cell now: all its series here end."""
        self._queues.pop(cell, None)
        for metric, *labels in list(self._cells.pop(cell, {})):
            metric.remove(cell, *labels)  # type: ignore[attr-defined]

    # --- What happened in the process ------------------------------------------------------------

    def owns(self, cells: int) -> None:
        """This worker owns so many cells now."""
        self._owned.set(cells)

    def received(self, topic: str, messages: int) -> None:
        """So many messages of an input topic were taken."""
        self._inputs.labels(topic).inc(messages)

    def input_behind(self, topic: str, messages: int) -> None:
        """So many messages of an input topic are not acknowledged yet."""
        self._input_lag.labels(topic).set(messages)

    def refused(self, topic: str, error_class: str, messages: int = 1) -> None:
        """So many messages of an input topic went to the dead letters."""
        bounded = error_class if error_class in self._error_classes else OTHER
        self._dead_letters.labels(topic, bounded).inc(messages)

    def appended(self, seconds: float) -> None:
        """Ledger records were acknowledged, so long after they were produced."""
        self._append.observe(seconds)

    def published_rows(self, rows: int) -> None:
        """So many rows of tables were published."""
        self._rows.inc(rows)

    # --- The endpoint ----------------------------------------------------------------------------

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Serve all series at `http://HOST:PORT/metrics`, in a thread of its own.

        Args:
            port: to listen at; 0 takes a free one.
            host: address to listen on; whoever reaches it can read the names of cells and queues.

        Returns:
            The port that is listened at.

        Raises:
            EndpointTaken: the address is in use, or not one of this machine.
            RuntimeError: it is served already.
        """
        if self._server is not None:
            raise RuntimeError("metrics are served already; close them first")
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as error:
            raise EndpointTaken(
                error.errno,
                f"metrics cannot be served at {host}:{port} ({error.strerror}); choose another "
                "port, or 0 for a free one",
            ) from error
        self._server = server, thread
        return server.server_port

    def close(self) -> None:
        """End the endpoint; returns when its port is free. Without one it does nothing."""
        if self._server is not None:
            server, thread = self._server
            self._server = None
            server.shutdown()
            server.server_close()
            thread.join()

    # --- Series ----------------------------------------------------------------------------------

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self.registry)

    def _histogram(
        self, name: str, meaning: str, buckets_s: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, meaning, labels, buckets=buckets_s, registry=self.registry)

    def _of(self, metric: _Series, cell: str, *labels: str) -> _Series:
        """The series of one cell, remembered: for speed, and so that `lost` knows them all."""
        series = self._cells.setdefault(cell, {})
        key = (metric, *labels)
        found = series.get(key)
        if found is None:
            found = series[key] = metric.labels(cell, *labels)
        return found  # type: ignore[return-value]

    def _drop(self, metric: Gauge, cell: str, *labels: str) -> None:
        if self._cells.get(cell, {}).pop((metric, *labels), None) is not None:
            metric.remove(cell, *labels)

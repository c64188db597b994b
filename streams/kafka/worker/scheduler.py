"""The thread that runs the kernels of all cells that a worker owns.

It restores a cell when given one, follows the ledgers of all of them with one consumer, steps
what comes, and lets time pass. Others talk to it through `own`, `place`, `suspend` and `stop`,
which only leave word; it talks back through `Owner`.

While partitions are being given out anew (`suspend`) cells run on: what they publish is the same
whoever publishes it, and a cell that comes back to the same worker, as most do, needs no restore.
"""

import gc
import logging
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic_ns, time_ns
from typing import NamedTuple, Protocol

from ganger.streams.intake import Intake
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.wire.outlet import Outlet
from ganger.streams.kafka.wire.tail import Arrivals
from ganger.streams.kafka.worker.cell import CellPorts, CellRunner, CellUnrunnable
from ganger.streams.kafka.worker.gauges import cards_by_state, gap_health, jobs_waiting
from ganger.streams.kafka.worker.pulse import Pulse
from ganger.streams.metrics import Metrics

IDLE_WAIT_NS = 50_000_000
"""Longest wait for a record: how late a word to this thread is heard."""

GRACE_NS = 20_000_000_000
"""How long a cell may be claimed by another worker while its partition still counts as ours."""

SUSPENDED_NS_MAX = 120_000_000_000
"""How long cells run on while nobody says whose they are."""

_HEAP_EVERY_NS = 60_000_000_000
_GAUGES_EVERY_NS = 10_000_000_000
_NS_PER_S = 1e9

log = logging.getLogger("ganger.worker")


class Tail(Protocol):
    """What the thread reads the ledgers' ends with; `LedgerTail` is one."""

    def follow(self, partition: int, next_seq: int) -> None: ...

    def leave(self, partition: int) -> None: ...

    def take(self, timeout_s: float) -> dict[int, Arrivals]: ...

    def close(self) -> None: ...


class Owner(NamedTuple):
    """Whom the thread tells of its cells. Called in this thread; must return at once."""

    adopted: Callable[[int, Intake], None]
    """A cell (by partition) is run from now on; the intake knows its nodes."""

    orphaned: Callable[[int, bool], None]
    """It is run no more; whether because it cannot be."""

    failed: Callable[[str], None]
    """The process has to end."""


class Scheduler(Thread):
    """Runs cells. See the module."""

    def __init__(
        self,
        name: str,
        tail: Tail,
        outlet: Outlet,
        open_ports: Callable[[Placement], CellPorts],
        owner: Owner,
        *,
        silence_ns: int,
        metrics: Metrics | None = None,
    ) -> None:
        """A thread that owns nothing; `start` starts it.

        Args:
            name: the worker's, for claims.
            tail: reads the ledgers; closed by the thread.
            outlet: for all that the cells publish; used by this thread alone.
            open_ports: connects a cell, with this outlet.
            owner: see `Owner`.
            silence_ns: after how long a silent node is lost.
            metrics: where numbers go, if anywhere.
        """
        super().__init__(name="ganger-scheduler", daemon=True)
        self.pulse = Pulse()
        self._worker = name
        self._tail = tail
        self._outlet = outlet
        self._open_ports = open_ports
        self._owner = owner
        self._silence_ns = silence_ns
        self._metrics = metrics
        self._words: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._placements: dict[int, Placement] = {}
        self._owned: dict[int, None] = {}
        self._runners: dict[int, CellRunner] = {}
        self._lost: dict[int, int] = {}  # claimed by others; when that was met
        self._refused: dict[int, str] = {}
        self._suspended_ns = 0
        self._heap_ns = self._gauges_ns = monotonic_ns()
        self._is_stopping = False
        self._is_restoring = False
        self._progress: dict[int, int] = {}

    # ---- words of other threads ------------------------------------------------------------------

    def own(self, partitions: Iterable[int]) -> None:
        """These partitions, and no others, are this worker's from now on."""
        wanted = dict.fromkeys(sorted(partitions))
        self._words.put(lambda: self._own(wanted))

    def place(self, placements: Iterable[Placement]) -> None:
        """Cells have these partitions."""
        placed = list(placements)
        self._words.put(lambda: self._place(placed))

    def suspend(self) -> None:
        """Partitions are being given out anew; `own` will say how."""
        self._words.put(self._suspend)

    def stop(self) -> None:
        """Leave all cells, each with a snapshot, and end."""
        self._words.put(self._finish)

    def progress(self) -> dict[int, int]:
        """Next seq of each cell that is run, by partition; of none while a cell is restored, which
        may take long. The others stand still meanwhile, and the pulse says that it gets on.
        """
        return {} if self._is_restoring else self._progress.copy()

    # ---- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until `stop`; anything unforeseen ends the process."""
        try:
            while not self._is_stopping:
                self._turn()
            self._release_all()
            self._outlet.flush()
            self._tail.close()
        except BaseException as error:
            log.exception("scheduler_failed")
            self._owner.failed(f"scheduler: {type(error).__name__}: {error}")
            raise

    def _turn(self) -> None:
        """One round: words, one restore, records, and what is due."""
        self.pulse.beat()
        self._obey()
        self._restore_one()
        wait_ns = IDLE_WAIT_NS
        now_ns, mono_ns = time_ns(), monotonic_ns()
        for runner in self._runners.values():
            wait_ns = min(wait_ns, runner.wait_ns(now_ns, mono_ns))
        arrivals = self._tail.take(wait_ns / _NS_PER_S)
        for partition, found in arrivals.items():
            self._step(partition, found)
        self._outlet.poll(0)
        now_ns, mono_ns = time_ns(), monotonic_ns()
        for partition, runner in list(self._runners.items()):
            self._serve(partition, runner, now_ns, mono_ns)
        self._look_after(mono_ns)

    def _obey(self) -> None:
        try:
            while True:
                self._words.get_nowait()()
        except Empty:
            return

    def _own(self, wanted: dict[int, None]) -> None:
        self._suspended_ns = 0
        for partition in [p for p in self._runners if p not in wanted]:
            self._release(partition)
        self._owned = wanted
        self._lost = {}  # what is ours by a new assignment may be claimed anew
        self._refused = {p: why for p, why in self._refused.items() if p in wanted}
        log.info("owns partitions=%s", list(wanted))

    def _place(self, placements: list[Placement]) -> None:
        for placement in placements:
            self._placements.setdefault(placement.partition, placement)

    def _suspend(self) -> None:
        self._suspended_ns = monotonic_ns()

    def _finish(self) -> None:
        self._is_stopping = True

    # ---- cells -----------------------------------------------------------------------------------

    def _restore_one(self) -> None:
        """Take over one cell that is ours and not run; the others go on in between."""
        for partition in self._owned:
            placement = self._placements.get(partition)
            is_known = partition in self._runners or partition in self._refused
            if placement is not None and not is_known and partition not in self._lost:
                self._restore(placement)
                return

    def _restore(self, placement: Placement) -> None:
        self._is_restoring = True
        try:
            self._take_over(placement)
        finally:
            self._is_restoring = False

    def _take_over(self, placement: Placement) -> None:
        begin_ns = monotonic_ns()
        runner = CellRunner(
            placement.cell, self._open_ports(placement), self._worker, self._silence_ns
        )
        gc.disable()  # the state is large and leaves no cycles
        try:
            count = runner.restore(time_ns(), begin_ns)
        except CellUnrunnable as error:
            self._refuse(placement.partition, runner, error)
            return
        finally:
            gc.enable()
        _spare_the_heap()
        self._runners[placement.partition] = runner
        self._progress[placement.partition] = runner.next_seq
        self._tail.follow(placement.partition, runner.next_seq)
        seconds = (monotonic_ns() - begin_ns) / _NS_PER_S
        log.info(
            "cell_restored cell=%s partition=%d seq=%d replayed=%d seconds=%.3f",
            *(placement.cell, placement.partition, runner.next_seq, count, seconds),
        )
        if self._metrics is not None:
            self._metrics.restored(placement.cell, seconds)
            self._metrics.owns(len(self._runners))

    def _step(self, partition: int, found: Arrivals) -> None:
        runner = self._runners.get(partition)
        if runner is None:
            return
        begin_ns = monotonic_ns()
        try:
            decisions = runner.take(found.first_seq, found.keys, found.payloads)
        except CellUnrunnable as error:
            self._refuse(partition, runner, error)
            return
        self._progress[partition] = runner.next_seq
        self._adopt(partition, runner)
        if runner.superseded:
            self._give_away(partition, runner)
        if self._metrics is not None:
            self._metrics.applied(runner.cell, len(found.payloads))
            self._metrics.cycled(runner.cell, (monotonic_ns() - begin_ns) / _NS_PER_S)
            self._metrics.decided(runner.cell, decisions)

    def _adopt(self, partition: int, runner: CellRunner) -> None:
        """Give the intake of a cell away once the cell is claimed."""
        intake = runner.take_intake()
        if intake is not None:
            log.info("cell_claimed cell=%s seq=%d", runner.cell, runner.next_seq)
            self._owner.adopted(partition, intake)

    def _serve(self, partition: int, runner: CellRunner, now_ns: int, mono_ns: int) -> None:
        self._adopt(partition, runner)  # its claim may have been acknowledged after it was met
        rows_before, failures_before = runner.rows_count, runner.saver.failures_count
        saved = runner.serve(now_ns, mono_ns)
        if self._metrics is not None:
            if runner.rows_count > rows_before:
                self._metrics.published_rows(runner.rows_count - rows_before)
            if runner.saver.failures_count > failures_before:
                self._metrics.unsaved(runner.cell)
        if saved is not None:
            self.pulse.beat()
            _spare_the_heap()
            log.info(
                "snapshot_saved cell=%s seq=%d seconds=%.3f",
                *(runner.cell, saved, (monotonic_ns() - runner.saver.begun_ns) / _NS_PER_S),
            )
            if self._metrics is not None:
                self._metrics.snapshotted(runner.cell, saved, runner.saver.size_bytes)

    def _release(self, partition: int) -> None:
        runner = self._leave(partition)
        runner.release(time_ns(), monotonic_ns())
        self._owner.orphaned(partition, False)
        log.info("cell_released cell=%s seq=%d", runner.cell, runner.next_seq)

    def _release_all(self) -> None:
        for partition in list(self._runners):
            self.pulse.beat()
            self._release(partition)

    def _give_away(self, partition: int, runner: CellRunner) -> None:
        """Somebody else has claimed the cell: say nothing more of it."""
        self._leave(partition)
        runner.close()
        self._lost[partition] = monotonic_ns()
        self._owner.orphaned(partition, False)
        log.warning(
            "cell_superseded cell=%s epoch=%d by=%s",
            *(runner.cell, runner.state.epoch, runner.superseded_by),
        )
        if runner.superseded_by == self._worker:
            # Kafka lets the newer member of a static id in and the older join anew, for ever.
            self._owner.failed(
                f"another worker runs under the id {self._worker!r} and has claimed cell "
                f"{runner.cell}: give each worker an --id of its own"
            )

    def _refuse(self, partition: int, runner: CellRunner, error: CellUnrunnable) -> None:
        """The cell cannot be run; others can."""
        if partition in self._runners:
            self._leave(partition)
        runner.close()
        self._refused[partition] = str(error)
        self._owner.orphaned(partition, True)
        log.error("cell_refused cell=%s seq=%d why=%r", runner.cell, error.seq, str(error))

    def _leave(self, partition: int) -> CellRunner:
        runner = self._runners.pop(partition)
        self._tail.leave(partition)
        self._progress.pop(partition, None)
        if self._metrics is not None:
            self._metrics.lost(runner.cell)
            self._metrics.owns(len(self._runners))
        return runner

    # ---- now and then ----------------------------------------------------------------------------

    def _look_after(self, mono_ns: int) -> None:
        if self._suspended_ns and mono_ns - self._suspended_ns > SUSPENDED_NS_MAX:
            self._owner.failed("partitions were taken away and none given for too long")
        for partition, since_ns in self._lost.items():
            if mono_ns - since_ns > GRACE_NS and partition in self._owned:
                self._owner.failed(
                    f"partition {partition} counts as ours, but another worker claimed its cell"
                )
        if mono_ns - self._heap_ns > _HEAP_EVERY_NS:
            self._heap_ns = mono_ns
            _spare_the_heap()
        if self._metrics is not None and mono_ns - self._gauges_ns > _GAUGES_EVERY_NS:
            self._gauges_ns = mono_ns
            for runner in self._runners.values():
                self._metrics.waiting(runner.cell, jobs_waiting(runner.state))
                self._metrics.cards(runner.cell, cards_by_state(runner.state))
                self._metrics.gaps(runner.cell, gap_health(runner.state))


def _spare_the_heap() -> None:
    """Tell the cycle collector to leave alone all that is there now.

    The kernel's state is large, lives long and has no cycles that end; walking through it would
    stop the worker for longer and longer. What is young is collected first.
    """
    gc.collect(1)
    gc.freeze()

"""The Faust app of a worker: who has which partitions, and the loop that keeps all of it going.

Faust is asked for three things: messages in order, partitions, and tables that recover. What a
rebalance does to the rest of the worker stands here:

* partitions are taken away, all of them at each rebalance: the desk closes, what is done with is
  committed, cells run on;
* partitions are given: the scheduler is told at once, and restores what it does not run already;
* the tables have recovered and messages will come: the desk opens.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

import faust
from faust.types import TP
from mode import Service

from ganger.streams.intake import Intake
from ganger.streams.kafka.cluster.cells import Placement, PlacementWatch
from ganger.streams.kafka.cluster.credentials import faust_options
from ganger.streams.kafka.cluster.errors import BrokerUnreachable
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import HEARTBEATS, INPUTS, ROWS
from ganger.streams.kafka.wire.acks import Place
from ganger.streams.kafka.wire.outlet import Outlet
from ganger.streams.kafka.worker.desk import Desk
from ganger.streams.kafka.worker.haste import hasten, shorten_fetches
from ganger.streams.kafka.worker.pulse import Pulse

GROUP = "ganger.workers"
"""Consumer group of all workers of a Kafka: its members share the partitions, and so the cells."""

SESSION_S = 10.0
"""How long a worker may be silent before its cells go to others, and how long after a clean stop
they do: a static member does not leave. Kafka's own lower bound is 6 s."""

STOP_S = 12.0
"""Most that the scheduler may take to leave its cells, of the 15 s after which supervisors kill."""

_PUMP_S = 0.01
_SECOND_S = 1.0
_COMMIT_S = 0.5
_FIND_S = 0.1
_FLUSH_S = 2.0

log = logging.getLogger("ganger.worker")


class Cells(Protocol):
    """Who runs the cells; `Scheduler` does."""

    def own(self, partitions: list[int]) -> None: ...

    def place(self, placements: list[Placement]) -> None: ...

    def suspend(self) -> None: ...

    def stop(self) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool: ...


class Parts(NamedTuple):
    """What a worker is put together from; see `Membership`."""

    app: "faust.App"
    desk: Desk
    outlet: Outlet
    placements: PlacementWatch
    begins: Callable[[list[Place]], dict[Place, int]]  # from which offsets the group reads on
    forget_batches: Callable[[], None]  # of messages whose waking Faust has emptied its queues of
    leave_tables: Callable[[], None]  # their stores are closed before anything else at the end
    failed: Callable[[str], None]
    each_second: Callable[[], None]


def make_app(
    settings: KafkaSettings,
    name: str,
    folder: Path,
    partitions: int,
    failed: Callable[[str], None],
) -> "faust.App":
    """A Faust app with the settings that were found to hold.

    Args:
        settings: how to reach Kafka.
        name: the worker's, under which Kafka keeps its partitions for it over a restart.
        folder: for the stores of the tables.
        partitions: of every topic with one per cell.
        failed: called with the reason when an agent fails; ends the process.
    """
    app: Any = faust.App(
        GROUP,
        **faust_options(settings),
        datadir=str(folder),
        store="rocksdb://",
        web_enabled=False,
        processing_guarantee="at_least_once",
        autodiscover=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=partitions,
        table_standby_replicas=0,
        stream_wait_empty=False,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=name,
        broker_client_id=name,
        broker_session_timeout=SESSION_S,
        broker_heartbeat_interval=2.0,
        broker_request_timeout=40.0,
        broker_max_poll_interval=120.0,
        broker_commit_interval=_COMMIT_S,
        broker_max_poll_records=2000,
        producer_linger=0.005,
    )

    async def agent_failed(agent: Any, error: BaseException) -> None:
        log.error("agent_failed agent=%s", agent.name, exc_info=error)
        failed(f"agent {agent.name}: {type(error).__name__}: {error}")

    # Faust would start a failed agent again, behind the message that it failed at.
    app._on_agent_error = agent_failed
    return app


class Membership(Service):
    """The event loop's side of a worker. Every method runs in the loop."""

    logger = logging.getLogger("mode.ganger")

    def __init__(self, parts: Parts, **options: Any) -> None:
        """A worker that has no partitions; `run_with` names who runs the cells."""
        super().__init__(**options)
        self.pulse = Pulse()
        self.partitions: tuple[int, ...] = ()
        self.is_open = False
        self.is_ending = False
        self._is_hastened = False
        self._found_s = 0.0
        self._app, self._desk, self._outlet, self._watch = parts[:4]
        self._begins, self._forget_batches, self._leave_tables = parts[4:7]
        self._failed, self._each_second = parts[7:]
        self._cells: Cells | None = None
        self._desk.place(self._watch.by_cell.values())
        app: Any = self._app
        self._end_rebalance: Callable[[], None] = app.on_rebalance_end
        app.on_rebalance_end = self._resumed
        app.on_partitions_revoked.connect(self._revoked)
        app.on_partitions_assigned.connect(self._assigned)
        app.on_rebalance_complete.connect(self._completed)
        app.on_before_shutdown.connect(self._shut)

    def run_with(self, cells: Cells) -> None:
        """Name who runs the cells; before the start."""
        self._cells = cells
        cells.place(list(self._watch.by_cell.values()))

    # ---- from the scheduler's thread -------------------------------------------------------------

    def adopted(self, partition: int, intake: Intake) -> None:
        """A cell is run from now on. Called in any thread."""
        self._soon(self._desk.adopt, partition, intake)

    def orphaned(self, partition: int, is_refused: bool) -> None:
        """A cell is run no more. Called in any thread."""
        self._soon(self._desk.orphan, partition, is_refused)

    def _soon(self, call: Callable[..., None], *args: object) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(call, *args)

    # ---- what a rebalance does -------------------------------------------------------------------

    async def _revoked(self, app: Any, revoked: set[TP], **_: Any) -> None:
        log.info("inputs_closed partitions=%s", list(self.partitions))
        if self._cells is not None:
            self._cells.suspend()
        await self._close()

    async def _assigned(self, app: Any, assigned: set[TP], **_: Any) -> None:
        if not self._is_hastened:
            self._is_hastened = True
            hasten(app.consumer)
            shorten_fetches(app.consumer)
            app.sensors.remove(app.monitor)  # it counts every message, for nobody
        self.partitions = tuple(sorted(tp.partition for tp in assigned if tp.topic == HEARTBEATS))
        self._desk.assign(self.partitions)
        if self._cells is not None:
            self._cells.own(list(self.partitions))

    async def _completed(self, app: Any, **_: Any) -> None:
        # Not `partitions`: this may come before `_assigned` has been heard.
        read = dict.fromkeys((*INPUTS, ROWS))
        places: list[Place] = [tuple(tp) for tp in app.consumer.assignment() if tp.topic in read]
        begins = self._begins(places) if places else {}
        self._desk.acks.begin(begins)
        self._desk.open()
        self.is_open = True
        log.info("inputs_open partitions=%s", list(self.partitions))

    def _resumed(self) -> None:
        """The flow of messages has begun anew."""
        self._end_rebalance()
        self._forget_batches()
        self.add_future(self._seek())

    async def _seek(self) -> None:
        """Read every partition from where it is to be handled.

        Faust seeks what was committed, but not where that is 0 or nothing, and then empties its
        queues: what it had put into them since is lost. What is read twice now is handled once.
        """
        app: Any = self._app
        generation = app.consumer_generation_id
        offsets = {TP(*place): offset for place, offset in self._desk.acks.due().items()}
        try:
            await app.consumer.seek_wait(offsets)
        except Exception as error:
            if app.consumer_generation_id == generation:
                self._failed(f"seeking: {type(error).__name__}: {error}")
            log.warning("seek_given_up why=%r", str(error))  # another rebalance: seeks come again

    async def _shut(self, app: Any, **_: Any) -> None:
        self.is_ending = True
        self._leave_tables()
        cells = self._cells
        if cells is not None:
            cells.stop()
            waited = 0.0
            while cells.is_alive() and waited < STOP_S:
                await asyncio.sleep(_PUMP_S)
                self._outlet.poll(0)
                waited += _PUMP_S
        await self._close()

    async def _close(self) -> None:
        """Stop taking messages; commit those whose records are safe, or are within a moment."""
        waited_s = 0.0
        while self._outlet.pending_count() and waited_s < _FLUSH_S:
            self._outlet.poll(0)
            await asyncio.sleep(_PUMP_S)
            waited_s += _PUMP_S
        self._outlet.poll(0)
        await self._commit()
        self._desk.close()
        self.is_open = False

    # ---- what goes on all the time ---------------------------------------------------------------

    @Service.task
    async def _pump(self) -> None:
        await self._keep(_PUMP_S, self._poll)

    @Service.task
    async def _second(self) -> None:
        await self._keep(_SECOND_S, self._look)

    @Service.task
    async def _finding(self) -> None:
        await self._keep(_FIND_S, self._find)

    @Service.task
    async def _committing(self) -> None:
        await self._keep(_COMMIT_S, self._commit)

    async def _keep(self, every_s: float, do: Callable[[], Awaitable[None]]) -> None:
        try:
            while not self.should_stop:
                await do()
                await self.sleep(every_s)
        except Exception as error:
            log.exception("loop_failed")
            self._failed(f"event loop: {type(error).__name__}: {error}")

    async def _poll(self) -> None:
        self.pulse.beat()
        self._outlet.poll(0)

    async def _look(self) -> None:
        self._desk.silence()
        self._each_second()

    async def _find(self) -> None:
        """Take in placements up to now, away from the loop, since a broker may not answer."""
        waiting, closings = self._desk.unplaced_count, self._desk.closings
        if not waiting and monotonic() - self._found_s < _SECOND_S:
            return
        try:
            found = await self.loop.run_in_executor(None, self._watch.read_to_end)
        except BrokerUnreachable as error:
            log.warning("placements_unknown why=%r", str(error))
            return
        self._found_s = monotonic()
        self._desk.place(found)
        self._desk.settle_unplaced(waiting if closings == self._desk.closings else 0)
        if found and self._cells is not None:
            log.info("cells_placed cells=%s", [placement.cell for placement in found])
            self._cells.place(found)

    async def _commit(self) -> None:
        acks = self._desk.acks
        assigned = self._app.consumer.assignment() if self.is_open else set()
        offsets: dict[Place, int] = {
            place: offset for place, offset in acks.committable().items() if TP(*place) in assigned
        }
        if not offsets:
            return
        places = {TP(*place): offset for place, offset in offsets.items()}
        # Faust's own commits know nothing of these topics, which are declared without acks.
        consumer: Any = self._app.consumer
        if await consumer._commit(places):
            acks.committed(offsets)


def run(app: "faust.App", membership: Membership) -> bool:
    """Run a worker in this thread until a signal ends it; whether it ended in order."""
    worker = faust.Worker(
        app,
        membership,
        quiet=True,
        loglevel="WARNING",
        override_logging=False,
        redirect_stdouts=False,
    )
    worker.spinner = None  # it writes to the terminal
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        return not end.code

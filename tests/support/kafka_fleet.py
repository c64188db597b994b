"""Cells that run: workers and simulated nodes as processes, started again whenever they crash.

A worker is crash-only, so whoever runs one starts it again when it ends; here `Fleet` does, in the
same thread that waits for something to come true. Everything that waits has a deadline. Processes
are ended by their id, and by the kernel when the thread that started them is gone.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.admin import create
from ganger.streams.kafka.cluster.cells import (
    Placement,
    find_cell,
    place_cell,
    read_placements,
)
from ganger.streams.kafka.cluster.errors import KafkaFailed
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import DECISIONS
from ganger.streams.kafka.log.ledger import KafkaStreams
from ganger.streams.kafka.wire.partition import Partition
from ganger.streams.log.errors import LogError
from ganger.streams.log.protocol import LogReader
from ganger.streams.payloads import read_decision, read_record

COMMAND = (
    sys.executable,
    "-c",
    "import ctypes; ctypes.CDLL(None).prctl(1, 9); "  # SIGKILL when the parent is gone
    "from ganger.services.cli import main; main(prog_name='ganger')",
)

WORKER_CRASHES = (70, 1)
"""How a worker ends that is to be started again: in doubt, or because it found no broker."""

NO_BROKER = "Check that Kafka runs there"
"""What a process says that found no broker when it started, whatever its exit code."""

NODES_CRASHES = (1,)
"""The same of simulated nodes."""

CRASHES_MAX = 40
"""Ends that nobody asked for, of one process: beyond, it is not worth waiting for it."""

NODES = "4x8"
SPEED = 20

_POLL_S = 0.05
_STOP_S = 40.0
_TAIL_LINES = 30
_LINE_CHARS = 300
_PROCESSES_TOLD = 6
_CELL_EVENT = re.compile(r"event=cell_(claimed|released|superseded|refused) cell=(\S+)")


class FleetFailed(AssertionError):
    """A process ended in a way that is not foreseen, or something did not come true in time."""


class Child:
    """One process of `ganger`, and those that took its place.

    Attributes:
        name: what it is, and of its files.
        starts: how often it was started.
        crashes: exit codes of ends that nobody asked for.
    """

    def __init__(
        self, name: str, words: Sequence[str], folder: Path, crashes: Sequence[int]
    ) -> None:
        """A process that `start` starts: `ganger WORDS`; it may end with these codes any time."""
        self.name = name
        self.words = [str(word) for word in words]
        self.starts = 0
        self.crashes: list[int] = []
        self._folder = folder
        self._crashes = crashes
        self._process: subprocess.Popen[bytes] | None = None
        self._was_killed = False

    def start(self) -> None:
        """Start it, with its output in a new file."""
        self.starts += 1
        self._was_killed = False
        with self.log_path.open("wb") as output:
            self._process = subprocess.Popen(
                [*COMMAND, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def log_path(self) -> Path:
        """Output of the process that runs, or ran last."""
        return self._folder / f"{self.name}.{self.starts}.log"

    def log(self) -> str:
        """What that process has said."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def code(self) -> int | None:
        """How it ended; None while it runs, or if it is not to run."""
        return None if self._process is None else self._process.poll()

    def tend(self) -> None:
        """Start it again if it has ended.

        Raises:
            FleetFailed: with an exit code that says more than that it crashed, or too often.
        """
        code = self.code()
        if code is None:
            return
        if not self._was_killed:
            self.crashes.append(code)
            is_foreseen = code in self._crashes or NO_BROKER in self.log()
            if not is_foreseen or len(self.crashes) > CRASHES_MAX:
                raise FleetFailed(f"{self.name} ended with {code}:\n{self.tail()}")
        self.start()

    def tail(self) -> str:
        """The last of what it said."""
        return "\n".join(self.log().splitlines()[-_TAIL_LINES:])

    def story(self) -> str:
        """The last that each of its processes said, with what ended those that crashed."""
        paths = [self._folder / f"{self.name}.{number}.log" for number in range(1, self.starts + 1)]
        told = [f"--- {self.name}, started {self.starts} times, crashes {self.crashes}"]
        for path in paths[-_PROCESSES_TOLD:]:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            told += [f"-- {path.name}", *lines[-_TAIL_LINES:]]
        return "\n".join(told)

    def kill(self) -> None:
        """SIGKILL; it counts as down until `tend`."""
        self._was_killed = True
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(_STOP_S)

    def signal(self, number: int) -> None:
        """Send a signal to the process that runs."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, seconds: float = _STOP_S) -> int:
        """Wait for its end; the exit code. It is not started again."""
        assert self._process is not None
        code = self._process.wait(seconds)
        self._process = None
        return code

    def stop(self) -> int:
        """SIGTERM, wait; the exit code. It is not started again."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """Be rid of it, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(_STOP_S)


class WorkerChild(Child):
    """A worker."""

    def __init__(self, name: str, settings: KafkaSettings, data: Path, folder: Path) -> None:
        """A worker of that name on a folder for its data."""
        self.data = data
        self._forgotten = 0, 0  # of which process, how much of its log
        words = ("worker", "--kafka", settings.bootstrap, "--data", str(data), "--id", name)
        super().__init__(name, words, folder, WORKER_CRASHES)

    def cells(self) -> set[str]:
        """The cells that the process runs, by its own account."""
        found: set[str] = set()
        start, size = self._forgotten
        log = self.log()[size if start == self.starts else 0 :]
        for event, cell in _CELL_EVENT.findall(log):
            if event == "claimed":
                found.add(cell)
            else:
                found.discard(cell)
        return found

    def forget(self) -> None:
        """Take what the process has said so far for nothing: it must claim its cells again."""
        self._forgotten = self.starts, len(self.log())


class Fleet(Closing):
    """Workers and simulated nodes of some cells. A context: nothing is left behind it.

    Attributes:
        settings: the Kafka.
        workers: by name.
        nodes: the simulated nodes, by cell.
    """

    def __init__(self, settings: KafkaSettings, folder: Path) -> None:
        """No process yet; `folder` takes data and output."""
        self.settings = settings
        self.workers: dict[str, WorkerChild] = {}
        self.nodes: dict[str, Child] = {}
        self._folder = folder
        self._decisions: dict[str, Partition] = {}

    def make_topics(self, cells: Iterable[str], partitions: int) -> None:
        """Make all topics and place the cells."""
        create(self.settings, partitions=partitions, cells=cells)

    def place(self, cell: str) -> Placement:
        """Place one more cell."""
        return place_cell(self.settings, cell)

    def placements(self) -> dict[str, Placement]:
        """Where the cells are."""
        return read_placements(self.settings)

    def worker(self, name: str, data: Path | None = None, logs: Path | None = None) -> WorkerChild:
        """Start a worker, with folders of its own unless others are named."""
        where = data or self._folder / f"data-{name}"
        logs = logs or self._folder
        logs.mkdir(exist_ok=True)
        self.workers[name] = child = WorkerChild(name, self.settings, where, logs)
        child.start()
        return child

    def simulate(self, cell: str, nodes: str = NODES, speed: int = SPEED) -> Child:
        """Start the simulated nodes of a cell."""
        words = ("nodes", "simulate", "--kafka", self.settings.bootstrap, "--cell", cell)
        more = ("--nodes", nodes, "--speed", str(speed))
        self.nodes[cell] = child = Child(
            f"nodes-{cell}", (*words, *more), self._folder, NODES_CRASHES
        )
        child.start()
        return child

    @property
    def children(self) -> list[Child]:
        """Every process."""
        return [*self.workers.values(), *self.nodes.values()]

    def tend(self) -> None:
        """Start again what has ended."""
        for child in self.children:
            child.tend()

    def until(self, what: str, is_true: Callable[[], object], seconds: float) -> None:
        """Tend the processes until something is true.

        Raises:
            FleetFailed: it does not come true in time.
        """
        deadline = monotonic() + seconds
        while True:
            self.tend()
            if is_true():
                return
            if monotonic() > deadline:
                said = [child.story() for child in self.children]
                said += [self._story_of(cell) for cell in self.nodes]
                raise FleetFailed(
                    "\n".join((f"not within {seconds:g} s, {datetime.now(UTC)}: {what}", *said))
                )
            sleep(_POLL_S)

    def _story_of(self, cell: str) -> str:
        """The ends of a cell's ledger and decisions."""
        told = [f"--- {cell}"]
        with suppress(LogError, KafkaFailed):
            streams = KafkaStreams(self.settings, find_cell(self.settings, cell))
            with closing(streams):
                told += _ends_of(streams.ledger, read_record)
                told += _ends_of(streams.decisions, read_decision)
        return "\n".join(told)

    def claimed(self) -> set[str]:
        """The cells that workers run, by their own account."""
        return {cell for worker in self.workers.values() for cell in worker.cells()}

    def decided(self, cell: str) -> int | None:
        """Where the partition of the cell's decisions ends; None while no broker says."""
        partition = self._decisions.get(cell)
        if partition is None:
            number = self.placements()[cell].partition
            partition = Partition(self.settings, DECISIONS, number, timeout_s=2.0)
            self._decisions[cell] = partition
        with suppress(LogError, KafkaFailed):
            return partition.watermarks()[1]
        return None

    def until_live(self, worker: WorkerChild, seconds: float = 120.0, more: int = 1) -> None:
        """Tend until a worker's process has itself claimed a cell that then decides more.

        Only under load: who has nothing to decide is not seen to live.

        Args:
            worker: which.
            seconds: how long at most.
            more: so many decisions.
        """
        marks: dict[tuple[int, str], int] = {}

        def is_live() -> bool:
            for cell in worker.cells():
                end = self.decided(cell)
                if end is None:
                    continue
                if end >= more + marks.setdefault((worker.starts, cell), end):
                    return True
            return False

        self.until(f"{worker.name} runs cells that decide", is_live, seconds)

    def stop_workers(self) -> None:
        """End every worker in order.

        Raises:
            FleetFailed: one did not end with 0.
        """
        for worker in self.workers.values():
            worker.signal(signal.SIGTERM)
        for worker in self.workers.values():
            code = worker.wait()
            if code:
                raise FleetFailed(f"{worker.name} ended with {code}:\n{worker.tail()}")

    def close(self) -> None:
        """End everything at once."""
        for child in self.children:
            child.end()
        for partition in self._decisions.values():
            partition.close()


def _ends_of(log: LogReader, read: Callable[[int, bytes], object]) -> list[str]:
    """The last of what stands in a log, a line each."""
    return [
        f"{place} {str(read(place, payload))[:_LINE_CHARS]}"
        for first, group in log.read_groups(max(0, log.end() - _TAIL_LINES))
        for place, payload in enumerate(group, first)
    ]

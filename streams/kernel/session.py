"""The read view of one cycle: which queue is next, and what the cycle has done so far."""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from ganger.streams.kernel.entities import ROOT, ClaimEntry, Job, Key, Pod, Queue
from ganger.streams.kernel.jobs.waiting import FRESH, Waiting
from ganger.streams.kernel.nodes.marks import marked
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.state import State


class Host(Protocol):
    """Starts those for whom others make way, and others anew."""

    def make_room(self, job: Job, pods: Sequence[Pod]) -> tuple[ClaimEntry, ...] | None:
        """Where a job would start if attempts, and who is due, had left; none: nowhere."""
        ...

    def claim(
        self,
        job: Job,
        entries: tuple[ClaimEntry, ...],
        victims: tuple[tuple[int, int, int], ...],
        grace_ns: int,
    ) -> None:
        """Let a job start there once they have; they may take so long."""
        ...

    def fits_again(self, job: Job) -> bool:
        """Whether all pods of a suspended job would find a place elsewhere."""
        ...

    def start_again(self, job: Job, slept_ns: int) -> None:
        """Place and start what is pending of a job, in a gap; it was suspended for so long."""
        ...


class Way(Protocol):
    """How others make way."""

    def free_for(self, job: Job) -> bool:
        """Tell others to make way for a job, which claims their cards; whether that is enough."""
        ...

    def go_on(self) -> list[Job]:
        """Let those who were suspended go on; who does."""
        ...


class Session:
    """One pass over the cell, caused by one Tick."""

    __slots__ = (
        "admitted",
        "evicted",
        "has_taken",
        "host",
        "lone",
        "lone_key",
        "make_way",
        "offer_gaps",
        "started",
        "state",
    )

    def __init__(self, state: State) -> None:
        self.state = state
        # admitted and not in line yet: placed without standing in it if nobody else is
        self.lone: Job | None = None
        self.lone_key: Key = ()
        self.admitted: list[Job] = []  # in this cycle, in order
        self.started = 0  # pods allocated or backfilled
        self.evicted = 0
        self.has_taken = False  # some job claimed what others have
        # offers gaps to those who wait behind reservations, once these have been made in this cycle
        self.offer_gaps: Callable[[], None] | None = None
        # lets those in gaps make way for who is first in line; as above
        self.make_way: Callable[[Way], None] | None = None
        self.host: Host | None = None

    def let_in(self, job: Job, key: Key) -> None:
        """A job has been admitted; `key` is its place in line, where any former lone job stands."""
        assert self.lone is None
        self.lone = job
        self.lone_key = key

    def line_lone(self) -> None:
        """Let the lone job, if there is one, stand in line and count as demand."""
        job = self.lone
        if job is not None:
            self.lone = None
            quota.claim(self.state, job)
            self.state.indexes.inqueue.add(job, self.lone_key, marked(self.state, job, FRESH))

    def is_anybody_waiting(self) -> bool:
        """Whether some job stands in a line, offered or not."""
        if self.lone is not None:
            self.line_lone()
        indexes = self.state.indexes
        return indexes.inqueue.count > 0 or indexes.gate.count > 0


class QueueOrder:
    """Queues with waiting jobs, least served first, down the tree.

    The obvious algorithm: at each level of the tree take the child with the least key. Here each
    parent keeps a heap of its children, and since a job is always taken from the least child, only
    the tops on the way down change when it is placed.
    """

    __slots__ = ("_admits", "_heaps", "_only", "_state")

    def __init__(self, state: State, waiting: Waiting, admits: bool) -> None:
        """`admits`: for admission, so that admitted demand counts as served."""
        self._state = state
        self._admits = admits
        self._heaps: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        self._only: Queue | None = None
        leaves = waiting.queues()
        if len(leaves) == 1:
            self._only = state.queues[leaves[0]]  # no order to keep
            return
        seen: dict[int, None] = {}
        for leaf in leaves:
            for level in state.queues[leaf].chain:
                if level.index in seen:
                    break
                seen[level.index] = None
                self._heaps.setdefault(level.parent, []).append((self._key(level), level.index))
        for heap in self._heaps.values():
            heapify(heap)

    def best(self) -> Queue | None:
        """The leaf whose turn it is, or none."""
        heap = self._heaps.get(ROOT)
        if not heap:
            return self._only
        index = heap[0][1]
        while (heap := self._heaps.get(index)) is not None:
            index = heap[0][1]
        return self._state.queues[index]

    def served(self, leaf: Queue) -> None:
        """The leaf that `best` gave was charged for a job: let its branch take its new place."""
        if self._only is not None:
            return
        for level in leaf.chain:
            heap = self._heaps[level.parent]
            assert heap[0][1] == level.index
            if len(heap) > 1:
                heapreplace(heap, (self._key(level), level.index))

    def drop(self, leaf: Queue) -> None:
        """The leaf that `best` gave has no job left to try."""
        if self._only is not None:
            self._only = None
            return
        for level in leaf.chain:
            heap = self._heaps[level.parent]
            assert heap[0][1] == level.index
            heappop(heap)
            if heap:
                return
            del self._heaps[level.parent]

    def _key(self, queue: Queue) -> tuple[int, ...]:
        hooks = self._state.policy.queue_order
        if len(hooks) == 1:
            return hooks[0](self._state, queue, self._admits)
        key: tuple[int, ...] = ()
        for hook in hooks:
            key += hook(self._state, queue, self._admits)
        return key


class Turns:
    """Waiting jobs one by one as it is their turn, whether they fit or not.

    Where the policy orders queues, the queue whose turn it is stays until its job starts; else all
    stand in one line.
    """

    __slots__ = ("_keys", "_lines", "_order", "_passed", "_places", "_queue")

    def __init__(self, state: State, lines: dict[int, list[Key]]) -> None:
        """`lines`: keys in order by queue, or all in line 0 where the policy does not order queues.

        Jobs may leave the lines on the way only as they start.
        """
        self._keys: list[Key] = []  # of the only line
        self._passed = 0  # so many of them
        self._order: QueueOrder | None = None
        if len(lines) == 1 or not state.policy.queue_order:
            for self._keys in lines.values():
                break
            return
        self._lines = lines
        self._order = QueueOrder(state, state.indexes.inqueue, admits=False)
        self._places: dict[int, int] = {}  # by line: how many were passed
        self._queue: Queue | None = None  # whose turn it is

    def key(self) -> Key | None:
        """Whose turn it is; none: everybody had a turn."""
        if self._order is None:
            keys = self._keys
            return keys[self._passed] if self._passed < len(keys) else None
        while (queue := self._order.best()) is not None:
            self._queue = queue
            keys = self._lines.get(queue.index, [])
            place = self._places.get(queue.index, 0)
            if place < len(keys):
                return keys[place]
            self._order.drop(queue)
        return None

    def started(self) -> None:
        """It started and left its line."""
        if self._order is not None and self._queue is not None:
            self._order.served(self._queue)

    def passed(self) -> None:
        """It stays."""
        if self._order is None:
            self._passed += 1
            return
        assert self._queue is not None
        line = self._queue.index
        self._places[line] = self._places.get(line, 0) + 1

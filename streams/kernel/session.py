"""The read view of one cycle: which queue is next, and what the cycle has done so far."""

from heapq import heapify, heappop, heapreplace

from ganger.streams.kernel import quota
from ganger.streams.kernel.entities import ROOT, Job, Key, Queue
from ganger.streams.kernel.state import State
from ganger.streams.kernel.waiting import FRESH, Waiting


class Session:
    """One pass over the cell, caused by one Tick."""

    __slots__ = ("_lone_key", "admitted", "evicted", "lone", "started", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        # admitted and not in line yet: placed without standing in it if nobody else is
        self.lone: Job | None = None
        self._lone_key: Key = ()
        self.admitted: list[Job] = []  # in this cycle, in order
        self.started = 0  # pods allocated or backfilled
        self.evicted = 0

    def let_in(self, job: Job, key: Key) -> None:
        """A job has been admitted; `key` is its place in line, where any former lone job stands."""
        assert self.lone is None
        self.lone = job
        self._lone_key = key

    def line_lone(self) -> None:
        """Let the lone job, if there is one, stand in line and count as demand."""
        job = self.lone
        if job is not None:
            self.lone = None
            quota.claim(self.state, job)
            self.state.indexes.inqueue.add(job, self._lone_key, FRESH)


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

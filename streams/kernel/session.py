"""The read view of one cycle: which queue is next, and what the cycle has done so far."""

from heapq import heapify, heappop, heapreplace

from ganger.streams.kernel.entities import ROOT, Job, Queue
from ganger.streams.kernel.state import State
from ganger.streams.kernel.waiting import Waiting


class Session:
    """One pass over the cell, caused by one Tick."""

    __slots__ = ("admitted", "evicted", "started", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.admitted: list[Job] = []  # in this cycle, in order
        self.started = 0  # pods allocated or backfilled
        self.evicted = 0


class QueueOrder:
    """Queues with waiting jobs, least served first, down the tree.

    The obvious algorithm: at each level of the tree take the child with the least key. Here each
    parent keeps a heap of its children, and since a job is always taken from the least child, only
    the tops on the way down change when it is placed.
    """

    __slots__ = ("_heaps", "_only", "_state")

    def __init__(self, state: State, waiting: Waiting) -> None:
        self._state = state
        self._heaps: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        self._only: Queue | None = None
        if len(waiting.active) == 1:
            for leaf in waiting.active:
                self._only = state.queues[leaf]  # no order to keep
            return
        seen: dict[int, None] = {}
        for leaf in sorted(waiting.active):
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
        hooks = self._state.policy.queue_keys
        if len(hooks) == 1:
            return hooks[0](self._state, queue)
        key: tuple[int, ...] = ()
        for hook in hooks:
            key += hook(self._state, queue)
        return key

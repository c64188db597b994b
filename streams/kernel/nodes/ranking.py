"""Nodes in order of how well they suit, kept while single nodes change.

Pure: who fills it says what suits.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

Entry = tuple[int, ...]
"""Place of a node: the least is the best. It ends in the number of the node."""


class Ranking:
    """The nodes that suit one kind of pod. `seen`: how much of a log of changes it has taken in;
    `basis`: what it was made from, compared by identity.
    """

    __slots__ = ("_heap", "basis", "entries", "seen")

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self._heap: list[Entry] = []  # may hold entries that have been replaced
        self.seen = 0
        self.basis: object = None

    def fill(self, entries: Iterable[Entry]) -> None:
        """Forget what it has and take these."""
        self.entries = {entry[-1]: entry for entry in entries}
        self._heap = list(self.entries.values())
        heapify(self._heap)

    def put(self, node: int, entry: Entry | None) -> None:
        """The place of a node from now on; none: it does not suit."""
        if entry is None:
            self.entries.pop(node, None)
        else:
            self.entries[node] = entry
            heappush(self._heap, entry)

    def first(self, passes: Callable[[int], bool] | None) -> int:
        """The best node that passes; -1: none. O(log n) and what is passed over."""
        heap, entries = self._heap, self.entries
        aside = []
        found = -1
        while heap:
            entry = heap[0]
            node = entry[-1]
            if entries.get(node) is not entry:
                heappop(heap)
            elif passes is None or passes(node):
                found = node
                break
            else:
                aside.append(heappop(heap))
        for entry in aside:
            heappush(heap, entry)
        return found


class Rankings:
    """Rankings by kind of pod, all made under the same rules."""

    __slots__ = ("kinds", "stamp")

    def __init__(self) -> None:
        self.kinds: dict[object, Ranking] = {}
        self.stamp: object = None

"""How many pods of a size fit over many nodes, over time, and when a gang of them fits first.

The plain meaning: each node has its free cards over time (`Steps`); a pod of c cards needs c cards
of one node for its whole duration; so over a window a node takes (least free in the window) // c
pods, and the gang starts at the first moment at which the nodes together take enough.

What departs from it: for each size asked there is one step function, the sum over all nodes of
free // c at each moment. No window takes more than its least value, so that skips most moments
unseen. It is exact unless some node has less later in the window than at its start; only those
nodes, known by their *falls*, are looked at one by one. Nothing walks over all nodes.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping

from ganger.streams.kernel.horizon.steps import Steps

SIZES_MAX = 64
"""Sizes kept at a time; beyond, the one asked longest ago is dropped and made again when asked."""

Change = tuple[int, int, int, int]
"""Node, from, until, cards: one addition."""


class Rooms:
    """Free cards of nodes over time.

    Attributes:
        nodes: free cards over time by node.
    """

    __slots__ = ("_falls", "_journal", "_origin_ns", "_rises", "_sizes", "nodes")

    def __init__(self, origin_ns: int, free: Mapping[int, int]) -> None:
        """`free`: cards free now, and for ever as far as is known, by node."""
        self._origin_ns = origin_ns
        self.nodes = {node: Steps(origin_ns, free[node]) for node in sorted(free)}
        self._sizes: dict[int, Steps] = {}  # by cards, the one asked last at the end
        self._falls: list[tuple[int, int]] = []  # moments at which a node has less, with the node
        self._rises: list[tuple[int, int]] = []
        self._journal: list[Change] | None = None

    # ---- changing -----------------------------------------------------------------------------

    def add(self, node: int, from_ns: int, until_ns: int, cards: int) -> None:
        """The node has so many cards more (less, if negative) over [from, until).

        O(steps of the node inside the interval x sizes kept).
        """
        if self._journal is not None:
            self._journal.append((node, from_ns, until_ns, cards))
        from_ns = max(from_ns, self._origin_ns)
        if from_ns >= until_ns or not cards:
            return
        steps = self.nodes[node]
        times, values = steps.times, steps.values
        first = bisect_right(times, from_ns) - 1
        for size, total in self._sizes.items():
            place = first
            start_ns = from_ns
            while place < len(times) and start_ns < until_ns:
                stop_ns = until_ns
                if place + 1 < len(times):
                    stop_ns = min(stop_ns, times[place + 1])
                more = _pods(values[place] + cards, size) - _pods(values[place], size)
                total.add(start_ns, stop_ns, more)
                start_ns = stop_ns
                place += 1
        self._unnote(node, steps, from_ns, until_ns)
        steps.add(from_ns, until_ns, cards)
        self._note(node, steps, from_ns, until_ns)

    def _unnote(self, node: int, steps: Steps, *ends_ns: int) -> None:
        """Take out what is noted of a node's changes at these moments, about to differ."""
        for at_ns in ends_ns:
            noted = self._change_at(steps, at_ns)
            if noted:
                moments = self._rises if noted > 0 else self._falls
                del moments[bisect_left(moments, (at_ns, node))]

    def _note(self, node: int, steps: Steps, *ends_ns: int) -> None:
        for at_ns in ends_ns:
            noted = self._change_at(steps, at_ns)
            if noted:
                insort(self._rises if noted > 0 else self._falls, (at_ns, node))

    @staticmethod
    def _change_at(steps: Steps, at_ns: int) -> int:
        """By how much the value changes at a moment; 0 at the origin and where it does not."""
        times = steps.times
        place = bisect_left(times, at_ns)
        if not place or place == len(times) or times[place] != at_ns:
            return 0
        return steps.values[place] - steps.values[place - 1]

    def trim(self, now_ns: int) -> None:
        """Forget what lies before now. O(changes forgotten + sizes)."""
        passed: dict[int, bool] = {}
        for moments in (self._falls, self._rises):
            end = bisect_left(moments, (now_ns + 1,))
            passed.update((node, True) for _, node in moments[:end])
            del moments[:end]
        for node in passed:
            self.nodes[node].trim(now_ns)
        for total in self._sizes.values():
            total.trim(now_ns)
        self._origin_ns = max(self._origin_ns, now_ns)

    # ---- undoing ------------------------------------------------------------------------------

    def mark(self) -> int:
        """Begin, or go on, to keep what is added; a place to roll back to."""
        if self._journal is None:
            self._journal = []
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo what was added since the mark, the latest first."""
        journal = self._journal
        assert journal is not None and mark <= len(journal), mark
        self._journal = None
        while len(journal) > mark:
            node, from_ns, until_ns, cards = journal.pop()
            self.add(node, from_ns, until_ns, -cards)
        self._journal = journal

    def settle(self) -> None:
        """What was added stays: forget all marks."""
        self._journal = None

    # ---- asking -------------------------------------------------------------------------------

    def room(self, size: int, from_ns: int, until_ns: int) -> int:
        """Pods of `size` cards that fit for the whole of [from, until), exactly.

        O(log + nodes that have less later in the window than at its start).
        """
        return self._count(size, self._total(size).at(from_ns), from_ns, until_ns)

    def _count(self, size: int, at_start: int, from_ns: int, until_ns: int) -> int:
        falls = self._falls
        first = bisect_left(falls, (from_ns + 1,))
        fallen: dict[int, bool] = {}
        for place in range(first, len(falls)):
            at_ns, node = falls[place]
            if at_ns >= until_ns:
                break
            fallen[node] = True
        count = at_start
        for node in fallen:
            steps = self.nodes[node]
            least = _pods(steps.least(from_ns, until_ns), size)
            count += least - _pods(steps.at(from_ns), size)
        return count

    def earliest(self, size: int, pods: int, duration_ns: int, not_before_ns: int) -> int | None:
        """The first start at which `pods` pods of `size` cards fit for the whole duration.

        Returns:
            The start in ns, not before the origin; none when there never is one.
        """
        total = self._total(size)
        rises = self._rises
        start_ns = not_before_ns
        while True:
            found = total.earliest(pods, duration_ns, start_ns)
            if found is None:
                return None
            if found > start_ns:
                # the room of a window grows only where a node's free cards do
                start_ns = found
            if self._count(size, total.at(start_ns), start_ns, start_ns + duration_ns) >= pods:
                return start_ns
            place = bisect_left(rises, (start_ns + 1,))
            if place == len(rises):
                return None
            start_ns = rises[place][0]

    def _total(self, size: int) -> Steps:
        """The sum over all nodes of the pods that fit. Made anew: O(steps of all nodes)."""
        assert size > 0, size
        total = self._sizes.pop(size, None)
        if total is None:
            changes: dict[int, int] = {}
            for steps in self.nodes.values():
                before = 0
                for at_ns, value in zip(steps.times, steps.values, strict=True):
                    pods = _pods(value, size)
                    if pods != before:
                        changes[at_ns] = changes.get(at_ns, 0) + pods - before
                        before = pods
            total = Steps.changing(self._origin_ns, 0, changes)
            if len(self._sizes) >= SIZES_MAX:
                del self._sizes[next(iter(self._sizes))]
        self._sizes[size] = total
        return total


def _pods(free: int, size: int) -> int:
    """Pods that fit into the free cards of one node; what is held beyond its cards takes none."""
    return free // size if free > 0 else 0

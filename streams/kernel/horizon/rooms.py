"""Which cards of many nodes are free over time, and where and when a gang fits first.

The plain meaning: a pod needs cards of one node that are free for its whole run. At each moment at
which any card comes free, now first, the gang is placed: part by part, on the node with the fewest
cards free throughout the run on which a pod fits, as many pods as fit there, until all are placed.
The first moment at which that succeeds is its start.

What departs from it: for each kind of pod asked for there is one step function, the sum over all
nodes of the pods that fit at each moment. No run takes more than its least value, so that skips
most moments unseen. It is exact unless some node has fewer cards later in the run than at its
start; only such nodes, known by their *falls*, are looked at one by one. Nodes that do not change
until the end of the run stand in lists by their free cards and are read only as far as they are
taken. All is kept up to date by what changes, and can be undone.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.steps import FOREVER, Steps

KINDS_MAX = 64
"""Kinds kept at a time; beyond, the one kept longest is dropped, and made again when asked for."""

Kind = TypeVar("Kind", bound=Hashable)
"""What one pod asks for; equal kinds fit alike."""

_KindIn = TypeVar("_KindIn", bound=Hashable, contravariant=True)

Change = tuple[int, int, int, int, bool]
"""Node, from, until, cards, and whether they became free."""


class Fit(Protocol[_KindIn]):
    """How pods fit into the cards of a node."""

    def table(self, kind: _KindIn, node: int) -> Mapping[int, int]:
        """How many fit into free cards, by mask; never fewer into more of them."""
        ...

    def choose(self, kind: _KindIn, node: int, free: int) -> int:
        """The cards for one of them, if one fits."""
        ...


class Spot(NamedTuple):
    """Pods of one part of a gang on one node, each with its cards."""

    part: int
    node: int
    masks: tuple[int, ...]


class Own(NamedTuple):
    """Cards that who asks holds from a moment on, for as long as a run that begins earlier lasts:
    they count as free for it.
    """

    start_ns: int
    masks: Mapping[int, int]  # by node


class Opening(NamedTuple):
    """When and where a gang starts."""

    start_ns: int
    spots: tuple[Spot, ...]


class Rooms(Generic[Kind]):
    """Free cards of nodes over time.

    Attributes:
        nodes: free cards over time by node.
    """

    __slots__ = (
        "_falls",
        "_fit",
        "_journal",
        "_levels",
        "_listed",
        "_origin_ns",
        "_rises",
        "_totals",
        "nodes",
    )

    def __init__(self, origin_ns: int, free: Mapping[int, int], fit: Fit[Kind]) -> None:
        """`free`: cards free now, and for ever as far as is known, by node."""
        self._origin_ns = origin_ns
        self._fit = fit
        self.nodes = {node: Masks(origin_ns, free[node]) for node in sorted(free)}
        self._totals: dict[Kind, Steps] = {}  # the one kept longest first
        self._falls: list[tuple[int, int]] = []  # moments at which a node loses cards, with it
        self._rises: list[tuple[int, int]] = []
        self._levels: dict[int, list[int]] = {}  # nodes, ascending, by cards free at the origin
        self._listed: dict[int, int] = {}  # under which of them a node stands
        for node in self.nodes:
            self._list(node)
        self._journal: list[Change] | None = None

    # ---- changing -----------------------------------------------------------------------------

    def give(self, node: int, from_ns: int, until_ns: int, mask: int) -> None:
        """Cards that are held throughout [from, until) are free then. What lies before the origin
        is left out. O(steps of the node inside x kinds kept).
        """
        self._flip(node, from_ns, until_ns, mask, True)

    def take(self, node: int, from_ns: int, until_ns: int, mask: int) -> None:
        """Cards that are free throughout [from, until) are held then."""
        self._flip(node, from_ns, until_ns, mask, False)

    def _flip(self, node: int, from_ns: int, until_ns: int, mask: int, is_free: bool) -> None:
        if self._journal is not None:
            self._journal.append((node, from_ns, until_ns, mask, is_free))
        from_ns = max(from_ns, self._origin_ns)
        if from_ns >= until_ns or not mask:
            return
        steps = self.nodes[node]
        if self._totals:
            changes = list(steps.segments(from_ns, until_ns))
            for kind, total in self._totals.items():
                pods = self._fit.table(kind, node)
                for start_ns, stop_ns, before in changes:
                    more = pods[before ^ mask] - pods[before]
                    if more:
                        total.add(start_ns, stop_ns, more)
        self._unnote(node, steps, from_ns)
        self._unnote(node, steps, until_ns)
        steps.flip(from_ns, until_ns, mask, is_free)
        self._note(node, steps, from_ns)
        self._note(node, steps, until_ns)
        if from_ns == self._origin_ns:
            self._list(node)

    def _unnote(self, node: int, steps: Masks, at_ns: int) -> None:
        """Take out what is noted of a node's change at a moment, about to differ."""
        gained, lost = _change_at(steps, at_ns)
        if gained:
            del self._rises[bisect_left(self._rises, (at_ns, node))]
        if lost:
            del self._falls[bisect_left(self._falls, (at_ns, node))]

    def _note(self, node: int, steps: Masks, at_ns: int) -> None:
        gained, lost = _change_at(steps, at_ns)
        if gained:
            insort(self._rises, (at_ns, node))
        if lost:
            insort(self._falls, (at_ns, node))

    def _list(self, node: int) -> None:
        """Let a node stand where its free cards at the origin say."""
        count = self.nodes[node].masks[0].bit_count()
        before = self._listed.get(node)
        if before == count:
            return
        if before is not None:
            listed = self._levels[before]
            del listed[bisect_left(listed, node)]
            if not listed:
                del self._levels[before]
        self._listed[node] = count
        insort(self._levels.setdefault(count, []), node)

    def trim(self, now_ns: int) -> None:
        """Forget what lies before now. O(changes forgotten + kinds)."""
        if now_ns <= self._origin_ns:
            return
        passed: dict[int, None] = {}
        for moments in (self._falls, self._rises):
            end = bisect_left(moments, (now_ns + 1,))
            for _, node in moments[:end]:
                passed[node] = None
            del moments[:end]
        self._origin_ns = now_ns
        for node in passed:
            self.nodes[node].trim(now_ns)
            self._list(node)
        for total in self._totals.values():
            total.trim(now_ns)

    # ---- undoing ------------------------------------------------------------------------------

    def mark(self) -> int:
        """Begin, or go on, to keep what is changed; a place to roll back to."""
        if self._journal is None:
            self._journal = []
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo what was changed since the mark, the latest first."""
        journal = self._journal
        assert journal is not None and mark <= len(journal), mark
        self._journal = None
        while len(journal) > mark:
            node, from_ns, until_ns, mask, is_free = journal.pop()
            self._flip(node, from_ns, until_ns, mask, not is_free)
        self._journal = journal

    def settle(self) -> None:
        """What was changed stays: forget all marks."""
        self._journal = None

    # ---- asking -------------------------------------------------------------------------------

    def free(self, node: int, from_ns: int, until_ns: int, own: Own | None = None) -> int:
        """Cards of a node that are free all the time in [from, until)."""
        steps = self.nodes[node]
        mask = 0 if own is None else own.masks.get(node, 0)
        if not mask or own is None or until_ns <= own.start_ns:
            return steps.throughout(from_ns, until_ns)
        free = steps.throughout(from_ns, own.start_ns)
        for _, _, other in steps.segments(own.start_ns, until_ns):
            free &= other | mask
            if not free:
                break
        return free

    def earliest(
        self,
        gang: Sequence[tuple[Kind, int]],
        duration_ns: int,
        not_before_ns: int,
        before_ns: int = FOREVER,
        own: Own | None = None,
    ) -> Opening | None:
        """The first start of a gang, and its cards.

        Args:
            gang: kind and count of pods, part by part.
            duration_ns: at least 1; `FOREVER` for no end.
            not_before_ns: from the origin on; tried itself, then moments at which cards come free.
            before_ns: only an earlier start is of use; not after `own.start_ns`.
            own: what the gang holds itself.
        """
        for start_ns in self.starts(gang, duration_ns, not_before_ns, before_ns, own):
            spots = self.place(gang, start_ns, min(start_ns + duration_ns, FOREVER), own)
            if spots is not None:
                return Opening(start_ns, spots)
        return None

    def may_start(
        self,
        gang: Sequence[tuple[Kind, int]],
        duration_ns: int,
        not_before_ns: int,
        before_ns: int,
        own_ns: int = FOREVER,
    ) -> bool:
        """Whether a gang might start within a time; never wrongly no, and fast.

        `own_ns`: from when on it has cards itself.
        """
        for kind, count in gang:
            found = self._total(kind).earliest(count, duration_ns, not_before_ns, own_ns)
            if found is None or found >= before_ns:
                return False
        return True

    def starts(
        self,
        gang: Sequence[tuple[Kind, int]],
        duration_ns: int,
        not_before_ns: int,
        before_ns: int = FOREVER,
        own: Own | None = None,
    ) -> Iterator[int]:
        """Moments, as above, at which each part of a gang would fit by itself, ascending."""
        totals = [(self._total(kind), kind, count) for kind, count in gang]
        booked_ns = FOREVER if own is None else own.start_ns
        start_ns = not_before_ns
        while start_ns < before_ns:
            for total, _, count in totals:
                found = total.earliest(count, duration_ns, start_ns, booked_ns)
                if found is None or found >= before_ns:
                    return
                start_ns = found
            until_ns = min(start_ns + duration_ns, FOREVER)
            if all(self._has(kind, count, start_ns, until_ns, own) for _, kind, count in totals):
                yield start_ns
            place = bisect_left(self._rises, (start_ns + 1,))
            if place == len(self._rises):
                return
            start_ns = self._rises[place][0]

    def _has(self, kind: Kind, count: int, from_ns: int, until_ns: int, own: Own | None) -> bool:
        """Whether so many pods fit throughout [from, until).

        O(log + nodes that lose cards in between).
        """
        spare = self._total(kind).at(from_ns) - count
        if spare < 0:
            return False
        nodes = self.nodes
        for node in self._falling(from_ns, until_ns):
            pods = self._fit.table(kind, node)
            at_start = pods[nodes[node].at(from_ns)]
            if at_start:
                spare -= at_start - pods[self.free(node, from_ns, until_ns, own)]
                if spare < 0:
                    return False
        return True

    def _falling(self, from_ns: int, until_ns: int) -> Iterator[int]:
        """At least the nodes that lose cards inside (from, until), each once."""
        falls = self._falls
        first = bisect_left(falls, (from_ns + 1,))
        last = bisect_left(falls, (until_ns,))
        if last - first >= len(self.nodes):
            yield from self.nodes
            return
        seen: dict[int, None] = {}
        for place in range(first, last):
            node = falls[place][1]
            if node not in seen:
                seen[node] = None
                yield node

    def place(
        self,
        gang: Sequence[tuple[Kind, int]],
        from_ns: int,
        until_ns: int,
        own: Own | None = None,
    ) -> tuple[Spot, ...] | None:
        """The cards of a gang over [from, until); none: it does not fit.

        O(nodes that change before its end + those it is placed on).
        """
        left = {node: self.free(node, from_ns, until_ns, own) for node in self._changing(until_ns)}
        spots = []
        for part, (kind, count) in enumerate(gang):
            for node, free in self._ascending(left):
                pods = min(count, self._fit.table(kind, node)[free])
                if not pods:
                    continue
                masks = []
                for _ in range(pods):
                    masks.append(self._fit.choose(kind, node, free))
                    free &= ~masks[-1]
                left[node] = free
                spots.append(Spot(part, node, tuple(masks)))
                count -= pods
                if not count:
                    break
            if count:
                return None
        return tuple(spots)

    def _changing(self, until_ns: int) -> list[int]:
        """At least the nodes that change between the origin and then."""
        ends = [bisect_left(moments, (until_ns,)) for moments in (self._falls, self._rises)]
        if sum(ends) >= len(self.nodes):
            return list(self.nodes)
        found: dict[int, None] = {}
        for end, moments in zip(ends, (self._falls, self._rises), strict=True):
            for _, node in moments[:end]:
                found[node] = None
        return list(found)

    def _ascending(self, left: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Nodes with free cards: fewest first, then by number. Lazily.

        `left`: cards of nodes that may differ from what they are at the origin.
        """
        known: dict[int, list[int]] = {}
        for node, mask in left.items():
            if mask:
                known.setdefault(mask.bit_count(), []).append(node)
        frozen = dict(left)
        for count in sorted({**known, **self._levels}):
            if not count:
                continue
            ours = sorted(known.get(count, ()))
            place = 0
            for node in self._levels.get(count, ()):
                if node in frozen:
                    continue
                while place < len(ours) and ours[place] < node:
                    yield ours[place], frozen[ours[place]]
                    place += 1
                yield node, self.nodes[node].masks[0]
            for node in ours[place:]:
                yield node, frozen[node]

    def _total(self, kind: Kind) -> Steps:
        """The sum over all nodes of the pods that fit. Made anew: O(steps of all nodes)."""
        total = self._totals.get(kind)
        if total is not None:
            return total
        changes: dict[int, int] = {}
        for node, steps in self.nodes.items():
            pods = self._fit.table(kind, node)
            before = 0
            for at_ns, mask in zip(steps.times, steps.masks, strict=True):
                count = pods[mask]
                if count != before:
                    changes[at_ns] = changes.get(at_ns, 0) + count - before
                    before = count
        total = Steps.changing(self._origin_ns, 0, changes)
        if len(self._totals) >= KINDS_MAX:
            del self._totals[next(iter(self._totals))]
        self._totals[kind] = total
        return total


def _change_at(steps: Masks, at_ns: int) -> tuple[int, int]:
    """Cards that a node gains and loses at a moment; none at the origin."""
    times = steps.times
    place = bisect_right(times, at_ns) - 1
    if place <= 0 or times[place] != at_ns:
        return 0, 0
    before, after = steps.masks[place - 1], steps.masks[place]
    return after & ~before, before & ~after

"""The cell at moments ahead, to be asked where a job would be placed then.

Whoever is expected to end by a moment is seen as gone, and nodes that are kept from everybody until
then are open. It is moved from one moment to another, in any order, and what both have in common is
done once: to bisect the moments costs no more than to see all of them in turn.
"""

from collections.abc import Sequence

from ganger.streams.kernel.backfill.futures import Futures, HolderKey
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.horizon.gather import Held
from ganger.streams.kernel.nodes.occupancy import is_out_of_use
from ganger.streams.kernel.nodes.statement import Place, Statement, give_back
from ganger.streams.kernel.nodes.windows import Window
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.state import State


class Moments:
    """See `gaps.Lookahead`. Everything is undone when it is left."""

    __slots__ = ("_coming", "_known", "_lifts", "_marks", "_place", "_state", "_windows")

    def __init__(
        self, state: State, futures: Futures, windows: Sequence[Window], place: Place
    ) -> None:
        """`windows`: what is reserved by request, now or later."""
        self._state = state
        self._place = place
        self._windows = windows
        self._coming = futures.releases()
        self._known: list[tuple[int, HolderKey]] = []  # those read so far: when, and who
        self._lifts = Statement(state)
        self._marks: list[int] = []  # before each who is seen as gone, the first of `_known`

    def __enter__(self) -> "Moments":
        return self

    def __exit__(self, *_: object) -> None:
        self._lifts.discard()

    def held(self, job: Job, at_ns: int) -> Held | None:
        """Cards that a job would hold at a moment, beside what is placed now; none: it would not
        fit.
        """
        self._go(at_ns)
        statement = Statement(self._state)
        statement.at_ns = at_ns
        opened = self._open(at_ns)
        refusal = self._place(self._state, statement, job)
        held = cards_placed(statement)
        statement.discard()
        for node in opened:
            node.is_open = False
            self._state.indexes.nodes.update(node)
        return held if refusal is None else None

    def _go(self, at_ns: int) -> None:
        """See just those as gone who are expected to end by a moment."""
        known, marks = self._known, self._marks
        mark = -1
        while marks and known[len(marks) - 1][0] > at_ns:
            mark = marks.pop()
        if mark >= 0:
            self._lifts.rollback(mark)
        while True:
            if len(marks) == len(known):
                end_ns, holder, _ = next(self._coming, _NOBODY)
                if holder is None:
                    return
                known.append((end_ns, holder))
            end_ns, holder = known[len(marks)]
            if end_ns > at_ns:
                return
            marks.append(self._lifts.checkpoint())
            give_back(self._lifts, holder)

    def _open(self, at_ns: int) -> list[Node]:
        """Open the nodes that are kept from everybody now and no more at a moment."""
        state = self._state
        opened = []
        for window in self._windows:
            if window.record.to_ns > at_ns:
                continue
            for node in (state.nodes[place.node] for place in window.places):
                if node.is_reserved and not (node.is_open or is_out_of_use(node)):
                    node.is_open = True
                    state.indexes.nodes.update(node)
                    opened.append(node)
        return opened


_NOBODY: tuple[int, None, int] = (0, None, 0)


def cards_placed(statement: Statement) -> Held:
    """Cards by node of the pods placed in a statement; of shares, the cards that nobody shared."""
    held: Held = {}
    shares: dict[tuple[int, int], int] = {}  # node and card -> milli
    for role, shape, node, union, _, is_shared, _ in statement.operations:
        if role >= 0 and is_shared:
            place = node.index, union.bit_length() - 1
            shares[place] = shares.get(place, 0) + shape.card_milli
        elif role >= 0 and union:
            held[node.index] = held.get(node.index, 0) + union.bit_count()
    for (index, card), milli in shares.items():
        left, _ = statement.state.nodes[index].shared[card]
        if left + milli == CARD_MILLI:
            held[index] = held.get(index, 0) + 1
    return held

"""Cards kept for some jobs, or for nobody, over a span of time: advance reservations, maintenance.

A *window* bars the cards of its places to a job that is not on its list and whose run, from its
start to its end by estimate, meets the window's span; a run that nobody can estimate has no end.
So what a window keeps can be used by anybody who leaves before it begins, and by those on its list
at any time. Whoever is there when it begins stays.

Windows are few beside nodes and jobs. What they bar depends on a job only through the windows that
it meets, so it is worked out once for each such selection.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ganger.schemas.records import ReservationRequested

WHOLE = -1
"""As a mask: the node with all it has, cards that are added later too."""

_MEMO_MAX = 1 << 12


class Place(NamedTuple):
    """Cards of one node."""

    node: int
    mask: int


class Window(NamedTuple):
    """A request and the cards that it got."""

    record: ReservationRequested
    places: tuple[Place, ...]


class Need(NamedTuple):
    """What else is kept beside the cards of a place, as long as they are free."""

    mask: int
    cpu: int
    memory: int


class Bar(NamedTuple):
    """What of a node a job must leave alone."""

    mask: int
    needs: tuple[Need, ...]


Bars = dict[int, Bar]
"""By node."""

Whose = tuple[tuple[str, ...], str, str]
"""Names of a job's queue and of those above it, its user and its tenant."""


class Windows:
    """The windows of a cell that are not over. Derived.

    Attributes:
        windows: by begin, then name.
    """

    __slots__ = ("_bars", "_numbers", "_strange", "windows")

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = sorted(windows, key=lambda w: (w.record.from_ns, w.record.reservation))
        self._strange: dict[Whose, tuple[int, ...]] = {}
        self._bars: dict[tuple[int, ...], Bars] = {}
        self._numbers: dict[Hashable, int] = {}

    def strange(self, whose: Whose) -> tuple[int, ...]:
        """Positions of the windows that are not for such a job."""
        found = self._strange.get(whose)
        if found is None:
            if len(self._strange) >= _MEMO_MAX:
                self._strange.clear()
            found = self._strange[whose] = tuple(
                [p for p, one in enumerate(self.windows) if not may_use(one.record, whose)]
            )
        return found

    def met(self, whose: Whose, from_ns: int, until_ns: int) -> tuple[int, ...]:
        """Those of them that a run over [from, until) meets."""
        found = []
        for position in self.strange(whose):
            record = self.windows[position].record
            if record.from_ns >= until_ns:
                break
            if record.to_ns > from_ns:
                found.append(position)
        return tuple(found)

    def bars(self, positions: tuple[int, ...]) -> Bars:
        """What these windows keep together."""
        found = self._bars.get(positions)
        if found is None:
            if len(self._bars) >= _MEMO_MAX:
                self._bars.clear()
            found = self._bars[positions] = {}
            for position in positions:
                record, places = self.windows[position]
                asks = record.request
                for node, mask in places:
                    before = found.get(node)
                    needs = () if before is None else before.needs
                    if asks is not None and (asks.cpu_milli or asks.memory_mib):
                        needs += (Need(mask, asks.cpu_milli, asks.memory_mib),)
                    whole = mask if before is None else before.mask | mask
                    found[node] = Bar(whole, needs)
        return found

    def number(self, about: Hashable) -> int:
        """A number for all of which this can be said."""
        return self._numbers.setdefault(about, len(self._numbers))


def may_use(record: ReservationRequested, whose: Whose) -> bool:
    """Whether such a job is on the list of a window: by its queue, its user or its tenant."""
    queues, user, tenant = whose
    return (
        any(queue in record.queues for queue in queues)
        or (bool(user) and user in record.users)
        or (bool(tenant) and tenant in record.tenants)
    )

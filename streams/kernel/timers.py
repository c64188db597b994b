"""Moments at which time alone changes something.

A timer says: at the first Tick whose time is `at_ns` or later, look at this entity. It is a hint
and no fact: whoever is called looks at the entity and may find nothing to do, so timers need not be
cancelled. They are derived from the entities and made again by `rebuild`. A *lazy* timer is served
by whatever Tick comes next and asks for none of its own.
"""

from enum import IntEnum
from heapq import heappop, heappush


class Wake(IntEnum):
    """What to look at."""

    JOB_BACKOFF = 1
    JOB_TTL = 2
    POD_START = 3
    RESERVATION = 4
    CLAIM = 5
    JOB_PENDING = 16
    ZONE = 17
    INQUEUE = 18
    NOTICE = 6
    SLA = 15
    PROTECTED = 7
    PATIENCE = 19
    STALE = 8
    BOOKED = 9
    TIME_LIMIT = 10
    MAKE_WAY = 20
    TUNE = 21


Timer = tuple[int, Wake, int, int, int]
"""Time, what, then up to three ids (job, pod, attempt), all ints so that timers have one order."""


LAZY = (Wake.JOB_TTL,)
"""Nobody waits for an ended job to be forgotten."""


class Timers:
    """Timers in order of time."""

    __slots__ = ("_heap", "_lazy")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._lazy: list[Timer] = []

    def at(self, at_ns: int, wake: Wake, first: int = 0, second: int = 0, third: int = 0) -> None:
        """Ask to be called at `at_ns` or later."""
        heap = self._lazy if wake in LAZY else self._heap
        heappush(heap, (at_ns, wake, first, second, third))

    def due(self, clock_ns: int) -> Timer | None:
        """Take the earliest timer that is due, if one is; the lazy ones after the others."""
        heap = self._heap
        if heap and heap[0][0] <= clock_ns:
            return heappop(heap)
        heap = self._lazy
        if heap and heap[0][0] <= clock_ns:
            return heappop(heap)
        return None

    def earliest(self) -> Timer | None:
        """The earliest timer that is not lazy."""
        return self._heap[0] if self._heap else None

    def drop_earliest(self) -> None:
        """Take out what `earliest` gave: there is nothing to do for it any more."""
        heappop(self._heap)

"""Moments at which time alone changes something.

A timer says: at the first Tick whose time is `at_ns` or later, look at this entity. It is a hint and
no fact: whoever is called looks at the entity and may find nothing to do, so timers are never
cancelled. They are derived from the entities and made again by `rebuild`.
"""

from enum import IntEnum
from heapq import heappop, heappush


class Wake(IntEnum):
    """What to look at."""

    JOB_BACKOFF = 1
    JOB_TTL = 2
    POD_START = 3
    RESERVATION = 4


Timer = tuple[int, Wake, int, int, int]
"""Time, what, then up to three ids (job, pod, attempt), all ints so that timers have one order."""


class Timers:
    """Timers in order of time."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[Timer] = []

    def at(self, at_ns: int, wake: Wake, first: int = 0, second: int = 0, third: int = 0) -> None:
        """Ask to be called at `at_ns` or later."""
        heappush(self._heap, (at_ns, wake, first, second, third))

    def due(self, clock_ns: int) -> Timer | None:
        """Take the earliest timer that is due, if one is."""
        if self._heap and self._heap[0][0] <= clock_ns:
            return heappop(self._heap)
        return None

    def next_ns(self) -> int | None:
        """When the earliest timer is due."""
        return self._heap[0][0] if self._heap else None

    def all(self) -> list[Timer]:
        """All timers, in order; for checks."""
        return sorted(self._heap)

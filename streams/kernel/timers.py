"""Moments at which time alone changes something.

A timer says: at the first Tick whose time is `at_ns` or later, look at this entity. It is a hint
and no fact: whoever is called looks at the entity and may find nothing to do, so timers need not be
cancelled. They are derived from the entities and made again by `rebuild`. A *lazy* timer is served
by whatever Tick comes next and asks for none of its own.
"""

from collections import OrderedDict, deque
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


_JOB_TTL = Wake.JOB_TTL
_POD_START = Wake.POD_START

Timer = tuple[int, Wake, int, int, int]
"""Time, what, then up to three ids (job, pod, attempt), all ints so that timers have one order."""


Attempt = tuple[int, int, int]
"""Job, pod, attempt."""


class Timers:
    """Timers in order of time, the lazy ones after the others.

    Two kinds are too many for a heap, and mostly come in the order in which they are due. They
    stand in lines instead.
    """

    __slots__ = ("_ends", "_heap", "_late_ends", "_starts")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        # attempts that have not started -> when that is too long: nearly all start before, and
        # then leave the line
        self._starts: OrderedDict[Attempt, int] = OrderedDict()
        # ended jobs to be forgotten: nobody waits for that, so these are the lazy ones. In order;
        # those whose turn is before that of one who came earlier are in a heap
        self._ends: deque[Timer] = deque()
        self._late_ends: list[Timer] = []

    def at(self, at_ns: int, wake: Wake, first: int = 0, second: int = 0, third: int = 0) -> None:
        """Ask to be called at `at_ns` or later."""
        heappush(self._heap, (at_ns, wake, first, second, third))

    def await_start(self, at_ns: int, attempt: Attempt) -> None:
        """The same for `POD_START`, of one who was placed after all others who are awaited."""
        self._starts[attempt] = at_ns

    def started(self, attempt: Attempt) -> None:
        """An attempt has started: it is awaited no more."""
        self._starts.pop(attempt, None)

    def remember_until(self, at_ns: int, job: int) -> None:
        """The same for `JOB_TTL`, lazily."""
        timer = (at_ns, _JOB_TTL, job, 0, 0)
        ends = self._ends
        if ends and timer < ends[-1]:
            heappush(self._late_ends, timer)
        else:
            ends.append(timer)

    def due(self, clock_ns: int) -> Timer | None:
        """Take the earliest timer that is due, if one is."""
        if self._starts:
            self._ripen(clock_ns)
        heap = self._heap
        if heap and heap[0][0] <= clock_ns:
            return heappop(heap)
        ends, late = self._ends, self._late_ends
        if late and not (ends and ends[0] < late[0]):
            return heappop(late) if late[0][0] <= clock_ns else None
        return ends.popleft() if ends and ends[0][0] <= clock_ns else None

    def _ripen(self, clock_ns: int) -> None:
        """Starts that are overdue take their place among the other timers."""
        starts = self._starts
        while starts:
            attempt, at_ns = next(iter(starts.items()))
            if at_ns > clock_ns:
                break
            del starts[attempt]
            heappush(self._heap, (at_ns, _POD_START, *attempt))

    def earliest(self) -> Timer | None:
        """The earliest timer that is not lazy."""
        heap = self._heap
        if self._starts:
            self._ripen(heap[0][0] if heap else next(iter(self._starts.values())))
        return heap[0] if heap else None

    def drop_earliest(self) -> None:
        """Take out what `earliest` gave: there is nothing to do for it any more."""
        heappop(self._heap)

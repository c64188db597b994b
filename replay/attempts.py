"""One run of a pod as an executor keeps it: what it is about, how long it ran, what is left."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason

NEVER_NS = -1
"""The end of what does not end."""


class Way(IntEnum):
    """What an attempt is about."""

    RUNS = 0
    STOPS = 1  # told to suspend, still running
    STANDS = 2  # suspended
    LEAVES = 3  # evicted, not yet released


class Stretch(NamedTuple):
    """A time in which an attempt ran without a break.

    Attributes:
        placed: the decision that placed it.
        from_ns: its begin.
        to_ns: its end.
        lost_ns: run time of the attempt, earlier stretches too, that an eviction undid with it.
        reason: of the eviction; UNKNOWN where none ended it.
    """

    placed: Decision
    from_ns: int
    to_ns: int
    lost_ns: int
    reason: Reason


Order = tuple[int, int, int]
"""When an attempt started, its job's place among those that start then, its own place."""

Watch = Callable[[Stretch], None]


def milli_cards(placed: Decision) -> int:
    """What a placed pod holds, in thousandths of cards."""
    return placed.card_milli or 1000 * sum([span.count for span in placed.cards])


class Attempt(Struct, gc=False):
    """One run of a pod. Times in ns; `NEVER_NS` in `end_ns` and `left_ns`: not by itself."""

    job: str
    pod: int
    attempt: int
    node: str
    order: Order  # of starts, over all attempts
    end_ns: int  # when it ends by itself
    due_ns: int  # when its end or stop is to be reported
    fails: bool  # how it ends by itself
    placed: Decision
    since_ns: int  # it runs without a break
    way: Way = Way.RUNS
    ran_ns: int = 0  # before `since_ns`
    left_ns: int = 0  # of one that is to stop or stands
    base_milli: int = 0  # of the job's run time, done by earlier attempts
    saved_milli: int = 0  # the same with what this one saved
    halted_ns: int = NEVER_NS  # it ended or stopped then, where nobody heard of it
    stood: bool = False  # suspended when it was evicted
    reason: Reason = Reason.UNKNOWN  # of its eviction

    def __lt__(self, other: "Attempt") -> bool:
        """Entries of a heap for one moment and attempt, of which one is stale: in any order."""
        return False

    @property
    def is_over(self) -> bool:
        """Whether it ended where nobody heard of it."""
        return self.halted_ns != NEVER_NS and self.way is not Way.STOPS

    @property
    def is_lent(self) -> bool:
        """Whether it was placed in a gap."""
        return self.placed.kind is DecisionKind.BACKFILL

    def now_or_halt(self, now_ns: int) -> int:
        """When it ceased to run, if it does so now or did unheard."""
        return now_ns if self.halted_ns == NEVER_NS else min(now_ns, self.halted_ns)

    def done_ns(self, now_ns: int) -> int:
        """How long this attempt has run."""
        if self.way is Way.STANDS or self.stood:
            return self.ran_ns
        return self.ran_ns + self.now_or_halt(now_ns) - self.since_ns

    def done_milli(self, now_ns: int, run_ns: int) -> int:
        """How far its pod is, of a job that runs for `run_ns`; 0 where that has no end."""
        if run_ns <= 0:
            return 0
        return min(1000, self.base_milli + 1000 * self.done_ns(now_ns) // run_ns)

    def lost_ns(self, now_ns: int, run_ns: int) -> int:
        """How much of what it ran is undone if it ends now before its time."""
        kept_ns = max(0, run_ns) * (self.saved_milli - self.base_milli) // 1000
        return max(0, self.done_ns(now_ns) - kept_ns)

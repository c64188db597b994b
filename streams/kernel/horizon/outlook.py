"""Several reservations at once over cards that are all alike (hybrid backfill of depth k).

The plain meaning: the free cards over time, with every head booked at its earliest start; a job may
start now if it fits beside all of them for its whole estimate. With one head that is `easy.Gap`,
which is cheaper; see there.
"""

from ganger.streams.kernel.horizon.ends import Ends
from ganger.streams.kernel.horizon.steps import FOREVER, Steps


class Outlook:
    """What is free from now on, in one pass.

    Attributes:
        free: cards over time, without those of heads booked and jobs started.
    """

    __slots__ = ("_has_unbooked", "_now_ns", "free")

    def __init__(self, ends: Ends, free: int, now_ns: int) -> None:
        """`free`: cards free now, those due among them. O(releases)."""
        self._now_ns = now_ns
        self._has_unbooked = False
        changes: dict[int, int] = {}
        for end_ns, _, _, cards in ends.releases:
            if end_ns > now_ns:
                changes[end_ns] = changes.get(end_ns, 0) + cards
        self.free = Steps.changing(now_ns, free, changes)

    def book(self, cards: int, estimate_ns: int) -> int | None:
        """Hold cards for a head from its earliest start on; that start.

        None where it is not expected to start at all: then nothing without an estimate may start.
        """
        start_ns = self.free.earliest(cards, estimate_ns, self._now_ns)
        if start_ns is None:
            self._has_unbooked = True
            return None
        self.free.add(start_ns, min(start_ns + estimate_ns, FOREVER), -cards)
        return start_ns

    def take(self, cards: int, estimate_ns: int) -> bool:
        """Let a job start now if it delays no head booked; whether it may."""
        if self._has_unbooked and estimate_ns >= FOREVER:
            return False
        until_ns = min(self._now_ns + estimate_ns, FOREVER)
        if self.free.least(self._now_ns, until_ns) < cards:
            return False
        self.free.add(self._now_ns, until_ns, -cards)
        return True

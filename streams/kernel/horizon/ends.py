"""When cards come free, in order of time: what running pods are expected to give back.

Enough to look ahead where cards are all alike and nothing takes any later: two list operations per
pod, and a walk to the moment asked for. Releases that are due (expected now or earlier) have not
happened yet but may count as free, as the published schedules of the archive do.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

Release = tuple[int, int, int, int]
"""Expected end in ns, two ids that make it unique (job, pod), and the cards that come free."""


class Reach(NamedTuple):
    """When enough is free, and how much then is."""

    at_ns: int
    free: int


class Ends:
    """Releases, ascending."""

    __slots__ = ("releases",)

    def __init__(self) -> None:
        self.releases: list[Release] = []

    def add(self, end_ns: int, job: int, pod: int, cards: int) -> None:
        """A pod is expected to end."""
        insort(self.releases, (end_ns, job, pod, cards))

    def remove(self, end_ns: int, job: int, pod: int, cards: int) -> None:
        """It ended, or is expected at another time: exactly what was added."""
        releases = self.releases
        release = (end_ns, job, pod, cards)
        place = bisect_left(releases, release)
        assert place < len(releases) and releases[place] == release, release
        del releases[place]

    def due(self, now_ns: int) -> int:
        """Cards of releases that are due: expected now or earlier. O(those)."""
        cards = 0
        for release in self.releases:
            if release[0] > now_ns:
                break
            cards += release[3]
        return cards

    def reach(self, need: int, free: int, now_ns: int) -> Reach | None:
        """The first moment after now at which `need` cards are free, with all freed in that ns.

        Args:
            need: cards, more than `free`.
            free: cards free now, those due among them.
            now_ns: releases until now count in `free`.

        Returns:
            None where all releases together are too few. O(releases until then).
        """
        assert need > free, (need, free)
        releases = self.releases
        at_ns = -1
        for place in range(bisect_left(releases, (now_ns + 1,)), len(releases)):
            end_ns, _, _, cards = releases[place]
            if at_ns >= 0 and end_ns > at_ns:
                break
            free += cards
            if free >= need:
                at_ns = end_ns
        return Reach(at_ns, free) if at_ns >= 0 else None

"""When cards come free, in order of time: what running pods are expected to give back.

Enough to look ahead where cards are all alike and nothing takes any later: two list operations per
pod, and sums of what comes free up to the moment asked for. Releases that are due (expected now or
earlier) have not happened yet but may count as free, as the published schedules of the archive do.
"""

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

Release = tuple[int, int, int, int]
"""Expected end in ns, two ids that make it unique (job, pod), and the cards that come free."""


class Reach(NamedTuple):
    """When enough is free, and how much then is."""

    at_ns: int
    free: int


_STRIDE = 64
"""Releases that are summed at a time: most moments asked for are near."""


class Ends:
    """Releases, ascending."""

    __slots__ = ("_cards", "releases")

    def __init__(self) -> None:
        self.releases: list[Release] = []
        self._cards: list[int] = []  # of each of them

    def add(self, end_ns: int, job: int, pod: int, cards: int) -> None:
        """A pod is expected to end."""
        release = (end_ns, job, pod, cards)
        place = bisect_left(self.releases, release)
        self.releases.insert(place, release)
        self._cards.insert(place, cards)

    def remove(self, end_ns: int, job: int, pod: int, cards: int) -> None:
        """It ended, or is expected at another time: exactly what was added."""
        releases = self.releases
        release = (end_ns, job, pod, cards)
        place = bisect_left(releases, release)
        assert place < len(releases) and releases[place] == release, release
        del releases[place], self._cards[place]

    def has_due(self, now_ns: int) -> bool:
        """Whether anything is due: expected now or earlier."""
        return bool(self.releases) and self.releases[0][0] <= now_ns

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
        count = len(releases)
        first = bisect_left(releases, (now_ns + 1,)) if count and releases[0][0] <= now_ns else 0
        while first < count:
            sums = list(accumulate(self._cards[first : first + _STRIDE], initial=free))
            place = bisect_left(sums, need)
            if place < len(sums):
                free = sums[place]
                first += place
                at_ns = releases[first - 1][0]
                while first < count and releases[first][0] == at_ns:
                    free += releases[first][3]
                    first += 1
                return Reach(at_ns, free)
            free = sums[-1]
            first += _STRIDE
        return None

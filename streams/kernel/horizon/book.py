"""Conservative backfill: every waiting job has a start, and no later arrival moves it later.

A job gets the earliest start at which it fits, for its whole estimate, beside all starts given
before. Whenever cards come free, jobs are placed anew **one at a time**, in order of submission:
each sees the others where they are. (All taken out at once and placed again in order gives another
schedule, and so does leaving the ends out that leave no rest.)

A job can only move earlier, and its own booking need not be taken out to see whether it does: a new
start before the old one is good if all moments up to the old start have room, since from there on
the job holds what it needs itself (`Steps.earliest`).
"""

from typing import NamedTuple

from ganger.streams.kernel.horizon.steps import FOREVER, Steps


class Booking(NamedTuple):
    """Cards held for a job that waits."""

    start_ns: int
    cards: int
    duration_ns: int


class Book:
    """Bookings of waiting jobs over the cards that others are expected to leave free.

    Attributes:
        free: cards free over time, bookings and running jobs taken off.
        bookings: by job, ascending.
    """

    __slots__ = ("bookings", "free")

    def __init__(self, now_ns: int, cards: int) -> None:
        """Nothing runs, nothing waits."""
        self.free = Steps(now_ns, cards)
        self.bookings: dict[int, Booking] = {}

    def book(self, job: int, cards: int, duration_ns: int, now_ns: int) -> Booking | None:
        """Give a job the earliest start that is left; none where it never fits.

        Args:
            job: not in the book.
            cards: at least 1.
            duration_ns: its estimate, at least 1; `FOREVER` for none.
            now_ns: not before the origin of `free`.
        """
        assert job not in self.bookings, job
        start_ns = self.free.earliest(cards, duration_ns, now_ns)
        if start_ns is None:
            return None
        self.free.add(start_ns, _end(start_ns, duration_ns), -cards)
        is_last = not self.bookings or job > next(reversed(self.bookings))
        booking = self.bookings[job] = Booking(start_ns, cards, duration_ns)
        if not is_last:
            self.bookings = dict(sorted(self.bookings.items()))
        return booking

    def start(self, job: int) -> Booking:
        """The job starts as booked: it leaves the book, and its cards stay taken till its end."""
        return self.bookings.pop(job)

    def drop(self, job: int) -> None:
        """The job will not start: what it held is free. Call `replan` to let others use it."""
        start_ns, cards, duration_ns = self.bookings.pop(job)
        self.free.add(start_ns, _end(start_ns, duration_ns), cards)

    def release(self, cards: int, now_ns: int, expected_ns: int) -> None:
        """A running job ended; what it held until its expected end is free. Then `replan`."""
        self.free.trim(now_ns)
        self.free.add(now_ns, expected_ns, cards)

    def replan(self, now_ns: int) -> dict[int, Booking]:
        """Place each job anew, one at a time; the bookings that moved, all of them earlier."""
        free = self.free
        moved = {}
        for job, (start_ns, cards, duration_ns) in self.bookings.items():
            earlier_ns = free.earliest(cards, duration_ns, now_ns, start_ns)
            if earlier_ns is not None:
                free.add(start_ns, _end(start_ns, duration_ns), cards)
                free.add(earlier_ns, _end(earlier_ns, duration_ns), -cards)
                moved[job] = Booking(earlier_ns, cards, duration_ns)
        self.bookings.update(moved)
        return moved

    def extend(self, cards: int, expected_ns: int, until_ns: int) -> None:
        """A running job lives longer than expected, or cards are lost. Then `mend`."""
        self.free.add(expected_ns, until_ns, -cards)

    def mend(self, now_ns: int) -> dict[int, Booking | None]:
        """Book anew where more is held than there is: the last submitted give way first.

        Returns:
            The bookings that changed; none for a job that fits at no time any more, which is out of
            the book. Where jobs run on more than there is, no booking can change that.
        """
        free = self.free
        free.trim(now_ns)
        homeless = []
        for job in reversed(self.bookings):
            start_ns, cards, duration_ns = self.bookings[job]
            until_ns = _end(start_ns, duration_ns)
            if free.least(max(start_ns, now_ns), until_ns) < 0:
                free.add(start_ns, until_ns, cards)
                homeless.append(job)
        changed: dict[int, Booking | None] = {}
        for job in reversed(homeless):
            old = self.bookings[job]
            start = free.earliest(old.cards, old.duration_ns, now_ns)
            if start is None:
                del self.bookings[job]
                changed[job] = None
                continue
            free.add(start, _end(start, old.duration_ns), -old.cards)
            if start != old.start_ns:
                changed[job] = self.bookings[job] = Booking(start, old.cards, old.duration_ns)
        return changed

    def due(self, now_ns: int) -> list[int]:
        """Jobs whose start has come, in order of submission."""
        return [job for job, booking in self.bookings.items() if booking.start_ns <= now_ns]


def _end(start_ns: int, duration_ns: int) -> int:
    return min(start_ns + duration_ns, FOREVER)

"""Priorities of jobs that have not ended, by queue: who preempts needs somebody of a lower one.

Counted exactly, since whether anybody is looked for at all decides who claims what others leave;
bounds that depend on the past would decide otherwise in a state that was restored.
"""

from ganger.streams.kernel.entities import Job


class Priorities:
    """How many jobs of one queue have each priority."""

    __slots__ = ("_counts", "_least")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._least: int | None = None  # none: to be looked for

    def __bool__(self) -> bool:
        return bool(self._counts)

    @property
    def differ(self) -> bool:
        """Whether there are several."""
        return len(self._counts) > 1

    def least(self) -> int:
        """The lowest; there must be one. O(1), or O(priorities) after the last job of it ended."""
        if self._least is None:
            self._least = min(self._counts)
        return self._least

    def add(self, priority: int) -> None:
        """One more job has it."""
        counts = self._counts
        counts[priority] = counts.get(priority, 0) + 1
        if self._least is not None and priority < self._least:
            self._least = priority

    def remove(self, priority: int) -> None:
        """One job less has it."""
        left = self._counts[priority] - 1
        if left:
            self._counts[priority] = left
            return
        del self._counts[priority]
        if priority == self._least:
            self._least = None


def join(by_queue: dict[int, Priorities], job: Job) -> None:
    """A job begins to count with its priority."""
    found = by_queue.get(job.queue)
    if found is None:
        found = by_queue[job.queue] = Priorities()
    found.add(job.priority)


def leave(by_queue: dict[int, Priorities], job: Job) -> None:
    """A job no longer counts with its priority."""
    found = by_queue[job.queue]
    found.remove(job.priority)
    if not found:
        del by_queue[job.queue]

"""A whole number over time that changes in steps: what is free, from now to for ever.

The plain meaning: a function from ns to int; `add` changes it over an interval, `earliest` finds
the first moment from which it stays large enough for a while. It is kept as two lists, the moments
of change and the values from then on, in one canonical form: neighbouring values differ. So equal
functions are equal lists whatever path led to them, and undoing an addition is adding its inverse.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

FOREVER = 1 << 63
"""Later than any time in ns; an interval until then has no end."""


class Steps:
    """The function, from its origin on. Times are ns; before the origin it is not defined.

    Attributes:
        times: moments of change, ascending; the first is the origin.
        values: the value from the moment at the same place on.
    """

    __slots__ = ("_journal", "times", "values")

    def __init__(self, origin_ns: int, value: int) -> None:
        """Constant."""
        self.times = [origin_ns]
        self.values = [value]
        self._journal: list[tuple[int, int, int]] | None = None

    @classmethod
    def changing(cls, origin_ns: int, value: int, changes: Mapping[int, int]) -> "Steps":
        """The function that has `value` and changes by so much at these moments. O(n log n).

        What changes before the origin has changed at the origin.
        """
        value += sum(delta for at_ns, delta in changes.items() if at_ns <= origin_ns)
        steps = cls(origin_ns, value)
        for at_ns in sorted(changes):
            if at_ns > origin_ns and changes[at_ns]:
                value += changes[at_ns]
                steps.times.append(at_ns)
                steps.values.append(value)
        return steps

    # ---- changing -----------------------------------------------------------------------------

    def add(self, from_ns: int, until_ns: int, delta: int) -> None:
        """Change the value over [from, until); what lies before the origin is left out.

        O(steps inside the interval), and moving the lists' tails.
        """
        if self._journal is not None:
            self._journal.append((from_ns, until_ns, delta))
        times, values = self.times, self.values
        if from_ns < times[0]:
            from_ns = times[0]
        if from_ns >= until_ns or not delta:
            return
        first = self._cut(from_ns)
        if until_ns >= FOREVER:
            last = len(times)
        else:
            last = self._cut(until_ns)
        for place in range(first, last):
            values[place] += delta
        if last < len(times) and values[last] == values[last - 1]:
            del times[last], values[last]
        if first and values[first] == values[first - 1]:
            del times[first], values[first]

    def _cut(self, at_ns: int) -> int:
        """The place of the step that begins at this moment, made if there is none."""
        times = self.times
        place = bisect_left(times, at_ns)
        if place == len(times) or times[place] != at_ns:
            times.insert(place, at_ns)
            self.values.insert(place, self.values[place - 1])
        return place

    def trim(self, now_ns: int) -> None:
        """Forget what lies before now: now is the origin, if it is later than that."""
        times = self.times
        place = bisect_right(times, now_ns) - 1
        if place > 0:
            del times[:place], self.values[:place]
        if place >= 0:
            times[0] = now_ns

    # ---- undoing ------------------------------------------------------------------------------

    def mark(self) -> int:
        """Begin, or go on, to keep what is added; a place to roll back to."""
        if self._journal is None:
            self._journal = []
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo what was added since the mark, the latest first."""
        journal = self._journal
        assert journal is not None and mark <= len(journal), mark
        self._journal = None
        while len(journal) > mark:
            from_ns, until_ns, delta = journal.pop()
            self.add(from_ns, until_ns, -delta)
        self._journal = journal

    def settle(self) -> None:
        """What was added stays: forget all marks."""
        self._journal = None

    # ---- asking -------------------------------------------------------------------------------

    def at(self, at_ns: int) -> int:
        """The value at a moment from the origin on."""
        return self.values[self._place(at_ns)]

    def _place(self, at_ns: int) -> int:
        place = bisect_right(self.times, at_ns) - 1
        assert place >= 0, (at_ns, self.times[0])
        return place

    def least(self, from_ns: int, until_ns: int) -> int:
        """The least value in [from, until), which is not empty."""
        assert from_ns < until_ns, (from_ns, until_ns)
        return min(self.values[self._place(from_ns) : bisect_left(self.times, until_ns)])

    def earliest(
        self, need: int, duration_ns: int, not_before_ns: int, booked_ns: int = FOREVER
    ) -> int | None:
        """The first start from which the value is at least `need` for the whole duration.

        Args:
            need: least value.
            duration_ns: at least 1; `FOREVER` for no end.
            not_before_ns: from the origin on.
            booked_ns: only an earlier start is of use, and from this moment on what is needed is
                held already: whoever asks has `need` booked from then on, and has had it taken
                from the value, for as long as a duration that begins earlier may last.

        Returns:
            The start in ns; none when there is no such start, or none before `booked_ns`.
        """
        times, values = self.times, self.values
        count = len(times)
        place = self._place(not_before_ns)
        start_ns = not_before_ns
        while start_ns < booked_ns:
            while values[place] < need:
                place += 1
                if place == count:
                    return None
                start_ns = times[place]
            if start_ns >= booked_ns:
                return None
            end_ns = min(start_ns + duration_ns, booked_ns)
            place += 1
            while place < count and times[place] < end_ns and values[place] >= need:
                place += 1
            if place == count or times[place] >= end_ns:
                return start_ns
        return None

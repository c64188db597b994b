"""Which cards of one node are free over time: bit i is card i, from an origin on.

The plain meaning: a function from ns to a mask. It is kept as `steps.Steps` keeps a number, in one
canonical form: neighbouring masks differ. Cards are given and taken over intervals, each only from
whoever has them: so undoing a change is the opposite change.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from ganger.streams.kernel.horizon.steps import FOREVER

Segment = tuple[int, int, int]
"""From, until, and the mask in between."""


class Masks:
    """The function. Times are ns; before the origin it is not defined.

    Attributes:
        times: moments of change, ascending; the first is the origin.
        masks: free cards from the moment at the same place on.
    """

    __slots__ = ("masks", "times")

    def __init__(self, origin_ns: int, mask: int) -> None:
        """Constant."""
        self.times = [origin_ns]
        self.masks = [mask]

    def flip(self, from_ns: int, until_ns: int, mask: int, is_free: bool) -> None:
        """Cards become free, or cease to be, over [from, until), which is not empty and not before
        the origin. All of them are otherwise before, all the time.
        """
        first = self._cut(from_ns)
        last = len(self.times) if until_ns >= FOREVER else self._cut(until_ns)
        times, masks = self.times, self.masks
        for place in range(first, last):
            assert masks[place] & mask == (0 if is_free else mask), (times[place], mask)
            masks[place] ^= mask
        if last < len(times) and masks[last] == masks[last - 1]:
            del times[last], masks[last]
        if first and masks[first] == masks[first - 1]:
            del times[first], masks[first]

    def _cut(self, at_ns: int) -> int:
        """The place of the step that begins at this moment, made if there is none."""
        times = self.times
        place = bisect_left(times, at_ns)
        if place == len(times) or times[place] != at_ns:
            times.insert(place, at_ns)
            self.masks.insert(place, self.masks[place - 1])
        return place

    def trim(self, now_ns: int) -> None:
        """Forget what lies before now: now is the origin, if it is later than that."""
        times = self.times
        place = bisect_right(times, now_ns) - 1
        if place > 0:
            del times[:place], self.masks[:place]
        if place >= 0:
            times[0] = now_ns

    # ---- asking -------------------------------------------------------------------------------

    def at(self, at_ns: int) -> int:
        """Cards free at a moment from the origin on."""
        return self.masks[bisect_right(self.times, at_ns) - 1]

    def throughout(self, from_ns: int, until_ns: int) -> int:
        """Cards free all the time in [from, until), which is not empty."""
        times, masks = self.times, self.masks
        place = bisect_right(times, from_ns) - 1
        mask = masks[place]
        place += 1
        count = len(times)
        while mask and place < count and times[place] < until_ns:
            mask &= masks[place]
            place += 1
        return mask

    def segments(self, from_ns: int, until_ns: int) -> Iterator[Segment]:
        """The steps inside [from, until), ascending; the last may end at `FOREVER` or later."""
        times, masks = self.times, self.masks
        place = bisect_right(times, from_ns) - 1
        while place < len(times) and from_ns < until_ns:
            stop_ns = times[place + 1] if place + 1 < len(times) else until_ns
            stop_ns = min(stop_ns, until_ns)
            yield from_ns, stop_ns, masks[place]
            from_ns = stop_ns
            place += 1

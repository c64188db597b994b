"""Counts over time, summed up: how many cards are in use, how many stand idle."""

from ganger.replay.traces.fields import NS_PER_S

BINS_MAX = 256
"""Points of the plot at most; a power of two, as bins are merged in pairs."""


class Integral:
    """A count over time, summed up."""

    __slots__ = ("_now_ns", "sum", "value")

    def __init__(self, start_ns: int) -> None:
        """Starts at 0."""
        self.value = 0
        self.sum = 0  # count x ns up to the last `set`
        self._now_ns = start_ns

    def set(self, now_ns: int, value: int) -> None:
        """The count is `value` from now on; up to now it was what it was."""
        if now_ns > self._now_ns:
            self.sum += self.value * (now_ns - self._now_ns)
            self._now_ns = now_ns
        self.value = value


class Gauge:
    """A count over time: its integral, and its mean in at most `BINS_MAX` bins of equal length.

    Bins grow as the time does: when there are too many, neighbours are added up.

    Attributes:
        value: the count now.
        bin_ns: length of a bin.
        bins: integral of each, count x ns.
    """

    def __init__(self, start_ns: int) -> None:
        """Starts at 0."""
        self.bin_ns = NS_PER_S
        self.bins = [0]
        self._start_ns = self._now_ns = start_ns
        self._bin_end_ns = start_ns + self.bin_ns
        self.value = 0

    @property
    def integral(self) -> int:
        """The integral up to the last `set`, count x ns."""
        return sum(self.bins)

    def set(self, now_ns: int, value: int) -> None:
        """The count is `value` from now on; up to now it was what it was."""
        if now_ns > self._now_ns:
            while now_ns > self._bin_end_ns:
                self._fill_bin()
            self.bins[-1] += self.value * (now_ns - self._now_ns)
            self._now_ns = now_ns
        self.value = value

    def _fill_bin(self) -> None:
        """Complete the last bin and begin the next, or make all bins twice as long."""
        if len(self.bins) == BINS_MAX:
            bins = self.bins
            self.bins = [bins[i] + bins[i + 1] for i in range(0, BINS_MAX, 2)]
            # The last bin was not complete, so the pair is not.
            self.bin_ns *= 2
            self._bin_end_ns = self._start_ns + len(self.bins) * self.bin_ns
            return
        self.bins[-1] += self.value * (self._bin_end_ns - self._now_ns)
        self._now_ns = self._bin_end_ns
        self._bin_end_ns += self.bin_ns
        self.bins.append(0)

"""When a cell's owner lets time pass: the rule of Ticks, with no clock and no I/O of its own.

A Tick comes after input, but not more often than `tick_min`; when the kernel asked to be woken; and
at least every `tick_max`. It runs a cycle only where one could find something: after input, or at a
wake. There is never more than one on its way, so that a kernel that lags is not buried under them.
"""

from ganger.schemas.records import Tick
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import next_wake

TICK_MIN_NS = 20_000_000
"""Least time between two Ticks where the policy names none: inputs of so long share one cycle."""

TICK_MAX_NS = 1_000_000_000
"""Most time between two Ticks where the policy names none: how late the kernel's clock may be."""


class Ticker:
    """The Ticks of one cell, from its owner's claim on.

    Two clocks: `mono_ns` never steps and spaces the Ticks; `now_ns` is the time that they say.
    """

    def __init__(self, state: State) -> None:
        """No Tick was sent yet; the first one is due at once."""
        self._state = state
        self._has_input = True
        self._sent_ns = 0  # monotonic time of the last Tick
        self._is_out = False
        self._out_seq = -1  # where the Tick on its way stands, once that is known

    def took(self, has_input: bool | None) -> None:
        """The state took records.

        Args:
            has_input: whether records came behind the last Tick that ran a cycle; None if there
                were neither.
        """
        if has_input is not None:
            self._has_input = has_input
        if self._out_seq >= 0 and self._state.next_seq > self._out_seq:
            self._is_out = False
            self._out_seq = -1

    def delivered(self, seq: int) -> None:
        """The Tick on its way stands in the ledger at `seq`."""
        self._out_seq = seq
        self.took(None)

    def wait_ns(self, now_ns: int, mono_ns: int) -> int | None:
        """How long until the next Tick is due, 0 if it is; None while one is on its way."""
        if self._is_out:
            return None
        settings = self._state.policy.settings
        since_ns = mono_ns - self._sent_ns
        least_ns = (settings.tick_min_ns or TICK_MIN_NS) - since_ns
        wait_ns = least_ns
        if not self._has_input:
            wait_ns = (settings.tick_max_ns or TICK_MAX_NS) - since_ns
            wake_ns = next_wake(self._state)
            if wake_ns is not None:
                wait_ns = max(least_ns, min(wait_ns, wake_ns - now_ns))
        return max(0, wait_ns)

    def tick(self, now_ns: int, mono_ns: int) -> Tick:
        """The Tick that is due, to be appended now.

        Its time is never before the kernel's clock: should an owner's clock be behind its
        predecessor's, the kernel's stands still until it is caught up with.
        """
        state = self._state
        time_ns = max(now_ns, state.clock_ns)
        wake_ns = next_wake(state)
        runs_cycle = self._has_input or (wake_ns is not None and wake_ns <= time_ns)
        self._has_input = False
        self._sent_ns = mono_ns
        self._is_out = True
        return Tick(time_ns, "", None, state.epoch, runs_cycle)

"""The controller of gaps: its knobs, what it measures, and when it moves.

Facts: `State.knobs` as it has set them, and one row of sums over the window under way.
"""

from ganger.streams.kernel.foresight.controller import Bounds, Knobs
from ganger.streams.kernel.state import State


def bounds_of(state: State) -> Bounds:
    """What the knobs never leave; without the action `tune` they stay where they begin."""
    numbers = state.policy.numbers
    if "tune.window_ns" not in numbers:
        return Bounds(_BEGIN, _BEGIN)
    return Bounds(
        Knobs(numbers["tune.runtime_least_ns"], numbers["tune.protection_least_milli"]),
        Knobs(numbers["tune.runtime_max_ns"], numbers["tune.protection_max_milli"]),
    )


_BEGIN = Knobs(30 * 24 * 3600 * 10**9, 150)


def knobs_of(state: State) -> Knobs:
    """As they are set now: longest run in a gap, and protection in thousandths of the estimate."""
    if state.knobs:
        return Knobs(state.knobs[0], state.knobs[1])
    numbers = state.policy.numbers
    if "tune.window_ns" not in numbers:
        return _BEGIN
    return Knobs(numbers["tune.runtime_max_ns"], numbers["tune.protection_milli"])

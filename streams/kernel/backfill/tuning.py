"""The controller of gaps: its knobs, what it measures, and when it moves them.

Facts: `State.knobs` as it has set them, and two rows of memory, sums of the window under way and
what is known of those before. A window ends at its time, and the next one begins with the first
cycle in which there is something to do.
Rules: module `foresight.controller`.
"""

from typing import NamedTuple

from ganger.streams.kernel.backfill import memory
from ganger.streams.kernel.foresight import controller
from ganger.streams.kernel.foresight.controller import UNKNOWN, Bounds, Health, Knobs, Move, Streaks
from ganger.streams.kernel.resources import CARD_MILLI, CARDS
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

_WINDOW = "tune/window"
_PAST = "tune/past"

ENDS_LEAST = 8
"""Ends in gaps, or starts of main jobs, below which a window says nothing about them."""

PAST_MAX = 256
"""Starts of main jobs that are remembered; beyond, what is known counts half."""

WAIT_LEAST_NS = 60 * 10**9
"""Waits that were shorter before are no measure for those now."""

_BEGIN = Knobs(30 * 24 * 3600 * 10**9, 150)
"""Without the action `tune`."""


class Window(NamedTuple):
    """Sums since a window began."""

    begin_ns: int = 0
    at_ns: int = 0  # up to then card-time is counted
    lent: int = 0  # cards in gaps since then
    idle: int = 0  # cards that stand idle beside jobs that wait, since then
    lent_ns: int = 0  # card-time
    idle_ns: int = 0
    completed: int = 0  # jobs in gaps that ended well
    ended: int = 0  # those and the evicted
    waits: int = 0  # starts of main jobs
    waited_ns: int = 0  # their waits


class Past(NamedTuple):
    """What is known of former windows."""

    waits: int = 0  # starts of main jobs
    waited_ns: int = 0
    streaks: Streaks = Streaks()


def bounds_of(state: State) -> Bounds:
    """What the knobs never leave; without the action `tune` they stay where they begin."""
    numbers = state.policy.numbers
    if not is_on(state):
        return Bounds(_BEGIN, _BEGIN)
    return Bounds(
        Knobs(numbers["tune.runtime_least_ns"], numbers["tune.protection_least_milli"]),
        Knobs(numbers["tune.runtime_max_ns"], numbers["tune.protection_max_milli"]),
    )


def is_on(state: State) -> bool:
    """Whether the policy has a controller."""
    return "tune.window_ns" in state.policy.numbers


def knobs_of(state: State) -> Knobs:
    """As they are set now: longest run in a gap, and protection in thousandths of the estimate."""
    if not is_on(state):
        return _BEGIN
    numbers, (least, most) = state.policy.numbers, bounds_of(state)
    runtime_ns, protection = numbers["tune.runtime_max_ns"], numbers["tune.protection_milli"]
    if state.knobs:
        runtime_ns, protection = state.knobs
    return Knobs(
        min(most.runtime_max_ns, max(least.runtime_max_ns, runtime_ns)),
        min(most.protection_milli, max(least.protection_milli, protection)),
    )


# ---- measuring ----------------------------------------------------------------------------------


def window_of(state: State) -> Window:
    """The window under way."""
    row = memory.get(state, _WINDOW)
    return Window(*row) if row else Window(state.now_ns, state.now_ns)


def past_of(state: State) -> Past:
    """What is known of former ones."""
    row = memory.get(state, _PAST)
    return Past(row[0], row[1], Streaks(*row[2:])) if row else Past()


def left_gap(state: State, has_completed: bool) -> None:
    """A job in a gap ended well, or was evicted."""
    if is_on(state):
        window = window_of(state)
        window = window._replace(ended=window.ended + 1, completed=window.completed + has_completed)
        memory.put(state, _WINDOW, tuple(window))


def main_started(state: State, wait_ns: int) -> None:
    """A job started in turn after waiting so long."""
    if is_on(state):
        window = window_of(state)
        window = window._replace(
            waits=window.waits + 1, waited_ns=window.waited_ns + max(0, wait_ns)
        )
        memory.put(state, _WINDOW, tuple(window))


def health_of(window: Window, past: Past) -> Health:
    """The figures of a window."""
    completion = use = wait = UNKNOWN
    if window.ended >= ENDS_LEAST:
        completion = window.completed * 1000 // window.ended
    if window.lent_ns + window.idle_ns:
        use = window.lent_ns * 1000 // (window.lent_ns + window.idle_ns)
    if window.waits >= ENDS_LEAST and past.waits >= ENDS_LEAST:
        before_ns = max(WAIT_LEAST_NS, past.waited_ns // past.waits)
        wait = window.waited_ns // window.waits * 1000 // before_ns
    return Health(completion, use, wait)


# ---- moving -------------------------------------------------------------------------------------


def run(state: State, is_waiting: bool) -> tuple[Move, ...]:
    """Count card-time up to now; at the end of a window, move; what was moved. `is_waiting`: a job
    waits.
    """
    moves: tuple[Move, ...] = ()
    futures = state.indexes.futures
    window = window_of(state)
    passed_ns = state.now_ns - window.at_ns
    idle = 0
    if is_waiting:
        idle = max(0, state.total[CARDS] - state.used[CARDS]) // CARD_MILLI
    window = window._replace(
        at_ns=state.now_ns,
        lent=0 if futures is None else futures.lent_cards,
        idle=idle,
        lent_ns=window.lent_ns + window.lent * passed_ns,
        idle_ns=window.idle_ns + window.idle * passed_ns,
    )
    if state.now_ns - window.begin_ns >= state.policy.numbers["tune.window_ns"]:
        moves = _move(state, window)
        window = Window(state.now_ns, state.now_ns, window.lent, window.idle)
    memory.put(state, _WINDOW, tuple(window))
    if futures is not None:
        due_ns = ends_ns(state)
        if due_ns != futures.tune_ns:
            futures.tune_ns = due_ns
            watch(state)
    return moves


def watch(state: State) -> None:
    """See that a cycle runs when the window under way ends."""
    if is_on(state) and memory.get(state, _WINDOW):
        due_ns = ends_ns(state)
        if due_ns > state.clock_ns:
            state.indexes.timers.at(due_ns, Wake.TUNE)


def ends_ns(state: State) -> int:
    """When the window under way ends."""
    return window_of(state).begin_ns + state.policy.numbers["tune.window_ns"]


def _move(state: State, window: Window) -> tuple[Move, ...]:
    """Let the controller see a window; what it moved."""
    past, knobs = past_of(state), knobs_of(state)
    outcome = controller.step(knobs, past.streaks, health_of(window, past), bounds_of(state))
    waits, waited_ns = past.waits, past.waited_ns
    if waits > PAST_MAX:
        waits, waited_ns = waits // 2, waited_ns // 2
    past = Past(waits + window.waits, waited_ns + window.waited_ns, outcome.streaks)
    memory.put(state, _PAST, (past.waits, past.waited_ns, *past.streaks))
    if outcome.moves:
        state.knobs = tuple(outcome.knobs)
    return outcome.moves

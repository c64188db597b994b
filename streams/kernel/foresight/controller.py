"""Adapts backfill to how it fares: one step per window of time, small, bounded, and never at once.

Two knobs: the longest run time that may be backfilled, and the share of its estimate for which a
backfilled pod is protected. Three figures: completion of backfill, idle card-time put to use, and
the wait of main jobs against what it was before.

* main wait high: protect for a shorter time.
* completion low: backfill shorter jobs only, and protect them longer, unless main wait is high:
  the main jobs win where the two disagree.
* neither, and little use: let longer jobs in again.

Each needs to hold in `PATIENCE` windows in a row, and starts anew after a move.
"""

from enum import IntEnum
from typing import NamedTuple

PATIENCE = 2
UNKNOWN = -1

MAIN_WAIT_HIGH_MILLI = 1100
MAIN_WAIT_GOOD_MILLI = 1000
COMPLETION_LOW_MILLI = 950
COMPLETION_GOOD_MILLI = 980
USE_LOW_MILLI = 500


class Cause(IntEnum):
    """Why a knob was moved."""

    MAIN_WAIT = 1
    COMPLETION = 2
    USE = 3


class Knob(IntEnum):
    """What was moved."""

    RUNTIME_MAX = 1
    PROTECTION = 2


class Knobs(NamedTuple):
    """What the controller sets."""

    runtime_max_ns: int
    protection_milli: int


class Bounds(NamedTuple):
    """What it never leaves."""

    least: Knobs
    greatest: Knobs


class Health(NamedTuple):
    """Figures of one window, in thousandths; `UNKNOWN` where too little happened to say."""

    completion_milli: int  # backfilled pods that ended by themselves, of those that ended
    use_milli: int  # idle card-time that backfill used, of all there was beside waiting jobs
    main_wait_milli: int  # mean wait of main starts, against the mean before


class Streaks(NamedTuple):
    """For how many windows in a row each condition has held."""

    main_wait: int = 0
    completion: int = 0
    use: int = 0


class Move(NamedTuple):
    """One knob moved."""

    knob: Knob
    old: int
    new: int
    cause: Cause
    measured_milli: int


class Outcome(NamedTuple):
    """What a step leads to."""

    knobs: Knobs
    streaks: Streaks
    moves: tuple[Move, ...]


def step(knobs: Knobs, streaks: Streaks, health: Health, bounds: Bounds) -> Outcome:
    """The knobs after one more window."""
    is_main_high = health.main_wait_milli >= MAIN_WAIT_HIGH_MILLI
    is_completion_low = 0 <= health.completion_milli < COMPLETION_LOW_MILLI
    is_use_low = (
        0 <= health.use_milli < USE_LOW_MILLI
        and health.main_wait_milli < MAIN_WAIT_GOOD_MILLI
        and not 0 <= health.completion_milli < COMPLETION_GOOD_MILLI
    )
    main_wait = streaks.main_wait + 1 if is_main_high else 0
    completion = streaks.completion + 1 if is_completion_low else 0
    use = streaks.use + 1 if is_use_low else 0
    moves: list[Move] = []
    runtime_ns, protection = knobs
    if main_wait >= PATIENCE:
        main_wait = 0
        protection = protection * 7 // 8
        measured = health.main_wait_milli
        _move(moves, Knob.PROTECTION, knobs, protection, Cause.MAIN_WAIT, measured, bounds)
    if completion >= PATIENCE:
        completion = 0
        measured = health.completion_milli
        runtime_ns = runtime_ns * 3 // 4
        _move(moves, Knob.RUNTIME_MAX, knobs, runtime_ns, Cause.COMPLETION, measured, bounds)
        if not is_main_high:
            protection = -(-protection * 9 // 8)
            _move(moves, Knob.PROTECTION, knobs, protection, Cause.COMPLETION, measured, bounds)
    elif use >= PATIENCE:
        use = 0
        runtime_ns = -(-runtime_ns * 5 // 4)
        _move(moves, Knob.RUNTIME_MAX, knobs, runtime_ns, Cause.USE, health.use_milli, bounds)
    return Outcome(
        Knobs(
            _clamp(runtime_ns, bounds.least.runtime_max_ns, bounds.greatest.runtime_max_ns),
            _clamp(protection, bounds.least.protection_milli, bounds.greatest.protection_milli),
        ),
        Streaks(main_wait, completion, use),
        tuple(moves),
    )


def _move(
    moves: list[Move],
    knob: Knob,
    knobs: Knobs,
    wanted: int,
    cause: Cause,
    measured_milli: int,
    bounds: Bounds,
) -> None:
    """Note a move; one that the bounds leave nothing of is none."""
    place = knob - 1
    old = knobs[place]
    new = _clamp(wanted, bounds.least[place], bounds.greatest[place])
    if new != old:
        moves.append(Move(knob, old, new, cause, measured_milli))


def _clamp(value: int, least: int, greatest: int) -> int:
    return min(greatest, max(least, value))

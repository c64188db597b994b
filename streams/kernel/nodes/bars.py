"""What windows (module `windows`) keep from a job that starts at a given time."""

from collections.abc import Iterable

from ganger.streams.kernel.backfill import estimates
from ganger.streams.kernel.entities import ClaimEntry, Job
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.nodes.marks import whose
from ganger.streams.kernel.nodes.windows import WHOLE, Bars, Window, Windows
from ganger.streams.kernel.state import State


def bars_of(state: State, windows: Windows, job: Job, at_ns: int, left_ns: int = 0) -> Bars | None:
    """What a job must leave alone if it starts then, or goes on and runs for so long yet; none:
    nothing.
    """
    lasts_ns = left_ns or run_ns(state, job) or FOREVER
    positions = windows.met(whose(state, job), at_ns, at_ns + lasts_ns)
    return windows.bars(positions) if positions else None


def may_go_inside(state: State, job: Job) -> bool:
    """Whether a window that has begun is for the job."""
    windows = state.indexes.windows
    if windows is None:
        return False
    strange = windows.strange(whose(state, job))
    return any(
        one.record.from_ns <= state.now_ns < one.record.to_ns and position not in strange
        for position, one in enumerate(windows.windows)
    )


def is_barred(state: State, job: Job, places: Iterable[ClaimEntry]) -> bool:
    """Whether windows keep any of these places from a job that starts now."""
    windows = state.indexes.windows
    bars = None if windows is None else bars_of(state, windows, job, state.now_ns)
    if bars is None:
        return False
    return any(
        place.node in bars and bars[place.node].mask & (place.mask or WHOLE) for place in places
    )


def run_ns(state: State, job: Job) -> int:
    """How long the job runs; 0 = nobody knows. What it declares is not shortened by what was learnt
    of its like: a reservation is a wall, and no gap that can be planned anew.
    """
    declared_ns = estimates.declared_ns(job)
    if state.policy.is_timed:
        return max(declared_ns, estimates.of_run(state, job).ns)
    return declared_ns


def met_by(state: State, job: Job) -> list[Window]:
    """The windows that keep something from a job if it starts now, by begin."""
    windows = state.indexes.windows
    if windows is None:
        return []
    until_ns = state.clock_ns + (run_ns(state, job) or FOREVER)
    found = windows.met(whose(state, job), state.clock_ns, until_ns)
    return [windows.windows[position] for position in found]

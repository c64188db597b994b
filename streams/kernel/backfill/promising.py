"""Promising a start to a job that could not start in its first cycle.

The promise is said with the job's ADMIT: by when it will start as likely as not, and by when with a
probability of nine in ten. It is made of the work ahead (what waits and what runs, in card-time)
and of how long others have waited for theirs; see `foresight.promises`.
"""

from ganger.streams.kernel.backfill import estimates, promised
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.foresight import promises
from ganger.streams.kernel.foresight.standing import Told
from ganger.streams.kernel.limits import TIME_MAX
from ganger.streams.kernel.resources import CARD_MILLI, CARDS
from ganger.streams.kernel.state import State


def promise(state: State, job: Job) -> Told | None:
    """The promise to a job that was admitted and waits, made now if it never had one.

    None where the policy promises nothing, to jobs that were placed before, and to those whose
    claim waits only for cards that are due.
    """
    if state.indexes.promised is None or job.seq in state.claims:
        return None
    if job.promise:
        return Told(*job.promise)
    if job.attempts is not None or any(role.fresh for role in job.roles):
        return None
    cards_milli = job.shape.min_needs[0][0]
    ahead = max(0, state.waiting_count - 1)
    unit_ns = unit(state, state.indexes.promised.work)
    waits = promised.work_out(state, cards_milli, ahead, unit_ns)
    left_ns = max(0, TIME_MAX - state.now_ns)
    told = Told(
        state.now_ns,
        min(waits.median_ns, left_ns),
        min(waits.late_ns, left_ns),
        unit_ns,
        ahead,
        cards_milli,
        estimates.of(state, job).ns,
    )
    promised.make(state, job, told)
    return told


def unit(state: State, waiting_work: int) -> int:
    """The time in which all cards do so much work (card-ns) and what runs now."""
    futures = state.indexes.futures
    assert futures is not None
    running = max(0, futures.held_until - futures.held * state.now_ns)
    cards = state.total[CARDS] // CARD_MILLI
    return min(TIME_MAX, promises.unit_ns(waiting_work + running, cards))

"""Jobs that run below their minimum: since when, and which of them have had their time.

Kept only under policies with the action `stale`. A job that has a claim is about to get back what
it lacks.
"""

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.gangs import covers, is_leaving, standing
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake


def is_broken(state: State, job: Job) -> bool:
    """Whether attempts of it go on that together are less than its minimum."""
    if job.ending is not Phase.UNKNOWN or not job.pods or job.seq in state.claims:
        return False
    if all(is_leaving(pod) for pod in job.pods.values()):
        return False
    return not covers(job.shape, standing(job))


def watch(state: State, job: Job) -> None:
    """Its attempts have changed: remember since when it is below its minimum, if it is."""
    is_now = is_broken(state, job)
    if is_now and not job.stale_since_ns:
        job.stale_since_ns = max(1, state.now_ns)
        book(state, job)
    elif not is_now and job.stale_since_ns:
        job.stale_since_ns = 0
        state.indexes.stale.pop(job.seq, None)
    else:
        return
    state.touch(job)


def book(state: State, job: Job) -> None:
    """List it, and see that it is looked at when its time is over."""
    state.indexes.stale[job.seq] = job
    state.indexes.timers.at(due_ns(state, job), Wake.STALE, job.seq)


def due_ns(state: State, job: Job) -> int:
    """When its time is over."""
    return job.stale_since_ns + state.policy.settings.stale_ns

"""Marks that tell apart waiting jobs which look alike but are kept from different cards."""

from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.waiting import FRESH, MARK, UNIQUE
from ganger.streams.kernel.nodes.windows import Whose
from ganger.streams.kernel.state import State


def marked(state: State, job: Job, look: int) -> int:
    """The look of a job that waits (see module `jobs.waiting`), with a mark if windows keep
    anything from it: jobs of one mark are kept from the same cards for the same time. Under
    policies that plan with run times nobody asks.
    """
    windows = state.indexes.windows
    if windows is None or state.policy.is_timed or look >= UNIQUE:
        return look
    strange = windows.strange(whose(state, job))
    if not strange:
        return look
    request = job.request
    lasts = request.runtime_estimate_ns or request.time_limit_ns
    number = windows.number((look, strange, lasts))
    return MARK - 2 * number - (0 if look == FRESH else 1)


def whose(state: State, job: Job) -> Whose:
    """What says whether a job is on the list of a window."""
    request = job.request
    names = tuple([level.config.queue for level in state.queues[job.queue].chain])
    return names, request.user, request.tenant

"""Jobs that have waited longer than they were promised: `sla_waiting_ns` of the job or the policy.

`Indexes.overdue` holds the jobs whose time has passed and that have not ended. It is kept only
while the policy has a rule that asks.
"""

from ganger.streams.kernel.entities import ENDED, Job
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake


def deadline_ns(state: State, job: Job) -> int | None:
    """When the job will have waited long enough; none: nothing is promised to it."""
    promised = job.request.sla_waiting_ns or state.policy.sla_waiting_ns
    return job.submitted_ns + promised if promised else None


def is_overdue(state: State, job: Job) -> bool:
    """Whether that moment has passed."""
    at_ns = deadline_ns(state, job)
    return at_ns is not None and at_ns <= state.clock_ns


def watch(state: State, job: Job) -> None:
    """Look at the job when its time has come; it has not ended."""
    at_ns = None if state.policy.sla_waiting_ns is None else deadline_ns(state, job)
    if at_ns is None:
        return
    if at_ns <= state.clock_ns:
        state.indexes.overdue[job.seq] = job
    else:
        state.indexes.timers.at(at_ns, Wake.SLA, job.seq)


def find_overdue(state: State) -> None:
    """Make the jobs that are overdue anew. O(jobs)."""
    overdue = state.indexes.overdue = {}
    if state.policy.sla_waiting_ns is not None:
        for job in state.jobs.values():
            if job.phase not in ENDED and is_overdue(state, job):
                overdue[job.seq] = job

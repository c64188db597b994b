"""stale: a gang that has been below its minimum for `stale_ns` is evicted whole.

Until then it is first in line for what it lacks (rule `gang`). Cards that a broken gang holds serve
nobody; its pods wait for their turn together.
"""

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.decide import Cause
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.gangs import is_leaving
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.jobs.stale import due_ns, watch
from ganger.streams.kernel.preemption.evictions import evict_for
from ganger.streams.kernel.session import Session

NAME = "stale"


def run(session: Session) -> None:
    """Tell the attempts of jobs whose time is over to end. Jobs that have recovered are left."""
    state = session.state
    if not state.indexes.stale:
        return
    for seq in sorted(state.indexes.stale):
        job = state.indexes.stale[seq]
        watch(state, job)
        if job.stale_since_ns and due_ns(state, job) <= state.clock_ns:
            session.line_lone()
            session.evicted += _evict(session, job)


def _evict(session: Session, job: Job) -> int:
    state = session.state
    pods = [pod for _, pod in sorted((job.pods or {}).items()) if not is_leaving(pod)]
    asked = state.clock_ns - job.stale_since_ns
    limit = state.policy.settings.stale_ns
    step_out(state, job)
    for order, pod in enumerate(pods, 1):
        cause = Cause(Reason.GANG_STALE, asked, 0, limit, rule=NAME, order=order)
        evict_for(state, job, pod, cause)
    watch(state, job)
    line_up(state, job)
    return len(pods)

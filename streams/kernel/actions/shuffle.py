"""shuffle: attempts that must leave whoever asks for their cards are told to, after their notice.

Who they are is said by rules (hook `victim`): `tdm` names those on nodes whose zone has closed.
"""

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.decide import Cause
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.jobs.gangs import is_leaving
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.preemption.evictions import tell_to_leave
from ganger.streams.kernel.session import Session

NAME = "shuffle"


def run(session: Session) -> None:
    """Tell them, in the order in which rules name them, each once."""
    state = session.state
    outcasts: dict[tuple[int, int, int], Pod] = {}
    for rule in state.policy.victim:
        for pod in rule(state):
            if not is_leaving(pod):
                outcasts[pod.job, pod.index, pod.attempt] = pod
    if not outcasts:
        return
    session.line_lone()
    jobs: dict[int, Job] = {}
    for order, pod in enumerate(outcasts.values(), 1):
        job = state.jobs[pod.job]
        if job.seq not in jobs:
            jobs[job.seq] = job
            step_out(state, job)
        cause = Cause(Reason.ZONE_CLOSED, rule=NAME, order=order)
        session.evicted += int(tell_to_leave(state, job, pod, cause))
    for job in jobs.values():
        line_up(state, job)
    session.has_taken = True

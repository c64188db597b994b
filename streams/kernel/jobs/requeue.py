"""Putting jobs back: what was admitted and came to nothing waits a while before it is tried anew.

The n-th time in a row a job waits `requeue_base_ns` times 2^(n-1), at most `requeue_max_ns`; beyond
`requeue_limit` it fails. The count ends when the job runs whole.
"""

from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.decide import of_job, say
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.attempts import end_job, settle
from ganger.streams.kernel.jobs.gangs import placeable
from ganger.streams.kernel.jobs.lines import send_back, step_out
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake


def put_back(state: State, job: Job, reason: Reason, asked: int = 0, limit: int = 0) -> None:
    """Let a job wait before it is tried again, or end it if that has been done too often.

    It may stand in a line; it is settled. One that was never placed has to be admitted anew.
    `asked` and `limit` are the numbers of the reason.
    """
    settings = state.policy.settings
    count = job.requeues + 1
    if 0 <= settings.requeue_limit < count:
        end_job(state, job, Phase.FAILED, Reason.REQUEUE_LIMIT, count, settings.requeue_limit)
        return
    step_out(state, job)
    job.requeues = count
    wait = min(settings.requeue_base_ns << min(count - 1, 62), settings.requeue_max_ns)
    job.not_before_ns = max(job.not_before_ns, state.now_ns + wait)
    state.indexes.timers.at(job.not_before_ns, Wake.JOB_BACKOFF, job.seq)
    _say(state, job, reason, asked, limit)
    settle(state, job)
    send_back(state, job)


def forgive(state: State, job: Job) -> None:
    """The job runs whole: should it be put back again, that will be the first time."""
    if job.requeues and not any(placeable(job, role) for role in range(len(job.roles))):
        if all(pod.started_ns for pod in (job.pods or {}).values()):
            job.requeues = 0
            state.touch(job)


def _say(state: State, job: Job, reason: Reason, asked: int, limit: int) -> None:
    decision = of_job(
        state, DecisionKind.REQUEUE, job.request.job, reason, asked, 0, limit, job.last_tier
    )
    decision.queue = state.queues[job.queue].config.queue
    decision.until_ns = job.not_before_ns
    decision.count = job.requeues
    say(state, decision)

"""What a job itself says is to follow from an event of its pods.

An event meets a pod of a role. The first of the job's actions that names the event, this role and
(for failures, where it names any) this exit code is taken; then the first that names no role. The
events:

    FAILED       an attempt failed that had not been told to end
    EVICTED      an attempt that others or its node made leave has left
    SUCCEEDED    the last pod of a role has succeeded
    TIMED_OUT    an attempt was not reported running in time
    JOB_PENDING  the job has waited for the action's timeout with no pod of it placed
    OUT_OF_SYNC  an attempt was lost with its node

`RESTART_POD` is what happens without any action: the pod is placed again, within the job's retries.
The other restarts end the role's, group's or job's attempts, and all its pods, those that had
succeeded too, are placed anew once the last has left; `restarts_max` bounds how often. A job that
was aborted waits held until it is resumed or released.
"""

from ganger.schemas.enums import JobAction, Phase, PodEvent
from ganger.schemas.parts import EventAction
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.jobs.attempts import end_attempt, end_job, settle, watch
from ganger.streams.kernel.jobs.lines import step_out
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.preemption.evictions import evict
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

_FAILED = Phase.FAILED
_SUCCEEDED = Phase.SUCCEEDED
_UNKNOWN = Phase.UNKNOWN
_ACTION_OF_JOB = Reason.ACTION_OF_JOB
_JOB_RESTARTED = Reason.JOB_RESTARTED

OWN_REASONS = (
    Reason.ACTION_OF_JOB,
    Reason.HELD,
    Reason.JOB_RESTARTED,
    Reason.MIN_SUCCESS,
    Reason.SCALED_DOWN,
    Reason.START_TIMEOUT,
)
"""Why an attempt left when that is the doing of its job or its owner, or an event of its own."""


def follow(state: State, job: Job, pod: Pod, event: PodEvent, exit_code: int = 0) -> bool:
    """Do what the job says is to follow from an event of a pod, which must have been booked.

    The job must stand in no line. True: it was settled; else whoever calls goes on as if there
    were no action.
    """
    if not job.request.actions or job.ending is not _UNKNOWN:
        return False
    role = pod.index % len(job.roles)
    action = _match(job, event, job.shape.roles[role].name, exit_code)
    return action is not None and _do(state, job, action.action, role)


def follow_pending(state: State, job: Job, action: EventAction) -> None:
    """The job has waited for the timeout of one of its actions. It may stand in a line."""
    step_out(state, job)
    if not _do(state, job, action.action, 0):
        settle(state, job)


def leave(state: State, job: Job, pod: Pod) -> None:
    """An attempt is gone that had been told to end, or whose end nobody explains. The job must
    stand in no line; it is settled.
    """
    is_own = job.pods is not None and job.pods.get(pod.index) is pod  # else given up before
    end_attempt(state, job, pod, Phase.EVICTED)
    is_news = pod.evict_seq < 0 or pod.evict_seq > job.restarted_seq  # one restart is enough
    if is_own and is_news and pod.evict_reason not in OWN_REASONS:
        if follow(state, job, pod, PodEvent.EVICTED):
            return
    settle(state, job)


def is_aborted(job: Job) -> bool:
    """Whether the job is held because an action of its own, or a request, aborted it."""
    return job.held and job.reason in (_ACTION_OF_JOB, Reason.HELD)


def abort(state: State, job: Job, reason: Reason) -> None:
    """End the job's attempts and hold it. It must stand in no line."""
    job.held = True
    job.reason = reason
    watch(state, job)
    for index in sorted(job.pods or ()):
        assert job.pods is not None
        evict(state, job, job.pods[index], reason)
    settle(state, job)


def resume(state: State, job: Job) -> None:
    """Let a job go on that was aborted. It must stand in no line."""
    job.held = False
    job.reason = Reason.UNKNOWN
    watch(state, job)
    settle(state, job)


def _match(job: Job, event: PodEvent, role: str, exit_code: int) -> EventAction | None:
    """The action that an event calls for: of the role, else of the job."""
    for wanted in (role, ""):
        for action in job.request.actions:
            if action.event is event and action.role == wanted:
                if not action.exit_codes or exit_code in action.exit_codes:
                    return action
    return None


def _do(state: State, job: Job, action: JobAction, role: int) -> bool:
    """Take an action. False: nothing was done."""
    if action in _RESTARTS:
        _restart(state, job, _RESTARTS[action](job, role))
    elif action is JobAction.ABORT_JOB:
        abort(state, job, _ACTION_OF_JOB)
    elif action is JobAction.TERMINATE_JOB:
        end_job(state, job, _FAILED, _ACTION_OF_JOB)
    elif action is JobAction.COMPLETE_JOB:
        end_job(state, job, _SUCCEEDED, _ACTION_OF_JOB)
    elif action is JobAction.RESUME_JOB and is_aborted(job):
        resume(state, job)
    else:
        return False
    return True


# ---- restarts -----------------------------------------------------------------------------------


def _of_role(job: Job, role: int) -> list[int]:
    return [role]


def _of_group(job: Job, role: int) -> list[int]:
    """Roles of the group of a role; of that role alone if it is in none."""
    group = job.shape.roles[role].group
    if not group:
        return [role]
    return [place for place, spec in enumerate(job.shape.roles) if spec.group == group]


def _of_job(job: Job, role: int) -> list[int]:
    return list(range(len(job.roles)))


_RESTARTS = {
    JobAction.RESTART_ROLE: _of_role,
    JobAction.RESTART_GROUP: _of_group,
    JobAction.RESTART_JOB: _of_job,
}


def _restart(state: State, job: Job, roles: list[int]) -> None:
    """Start the pods of roles anew, or end the job if that has been done too often."""
    most = job.request.restarts_max
    count = job.restarts + 1
    if 0 <= most < count:
        end_job(state, job, _FAILED, Reason.RETRY_LIMIT, count, most)
        return
    job.restarts = count
    job.restarted_seq = state.cause
    if job.seq in state.claims:
        claims_book.give_up(state, job, _JOB_RESTARTED)
    for index in sorted(job.pods or ()):
        assert job.pods is not None
        if index % len(job.roles) in roles:
            evict(state, job, job.pods[index], _JOB_RESTARTED, count)
    for role in roles:
        _take_back_successes(state, job, role)
    kept = {i: n for i, n in (job.failures or {}).items() if i % len(job.roles) not in roles}
    job.failures = kept or None
    back_off(state, job, count)
    settle(state, job)


def _take_back_successes(state: State, job: Job, role: int) -> None:
    """Pods of a role that have succeeded are to be placed again."""
    counts = job.roles[role]
    if not counts.succeeded:
        return
    again = dict.fromkeys(counts.returned or ())
    for local in range(counts.fresh):
        index = local * len(job.roles) + role
        if local not in again and index not in (job.pods or {}):
            again[local] = None
            if job.attempts is None:
                job.attempts = {}
            job.attempts.setdefault(index, 1)
    charges = job.shape.shapes[role].charges
    quota.expect(state.queues[job.queue], charges, len(again) - len(counts.returned or ()))
    counts.returned = sorted(again)
    counts.succeeded = 0


def back_off(state: State, job: Job, count: int) -> None:
    """Wait before the next start, after the `count`-th failure or restart, as the job says."""
    retry = job.request.retry
    if retry.backoff_ns:
        wait = min(
            retry.backoff_ns << min(count - 1, 62), max(retry.backoff_max_ns, retry.backoff_ns)
        )
        job.not_before_ns = max(job.not_before_ns, state.now_ns + wait)
        state.indexes.timers.at(job.not_before_ns, Wake.JOB_BACKOFF, job.seq)

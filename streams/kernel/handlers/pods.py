"""Facts about attempts. One of an attempt that does not live changes nothing."""

from ganger.schemas.enums import FailureKind, Phase, PodEvent
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    PodCheckpointed,
    PodFailed,
    PodProgressed,
    PodReleased,
    PodResumed,
    PodStarted,
    PodSucceeded,
    PodSuspended,
)
from ganger.streams.kernel.backfill.estimates import note, watch_limits
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.jobs import suspension
from ganger.streams.kernel.jobs.attempts import end_attempt, end_job, find, leave_rest, settle
from ganger.streams.kernel.jobs.lifecycle import move_job, move_pod
from ganger.streams.kernel.jobs.lifecycle_actions import back_off, follow, leave
from ganger.streams.kernel.jobs.lines import step_out
from ganger.streams.kernel.jobs.requeue import forgive
from ganger.streams.kernel.preemption.evictions import protect
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED
_FAILED = Phase.FAILED
_RELEASING = Phase.RELEASING
_RUNNING = Phase.RUNNING
_SUCCEEDED = Phase.SUCCEEDED
_UNKNOWN = Phase.UNKNOWN
_RETRY_LIMIT = Reason.RETRY_LIMIT


def started(state: State, record: PodStarted) -> None:
    """An attempt runs; so does its job."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    if pod.started_ns or pod.ran_ns:
        return  # known, or told to go on: then `resumed` says it
    pod.started_ns = state.now_ns
    state.indexes.timers.started((pod.job, pod.index, pod.attempt))
    if pod.phase is _ALLOCATED:
        move_pod(state, job, pod, _RUNNING)
        if job.phase is _ALLOCATED:
            move_job(state, job, _RUNNING)
    else:
        state.touch_pod(job, pod)
    if state.indexes.futures is not None and pod.started_ns != pod.allocated_ns:
        note(state, state.indexes.futures, job, pod)
    if state.policy.protected:
        protect(state, job, pod)
    if job.requeues:
        forgive(state, job)
    if job.request.time_limit_ns:
        watch_limits(state, job)
    if not job.first_started_ns:
        job.first_started_ns = state.now_ns
        state.touch(job)


def progressed(state: State, record: PodProgressed) -> None:
    """How far an attempt is; never backwards."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is not None and 1000 >= record.progress_milli > found[1].progress_milli:
        found[1].progress_milli = record.progress_milli
        state.touch_pod(*found)


def checkpointed(state: State, record: PodCheckpointed) -> None:
    """How far the saved state of an attempt is."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is not None and 1000 >= record.progress_milli > found[1].checkpoint_milli:
        found[1].checkpoint_milli = record.progress_milli
        state.touch_pod(*found)


def succeeded(state: State, record: PodSucceeded) -> None:
    """An attempt ended well, even if it had been told to end."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    step_out(state, job)
    end_attempt(state, job, pod, _SUCCEEDED)
    if job.request.actions and _is_complete(job, pod):
        if follow(state, job, pod, PodEvent.SUCCEEDED):
            return
    least = job.request.min_success
    if least and job.ending is _UNKNOWN:
        count = sum(role.succeeded for role in job.roles)
        if count >= least:
            end_job(state, job, _SUCCEEDED, Reason.MIN_SUCCESS, count, least)
            return
    settle(state, job)


def _is_complete(job: Job, pod: Pod) -> bool:
    """Whether the role of a pod has no more to do."""
    role = job.roles[pod.index % len(job.roles)]
    return not role.live and not role.pending()


def suspended(state: State, record: PodSuspended) -> None:
    """An attempt that was told to suspend has stopped."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None or not suspension.is_stopping(found[1]):
        return
    job, pod = found
    step_out(state, job)
    suspension.suspended(state, job, pod, record.progress_milli)
    if not state.policy.resumes:
        leave_rest(state, job, [pod])
    settle(state, job)


def resumed(state: State, record: PodResumed) -> None:
    """An attempt that was told to go on runs again."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is not None and found[1].phase is _ALLOCATED and found[1].ran_ns:
        suspension.resumed(state, *found)


def released(state: State, record: PodReleased) -> None:
    """An attempt is gone and its pod, unless the job is ending, is to be placed again."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    step_out(state, job)
    leave(state, job, pod)


def failed(state: State, record: PodFailed) -> None:
    """An attempt ended badly: try the pod again, or end the job when its retries are used up."""
    found = find(state, record.job, record.pod, record.attempt)
    if found is None:
        return
    job, pod = found
    step_out(state, job)
    if pod.phase is _RELEASING:
        leave(state, job, pod)
        return
    end_attempt(state, job, pod, _FAILED)
    if follow(state, job, pod, PodEvent.FAILED, record.exit_code):
        return
    if job.failures is None:
        job.failures = {}
    count = job.failures[pod.index] = job.failures.get(pod.index, 0) + 1
    retry = job.request.retry
    if count > retry.limit:
        if not _does_without(state, job, pod):
            end_job(state, job, _FAILED, _RETRY_LIMIT, count, retry.limit)
            return
    if record.failure is FailureKind.START_FAILED and pod.node not in job.avoid:
        job.avoid = tuple(sorted((*job.avoid, pod.node)))
    back_off(state, job, count)
    settle(state, job)


def _does_without(state: State, job: Job, pod: Pod) -> bool:
    """Whether a job of which not all pods must succeed can still do so without one that has used
    up its retries. If so, that pod is not placed again.
    """
    least = job.request.min_success
    if not least:
        return False
    left = [role.replicas for role in job.roles]
    for index, count in (job.failures or {}).items():
        if (
            count > job.request.retry.limit
            and index // len(left) < job.roles[index % len(left)].replicas
        ):
            left[index % len(left)] -= 1
    if sum(left) < least or any(
        have < role.min_available for have, role in zip(left, job.shape.roles, strict=True)
    ):
        return False
    if any(
        sum(left[role] for role in unit.members) < unit.min_available for unit in job.shape.units
    ):
        return False
    place = pod.index % len(left)
    role = job.roles[place]
    role.returned = [n for n in role.returned or () if n != pod.index // len(left)] or None
    quota.expect(state.queues[job.queue], job.shape.shapes[place].charges, -1)
    return True

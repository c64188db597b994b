"""Ends: of attempts, and of the jobs whose last attempt it was. Shared by handlers and cycle.

A job that is to end while attempts of it live goes through RELEASING: they are told to end, and it
reaches its terminal phase when the last has been released.
"""

from collections.abc import Iterable

from ganger.schemas.enums import DecisionKind, Phase, PodEvent, Tier
from ganger.schemas.parts import EventAction
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import estimates, manners, promised
from ganger.streams.kernel.decide import Cause, say_of_job
from ganger.streams.kernel.entities import ENDED, Job, Pod
from ganger.streams.kernel.jobs import progress, stale
from ganger.streams.kernel.jobs.gangs import is_pending
from ganger.streams.kernel.jobs.lifecycle import move_job, move_pod
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.preemption.evictions import evict, evict_for
from ganger.streams.kernel.queues import held_quota, priorities, quota, usage
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_FINISH = DecisionKind.FINISH
_ALLOCATED = Phase.ALLOCATED
_EVICTED = Phase.EVICTED
_FAILED = Phase.FAILED
_INQUEUE = Phase.INQUEUE
_MAIN = Tier.MAIN
_RELEASING = Phase.RELEASING
_RUNNING = Phase.RUNNING
_SUCCEEDED = Phase.SUCCEEDED
_SUSPENDED = Phase.SUSPENDED
_UNKNOWN = Phase.UNKNOWN
_ALL_PODS_SUCCEEDED = Reason.ALL_PODS_SUCCEEDED
_DEPENDENCY_FAILED = Reason.DEPENDENCY_FAILED
_NO_REASON = Reason.UNKNOWN
_RESUMED = Reason.RESUMED
_JOB_PENDING = Wake.JOB_PENDING


def find(state: State, job_key: str, index: int, attempt: int) -> tuple[Job, Pod] | None:
    """The live attempt a fact speaks of; none for late facts and strangers."""
    seq = state.job_by_key.get(job_key)
    if seq is None:
        return None
    job = state.jobs[seq]
    pod = job.pods.get(index) if job.pods else None
    if pod is None or pod.attempt != attempt:
        pod = state.indexes.ghosts.get((seq, index, attempt))
    return None if pod is None else (job, pod)


def detach(state: State, job: Job, pod: Pod) -> None:
    """The job gives up a live attempt, to have its pod placed again; the node still holds it."""
    assert pod.phase is _RELEASING
    _leave(state, job, pod)
    _return(state, job, pod)
    pod.is_untold = False
    state.touch(pod)
    state.indexes.ghosts[(pod.job, pod.index, pod.attempt)] = pod


def leave_rest(state: State, job: Job, pods: Iterable[Pod]) -> None:
    """Suspended attempts end; their pods are to be placed anew. The job then stands in no line."""
    futures = state.indexes.futures
    step_out(state, job)
    for pod in pods:
        slept_ns = state.now_ns - pod.suspended_ns
        evict_for(state, job, pod, Cause(_RESUMED, slept_ns, rule="yielding"))
        if futures is not None:
            futures.forget((pod.job, pod.index, pod.attempt))
        detach(state, job, pod)


def end_rests(state: State) -> None:
    """The same of all who rest: the policy lets them go on no more."""
    for job in list(state.jobs.values()):
        pods = [pod for _, pod in sorted((job.pods or {}).items()) if pod.phase is _SUSPENDED]
        if pods:
            leave_rest(state, job, pods)
            settle(state, job)


def end_attempt(state: State, job: Job, pod: Pod, phase: Phase) -> None:
    """An attempt is over in a terminal phase; its cards are free. The job must be settled next."""
    move_pod(state, job, pod, phase)
    pod.is_untold = True
    ghosts = state.indexes.ghosts
    if ghosts and ghosts.pop((pod.job, pod.index, pod.attempt), None) is not None:
        occupancy.stir(state)
        if job.phase in ENDED:
            state.indexes.timers.remember_until(job.ended_ns + ttl_ns(state, job), job.seq)
    else:
        _leave(state, job, pod)
        if job.right and phase is not _EVICTED and (phase is _SUCCEEDED or pod.evict_seq < 0):
            progress.restore(state, job)  # not when it fails because it was told to end
        if phase is _SUCCEEDED:
            job.roles[pod.index % len(job.roles)].succeeded += 1
            # unsaid, the last attempt is the first; an adopted one began before it was known, or
            # is marked as one that is to be remembered
            if (
                pod.attempt > 1
                or 0 < pod.started_ns < pod.allocated_ns
                or (job.attempts and pod.index in job.attempts)
            ):
                _remember(job, pod)
        else:
            _return(state, job, pod)
        if job.flavors:
            held_quota.attempt_ended(state, job, pod)
    occupancy.release(state, state.nodes[pod.node], pod)
    futures = state.indexes.futures
    if futures is not None:
        estimates.ended(state, futures, job, pod, phase is _SUCCEEDED)
        if phase is _SUCCEEDED and pod.tier is not _MAIN:
            manners.left(state, job, pod)


def _leave(state: State, job: Job, pod: Pod) -> None:
    assert job.pods is not None and job.pods[pod.index] is pod
    del job.pods[pod.index]
    if not job.pods and job.request.actions:
        watch(state, job)
    job.roles[pod.index % len(job.roles)].live -= 1
    queue = state.queues[job.queue]
    quota.charge(state, queue, pod.shape.charges, -1)
    if state.policy.settings.usage_half_life_ns:
        usage.charge(state, job, pod)
    if pod.evict_seq >= 0 or pod.notice_until_ns:
        quota.depart(state, queue, pod.shape.charges, -1)
    if state.indexes.uncounted is not None:
        state.indexes.uncounted[job.seq] = job


def _return(state: State, job: Job, pod: Pod) -> None:
    """The pod is to be placed again, if its role still has a place for it."""
    _remember(job, pod)
    role = job.roles[pod.index % len(job.roles)]
    local = pod.index // len(job.roles)
    if local < role.replicas:
        role.returned = sorted([*(role.returned or ()), local])
        shape = job.shape.shapes[pod.index % len(job.roles)]  # its own may be that of its rest
        quota.expect(state.queues[job.queue], shape.charges, 1)


def _remember(job: Job, pod: Pod) -> None:
    """The attempt was the pod's last so far: its number is never given again."""
    if job.attempts is None:
        job.attempts = {}
    job.attempts[pod.index] = pod.attempt


def settle(state: State, job: Job) -> None:
    """After attempts of a job ended or its facts changed: end it, or put it where it belongs now.

    It must stand in no line.
    """
    state.touch(job)
    if job.phase in ENDED:
        return
    if state.claims and job.seq in state.claims:
        fault = claims_book.fault(state, job)
        if fault is not _NO_REASON:
            claims_book.give_up(state, job, fault)
    if job.ending is not _UNKNOWN:
        if not job.pods:
            _end(state, job, job.ending)
        elif job.phase is not _RELEASING:
            quota.disclaim(state, job)
            move_job(state, job, _RELEASING)
        return
    if state.policy.ends_stale:
        stale.watch(state, job)
    if not job.pods:
        if not is_pending(job):
            job.reason = _ALL_PODS_SUCCEEDED
            roles = job.roles
            is_one = len(roles) == 1  # as most are
            job.asked = roles[0].succeeded if is_one else sum([role.succeeded for role in roles])
            _end(state, job, _SUCCEEDED)
            return
        if job.phase in (_ALLOCATED, _RUNNING, _SUSPENDED):
            move_job(state, job, _INQUEUE)
            if state.policy.is_patient and not job.request.actions:
                job.waiting_since_ns = state.now_ns
    line_up(state, job)


def watch(state: State, job: Job) -> None:
    """The job waits from now on: what it says is to follow from a long wait will be looked at."""
    actions = pending_actions(job)
    if actions:
        job.waiting_since_ns = state.now_ns
        state.touch(job)
        for action in actions:
            state.indexes.timers.at(state.now_ns + action.timeout_ns, _JOB_PENDING, job.seq)


def pending_actions(job: Job) -> list[EventAction]:
    """The job's actions that follow when it has waited too long."""
    return [action for action in job.request.actions if action.event is PodEvent.JOB_PENDING]


def end_job(
    state: State, job: Job, phase: Phase, reason: Reason, asked: int = 0, limit: int = 0
) -> None:
    """Bring a job to an end: its live attempts are evicted first. It may stand in a line."""
    if job.ending is not _UNKNOWN or job.phase in ENDED:
        return
    step_out(state, job)
    job.ending = phase
    job.reason, job.asked, job.limit = reason, asked, limit
    for index in sorted(job.pods or ()):
        assert job.pods is not None
        evict(state, job, job.pods[index], reason, asked, limit)
    settle(state, job)


def _end(state: State, job: Job, phase: Phase) -> None:
    """The job is over. Jobs that depend on it go on, or end too; chains of them one by one."""
    if job.seq not in state.indexes.dependents:
        _close(state, job, phase)
        return
    work = [(job, phase)]
    for ended, terminal in work:  # grows on the way
        _close(state, ended, terminal)
        for seq in state.indexes.dependents.pop(ended.seq, ()):
            other = state.jobs.get(seq)
            if other is None or other.phase in ENDED or ended.seq not in other.dependencies:
                continue
            step_out(state, other)
            other.dependencies = tuple(d for d in other.dependencies if d != ended.seq)
            state.touch(other)
            if terminal is _SUCCEEDED:
                line_up(state, other)
            elif other.ending is _UNKNOWN:
                other.ending = _FAILED
                other.reason, other.asked, other.limit = _DEPENDENCY_FAILED, 0, 0
                work.append((other, _FAILED))  # it waited, so it has no live attempts


def _close(state: State, job: Job, phase: Phase) -> None:
    if job.stale_since_ns:
        job.stale_since_ns = 0
        state.indexes.stale.pop(job.seq, None)
    if job.claims:
        quota.disclaim(state, job)
    queue = state.queues[job.queue]
    if job.tally is not None:
        quota.relent(state, queue)  # also of one that was held, which claims nothing
    if is_pending(job):
        for role, shape in zip(job.roles, job.shape.shapes, strict=True):
            quota.expect(queue, shape.charges, -role.pending())
    priorities.leave(state.indexes.priorities, job)
    for level in queue.chain:
        level.jobs -= 1
    progress.ended_in(state, queue)
    move_job(state, job, phase)
    if job.flavors:
        held_quota.recount(state, job)
    state.indexes.overdue.pop(job.seq, None)
    if job.promise:
        promised.take(state, job)
    job.ended_ns = state.now_ns
    state.indexes.timers.remember_until(job.ended_ns + ttl_ns(state, job), job.seq)
    say_of_job(
        state,
        _FINISH,
        job.request.job,
        job.reason,
        job.asked,
        0,
        job.limit,
        job.last_tier,
    )


def ttl_ns(state: State, job: Job) -> int:
    """How long the job is remembered after its end."""
    ttl = job.request.ttl_ns
    return state.policy.settings.ttl_ns if ttl < 0 else ttl


def forget(state: State, job: Job) -> None:
    """Drop an ended job from the state; its key may be used again."""
    assert job.phase in ENDED
    del state.jobs[job.seq]
    del state.job_by_key[job.request.job]
    state.shapes.drop(job.shape)
    job.is_untold = True
    state.touch(job)

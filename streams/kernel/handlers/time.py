"""The passing of time: the clock moves, and what was due happens."""

from itertools import islice

from ganger.schemas.enums import JobAction, Phase, PodEvent
from ganger.schemas.parts import EventAction
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Tick
from ganger.streams.kernel.backfill import manners, promised, tuning
from ganger.streams.kernel.backfill.estimates import outlived, over_ns
from ganger.streams.kernel.backfill.futures import NEVER_WOKEN
from ganger.streams.kernel.backfill.manners import SUSPENDABLE, manner
from ganger.streams.kernel.decide import Cause
from ganger.streams.kernel.digest import event_term
from ganger.streams.kernel.entities import ENDED, Job, Pod
from ganger.streams.kernel.fairness.decay import HOUR_NS
from ganger.streams.kernel.jobs import deadlines, suspension
from ganger.streams.kernel.jobs.attempts import end_job, forget, pending_actions, settle, ttl_ns
from ganger.streams.kernel.jobs.lifecycle import WAITING
from ganger.streams.kernel.jobs.lifecycle_actions import follow, follow_pending, is_aborted
from ganger.streams.kernel.jobs.lines import line_up, mark_anew, realign, step_out, watch_admission
from ganger.streams.kernel.jobs.requeue import put_back
from ganger.streams.kernel.jobs.stale import due_ns
from ganger.streams.kernel.limits import TIME_MAX
from ganger.streams.kernel.nodes import zones
from ganger.streams.kernel.nodes.reservations import refresh_reservations
from ganger.streams.kernel.preemption.claims_book import give_up
from ganger.streams.kernel.preemption.evictions import evict, evict_for, protections
from ganger.streams.kernel.queues import usage
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Timer, Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED
_START_TIMEOUT = Reason.START_TIMEOUT
_BOOKED = Wake.BOOKED
_MAKE_WAY = Wake.MAKE_WAY
_CLAIM = Wake.CLAIM
_JOB_BACKOFF = Wake.JOB_BACKOFF
_JOB_TTL = Wake.JOB_TTL
_INQUEUE = Wake.INQUEUE
_JOB_PENDING = Wake.JOB_PENDING
_NOTICE = Wake.NOTICE
_POD_START = Wake.POD_START
_SLA = Wake.SLA
_PROTECTED = Wake.PROTECTED
_PATIENCE = Wake.PATIENCE
_RELEASING = Phase.RELEASING
_STALE = Wake.STALE
_TIME_LIMIT = Wake.TIME_LIMIT
_TUNE = Wake.TUNE
_ZONE = Wake.ZONE

EVENT_IDS_MAX = 1 << 20


def pass_time(state: State, record: Tick) -> bool:
    """Move the clock, do what is due.

    False: the Tick is a former owner's, moves time back, or out of all bounds.
    """
    clock_ns = record.time_ns
    if record.epoch != state.epoch or not state.clock_ns <= clock_ns <= TIME_MAX:
        return False
    hour = state.clock_ns // HOUR_NS
    state.clock_ns = state.now_ns = clock_ns
    if clock_ns // HOUR_NS != hour:
        _begin_hour(state)
    due = state.indexes.timers.due
    while (timer := due(clock_ns)) is not None:
        if timer[1] is _JOB_TTL or _stands(state, timer):
            _WAKES[timer[1]](state, timer)
    if clock_ns >= state.indexes.ids_kept_ns or len(state.event_ids) > EVENT_IDS_MAX:
        expire_event_ids(state)
    if state.indexes.promised is not None:
        promised.expire(state)
    if state.indexes.futures is not None:
        for late in outlived(state, state.indexes.futures):
            numbers = late.ran_ns, 0, late.estimate_ns
            give_up(state, late.job, Reason.OUTLIVED_ESTIMATE, numbers)
            settle(state, late.job)
    return True


def _begin_hour(state: State) -> None:
    """Past use is read anew, and jobs take the place that it gives them."""
    usage.forget_old(state)
    if state.policy.follows_clock:
        realign(state, [job.seq for job in state.jobs.values() if job.key is not None])


def next_wake(state: State) -> int | None:
    """The earliest time in ns at which time alone would change something; none: never, or not
    within the time that a kernel knows.

    Timers that do not stand any more are dropped on the way. That changes no decision, as they do
    nothing when they are due either.
    """
    timers = state.indexes.timers
    while (timer := timers.earliest()) is not None:
        if _stands(state, timer):
            return timer[0] if timer[0] <= TIME_MAX else None
        timers.drop_earliest()
        if timer[1] is _BOOKED and state.indexes.futures is not None:
            state.indexes.futures.woken = NEVER_WOKEN  # the same booking may be made again
    return None


def _stands(state: State, timer: Timer) -> bool:
    """Whether the moment that a timer was set for is still that of the facts.

    Once it is not, it must never be again unless a timer is set for it anew: some states drop such
    timers and others, which replay, keep them, and all must decide alike. So what may be so now
    and otherwise later (who waits, who is held) is not asked here but when the timer is due.
    """
    at_ns, wake = timer[0], timer[1]
    if wake is _POD_START:  # most are of this kind
        found = _unstarted(state, timer)
        limit = state.policy.settings.start_timeout_ns
        return found is not None and found[1].allocated_ns + limit == at_ns
    if wake is _BOOKED:
        booking = state.bookings.get(timer[2])
        return booking is not None and booking.start_ns == at_ns
    if wake is _MAKE_WAY:
        return manners.again_ns(state) == at_ns
    if wake is _CLAIM:
        claim = state.claims.get(timer[2])
        return claim is not None and claim.until_ns == at_ns
    if wake is _NOTICE:
        found = _live(state, timer)
        return found is not None and found[1].notice_until_ns == at_ns
    if wake is _PROTECTED:
        found = _live(state, timer)
        return found is not None and at_ns in protections(state, *found)
    if wake is _PATIENCE:
        return timer[2] in state.jobs and state.indexes.patient.get(timer[2]) == at_ns
    if wake is _TIME_LIMIT:
        found = _live(state, timer)
        return found is not None and over_ns(state, *found) == at_ns
    if wake is _STALE:
        job = state.indexes.stale.get(timer[2])
        return job is not None and due_ns(state, job) == at_ns
    if wake is _JOB_BACKOFF:
        job = state.jobs.get(timer[2])
        return job is not None and job.phase not in ENDED and job.not_before_ns == at_ns
    if wake is _INQUEUE:
        return _unused(state, timer) is not None
    if wake is _ZONE:
        return zones.has_edge(state, at_ns)
    if wake is _SLA:
        job = state.jobs.get(timer[2])
        return (
            job is not None
            and job.phase not in ENDED
            and state.policy.sla_waiting_ns is not None
            and deadlines.deadline_ns(state, job) == at_ns
        )
    if wake is _TUNE:
        return tuning.is_on(state) and tuning.ends_ns(state) == at_ns
    if wake is _JOB_PENDING:
        return bool(_patience_over(state, timer))
    return any(at_ns in (r.from_ns, r.to_ns) for r in state.reservations.values())


def _live(state: State, timer: Timer) -> tuple[Job, Pod] | None:
    """The attempt that a timer is about, if it lives and has not been told to leave."""
    _, _, seq, index, attempt = timer
    job = state.jobs.get(seq)
    pod = job.pods.get(index) if job is not None and job.pods else None
    if job is None or pod is None or pod.attempt != attempt or pod.phase is _RELEASING:
        return None
    return job, pod


def _unstarted(state: State, timer: Timer) -> tuple[Job, Pod] | None:
    """The attempt that a start timer is about, if it still has not started."""
    found = _live(state, timer)
    return found if found is not None and found[1].phase is _ALLOCATED else None


def _wake_backoff(state: State, timer: Timer) -> None:
    job = state.jobs[timer[2]]
    if job.key is None:
        step_out(state, job)
        settle(state, job)


def _wake_ttl(state: State, timer: Timer) -> None:
    job = state.jobs.get(timer[2])
    if job is None or job.phase not in ENDED:
        return
    due = job.ended_ns + ttl_ns(state, job)
    if due > state.clock_ns:
        state.indexes.timers.remember_until(due, job.seq)
    elif any(key[0] == job.seq for key in state.indexes.ghosts):
        return  # a lost node still holds an attempt of it, whose end sets the timer again
    else:
        forget(state, job)


def _wake_start(state: State, timer: Timer) -> None:
    """An attempt that has not been reported running for too long is told to end."""
    found = _unstarted(state, timer)
    assert found is not None
    job, pod = found
    waited = state.clock_ns - pod.allocated_ns
    limit = state.policy.settings.start_timeout_ns
    step_out(state, job)
    if pod.node not in job.avoid:
        job.avoid = tuple(sorted((*job.avoid, pod.node)))
    evict(state, job, pod, _START_TIMEOUT, waited, limit)
    if job.flavors:  # quota admission starts a job whole or not at all
        for index in sorted(job.pods or ()):
            assert job.pods is not None
            evict(state, job, job.pods[index], _START_TIMEOUT, waited, limit)
        put_back(state, job, _START_TIMEOUT, waited, limit)
        return
    if not follow(state, job, pod, PodEvent.TIMED_OUT):
        settle(state, job)


def _wake_zone(state: State, timer: Timer) -> None:
    """A zone opens or closes."""
    for record in state.zones.values():
        if zones.next_edge(record, timer[0] - 1) == timer[0]:
            zones.watch(state, record)
    zones.turned(state)


def _unused(state: State, timer: Timer) -> Job | None:
    """The job whose admission expires at this moment if nothing of it was ever placed."""
    job = state.jobs.get(timer[2])
    expires_ns = state.policy.settings.inqueue_ns
    if job is None or job.phase is not Phase.INQUEUE:
        return None
    if not expires_ns or job.admitted_ns + expires_ns != timer[0]:
        return None
    return None if any(role.fresh for role in job.roles) else job


def _wake_inqueue(state: State, timer: Timer) -> None:
    """An admission that was not used is taken back, so that it keeps nobody out."""
    job = state.jobs[timer[2]]
    if job.seq in state.claims:
        watch_admission(state, job)  # the claim has its own end
    else:
        put_back(state, job, Reason.CLAIM_EXPIRED, 0, state.policy.settings.inqueue_ns)


def _patience_over(state: State, timer: Timer) -> list[EventAction]:
    """What is to follow from a job's wait at this moment, should it still wait then."""
    job = state.jobs.get(timer[2])
    if job is None or job.phase in ENDED:
        return []
    since_ns = job.waiting_since_ns
    return [one for one in pending_actions(job) if since_ns + one.timeout_ns == timer[0]]


def _wake_pending(state: State, timer: Timer) -> None:
    job = state.jobs[timer[2]]
    if job.phase not in WAITING or job.pods:
        return
    for one in _patience_over(state, timer):
        if is_aborted(job) if one.action is JobAction.RESUME_JOB else not job.held:
            follow_pending(state, job, one)
            return


def _wake_reservation(state: State, timer: Timer) -> None:
    if refresh_reservations(state):
        mark_anew(state)


def _wake_limit(state: State, timer: Timer) -> None:
    """A job that has run for as long as it may is ended, if it or the policy says so."""
    found = _live(state, timer)
    assert found is not None
    job, pod = found
    ran_ns = pod.ran_ns + state.clock_ns - pod.started_ns
    limit = job.request.time_limit_ns
    end_job(state, job, Phase.FAILED, Reason.TIME_LIMIT, ran_ns, limit)


def _wake_booked(state: State, timer: Timer) -> None:
    """The time of a booking has come; the cycle of this Tick sees to it."""


def _wake_way(state: State, timer: Timer) -> None:
    """Others may have to make way now; the cycle of this Tick sees to it."""


def _wake_tune(state: State, timer: Timer) -> None:
    """A window of the controller ends; the action `tune` of the cycle that follows sees to it."""


def _wake_claim(state: State, timer: Timer) -> None:
    """A claim that was not met in time is given up; its job stands in line again."""
    job = state.jobs[timer[2]]
    give_up(state, job, Reason.CLAIM_EXPIRED)
    settle(state, job)


def _wake_notice(state: State, timer: Timer) -> None:
    """The notice of an attempt is over: it is told to end, or to suspend if it makes way in a gap.

    If the claim that it was to leave for had been given up, its notice was taken back then.
    """
    found = _live(state, timer)
    assert found is not None
    job, pod = found
    identity = (pod.job, pod.index, pod.attempt)
    takers = [seq for seq in sorted(state.claims) if identity in state.claims[seq].victims]
    cause = Cause(pod.evict_reason)
    if takers:
        taker = state.jobs[takers[0]]
        queue = state.queues[taker.queue].config.queue
        cause = Cause(pod.evict_reason, for_job=taker.request.job, queue=queue)
    step_out(state, job)
    is_in_gap = pod.evict_reason is Reason.MAIN_NEEDS_CARDS and manner(state, job) & SUSPENDABLE
    if is_in_gap and suspension.can_suspend(job, pod):
        suspension.tell(state, job, pod, cause)
    else:
        evict_for(state, job, pod, cause)
    settle(state, job)


def _wake_stale(state: State, timer: Timer) -> None:
    """The action `stale` of the cycle that follows does it."""


def _wake_protected(state: State, timer: Timer) -> None:
    """Somebody may be a victim from now on."""
    state.indexes.evict_epoch += 1


def _wake_patience(state: State, timer: Timer) -> None:
    """A job has waited long enough: it may take from others from now on."""
    del state.indexes.patient[timer[2]]
    state.indexes.evict_epoch += 1


def expire_event_ids(state: State) -> None:
    """Forget request ids that are too old, or too many."""
    ids = state.event_ids
    window_ns = state.policy.settings.event_id_ns
    limit = state.clock_ns - window_ns
    surplus = len(ids) - EVENT_IDS_MAX
    over: list[str] = []
    kept_ns = 0
    for event_id, seen_ns in ids.items():
        if seen_ns > limit:
            kept_ns = seen_ns + window_ns
            break
        over.append(event_id)
    if len(over) < surplus:
        over = list(islice(ids, surplus))
        kept_ns = 0  # unknown: who is first now may have been seen before who came earlier
    for event_id in over:
        del ids[event_id]
        state.digest -= event_term(event_id)
    state.indexes.ids_kept_ns = kept_ns


def _wake_sla(state: State, timer: Timer) -> None:
    """A job has waited as long as it was promised at most: let it be asked about on its own."""
    job = state.jobs[timer[2]]
    state.indexes.overdue[job.seq] = job
    state.indexes.evict_epoch += 1
    if job.phase is Phase.PENDING and job.key is not None:
        step_out(state, job)
        line_up(state, job)


_WAKES = {
    Wake.SLA: _wake_sla,
    Wake.JOB_BACKOFF: _wake_backoff,
    Wake.JOB_TTL: _wake_ttl,
    Wake.POD_START: _wake_start,
    Wake.RESERVATION: _wake_reservation,
    Wake.JOB_PENDING: _wake_pending,
    Wake.ZONE: _wake_zone,
    Wake.INQUEUE: _wake_inqueue,
    Wake.CLAIM: _wake_claim,
    Wake.NOTICE: _wake_notice,
    Wake.PROTECTED: _wake_protected,
    Wake.PATIENCE: _wake_patience,
    Wake.STALE: _wake_stale,
    Wake.BOOKED: _wake_booked,
    Wake.MAKE_WAY: _wake_way,
    Wake.TUNE: _wake_tune,
    Wake.TIME_LIMIT: _wake_limit,
}

"""Making everything derived again from the primary facts."""

from ganger.schemas.enums import Phase
from ganger.streams.kernel.backfill import estimates, manners, promised, tuning
from ganger.streams.kernel.digest import (
    holds_all,
    loose_entities,
    seal,
    standing_terms,
    stride_of,
)
from ganger.streams.kernel.entities import ENDED, Entity, Job, Queue
from ganger.streams.kernel.jobs import deadlines, stale
from ganger.streams.kernel.jobs.attempts import pending_actions, ttl_ns
from ganger.streams.kernel.jobs.lifecycle import WAITING
from ganger.streams.kernel.jobs.lines import line_up
from ganger.streams.kernel.jobs.submissions import count_waiters
from ganger.streams.kernel.jobs.waiting import TimedWaiting, Waiting
from ganger.streams.kernel.nodes import occupancy, reservations, zones
from ganger.streams.kernel.preemption.claims_book import book, count
from ganger.streams.kernel.preemption.evictions import watch_protection
from ganger.streams.kernel.queues import held_quota, priorities, quota, tallies
from ganger.streams.kernel.settings import RESERVE_ALL
from ganger.streams.kernel.state import Indexes, State
from ganger.streams.kernel.timers import Timers, Wake


def rebuild(state: State) -> bytes:
    """Everything. Returns the digest. O(all entities)."""
    stirred = state.stirred
    state.indexes = Indexes(state.nodes, state.jobs)
    state.total = [0] * len(state.table.names)
    state.barred = [0] * len(state.table.names)
    for job in state.jobs.values():
        job.claims = job.phase is Phase.INQUEUE
    for node in state.nodes:
        node.bucket = None
        node.partial = ()
        node.labels = {}
        for pod in node.pods.values():
            owner = state.jobs[pod.job]
            if owner.pods is None or owner.pods.get(pod.index) is not pod:
                state.indexes.ghosts[(pod.job, pod.index, pod.attempt)] = pod
            else:
                pod.is_untold = holds_all(owner)
    reserved = reservations.closed_nodes(state)
    for seq in sorted(state.claims):
        book(state, state.jobs[seq], state.claims[seq])
    for node in state.nodes:
        node.is_reserved = node.report.node in reserved
        occupancy.recount(state, node)
        node.capacity = {}
        node.barred = {}
        node.counted = None
        occupancy.count_in(state, node)
    reservations.read(state)
    read_queues(state)
    recount_queues(state)
    rebuild_lines(state)
    rebuild_timers(state)
    state.waiting_count = sum(1 for job in state.jobs.values() if job.phase in WAITING)
    for job in state.jobs.values():
        for seq in job.dependencies:
            state.indexes.dependents.setdefault(seq, []).append(job.seq)
    for waiting in state.indexes.dependents.values():
        waiting.sort()
    state.stirred = stirred  # lining up is not news
    return retouch(state)


def read_queues(state: State) -> None:
    """Bounds and links of the queue tree from the queues' configurations."""
    table = state.table
    for queue in state.queues:
        config = queue.config
        queue.guarantee = table.vector(config.guarantee)
        queue.capability = table.vector(config.capability)
        queue.given = table.vector(config.deserved)
        queue.quotas = _quotas(state, queue)
        queue.stride = queue.stride or stride_of(queue.index)
    state.widen()
    quota.relink(state)
    tallies.recount_all(state)
    state.indexes.waiters = count_waiters(state)


def _quotas(state: State, queue: Queue) -> dict[int, tuple[int, int, int]]:
    """Quota by flavor: nominal, borrowing and lending limit, by the place of `flavor|resource`."""
    return {
        state.table.place(f"{quota.flavor}|{bound.resource}"): (
            bound.nominal,
            bound.borrowing_limit,
            bound.lending_limit,
        )
        for group in queue.config.resource_groups
        for quota in group.flavors
        for bound in quota.bounds
    }


def recount_queues(state: State) -> None:
    """Counts of the queue tree, and of the cell, from jobs and pods."""
    width = len(state.table.names)
    state.indexes.claims.clear()
    vectors = [state.used, state.admitted]
    for queue in state.queues:
        vectors += [queue.used, queue.admitted, queue.waiting, queue.leaving]
        queue.jobs = 0
        queue.held.clear()
        queue.holders.clear()
    for vector in vectors:
        vector[:] = [0] * width  # in place: queues refer to the vectors of those above them
    state.indexes.priorities = {}
    for job in state.jobs.values():
        job.held_quota = None
        if job.phase not in ENDED:
            _count_job(state, job)
            priorities.join(state.indexes.priorities, job)
    for seq, claim in state.claims.items():
        count(state, state.jobs[seq], claim, 1)
    state.indexes.gate_grew = True


def _count_job(state: State, job: Job) -> None:
    queue = state.queues[job.queue]
    for level in queue.chain:
        level.jobs += 1
    if job.pods and job.shape.is_elastic:
        state.indexes.elastic[job.seq] = job
    for pod in (job.pods or {}).values():
        quota.charge(state, queue, pod.shape.charges, 1)
        if quota.is_departing(pod):
            quota.depart(state, queue, pod.shape.charges, 1)
    for role, shape in zip(job.roles, job.shape.shapes, strict=True):
        quota.expect(queue, shape.charges, role.pending())
    if job.flavors:
        held_quota.recount(state, job)
    if job.claims:
        job.claims = False
        quota.claim(state, job)


def rebuild_lines(state: State) -> None:
    """Waiting jobs in the order that the policy in force gives them."""
    indexes = state.indexes
    indexes.gate = Waiting(state.jobs, by_pod=False)
    if state.policy.is_timed:
        indexes.inqueue = TimedWaiting(state.jobs, by_pod=True, stir=state.stir)
    else:
        indexes.inqueue = Waiting(state.jobs, by_pod=True)
    estimates.rebuild(state)
    promised.rebuild(state)
    indexes.zero = {}
    indexes.gate_grew = True
    deadlines.find_overdue(state)
    for job in state.jobs.values():
        job.key = job.group = None
    for job in state.jobs.values():
        line_up(state, job)


def rebuild_timers(state: State) -> None:
    """What time alone may change."""
    timers = state.indexes.timers = Timers()
    state.indexes.ids_kept_ns = 0
    for zone in state.zones.values():
        zones.watch(state, zone)
    for reservation in state.reservations.values():
        for at_ns in (reservation.from_ns, reservation.to_ns):
            if at_ns > state.clock_ns:
                timers.at(at_ns, Wake.RESERVATION)
    for job in state.jobs.values():
        if job.phase in ENDED:
            timers.remember_until(job.ended_ns + ttl_ns(state, job), job.seq)
        else:
            deadlines.watch(state, job)
        if job.stale_since_ns:
            stale.book(state, job)
        if job.not_before_ns > state.clock_ns:
            timers.at(job.not_before_ns, Wake.JOB_BACKOFF, job.seq)
        if job.admitted_ns and job.phase is Phase.INQUEUE:
            due = job.admitted_ns + state.policy.settings.inqueue_ns
            timers.at(due, Wake.INQUEUE, job.seq)
        if job.waiting_since_ns and job.phase not in ENDED:
            for action in pending_actions(job):
                due = job.waiting_since_ns + action.timeout_ns
                if due > state.clock_ns:
                    timers.at(due, Wake.JOB_PENDING, job.seq)
        estimates.watch_limits(state, job)
        for pod in (job.pods or {}).values():
            if pod.phase is Phase.ALLOCATED:
                due = pod.allocated_ns + state.policy.settings.start_timeout_ns
                timers.at(due, Wake.POD_START, pod.job, pod.index, pod.attempt)
            if pod.notice_until_ns:
                until = pod.notice_until_ns
                timers.at(until, Wake.NOTICE, pod.job, pod.index, pod.attempt)
            if pod.protected_until_ns or state.policy.protected:
                watch_protection(state, job, pod)
    for claim in state.claims.values():
        timers.at(claim.until_ns, Wake.CLAIM, claim.job)
    timing = state.policy.timing
    if timing is not None and timing.reserve >= RESERVE_ALL:
        for booking in state.bookings.values():
            timers.at(booking.start_ns, Wake.BOOKED, booking.job)
    manners.watch(state)
    tuning.watch(state)


def retouch(state: State) -> bytes:
    """Make every digest term again. Returns the digest."""
    state.digest = standing_terms(state)
    state.dirty = []
    pods = [pod for node in state.nodes for pod in node.pods.values()]
    entities: list[Entity] = [*state.nodes, *state.queues, *state.jobs.values(), *pods]
    entities += loose_entities(state)
    for entity in entities:
        entity.term = 0
        entity.is_dirty = False
        state.touch(entity)
    return seal(state)

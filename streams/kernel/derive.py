"""Making everything derived again from the primary facts."""

from ganger.schemas.enums import Phase
from ganger.streams.kernel import occupancy, quota
from ganger.streams.kernel.attempts import ttl_ns
from ganger.streams.kernel.digest import (
    holds_all,
    loose_entities,
    seal,
    standing_terms,
    stride_of,
)
from ganger.streams.kernel.entities import ENDED, Entity, Job, Queue
from ganger.streams.kernel.lifecycle import WAITING
from ganger.streams.kernel.lines import line_up
from ganger.streams.kernel.reservations import reserved_nodes
from ganger.streams.kernel.state import Indexes, State
from ganger.streams.kernel.timers import Timers, Wake
from ganger.streams.kernel.waiting import Waiting


def rebuild(state: State) -> bytes:
    """Everything. Returns the digest. O(all entities)."""
    state.indexes = Indexes(state.nodes, state.jobs)
    state.total = [0] * len(state.table.names)
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
    reserved = reserved_nodes(state)
    for index, mask in enumerate(claimed_masks(state)):
        state.nodes[index].claimed = mask
    for node in state.nodes:
        node.is_reserved = node.report.node in reserved
        occupancy.recount(state, node)
        node.capacity = {}
        node.counted = None
        occupancy.count_in(state, node)
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


def claimed_masks(state: State) -> list[int]:
    """Cards of each node that claims are on."""
    masks = [0] * len(state.nodes)
    for claim in state.claims.values():
        for entry in claim.entries:
            masks[entry.node] |= entry.mask
    return masks


def recount_queues(state: State) -> None:
    """Counts of the queue tree, and of the cell, from jobs and pods."""
    width = len(state.table.names)
    state.indexes.claims.clear()
    vectors = [state.used, state.admitted]
    for queue in state.queues:
        vectors += [queue.used, queue.admitted, queue.waiting]
        queue.jobs = 0
    for vector in vectors:
        vector[:] = [0] * width  # in place: queues refer to the vectors of those above them
    for job in state.jobs.values():
        if job.phase not in ENDED:
            _count_job(state, job)
    state.indexes.gate_grew = True


def _count_job(state: State, job: Job) -> None:
    queue = state.queues[job.queue]
    for level in queue.chain:
        level.jobs += 1
    for pod in (job.pods or {}).values():
        quota.charge(state, queue, pod.shape.charges, 1)
    for role, shape in zip(job.roles, job.shape.shapes, strict=True):
        quota.expect(queue, shape.charges, role.pending())
    if job.claims:
        job.claims = False
        quota.claim(state, job)


def rebuild_lines(state: State) -> None:
    """Waiting jobs in the order that the policy in force gives them."""
    indexes = state.indexes
    indexes.gate = Waiting(state.jobs, by_pod=False)
    indexes.inqueue = Waiting(state.jobs, by_pod=True)
    indexes.zero = {}
    indexes.gate_grew = True
    for job in state.jobs.values():
        job.key = job.group = None
    for job in state.jobs.values():
        line_up(state, job)


def rebuild_timers(state: State) -> None:
    """What time alone may change."""
    timers = state.indexes.timers = Timers()
    for reservation in state.reservations.values():
        for at_ns in (reservation.from_ns, reservation.to_ns):
            if at_ns > state.clock_ns:
                timers.at(at_ns, Wake.RESERVATION)
    for job in state.jobs.values():
        if job.phase in ENDED:
            timers.at(job.ended_ns + ttl_ns(state, job), Wake.JOB_TTL, job.seq)
        if job.not_before_ns > state.clock_ns:
            timers.at(job.not_before_ns, Wake.JOB_BACKOFF, job.seq)
        for pod in (job.pods or {}).values():
            if pod.phase is Phase.ALLOCATED:
                due = pod.allocated_ns + state.policy.settings.start_timeout_ns
                timers.at(due, Wake.POD_START, pod.job, pod.index, pod.attempt)


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

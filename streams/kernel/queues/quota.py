"""The queue tree: who uses, waits for and may have how much. All share rules are functions over it.

Quantities are vectors by resource place (module `resources`), summed over subtrees and kept up to
date by `charge` and its kin; `derive` makes them again from jobs and pods.
"""

from math import lcm

from ganger.schemas.enums import QueueState
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import ROOT, Job, Pod, Queue
from ganger.streams.kernel.queues.shares import Claim, divide
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import (
    CARD_MILLI,
    CARDS,
    CPU,
    MEMORY,
    SHARED,
    JobShape,
    Need,
    Shape,
)
from ganger.streams.kernel.state import State

_DRAINED = (QueueState.DRAINING, QueueState.EVICTING)

SUBMISSION_LIMITS = ("waiting_jobs", "submissions_per_hour")
"""What limits of a queue bound at the moment of submission."""

Charges = tuple[tuple[int, int], ...]


def charge(state: State, queue: Queue, charges: Charges, count: int) -> None:
    """`count` pods of a request begin (or, negative, end) to hold what they ask."""
    for place, amount in charges:
        amount *= count
        for used in queue.used_up:
            used[place] += amount
    indexes = state.indexes
    indexes.gate_grew = True  # also when more is used: see `idle_left`
    indexes.idle_left = None
    if count < 0:
        indexes.zero_grew = True
        relent(state, queue)


def expect(queue: Queue, charges: Charges, count: int) -> None:
    """`count` pods of a request begin (or, negative, cease) to wait."""
    for waiting in queue.waiting_up:
        for place, amount in charges:
            waiting[place] += amount * count


def depart(state: State, queue: Queue, charges: Charges, count: int) -> None:
    """`count` attempts of a request, which hold what they ask, begin (negative: cease) to leave."""
    for leaving in queue.leaving_up:
        for place, amount in charges:
            leaving[place] += amount * count
    if count > 0:
        relent(state, queue)


def relent(state: State, queue: Queue) -> None:
    """Ask those again whom limits of the queue, or of one above it, have stopped."""
    indexes = state.indexes
    if indexes.inqueue.limited or indexes.gate.limited:
        for level in queue.chain:
            indexes.inqueue.relent(level.index)
            indexes.gate.relent(level.index)


def is_departing(pod: Pod) -> bool:
    """Whether a live attempt counts as leaving: it was told to end, or that it will be."""
    return pod.evict_seq >= 0 or pod.notice_until_ns > 0


def allocated(queue: Queue, place: int) -> int:
    """What a queue holds and is not about to give back: what share rules judge by."""
    return queue.used[place] - queue.leaving[place]


def claim(state: State, job: Job) -> None:
    """The minimum of an admitted job begins to count as demand."""
    if not job.claims:
        job.claims = True
        _admit(state, job, 1)


def disclaim(state: State, job: Job) -> None:
    """It ceases to: placed, or ended."""
    if job.claims:
        job.claims = False
        _admit(state, job, -1)
        state.indexes.gate_grew = True


def is_counted(state: State, job: Job) -> bool:
    """Whether an admitted job counts as demand while it waits for its cards."""
    return not state.policy.admits_unasked or job.request.start_request is not None


def _admit(state: State, job: Job, sign: int) -> None:
    if state.policy.admits_unasked and not is_counted(state, job):
        return
    indexes, shape, queue = state.indexes, job.shape, state.queues[job.queue]
    indexes.idle_left = None
    claims = indexes.claims
    count = claims.get(shape, 0) + sign
    if count:
        claims[shape] = count
    else:
        del claims[shape]
    for place, amount in shape.min_charges:
        amount *= sign
        for admitted in queue.admitted_up:
            admitted[place] += amount
    if sign < 0 and indexes.gate.limited:
        for level in queue.chain:
            indexes.gate.relent(level.index)


def idle_left(state: State) -> Need:
    """What is idle beyond the admitted jobs that wait, each of which it could hold.

    An admitted job that asks more than is idle, or pods of which too few fit on nodes as they are,
    stands in nobody's way: it has to wait until more is freed. So this can grow when more is used.
    O(shapes of waiting jobs) after a change.
    """
    left = state.indexes.idle_left
    if left is None:
        idle = [state.total[place] - state.used[place] for place in SHARED]
        if state.indexes.reserved:
            for place in SHARED:
                idle[place] += _claimed_of_others(state, place)
        cards, cpu, memory = idle
        for shape, count in state.indexes.claims.items():
            need = shape.min_needs[0]
            fits = need[0] <= idle[0] and need[1] <= idle[1] and need[2] <= idle[2]
            if fits and _has_room(state, shape):
                cards -= need[0] * count
                cpu -= need[1] * count
                memory -= need[2] * count
        left = state.indexes.idle_left = (cards, cpu, memory)
    return left


def _has_room(state: State, shape: JobShape) -> bool:
    """Whether, by cards alone, nodes as they are hold the pods that a start must place."""
    room, wanted = 0, shape.fresh_total
    for pods, need in zip(shape.shapes, shape.fresh_needs, strict=True):
        found = state.indexes.nodes.room(pods, max(need, wanted))
        if found < need:
            return False
        room += found
    return room >= wanted


def idle(state: State, place: int) -> int:
    """What nobody holds of a resource, and no claim is on."""
    left = state.total[place] - state.used[place]
    return left + _claimed_of_others(state, place) if state.indexes.reserved else left


def _claimed_of_others(state: State, place: int) -> int:
    """What claims are on and attempts that will end hold still: it counts as used by both.

    O(places claimed + attempts on their nodes).
    """
    amount = 0
    for index, claims in state.indexes.reserved.items():
        node = state.nodes[index]
        held = 0
        for pod in node.pods.values():
            held |= pod.mask
        for own in claims.values():
            for shape, entry in own:
                if not entry.mask or entry.mask & held:
                    asked = dict(shape.charges).get(place, 0)
                    if place == CARDS and not entry.card_milli:
                        asked = (entry.mask & held).bit_count() * CARD_MILLI
                    amount += asked
    return amount


def headroom(
    queue: Queue, shape: Shape, wanted: int, held: dict[int, int]
) -> tuple[int, Refusal | None]:
    """Pods of a shape, of `wanted`, that capabilities up the tree allow; what stops the next one.

    `held`: what is placed for the queue but not charged to it yet, by resource place.
    """
    count = wanted
    refusal = None
    for level in queue.chain:
        for place, amount in shape.charges:
            limit = level.capability.get(place)
            if limit is not None:
                free = limit - level.used[place] - held.get(place, 0)
                if free < amount * count:
                    count = max(0, free // amount)
                    refusal = Refusal(
                        Reason.QUEUE_CAPABILITY, amount * wanted, free, limit, level.index, place
                    )
    return count, refusal


def allowed(
    state: State, job: Job, shape: Shape, wanted: int, held: dict[int, int]
) -> tuple[int, Refusal | None]:
    """The same of a job's pods, with the rules of the policy that count for its queue."""
    queue = state.queues[job.queue]
    count, refusal = wanted, None
    if queue.is_capped:
        count, refusal = headroom(queue, shape, wanted, held)
    for hook in state.policy.allocatable:
        fewer, why = hook(state, job, shape, count, held)
        if fewer < count:
            count, refusal = fewer, why
    return count, refusal


def is_over_limit(state: State, job: Job) -> bool:
    """Whether limits of its queue, or rules that count for it, keep out pods that a job waits to
    place, as of now.
    """
    if not (state.queues[job.queue].is_capped or state.policy.allocatable):
        return False
    held: dict[int, int] = {}
    for role, shape in zip(job.roles, job.shape.shapes, strict=True):
        wanted = role.pending()
        if allowed(state, job, shape, wanted, held)[0] < wanted:
            return True
        for place, amount in shape.charges:
            held[place] = held.get(place, 0) + amount * wanted
    return False


def relink(state: State) -> None:
    """Make the tree's links and scales again after a queue was configured."""
    queues = state.queues
    state.indexes.queue_epoch += 1
    for queue in queues:
        queue.children = []
    common: dict[int, int] = {}  # of the weights below a parent
    for queue in queues:
        if not queue.is_removed:
            if queue.parent != ROOT:
                queues[queue.parent].children.append(queue.index)
            common[queue.parent] = lcm(common.get(queue.parent, 1), max(1, queue.config.weight))
    for queue in queues:
        chain = [queue]
        while chain[-1].parent != ROOT:
            chain.append(queues[chain[-1].parent])
        queue.chain = tuple(chain)
        queue.used_up = (*[level.used for level in chain], state.used)
        queue.waiting_up = tuple([level.waiting for level in chain])
        queue.leaving_up = tuple([level.leaving for level in chain])
        queue.admitted_up = (*[level.admitted for level in chain], state.admitted)
        queue.is_closed = any(level.config.state is not QueueState.OPEN for level in chain)
        queue.is_draining = any(level.config.state in _DRAINED for level in chain)
        queue.is_capped = any(level.capability for level in chain)
        queue.tenants = tuple([level.config.tenants for level in chain if level.config.tenants])
        queue.gates = tuple(
            [
                (level, limit)
                for level in chain
                for limit in level.config.limits
                if limit.resource in SUBMISSION_LIMITS
            ]
        )
        queue.bounds = tuple(
            [
                (level, limit)
                for level in chain
                for limit in level.config.limits
                if limit.resource not in SUBMISSION_LIMITS
            ]
        )
        queue.min_runtimes_ns = (
            _nearest([level.config.preempt_min_runtime_ns for level in chain]),
            _nearest([level.config.reclaim_min_runtime_ns for level in chain]),
        )
        queue.weight_scale = common.get(queue.parent, 1) // max(1, queue.config.weight)


def _nearest(values: list[int]) -> int:
    """The first that says something, going up the tree; -1: none does."""
    return next((value for value in values if value >= 0), -1)


def weighted_share(state: State, queue: Queue, admits: bool = False) -> int:
    """The queue's dominant share over its weight, times a factor common to its siblings.

    Exact: used / total / weight over a common denominator, so shares compare as ints. `admits`:
    admitted demand counts as used.
    """
    cards, cpu, memory = state.scales
    used = queue.used
    if admits:
        more = queue.admitted
        share = max(
            (used[CARDS] + more[CARDS]) * cards,
            (used[CPU] + more[CPU]) * cpu,
            (used[MEMORY] + more[MEMORY]) * memory,
        )
    else:
        share = max(used[CARDS] * cards, used[CPU] * cpu, used[MEMORY] * memory)
    return share * queue.weight_scale


def is_below_guarantee(queue: Queue, admits: bool = False) -> bool:
    """Whether the queue uses less than its guarantee of a resource that it asks for."""
    for place, floor in queue.guarantee.items():
        used = queue.used[place]
        wanted = min(floor, used + queue.waiting[place])
        if used + (queue.admitted[place] if admits else 0) < wanted:
            return True
    return False


def deserved(state: State) -> dict[int, tuple[int, ...]]:
    """What each queue should have of cards, cpu and memory at this moment, by queue id.

    Weighted max-min down the tree, one resource at a time: the top level divides the cell's
    capacity, the children of a queue divide its share. Bounds: guarantee below; above, the least of
    the capability, what the queue asks for (used and waiting) and, where one is given, its
    `deserved`. O(queues x depth); nothing is stored.
    """
    result: dict[int, tuple[int, ...]] = {}
    level = [(tuple(state.total[p] for p in SHARED), [q for q in state.queues if q.parent == ROOT])]
    while level:
        below = []
        for amounts, queues in level:
            named = sorted(
                (q for q in queues if not q.is_removed), key=lambda q: (q.config.queue, q.index)
            )
            parts = []
            for place, amount in zip(SHARED, amounts, strict=True):
                parts.append(divide(amount, [_claim_on(q, place) for q in named]))
            for position, queue in enumerate(named):
                result[queue.index] = tuple(part[position] for part in parts)
                children = [state.queues[child] for child in queue.children]
                if children:
                    below.append((result[queue.index], children))
        level = below
    return result


def _claim_on(queue: Queue, place: int) -> Claim:
    cap = queue.used[place] + queue.waiting[place]
    for bounds in (queue.capability, queue.given):
        if place in bounds:
            cap = min(cap, bounds[place])
    return Claim(max(1, queue.config.weight), queue.guarantee.get(place, 0), cap)

"""What each queue may have at most, and what it is due: the queue tree as share rules see it.

The arithmetic is that of `fairness.proportion`; this module makes its arguments of the state and
keeps the answers under versions, so that a cycle in which no request, no capacity and no queue has
changed computes nothing. Every answer is a function of the state alone: whether it was kept cannot
be seen.

Shared are the resources of nodes, pod slots aside: capacity that is neither lost nor out of use
(nodes that are cordoned or drain). Quantities by resource place, for every shared resource.
"""

from collections.abc import Callable

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import ROOT, Job, Queue, Taker
from ganger.streams.kernel.fairness.proportion import divide_by_key, real_capability
from ganger.streams.kernel.queues.quota import allocated, is_departing
from ganger.streams.kernel.queues.shares import Claim
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import PODS, UNBOUND
from ganger.streams.kernel.state import Shares, State

Amounts = dict[int, int]
"""By resource place."""

Charges = tuple[tuple[int, int], ...]

FLAVORED = "|"
"""Stands in the names of resources that are counted by flavor: they are no node's."""


def shared_places(state: State) -> list[int]:
    """Places of the resources that queues share, ascending."""
    names = state.table.names
    return [p for p in range(len(names)) if p != PODS and FLAVORED not in names[p]]


def capacity(state: State) -> Amounts:
    """What there is to share: capacity of known nodes without what is out of use."""
    return {p: state.total[p] - state.barred[p] for p in shared_places(state)}


def most(state: State, endless: bool = False) -> dict[int, Amounts]:
    """The most each queue can have, by queue: what the guarantees of its siblings leave of what its
    parent can have, and its capability.

    `endless`: top-level queues are bounded by their capability alone and not by what the cell has
    (Volcano's hierarchy). Not to be changed. O(queues x resources), kept until either changes.
    """
    return _kept(state, "endless" if endless else "most", _most).amounts


def given(state: State, endless: bool = False) -> dict[int, Amounts]:
    """What administrators have given each queue as its due, by queue: at least its guarantee and,
    unless `endless`, at most what it can have. Resources without a positive due are left out.
    """
    return _kept(state, "given endless" if endless else "given", _given).amounts


def dues(state: State) -> Shares:
    """What each queue with jobs is due at the beginning of this step, by queue.

    Weighted max-min down the tree, one resource at a time: the top level divides the cell, the
    children of a queue divide its share. Bounds: below, the guarantee; above, what the queue can
    have and what it asks for, which is what it holds and what its jobs wait for. A queue that was
    given its due has just that, as far as it asks for it. A guarantee above the request is kept for
    its queue.

    Within a step dues do not move: what is placed was asked for before. O(queues x resources) to
    see whether anything has changed since the last step, O(resources x n log n) if so.
    """
    kept = state.indexes.shares.get("due")
    if kept is not None and kept.cause == state.cause and kept.epochs == epochs(state):
        return kept
    places = shared_places(state)
    requests = [
        queue.used[place] - queue.leaving[place] + queue.waiting[place]
        for queue in state.queues
        for place in places
    ]
    if kept is None or kept.epochs != epochs(state) or kept.requests != requests:
        kept = Shares(_divided(state, places), epochs(state), requests)
        kept.contended = contended(state)
        state.indexes.shares["due"] = kept
    kept.cause = state.cause
    return kept


def contended(state: State) -> tuple[int, ...]:
    """Resources of which more is asked for than there is, as at the beginning of this step: cheaper
    to have than dues. O(top-level queues x resources).
    """
    kept = state.indexes.shares.get("contended")
    if kept is None or kept.cause != state.cause or kept.epochs != epochs(state):
        tops = [queue for queue in state.queues if queue.parent == ROOT]
        total, barred, used = state.total, state.barred, state.used
        short = tuple(
            [
                p
                for p in shared_places(state)
                if total[p] - barred[p] - used[p] < sum([q.waiting[p] - q.leaving[p] for q in tops])
            ]
        )
        kept = Shares({}, epochs(state), cause=state.cause, contended=short)
        state.indexes.shares["contended"] = kept
    return kept.contended


def requested(charges: Charges) -> Charges:
    """Of what is asked for, what share rules look at: pod slots are not."""
    return tuple([(place, amount) for place, amount in charges if place != PODS])


def demand(charges: tuple[Charges, ...], counts: tuple[int, ...]) -> Amounts:
    """What so many pods of each role ask for together, of what share rules look at."""
    asked: Amounts = {}
    for role, count in zip(charges, counts, strict=True):
        for place, amount in requested(role) if count else ():
            asked[place] = asked.get(place, 0) + amount * count
    return asked


def wants(taker: Taker) -> Amounts:
    """What a taker must start, of what share rules look at."""
    return demand(tuple([shape.charges for shape in taker.job.shape.shapes]), taker.counts)


def room_for(state: State, job: Job, bounds: dict[int, Amounts]) -> Refusal | None:
    """Why the queues up the tree have no room to admit a job: with what they hold and have admitted
    its minimum would pass their bounds. None: they have. Only what it asks for counts, and what
    jobs hold beyond their minimums does not: it can be taken back.
    """
    for level in state.queues[job.queue].chain:
        limits = bounds[level.index]
        for place, asked in requested(job.shape.min_charges):
            limit = limits.get(place, 0)
            free = limit - allocated(level, place) - level.admitted[place]
            if asked > free:
                free += surplus(state).get(level.index, {}).get(place, 0)
            if asked > free:
                return Refusal(Reason.QUEUE_CAPABILITY, asked, free, limit, level.index, place)
    return None


def surplus(state: State) -> dict[int, Amounts]:
    """What the jobs of each queue hold beyond their minimums, as this step began.

    O(elastic jobs with pods) once in a step.
    """
    kept = state.indexes.shares.get("surplus")
    if kept is not None and kept.cause == state.cause:
        return kept.amounts
    found: dict[int, Amounts] = {}
    elastic = state.indexes.elastic
    for seq in [seq for seq, job in elastic.items() if not job.pods]:
        del elastic[seq]
    for job in elastic.values():
        minimum = dict(job.shape.min_charges)
        for place, amount in holding(state, job).items():
            more = amount - minimum.get(place, 0)
            for level in state.queues[job.queue].chain if more > 0 else ():
                own = found.setdefault(level.index, {})
                own[place] = own.get(place, 0) + more
    state.indexes.shares["surplus"] = Shares(found, epochs(state), cause=state.cause)
    return found


def holding(state: State, job: Job) -> Amounts:
    """What the pods of a job hold, or have claimed, without those that leave."""
    counts = [role.live for role in job.roles]
    width = len(counts)
    if any(state.queues[job.queue].leaving):
        for index, pod in (job.pods or {}).items():
            if is_departing(pod):
                counts[index % width] -= 1
    claim = state.claims.get(job.seq)
    if claim is not None:
        for entry in claim.entries:
            counts[entry.role] += 1
    return demand(tuple([shape.charges for shape in job.shape.shapes]), tuple(counts))


def relent_changed(state: State) -> None:
    """Offer again what limits of queues stopped, if capacity or the tree has changed since the last
    call.
    """
    kept = state.indexes.shares.get("relented")
    if kept is None or kept.epochs != epochs(state):
        state.indexes.shares["relented"] = Shares({}, epochs(state))
        relent_all(state)


def relent_all(state: State) -> None:
    """Offer again what limits of queues stopped."""
    for waiting in (state.indexes.gate, state.indexes.inqueue):
        for queue in sorted(waiting.limited):
            waiting.relent(queue)


def epochs(state: State) -> tuple[int, int]:
    return state.indexes.capacity_epoch, state.indexes.queue_epoch


def _kept(state: State, name: str, make: Callable[[State, bool], dict[int, Amounts]]) -> Shares:
    kept = state.indexes.shares.get(name)
    if kept is None or kept.epochs != epochs(state):
        kept = Shares(make(state, name.endswith("endless")), epochs(state))
        state.indexes.shares[name] = kept
    return kept


def _most(state: State, endless: bool) -> dict[int, Amounts]:
    result: dict[int, Amounts] = {}
    whole = {p: UNBOUND if endless else amount for p, amount in capacity(state).items()}
    level = [(whole, _children(state, ROOT))]
    for bound, queues in level:  # grows on the way down
        for place, amount in bound.items():
            guaranteed = sum(queue.guarantee.get(place, 0) for queue in queues)
            for queue in queues:
                limit = queue.capability.get(place)
                floor = queue.guarantee.get(place, 0)
                cap = real_capability(amount, guaranteed, floor, limit)
                result.setdefault(queue.index, {})[place] = cap
        for queue in queues:
            if queue.children:
                level.append((result[queue.index], _children(state, queue.index)))
    return result


def _given(state: State, endless: bool) -> dict[int, Amounts]:
    bounds = most(state, endless)
    result = {}
    for queue in state.queues:
        if queue.is_removed:
            continue
        due = {}
        for place in sorted({**queue.given, **queue.guarantee}):
            amount = queue.given.get(place, 0)
            if not endless and place in bounds[queue.index]:
                amount = min(amount, bounds[queue.index][place])
            amount = max(amount, queue.guarantee.get(place, 0))
            if amount > 0:
                due[place] = amount
        result[queue.index] = due
    return result


def _divided(state: State, places: list[int]) -> dict[int, Amounts]:
    bounds = most(state)
    result: dict[int, Amounts] = {}
    level = [(capacity(state), _children(state, ROOT))]
    for amounts, queues in level:  # grows on the way down
        busy = [queue for queue in queues if queue.jobs]
        idle = [queue for queue in queues if not queue.jobs]
        for place in places:
            is_asked = state.used[place] or any(queue.waiting[place] for queue in busy)
            if not (is_asked or any(queue.guarantee for queue in queues)):
                for queue in busy:
                    result.setdefault(queue.index, {})[place] = 0
                continue
            # what queues without jobs are guaranteed is kept for them
            amount = amounts[place] - sum(queue.guarantee.get(place, 0) for queue in idle)
            claims = [_claim_on(queue, place, bounds) for queue in busy]
            for queue, part in zip(busy, _parts(max(0, amount), busy, claims), strict=True):
                result.setdefault(queue.index, {})[place] = part
        for queue in busy:
            if queue.children:
                level.append((result[queue.index], _children(state, queue.index)))
    return result


def _parts(amount: int, queues: list[Queue], claims: list[tuple[int, int]]) -> list[int]:
    """What each queue gets of an amount, by its floor and cap."""
    caps = [cap for _, cap in claims]
    if sum(caps) <= amount and all(queue.config.weight for queue in queues):
        return caps  # there is enough for all
    named = [
        ((queue.config.queue,), Claim(queue.config.weight, floor, cap))
        for queue, (floor, cap) in zip(queues, claims, strict=True)
    ]
    return divide_by_key(amount, named)


def _claim_on(queue: Queue, place: int, bounds: dict[int, Amounts]) -> tuple[int, int]:
    """The least and the most that a queue is to have of a resource."""
    request = queue.used[place] - queue.leaving[place] + queue.waiting[place]
    cap = min(bounds[queue.index][place], request)
    floor = queue.guarantee.get(place, 0)
    due = queue.given.get(place)
    if due is not None:
        cap = min(cap, due)
        floor = max(floor, cap)
    return floor, max(floor, cap)


def _children(state: State, parent: int) -> list[Queue]:
    """Queues below one, or at the top, by id."""
    if parent == ROOT:
        return [q for q in state.queues if q.parent == ROOT and not q.is_removed]
    return [state.queues[child] for child in state.queues[parent].children]

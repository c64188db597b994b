"""fair_quota: a quota for each queue, and a fair share of what quotas leave; as in KAI.

The quota of a queue is what it is given as deserved, without a bound where nothing is said. What
quotas leave goes by priority, then by the queue's over-quota weights, lowered by past use
(`usage_k_milli`), in whole cards. Children of a queue divide its share.

Queues are served by priority; then those first that have no more than their share, those that stay
within their quota with the next job, those that have, with that job or else without it, the lesser
part of what they may come to, and those that may come to less. A job may have place made for it
while its queue stays within its share. A branch may be robbed while it has more than its share, or
more than its quota if the taker's is within its own; and the taker's branch ends within its share
or remains the less saturated of the two. Jobs that nobody may evict must fit into quota among their
like.
"""

from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter

from ganger.schemas.enums import Tri
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import ROOT, Job, Queue, Taker, Victim
from ganger.streams.kernel.fairness.capacity import share, share_key
from ganger.streams.kernel.fairness.fair_share import Demand, divide_fair
from ganger.streams.kernel.fairness.reclaimable import Branch, Claimer, Standing, Trial, may_start
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.queues.quota import allocated
from ganger.streams.kernel.queues.quota_tree import Amounts
from ganger.streams.kernel.queues.usage import past
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, Shape
from ganger.streams.kernel.state import Shares, State

NAME = "fair_quota"
HOOKS = ("queue_order", "allocatable", "preemptive", "reclaimable")

_FIRM = "fair_quota firm"


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`saturation`: how much less saturated than the robbed branch the taker's must remain once it
    is above its share; at least 1, the default, with three places.
    """
    reader = Arguments(arguments, where)
    saturation = reader.milli("saturation", 1000, 1000, 1_000_000)
    reader.close()

    def reclaimable(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
        """Those that may be taken after those before them; a bundle counts as one victim."""
        trial = Trial(_branches(state), _claimer(state, taker, saturation))
        victims = []
        for _, group in groupby(candidates, attrgetter("bundle")):
            bundle = list(group)
            queue = _name(bundle[0].job.queue)
            amounts = _named(_charged(bundle))
            if trial.take(queue, amounts):
                if trial.is_fair():
                    victims += bundle
                else:
                    trial.give_back(queue, amounts)
        return victims

    def preemptive(state: State, queue: Queue, taker: Taker) -> Refusal | None:
        claimer = _claimer(state, taker, saturation)
        if may_start(_branches(state)[claimer.queue], claimer):
            return None
        limit = shares(state).get(queue.index, {}).get(CARDS, 0)
        free = limit - allocated(queue, CARDS)
        asked = quota_tree.wants(taker).get(CARDS, 0)
        return Refusal(Reason.QUEUE_DESERVED, asked, free, limit, queue.index, CARDS)

    return Hooks(
        queue_order=_queue_key,
        allocatable=_allocatable,
        preemptive=preemptive,
        reclaimable=reclaimable,
        refresh=quota_tree.relent_changed,
    )


def shares(state: State) -> dict[int, Amounts]:
    """The fair share of each queue as this step began. O(resources x queues), kept for the step."""
    kept = state.indexes.shares.get(NAME)
    epochs = quota_tree.epochs(state)
    if kept is not None and kept.cause == state.cause and kept.epochs == epochs:
        return kept.amounts
    places = quota_tree.shared_places(state)
    found: dict[int, Amounts] = {}
    tops = [queue for queue in state.queues if queue.parent == ROOT and not queue.is_removed]
    levels = [(quota_tree.capacity(state), tops)]
    for amounts, queues in levels:  # grows on the way down
        for place in places:
            demands = [_demand(state, queue, place) for queue in queues]
            unit = CARD_MILLI if place == CARDS else 1
            parts, _ = divide_fair(
                amounts[place], demands, unit, state.policy.settings.usage_k_milli
            )
            for queue, part in zip(queues, parts, strict=True):
                found.setdefault(queue.index, {})[place] = part
        for queue in queues:
            if queue.children:
                below = [state.queues[child] for child in queue.children]
                # quotas may exceed what there is; there is no more to divide for that
                bounded = {p: min(n, amounts[p]) for p, n in found[queue.index].items()}
                levels.append((bounded, below))
    state.indexes.shares[NAME] = Shares(found, epochs, cause=state.cause)
    return found


def _demand(state: State, queue: Queue, place: int) -> Demand:
    name = state.table.names[place]
    weights = {weight.resource: weight.count for weight in queue.config.over_quota_weights}
    used_micro = 0
    if place == CARDS and state.policy.settings.usage_half_life_ns:
        everybody = sum(
            past(state).queues.get(other.index, 0)
            for other in state.queues
            if other.parent == queue.parent
        )
        if everybody:
            used_micro = past(state).queues.get(queue.index, 0) * 10**6 // everybody
    return Demand(
        queue.given.get(place),
        queue.capability.get(place),
        weights.get(name, queue.config.weight),
        allocated(queue, place) + queue.waiting[place],
        queue.config.priority,
        (queue.index,),
        used_micro,
    )


def _queue_key(state: State, queue: Queue, admits: bool) -> tuple[int, ...]:
    due = shares(state).get(queue.index, {})
    has = {place: allocated(queue, place) for place in due}
    # who is offered is no fact of the state: whether the first was tried in vain must not matter
    is_asked = queue.given and not queue.children
    head = state.indexes.inqueue.foremost(queue.index) if is_asked else None
    asked = dict(head.shape.min_charges) if head is not None else {}
    after = {place: amount + asked.get(place, 0) for place, amount in has.items()}
    is_over = any(after.get(place, 0) > quota for place, quota in queue.given.items())
    may_have = {place: _allowance(state, queue, place, amount) for place, amount in due.items()}
    return (
        -queue.config.priority,
        int(any(has[place] > amount for place, amount in due.items())),
        int(is_over),
        int(any(after[place] and not amount for place, amount in may_have.items())),
        share_key(share(after, may_have)) if any(may_have.values()) else 0,
        share_key(share(has, may_have)) if any(may_have.values()) else 0,
        may_have.get(CARDS, 0),
    )


def _allowance(state: State, queue: Queue, place: int, fair: int) -> int:
    """What a queue may come to: the greater of quota and fair share, within its capability."""
    limit, quota = queue.capability.get(place), queue.given.get(place)
    if quota is None:
        return quota_tree.capacity(state)[place] if limit is None else limit
    return max(quota, fair) if limit is None else min(limit, max(quota, fair))


def _allocatable(
    state: State, job: Job, shape: Shape, count: int, held: dict[int, int]
) -> tuple[int, Refusal | None]:
    """Jobs that nobody may evict stay within quota, with their like, up the tree."""
    if _is_evictable(job):
        return count, None
    refusal = None
    wanted = count
    firm = _firm(state)
    for level in state.queues[job.queue].chain:
        has = firm.get(level.index, {})
        for place, amount in quota_tree.requested(shape.charges):
            limit = level.given.get(place)
            if limit is None:
                continue
            free = limit - has.get(place, 0) - held.get(place, 0)
            if free < amount * count:
                count = max(0, free // amount)
                asked = amount * wanted
                refusal = Refusal(Reason.QUEUE_DESERVED, asked, free, limit, level.index, place)
    return count, refusal


def _is_evictable(job: Job) -> bool:
    return job.request.preemptable is not Tri.NO


def _firm(state: State) -> dict[int, Amounts]:
    """What jobs that nobody may evict hold, by queue. O(jobs) after any queue's use has changed."""
    kept = state.indexes.shares.get(_FIRM)
    if kept is not None and kept.epochs == quota_tree.epochs(state):
        if kept.sources == kept.vectors:
            return kept.amounts
    found: dict[int, Amounts] = {}
    for job in state.jobs.values():
        if (job.pods or job.seq in state.claims) and not _is_evictable(job):
            for place, amount in quota_tree.holding(state, job).items():
                for level in state.queues[job.queue].chain:
                    own = found.setdefault(level.index, {})
                    own[place] = own.get(place, 0) + amount
    sources = [vector for queue in state.queues for vector in (queue.used, queue.leaving)]
    vectors = [vector.copy() for vector in sources]
    state.indexes.shares[_FIRM] = Shares(
        found, quota_tree.epochs(state), sources=sources, vectors=vectors
    )
    return found


def _charged(victims: list[Victim]) -> Amounts:
    """What victims hold together."""
    amounts: Amounts = {}
    for victim in victims:
        for place, amount in quota_tree.requested(victim.pod.shape.charges):
            amounts[place] = amounts.get(place, 0) + amount
    return amounts


def _claimer(state: State, taker: Taker, saturation: int) -> Claimer:
    asked = _named(quota_tree.wants(taker))
    return Claimer(_name(taker.job.queue), asked, _is_evictable(taker.job), saturation)


def _branches(state: State) -> dict[str, Branch]:
    """The queue tree as the rules of reclaim see it. O(queues + jobs)."""
    due = shares(state)
    firm = _firm(state)
    return {
        _name(queue.index): Branch(
            _name(queue.index),
            _name(queue.parent) if queue.parent != ROOT else "",
            {
                str(place): Standing(
                    queue.given.get(place),
                    amount,
                    allocated(queue, place),
                    firm.get(queue.index, {}).get(place, 0),
                    queue.capability.get(place),
                )
                for place, amount in due[queue.index].items()
            },
        )
        for queue in state.queues
        if queue.index in due
    }


def _name(queue: int) -> str:
    return f"{queue}"


def _named(amounts: Mapping[int, int]) -> dict[str, int]:
    return {str(place): amount for place, amount in amounts.items()}

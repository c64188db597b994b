"""proportion: each queue is due its weighted part of the cell, within its guarantee, its capability
and what it asks for; as in Volcano.

A queue is served by priority, then by how much of its due it has. It is overused when it has all of
its due; no pod is placed that would take it beyond (of what the pod asks for), and to have place
made for it a job must stay within its due too. Others may take from it while it has more than its
due of anything. A job is admitted while what the queue holds and has admitted leaves room for its
minimum in what the queue can have at most.

Shares are computed down the queue tree; Volcano's are flat.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Queue, Taker, Victim
from ganger.streams.kernel.fairness.capacity import share, share_key
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.queues.quota import allocated
from ganger.streams.kernel.refusals import PERMIT, Refusal, Vote
from ganger.streams.kernel.resources import CARDS, Shape
from ganger.streams.kernel.state import State

NAME = "proportion"
HOOKS = ("queue_order", "overused", "allocatable", "preemptive", "reclaimable", "job_enqueue")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(
        queue_order=_queue_key,
        overused=_overused,
        allocatable=_allocatable,
        preemptive=_preemptive,
        reclaimable=_reclaimable,
        job_enqueue=_job_enqueue,
        refresh=refresh,
    )


def refresh(state: State) -> None:
    """Offer again what a due stopped that may have grown."""
    before = state.indexes.shares.get("due")
    if quota_tree.dues(state) is not before:
        quota_tree.relent_all(state)


def _due(state: State, queue: Queue) -> dict[int, int]:
    """What a queue is due; nothing while it has no jobs."""
    return quota_tree.dues(state).amounts.get(queue.index, {})


def _queue_key(state: State, queue: Queue, admits: bool) -> tuple[int, ...]:
    due = _due(state, queue)
    if not any(due.values()):
        return (-queue.config.priority, 0)
    has = {place: allocated(queue, place) for place in due}
    return (-queue.config.priority, share_key(share(has, due)))


def _overused(state: State, queue: Queue) -> Refusal | None:
    due = _due(state, queue)
    if all(amount <= allocated(queue, place) for place, amount in due.items()):
        has = allocated(queue, CARDS)
        return Refusal(Reason.QUEUE_OVERUSED, has, 0, due.get(CARDS, 0), queue.index, CARDS)
    return None


def _allocatable(
    state: State, job: Job, shape: Shape, count: int, held: dict[int, int]
) -> tuple[int, Refusal | None]:
    queue = state.queues[job.queue]
    if queue.is_closed:
        return 0, Refusal(Reason.QUEUE_CLOSED, queue=queue.index)
    due = _due(state, queue)
    refusal = None
    wanted = count
    for place, amount in quota_tree.requested(shape.charges):
        limit = due.get(place, 0)
        free = limit - allocated(queue, place) - held.get(place, 0)
        if free < amount * count:
            count = max(0, free // amount)
            asked = amount * wanted
            refusal = Refusal(Reason.QUEUE_DESERVED, asked, free, limit, queue.index, place)
    return count, refusal


def _preemptive(state: State, queue: Queue, taker: Taker) -> Refusal | None:
    if queue.is_closed:
        return Refusal(Reason.QUEUE_CLOSED, queue=queue.index)
    due = _due(state, queue)
    for place, asked in quota_tree.wants(taker).items():
        limit = due.get(place, 0)
        free = limit - allocated(queue, place)
        if asked > free:
            return Refusal(Reason.QUEUE_DESERVED, asked, free, limit, queue.index, place)
    return None


def _reclaimable(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    """Those whose queues, without the victims before them, have more than their due of anything."""
    left: dict[int, dict[int, int]] = {}
    victims = []
    for victim in candidates:
        queue = state.queues[victim.job.queue]
        due = _due(state, queue)
        has = left.get(queue.index)
        if has is None:
            has = left[queue.index] = {p: allocated(queue, p) for p in due}
        if any(amount > due[place] for place, amount in has.items()):
            victims.append(victim)
            for place, amount in quota_tree.requested(victim.pod.shape.charges):
                has[place] -= amount
    return victims


def _job_enqueue(state: State, job: Job) -> Vote:
    queue = state.queues[job.queue]
    if queue.is_closed:
        return Refusal(Reason.QUEUE_CLOSED, queue=queue.index)
    return quota_tree.room_for(state, job, quota_tree.most(state)) or PERMIT

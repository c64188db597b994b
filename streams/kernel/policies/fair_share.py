"""fair_share: queues by priority, those below their guarantee first, then by weighted dominant
share; those of weight 0 last.

The share is that of dominant resource fairness: the greatest of used / capacity over cards, cpu and
memory, divided by the queue's weight among its siblings. Serving the least share first fills queues
as water-filling does, so it leads to what `quota_tree.dues` computes where requests can be divided.

Nobody is kept from what is idle. But what a queue takes back from others, it takes within its due,
and nobody is taken below his: of each resource that is short, at every level of the tree up to the
branch that both have in common. So no queue can be robbed in turn for what it took.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Queue, Taker, Victim
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.queues.quota import allocated, is_below_guarantee, weighted_share
from ganger.streams.kernel.queues.quota_tree import Amounts
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.state import Refusal, State

NAME = "fair_share"
HOOKS = ("queue_order", "preemptive", "reclaimable")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(
        queue_order=_queue_key,
        preemptive=_preemptive,
        reclaimable=_reclaimable,
        spare=_spare,
    )


def _queue_key(state: State, queue: Queue, admits: bool) -> tuple[int, ...]:
    if queue.guarantee and is_below_guarantee(queue, admits):
        first = 0
    else:
        first = 1 if queue.config.weight else 2  # of no weight: only what nobody else can use
    return (-queue.config.priority, first, weighted_share(state, queue, admits))


def _asked(state: State, taker: Taker) -> Amounts:
    """What a taker asks of the resources that are short."""
    wants = quota_tree.wants(taker)
    short = quota_tree.contended(state)
    return {p: amount for p, amount in wants.items() if p in short}


def _preemptive(state: State, queue: Queue, taker: Taker) -> Refusal | None:
    asked = _asked(state, taker)
    if not asked:  # nobody has too much of anything that it needs
        return Refusal(Reason.QUEUE_DESERVED, queue=queue.index)
    due = quota_tree.dues(state).amounts.get(queue.index, {})
    for place, amount in asked.items():
        limit = due.get(place, 0)
        free = limit - allocated(queue, place)
        if amount > free:
            return Refusal(Reason.QUEUE_DESERVED, amount, free, limit, queue.index)
        there = _to_be_had(state, queue, place)
        if amount > there:
            return Refusal(Reason.RESOURCE_TOO_LITTLE, amount, max(0, there))
    return None


def _to_be_had(state: State, queue: Queue, place: int) -> int:
    """The most that a queue could have of a resource now: what is idle or leaves, and what others
    have beyond their dues. A quick no where a search would be in vain. O(queues).
    """
    dues = quota_tree.dues(state).amounts
    amount = state.total[place]
    for other in state.queues:
        if not other.children:
            has = allocated(other, place)
            if other is queue:
                amount -= has
            else:
                amount -= min(has, dues.get(other.index, {}).get(place, 0))
    return amount


def _reclaimable(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    """Those that leave their queues with their dues, after those before them."""
    dues = quota_tree.dues(state)
    asked = _asked(state, taker)
    mine = state.queues[taker.job.queue]
    left: dict[int, Amounts] = {}
    may_take: dict[int, bool] = {}
    victims = []
    for victim in candidates:
        charges = quota_tree.requested(victim.pod.shape.charges)
        holds = {p: amount for p, amount in charges if p in dues.contended}
        if not any(place in asked for place in holds):
            continue
        other = state.queues[victim.job.queue]
        if other.index not in may_take:
            own = _apart(mine, other)
            may_take[other.index] = all(_fits(level, asked, dues.amounts) for level in own)
        branch = _apart(other, mine)
        if may_take[other.index] and all(
            _keeps(level, holds, dues.amounts, left) for level in branch
        ):
            victims.append(victim)
            for level in branch:
                for place, amount in holds.items():
                    left[level.index][place] -= amount
    return victims


def _spare(state: State) -> dict[int, int] | None:
    """Milli-cards that queues have beyond their dues, if cards are short."""
    short = quota_tree.contended(state)
    if CARDS not in short:
        return None if short else {}
    dues = quota_tree.dues(state).amounts
    spare: dict[int, int] = {}
    for queue in state.queues:
        more = queue.used[CARDS] - queue.leaving[CARDS]
        if more and not queue.children:
            more -= dues.get(queue.index, {}).get(CARDS, 0)
            if more > 0:
                spare[queue.index] = more
    return spare


def _apart(queue: Queue, other: Queue) -> list[Queue]:
    """A queue and those above it, as far as they are not above the other too."""
    shared = [level.index for level in other.chain]
    return [level for level in queue.chain if level.index not in shared]


def _fits(level: Queue, asked: Amounts, dues: dict[int, Amounts]) -> bool:
    """Whether a level of the taker is within its due with what is asked for."""
    due = dues.get(level.index, {})
    return all(allocated(level, p) + amount <= due.get(p, 0) for p, amount in asked.items())


def _keeps(
    level: Queue, holds: Amounts, dues: dict[int, Amounts], left: dict[int, Amounts]
) -> bool:
    """Whether a level keeps its due without a victim."""
    due = dues.get(level.index, {})
    rest = left.get(level.index)
    if rest is None:
        rest = left[level.index] = {p: allocated(level, p) for p in range(len(level.used))}
    return all(rest[p] - amount >= due.get(p, 0) for p, amount in holds.items())

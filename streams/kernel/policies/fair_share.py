"""fair_share: queues by priority, those below their guarantee first, then by weighted dominant
share; those of weight 0 last.

The share is that of dominant resource fairness: the greatest of used / capacity over cards, cpu and
memory, divided by the queue's weight among its siblings. Serving the least share first fills queues
as water-filling does, so it leads to what `quota_tree.dues` computes where requests can be divided.

Nobody is kept from what is idle. But what a queue takes back from others, it takes within its due,
and nobody is taken below his: of each resource that is short, at every level of the tree up to the
branch that both have in common. So no queue can be robbed in turn for what it took.

One exception can be made (`beyond_due`): a job whose minimum alone is more than its queue is due
runs on what others lend. It yields, whole, to a queue that has nothing and asks within its due,
though its own then has less than its due: else such jobs, one after the other, could keep a queue
from its due for ever. It has no right to take the place back, since it asks for more than the due.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Queue, Taker, Victim
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.queues.quota import allocated, is_below_guarantee, weighted_share
from ganger.streams.kernel.queues.quota_tree import Amounts
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.state import State

NAME = "fair_share"
HOOKS = ("queue_order", "preemptive", "reclaimable")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`beyond_due`: whether a job whose minimum is more than its queue's due `stays` (the default)
    or `yields` to a queue that has nothing.
    """
    reader = Arguments(arguments, where)
    yields = reader.choice("beyond_due", "stays", ("stays", "yields")) == "yields"
    reader.close()

    def preemptive(state: State, queue: Queue, taker: Taker) -> Refusal | None:
        return _preemptive(state, queue, taker, yields)

    def reclaimable(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
        return _reclaimable(state, taker, candidates, yields)

    def spare(state: State, taker: Taker | None) -> dict[int, int] | None:
        return _spare(state, taker, yields)

    return Hooks(
        queue_order=_queue_key, preemptive=preemptive, reclaimable=reclaimable, spare=spare
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


def _has_nothing(queue: Queue, asked: Amounts) -> bool:
    """Whether a queue holds nothing of what is asked for."""
    return not any(allocated(queue, place) for place in asked)


def _preemptive(state: State, queue: Queue, taker: Taker, yields: bool) -> Refusal | None:
    asked = _asked(state, taker)
    if not asked:  # the cell has enough of all that it needs: nobody has too much of any
        return Refusal(Reason.NOT_NEEDED, queue=queue.index)
    due = quota_tree.dues(state).amounts.get(queue.index, {})
    for place, amount in asked.items():
        limit = due.get(place, 0)
        free = limit - allocated(queue, place)
        if amount > free:
            return Refusal(Reason.QUEUE_DESERVED, amount, free, limit, queue.index, place)
        there = _to_be_had(state, queue, place)
        if amount > there and not (yields and _has_nothing(queue, asked)):
            return Refusal(Reason.RESOURCE_TOO_LITTLE, amount, max(0, there), place=place)
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


def _reclaimable(
    state: State, taker: Taker, candidates: list[Victim], yields: bool
) -> list[Victim]:
    """Those that leave their queues with their dues, after those before them, or that yield."""
    dues = quota_tree.dues(state)
    asked = _asked(state, taker)
    mine = state.queues[taker.job.queue]
    yields = yields and _has_nothing(mine, asked)
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
            _keeps(level, holds, dues.amounts, left)
            or (yields and _is_beyond(victim.job, level, holds, dues.amounts))
            for level in branch
        ):
            victims.append(victim)
            for level in branch:
                for place, amount in holds.items():
                    left[level.index][place] -= amount
    return victims


def _spare(state: State, taker: Taker | None, yields: bool) -> dict[int, int] | None:
    """Milli-cards that queues have beyond their dues, if cards are short; all that they have, where
    jobs may yield to the taker. None: to any that waits.
    """
    short = quota_tree.contended(state)
    if CARDS not in short:
        return None if short else {}
    dues = quota_tree.dues(state).amounts
    spare: dict[int, int] = {}
    leaves = [queue for queue in state.queues if not queue.children]
    if yields:
        takers = leaves if taker is None else [state.queues[taker.job.queue]]
        yields = any(queue.waiting[CARDS] and not allocated(queue, CARDS) for queue in takers)
    for queue in leaves:
        has = allocated(queue, CARDS)
        more = has - dues.get(queue.index, {}).get(CARDS, 0) if has else 0
        if more > 0:
            spare[queue.index] = has if yields else more
    return spare


def _apart(queue: Queue, other: Queue) -> list[Queue]:
    """A queue and those above it, as far as they are not above the other too."""
    shared = [level.index for level in other.chain]
    return [level for level in queue.chain if level.index not in shared]


def _fits(level: Queue, asked: Amounts, dues: dict[int, Amounts]) -> bool:
    """Whether a level of the taker is within its due with what is asked for."""
    due = dues.get(level.index, {})
    return all(allocated(level, p) + amount <= due.get(p, 0) for p, amount in asked.items())


def _is_beyond(job: Job, level: Queue, holds: Amounts, dues: dict[int, Amounts]) -> bool:
    """Whether the minimum of a job alone is more than a level of its branch is due."""
    due = dues.get(level.index, {})
    return any(p in holds and amount > due.get(p, 0) for p, amount in job.shape.min_charges)


def _keeps(
    level: Queue, holds: Amounts, dues: dict[int, Amounts], left: dict[int, Amounts]
) -> bool:
    """Whether a level keeps its due without a victim."""
    due = dues.get(level.index, {})
    rest = left.get(level.index)
    if rest is None:
        rest = left[level.index] = {p: allocated(level, p) for p in range(len(level.used))}
    return all(rest[p] - amount >= due.get(p, 0) for p, amount in holds.items())

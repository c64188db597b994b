"""capacity: what a queue is due is given to it, what others leave may be borrowed; as in Volcano.

A queue is served by priority, then by how much of its due it has; one to which nothing is due has
all of it, and comes after those that were given something. Pods are placed, and jobs admitted, up
to what a queue can have at most, up the tree. A job may have place made for it if with it its queue
stays within that, and within its due of something the job asks for. A queue loses only what is
asked for, never of its guarantee, and only while of something that the victim holds it has more
than its due, or nothing of that is due to it.

`hierarchy`: the cell does not bound top-level queues, their capability does. With `ancestor_level`
rules look beyond the queue, so many levels up: an ancestor with dues left may take where its
descendant has none, and a branch of the tree loses nothing while it has no more than its due.
"""

from collections.abc import Mapping

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Queue, Taker, Victim
from ganger.streams.kernel.fairness.capacity import WHOLE, has_more, may_lose, share, share_key
from ganger.streams.kernel.policies.hooks import Arguments, Hooks, refuse
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.queues.quota import allocated
from ganger.streams.kernel.queues.quota_tree import Amounts
from ganger.streams.kernel.refusals import PERMIT, Refusal, Vote
from ganger.streams.kernel.resources import CARDS, Shape
from ganger.streams.kernel.state import State

NAME = "capacity"
HOOKS = ("queue_order", "allocatable", "preemptive", "reclaimable", "job_enqueue")

LEVELS_MAX = 16


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`hierarchy`: yes or no (the default). `ancestor_level`: from 0. `root`: name of a top-level
    queue that stands for the cell, so that it is nobody's ancestor; default "root", as in Volcano.
    """
    reader = Arguments(arguments, where)
    endless = reader.yes("hierarchy", False)
    levels = reader.integer("ancestor_level", 0, 0, LEVELS_MAX)
    root = reader.name("root", "root")
    reader.close()
    if levels and not endless:
        refuse(f"{where}.ancestor_level", str(levels), "set hierarchy = yes, or remove it")
    rule = _Rule(endless, levels, root)
    return Hooks(
        queue_order=rule.queue_key,
        allocatable=rule.allocatable,
        preemptive=rule.preemptive,
        reclaimable=rule.reclaimable,
        job_enqueue=rule.job_enqueue,
        refresh=quota_tree.relent_changed,
    )


class _Rule:
    """The hooks, by their arguments."""

    __slots__ = ("_endless", "_levels", "_root")

    def __init__(self, endless: bool, levels: int, root: str) -> None:
        self._endless = endless
        self._levels = levels
        self._root = root

    def queue_key(self, state: State, queue: Queue, admits: bool) -> tuple[int, ...]:
        """By priority, by the part it has of its due, those to which something is due first."""
        due = self._due(state, queue)
        ratio = share({place: allocated(queue, place) for place in due}, due) if due else WHOLE
        return (-queue.config.priority, share_key(ratio), 0 if due else 1)

    def allocatable(
        self, state: State, job: Job, shape: Shape, count: int, held: dict[int, int]
    ) -> tuple[int, Refusal | None]:
        """As many as the most that each queue up the tree can have allows."""
        queue = state.queues[job.queue]
        if queue.is_closed:
            return 0, Refusal(Reason.QUEUE_CLOSED, queue=queue.index)
        bounds = quota_tree.most(state, self._endless)
        refusal = None
        wanted = count
        for level in queue.chain:
            limits = bounds[level.index]
            for place, amount in quota_tree.requested(shape.charges):
                limit = limits.get(place, 0)
                free = limit - allocated(level, place) - held.get(place, 0)
                if free < amount * count:
                    count = max(0, free // amount)
                    numbers = (amount * wanted, free, limit)
                    refusal = Refusal(Reason.QUEUE_CAPABILITY, *numbers, level.index, place)
        return count, refusal

    def preemptive(self, state: State, queue: Queue, taker: Taker) -> Refusal | None:
        """Within the most it can have of everything asked for, and within what it, or one of its
        ancestors that count, is due of something.
        """
        if queue.is_closed:
            return Refusal(Reason.QUEUE_CLOSED, queue=queue.index)
        asked = quota_tree.wants(taker)
        limits = quota_tree.most(state, self._endless)[queue.index]
        for place, amount in asked.items():
            limit = limits.get(place, 0)
            free = limit - allocated(queue, place)
            if amount > free:
                return Refusal(Reason.QUEUE_CAPABILITY, amount, free, limit, queue.index, place)
        if not asked:
            return None
        for level in (queue, *self._ancestors(queue).values()):
            due = self._due(state, level)
            if any(allocated(level, p) + amount <= due.get(p, 0) for p, amount in asked.items()):
                return None
        due = self._due(state, queue)
        place = CARDS if CARDS in asked else min(asked)
        has, limit = allocated(queue, place), due.get(place, 0)
        return Refusal(Reason.QUEUE_DESERVED, asked[place], limit - has, limit, queue.index, place)

    def reclaimable(self, state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
        """Those that their queues may lose, after those before them."""
        asked = quota_tree.wants(taker)
        mine = state.queues[taker.job.queue]
        left: dict[int, Amounts] = {}
        victims = []
        for victim in candidates:
            queue = state.queues[victim.job.queue]
            holds = dict(quota_tree.requested(victim.pod.shape.charges))
            branches = self._branches(mine, queue)
            if self._may_go(state, mine, queue, branches, holds, asked, left):
                victims.append(victim)
                for level in (queue, *branches):
                    rest = self._left(level, left)
                    for place, amount in holds.items():
                        rest[place] = rest.get(place, 0) - amount
        return victims

    def job_enqueue(self, state: State, job: Job) -> Vote:
        """As long as the most that each queue up the tree can have leaves room."""
        queue = state.queues[job.queue]
        if queue.is_closed:
            return Refusal(Reason.QUEUE_CLOSED, queue=queue.index)
        return quota_tree.room_for(state, job, quota_tree.most(state, self._endless)) or PERMIT

    def _due(self, state: State, queue: Queue) -> Amounts:
        return quota_tree.given(state, self._endless).get(queue.index, {})

    def _may_go(
        self,
        state: State,
        mine: Queue,
        queue: Queue,
        branches: list[Queue],
        holds: Amounts,
        asked: Amounts,
        left: dict[int, Amounts],
    ) -> bool:
        due = self._due(state, queue)
        rest = self._left(queue, left)
        if not may_lose(rest, holds, asked, due, queue.guarantee):
            return False
        if self._levels and not any(place in due for place in holds):
            # within one branch nobody takes from nobody's due what is not due to himself
            own = self._due(state, mine)
            if not any(p in own for p in asked) and self._are_near(mine, queue):
                return False
        return all(
            has_more(self._left(level, left), holds, self._due(state, level)) for level in branches
        )

    def _left(self, queue: Queue, left: dict[int, Amounts]) -> Amounts:
        """What a queue holds without the victims so far."""
        rest = left.get(queue.index)
        if rest is None:
            rest = left[queue.index] = {p: allocated(queue, p) for p in range(len(queue.used))}
        return rest

    def _ancestors(self, queue: Queue) -> Mapping[int, Queue]:
        """Ancestors that count, by how far up they are."""
        above = enumerate(queue.chain[1 : self._levels + 1], 1)
        return {up: level for up, level in above if not self._is_root(level)}

    def _is_root(self, queue: Queue) -> bool:
        return len(queue.chain) == 1 and queue.config.queue == self._root

    def _are_near(self, mine: Queue, other: Queue) -> bool:
        """Whether two queues have an ancestor that counts in common."""
        own = [level.index for level in self._ancestors(mine).values()]
        return any(level.index in own for level in self._ancestors(other).values())

    def _branches(self, mine: Queue, other: Queue) -> list[Queue]:
        """Ancestors of a victim's queue that count and are not the taker's, as far up."""
        own = self._ancestors(mine)
        return [
            level
            for up, level in self._ancestors(other).items()
            if up not in own or own[up] is not level
        ]

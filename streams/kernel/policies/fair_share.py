"""fair_share: queues by priority, those below their guarantee first, then by weighted dominant
share; those of weight 0 last.

The share is that of dominant resource fairness: the greatest of used / capacity over cards, cpu and
memory, divided by the queue's weight among its siblings. Serving the least share first fills queues
as water-filling does, so it leads to what `quota.deserved` computes where requests can be divided.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Queue
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.quota import is_below_guarantee, weighted_share
from ganger.streams.kernel.state import State

NAME = "fair_share"
HOOKS = ("queue_order",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(queue_order=_queue_key)


def _queue_key(state: State, queue: Queue, admits: bool) -> tuple[int, ...]:
    if queue.guarantee and is_below_guarantee(queue, admits):
        first = 0
    else:
        first = 1 if queue.config.weight else 2  # of no weight: only what nobody else can use
    return (-queue.config.priority, first, weighted_share(state, queue, admits))

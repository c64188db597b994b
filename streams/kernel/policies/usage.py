"""usage: who had less card-time lately is served first, between queues and between users of one.

Past use counts half after each `usage_half_life_ns` of the settings, and is measured in the cards
that, held all the time, would come to the same. A queue's place is what it holds now plus
`usage_k_milli` thousandths of that (a queue's own `usage_weight_milli` instead, where it has one),
over its weight among its siblings. Jobs of one queue stand by the past use of their users in it.

Only full hours of the past count; without a half-life nothing does.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Queue
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.queues.usage import past
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.state import State

NAME = "usage"
HOOKS = ("queue_order", "job_order")

LN2_MICRO = 693_147
"""Millionths of the natural logarithm of 2: use that is held for ever comes to half-life / ln 2."""


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments; settings say how much past use counts."""
    integers(arguments, where, {})
    return Hooks(queue_order=_queue_key, job_order=_job_key, follows_clock=True)


def _queue_key(state: State, queue: Queue, admits: bool) -> tuple[int, ...]:
    settings = state.policy.settings
    held = queue.used[CARDS] + (queue.admitted[CARDS] if admits else 0)
    k_milli = queue.config.usage_weight_milli or settings.usage_k_milli
    had = past(state).queues.get(queue.index, 0)
    # milli-cards held + k / 1000 * milli-card-seconds * ln 2 / half-life, times the half-life in ns
    together = held * (settings.usage_half_life_ns or 1) + k_milli * had * LN2_MICRO
    return (together * queue.weight_scale,)


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    return (past(state).users.get((job.queue, job.request.user), 0),)

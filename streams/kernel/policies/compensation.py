"""compensation: who lost work in a gap goes before others of its kind, and after every main job.

Named before other rules of order, so that nothing else decides between the kinds: main jobs, then
jobs that were evicted from a gap, most compensation first, then spot work.
"""

from ganger.schemas.enums import Tier
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "compensation"
HOOKS = ("job_order",)

MAIN, EVICTED, SPOT = 0, 1, 2
"""Kinds of waiting jobs."""

_IN_GAP = Tier.BACKFILL


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(job_order=_job_key)


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    if job.request.spot:
        return (SPOT, -job.credit)
    if job.last_tier is _IN_GAP and job.attempts:
        return (EVICTED, -job.credit)
    return (MAIN, 0)

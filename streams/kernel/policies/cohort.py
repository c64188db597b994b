"""cohort: the order of a queue under quota admission: priority, boost included, then who has waited
longest. Who was put back since it did not start in time waits from the end of its backoff on.

The quota rules themselves are the action `admit`.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.queues.cohort_tree import priority_of, queued_at
from ganger.streams.kernel.state import State

NAME = "cohort"
HOOKS = ("job_order",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(job_order=_job_key)


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    return (-priority_of(job), queued_at(job))

"""limits: what queues, and users and tenants in them, may have at once.

The limits stand in the queues' own records. A job is admitted while with it nobody has more jobs,
or more of a resource, held or admitted, than a limit says; and pods are placed within limits on
resources. Limits on what waits and on submissions are judged when a job is submitted, policy or no
policy.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.queues import tallies
from ganger.streams.kernel.refusals import Refusal, Vote
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State

NAME = "limits"
HOOKS = ("job_enqueue", "allocatable")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(job_enqueue=_job_enqueue, allocatable=_allocatable)


def _job_enqueue(state: State, job: Job) -> Vote:
    return tallies.refusal_to_admit(state, job) if state.queues[job.queue].bounds else None


def _allocatable(
    state: State, job: Job, shape: Shape, count: int, held: dict[int, int]
) -> tuple[int, Refusal | None]:
    if not state.queues[job.queue].bounds:
        return count, None
    return tallies.allowed(state, job, shape.charges, count, held)

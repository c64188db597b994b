"""priority: jobs of higher priority first."""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "priority"
HOOKS = ("job_order",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(job_order=_job_key)


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    return (-job.priority,)

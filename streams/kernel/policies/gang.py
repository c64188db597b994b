"""gang: first jobs that began and have lost part of their minimum, then new ones, last those that
grow.

That a gang starts whole or not at all is the kernel's own rule (module `placement`), policy or no
policy.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.gangs import has_begun, is_ready
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "gang"
HOOKS = ("job_order",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(job_order=_job_key)


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    if not has_begun(job):
        return (1,)
    return (2,) if is_ready(job) else (0,)

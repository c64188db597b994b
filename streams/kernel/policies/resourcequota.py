"""resourcequota: a job is admitted while its tenant has quota left for its minimum; as in Volcano.

Quotas are the limits that queues have for tenants. Policy `limits` looks at these too, when pods
are placed as well as at admission.
"""

from ganger.schemas.enums import LimitScope
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.queues import tallies
from ganger.streams.kernel.refusals import PERMIT, Vote
from ganger.streams.kernel.state import State

NAME = "resourcequota"
HOOKS = ("job_enqueue",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(job_enqueue=_job_enqueue)


def _job_enqueue(state: State, job: Job) -> Vote:
    return tallies.refusal_to_admit(state, job, (LimitScope.TENANT,)) or PERMIT

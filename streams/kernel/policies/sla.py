"""sla: jobs wait no longer than they were promised; as in Volcano, and more.

Those to whom something was promised come first, by when it is due. Once its time has come, a job is
voted in, at the gate and where it waits for cards that leave. Volcano's vote gives it nothing else,
and any no of an earlier or the same tier takes it away. Here, with `reserve`, the cards that become
free first are kept for it (module `actions.promise`).
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Counts, Job
from ganger.streams.kernel.jobs.deadlines import deadline_ns, is_overdue
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.refusals import PERMIT, Vote
from ganger.streams.kernel.state import State

NAME = "sla"
HOOKS = ("job_order", "job_enqueue", "job_pipelined")

WAITING_MAX_NS = 3650 * 24 * 3600 * 10**9


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`waiting_ns`: what is promised to jobs that do not say it themselves; 0, the default:
    nothing.
    """
    reader = Arguments(arguments, where)
    waiting_ns = reader.duration("waiting_ns", 0, 0, WAITING_MAX_NS)
    reader.close()
    return Hooks(
        job_order=_job_key,
        job_enqueue=_job_enqueue,
        job_pipelined=_job_pipelined,
        sla_waiting_ns=waiting_ns,
    )


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    at_ns = deadline_ns(state, job)
    return (1, 0) if at_ns is None else (0, at_ns)


def _job_enqueue(state: State, job: Job) -> Vote:
    return PERMIT if is_overdue(state, job) else None


def _job_pipelined(state: State, job: Job, counts: Counts) -> Vote:
    return PERMIT if is_overdue(state, job) else None

"""priority: jobs of higher priority first; they may take from those of lower."""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Taker, Victim
from ganger.streams.kernel.jobs.gangs import needed
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.state import State

NAME = "priority"
HOOKS = ("job_order", "task_order", "job_starving", "preemptable")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`roles`: whether the roles of a job, too, are placed in the order of their priorities."""
    reader = Arguments(arguments, where)
    orders_roles = reader.yes("roles", False)
    reader.close()
    return Hooks(
        job_order=_job_key,
        task_order=_role_key if orders_roles else None,
        job_starving=_starves,
        preemptable=_lower,
    )


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    return (-job.priority,)


def _role_key(state: State, job: Job, role: int) -> tuple[int, ...]:
    return (-job.shape.roles[role].priority,)


def _starves(state: State, job: Job) -> bool:
    """Whether pods of it wait and have no place yet."""
    claim = state.claims.get(job.seq)
    placed = len(claim.entries) if claim is not None else 0
    placed += sum([count for _, _, count in state.indexes.placing])
    waiting = [
        0 if shape.is_empty else role.pending()
        for role, shape in zip(job.roles, job.shape.shapes, strict=True)
    ]
    return sum(waiting) > placed


def _lower(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    """Attempts of jobs of lower priority, and of roles of lower priority of the same job."""
    job = taker.job
    counts = taker.counts if any(taker.counts) else needed(job)
    asking = [role.priority for role, n in zip(job.shape.roles, counts, strict=True) if n]
    least = min(asking, default=0)
    victims = []
    for victim in candidates:
        if victim.job is job:
            if job.shape.roles[victim.pod.index % len(job.roles)].priority < least:
                victims.append(victim)
        elif victim.job.priority < job.priority:
            victims.append(victim)
    return victims

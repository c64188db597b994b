"""pdb: evictions leave a job as many pods as its disruption budget says."""

from collections.abc import Container

from ganger.schemas.parts import Budget
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Taker, Victim
from ganger.streams.kernel.fairness import budgets
from ganger.streams.kernel.jobs.gangs import Identity, is_leaving
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "pdb"
HOOKS = ("preemptable", "reclaimable")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments; the budgets are the jobs' own."""
    integers(arguments, where, {})
    return Hooks(preemptable=_lets_go, reclaimable=_lets_go)


def allowed(job: Job, budget: Budget, lifted: Container[Identity] = ()) -> int:
    """How many of a job's live pods may leave now; those that leave already are gone.

    `lifted`: attempts seen as gone, as those found on other nodes for the same taker.
    """
    pods = (job.pods or {}).values()
    available = sum(
        [not is_leaving(pod) and (pod.job, pod.index, pod.attempt) not in lifted for pod in pods]
    )
    total = sum([role.replicas - role.succeeded for role in job.roles])
    plain = budgets.Budget(
        budget.min_available_count,
        budget.min_available_milli,
        budget.max_unavailable_count,
        budget.max_unavailable_milli,
    )
    return budgets.allowed(plain, total, available, available)


def _lets_go(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    """Of each job with a budget as many as it allows, in their order."""
    left: dict[int, int] = {}
    victims = []
    for victim in candidates:
        budget = victim.job.request.budget
        if budget is not None:
            seq = victim.job.seq
            if seq not in left:
                left[seq] = allowed(victim.job, budget, state.indexes.lifted)
            if left[seq] <= 0:
                continue
            left[seq] -= 1
        victims.append(victim)
    return victims

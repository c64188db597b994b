"""conformance: jobs of a critical class are nobody's victims."""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Taker, Victim
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "conformance"
HOOKS = ("preemptable", "reclaimable")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(preemptable=_lets_go, reclaimable=_lets_go)


def is_critical(state: State, job: Job) -> bool:
    """Whether the priority class of a job is critical."""
    named = state.policy.classes.get(job.request.priority_class)
    return named is not None and named.critical


def _lets_go(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    return [victim for victim in candidates if not is_critical(state, victim.job)]

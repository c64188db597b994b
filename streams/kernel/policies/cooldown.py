"""cooldown: an attempt that began to run is nobody's victim for as long as its job says."""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Pod, Taker, Victim
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "cooldown"
HOOKS = ("protected", "preemptable", "reclaimable")


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments; the time is `protected_ns` of the job."""
    integers(arguments, where, {})
    return Hooks(protected=_protected, preemptable=_lets_go, reclaimable=_lets_go)


def _protected(state: State, job: Job, pod: Pod) -> tuple[int, ...]:
    wait = job.request.protected_ns
    return (pod.started_ns + wait,) if wait > 0 and pod.started_ns else ()


def _lets_go(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    return [
        victim
        for victim in candidates
        if all(until <= state.clock_ns for until in _protected(state, victim.job, victim.pod))
    ]

"""min_runtime: an attempt is nobody's victim before it has run as long as its queue grants.

One time against preemption, one against reclaim, each from the nearest queue up the tree that names
one, else the policy's `min_runtime_ns`. Pods that a job has beyond its minimums are not protected.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Pod, Taker, Victim
from ganger.streams.kernel.jobs.gangs import surplus
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "min_runtime"
HOOKS = ("protected", "preemptable", "reclaimable")

_AS_POLICY_SAYS = (-1, -1)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(protected=_ends, preemptable=_after_preempt, reclaimable=_after_reclaim)


def least_ns(state: State, job: Job, reclaims: bool) -> int:
    """Least run time in ns of the attempts of a job, against reclaim or else against preemption."""
    own = state.queues[job.queue].min_runtimes_ns[reclaims]
    return own if own >= 0 else state.policy.settings.min_runtime_ns


def _ends(state: State, job: Job, pod: Pod) -> tuple[int, ...]:
    """0, since spare pods are not protected, then when each protection ends."""
    if not pod.started_ns:
        return ()
    default_ns = state.policy.settings.min_runtime_ns
    if not default_ns and state.queues[job.queue].min_runtimes_ns == _AS_POLICY_SAYS:
        return ()
    ends = [pod.started_ns + least_ns(state, job, reclaims) for reclaims in (False, True)]
    return (0, *sorted(ends))


def _after_preempt(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    return _old_enough(state, candidates, reclaims=False)


def _after_reclaim(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    return _old_enough(state, candidates, reclaims=True)


def _old_enough(state: State, candidates: list[Victim], reclaims: bool) -> list[Victim]:
    young: dict[int, list[Pod]] = {}
    jobs: dict[int, Job] = {}
    for victim in candidates:
        pod, job = victim.pod, victim.job
        if pod.started_ns and pod.started_ns + least_ns(state, job, reclaims) > state.clock_ns:
            young.setdefault(job.seq, []).append(pod)
            jobs[job.seq] = job
    kept = {}
    for seq, pods in young.items():
        spare = {pod.index: True for pod in surplus(jobs[seq], pods)}
        kept.update({(seq, pod.index): True for pod in pods if pod.index not in spare})
    return [v for v in candidates if (v.job.seq, v.pod.index) not in kept]

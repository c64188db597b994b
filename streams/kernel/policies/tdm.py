"""tdm: time division of nodes: in a revocable zone, which a label of the node names, pods run only
while the zone is open, and only those that named it.

A pod's role names a zone, or `*` for any. Nodes of a zone score 100 for such pods, so that they go
there first. Into a zone that is not configured nobody comes. When one closes, what may be preempted
there must leave: of each job as much as its budget allows, or one pod at a time where it has none;
action `shuffle` tells them. Nobody evicts others to get into a zone: a job that may itself be
preempted or named a zone takes nothing, and pods in zones are nobody's victims but the zone's. Jobs
that must not be preempted go first.
"""

from ganger.schemas.enums import Tri
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node, Pod, Taker, Victim
from ganger.streams.kernel.fairness.budgets import Budget, allowed
from ganger.streams.kernel.jobs.gangs import is_leaving
from ganger.streams.kernel.nodes import zones
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.state import State

NAME = "tdm"
HOOKS = ("predicate", "node_order", "victim", "preemptable", "job_order", "job_starving")

_SCORE = 100_000_000


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`label`: the key of the label that names a node's zone, `revocable_zone` unless said."""
    reader = Arguments(arguments, where)
    label = reader.name("label", "revocable_zone")
    reader.close()

    def zone_of(node: Node) -> str:
        return node.labels.get(label, "")

    def predicate(state: State, job: Job, role: int, node: Node) -> Reason:
        zone = zone_of(node)
        if zone:
            named = job.shape.roles[role].revocable_zone
            if named not in (zone, zones.ANY) or not zones.is_open(state, zone):
                return Reason.ZONE
        return Reason.UNKNOWN

    def score(state: State, job: Job, role: int, node: Node) -> int:
        return _SCORE if zone_of(node) and job.shape.roles[role].revocable_zone else 0

    def outcasts(state: State) -> list[Pod]:
        found: dict[int, list[Pod]] = {}
        for node in state.nodes:
            zone = zone_of(node)
            if zone in state.zones and not zones.is_open(state, zone):
                for _, pod in sorted(node.pods.items()):
                    if not is_leaving(pod) and is_preemptable(state.jobs[pod.job], pod):
                        found.setdefault(pod.job, []).append(pod)
        return [pod for seq, pods in found.items() for pod in pods[: _may_leave(state.jobs[seq])]]

    def veto(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim] | None:
        job = taker.job
        if any(
            count and (_yields(job, role) or job.shape.roles[role].revocable_zone)
            for role, count in enumerate(taker.counts)
        ):
            return []
        return [victim for victim in candidates if not zone_of(state.nodes[victim.pod.node])]

    return Hooks(
        predicate=predicate,
        node_order=score,
        victim=outcasts,
        preemptable=veto,
        job_order=_job_key,
        job_starving=_starves,
    )


def is_preemptable(job: Job, pod: Pod) -> bool:
    """Whether an attempt may be evicted by its own word."""
    return _yields(job, pod.index % len(job.roles))


def _yields(job: Job, role: int) -> bool:
    return Tri.NO not in (job.shape.roles[role].preemptable, job.request.preemptable)


def _may_leave(job: Job) -> int:
    """How many pods of a job may be told to leave now."""
    pods = [pod for pod in (job.pods or {}).values() if not is_leaving(pod)]
    leaving = len(job.pods or {}) - len(pods)
    total = sum(role.replicas for role in job.roles)
    given = job.request.budget
    if given is None:
        return 0 if leaving else min(1, len(pods))
    budget = Budget(
        given.min_available_count,
        given.min_available_milli,
        given.max_unavailable_count,
        given.max_unavailable_milli,
    )
    return allowed(budget, total, len(pods), 1)


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    return (int(all(_yields(job, role) for role in range(len(job.roles)))),)


def _starves(state: State, job: Job) -> bool:
    """Whether a job that must not be preempted has pods to place."""
    return any(
        role.pending() > 0 and not _yields(job, position) for position, role in enumerate(job.roles)
    )

"""From descriptions to records: a trace's jobs as requests, a cluster's queues as configuration."""

from collections.abc import Iterable

from msgspec.structs import replace

from ganger.replay.assumptions import AS_TRACED, Assumptions, estimate_ns, is_drawn
from ganger.replay.cluster import NO_LIMIT, UNLIMITED, Amount, ClusterSpec, QueueSpec
from ganger.replay.traces.fields import NS_PER_S
from ganger.replay.traces.model import TraceJob, TracePods
from ganger.schemas import records as r
from ganger.schemas.enums import BackfillPreference, IslandPolicy, QueueState

DEFAULT_QUEUE = "default"
"""Queue of jobs for which the trace names none."""

RETRY = r.RetryPolicy(3, 10 * NS_PER_S, 300 * NS_PER_S)
"""A failed pod is tried three times more, first after 10 s: enough that a run with a few percent of
failures ends almost all its jobs."""

CARD_MILLI = 1000


class Submissions:
    """Makes a trace's jobs into requests; equal groups of pods share one tuple of roles."""

    def __init__(self, assumptions: Assumptions = AS_TRACED, seed: int = 0) -> None:
        """`assumptions`: settled, of jobs that the trace leaves open; `seed`: they draw from it."""
        self._roles: dict[tuple[TracePods, ...], tuple[r.Role, ...]] = {}
        self._assumptions = assumptions
        self._seed = seed

    def request(self, job: TraceJob) -> r.JobSubmitRequested:
        """The job's submission at its own time. All its pods start together."""
        assumptions = self._assumptions
        is_suspendable = is_drawn(self._seed, job.id, assumptions.suspendable_millionths)
        roles = self._roles.get(job.pods)
        if roles is None:
            roles = self._roles[job.pods] = _roles(job.pods)
        return r.JobSubmitRequested(
            job.submit_ns,
            f"{job.id}/submit",
            None,
            job.id,
            job.queue or DEFAULT_QUEUE,
            job.user,
            "",
            "",
            0,
            roles,
            0,
            estimate_ns(assumptions, job),
            0,
            is_suspendable,
            is_suspendable,
            BackfillPreference.ACCEPT,
            1000,
            0,
            (),
            RETRY,
            -1,
            False,
        )


def _roles(groups: tuple[TracePods, ...]) -> tuple[r.Role, ...]:
    """One role per group, named pods-1, pods-2 and so on."""
    return tuple(
        r.Role(f"pods-{number}", pods.count, pods.count, _request(pods))
        for number, pods in enumerate(groups, 1)
    )


def _request(pods: TracePods) -> r.PodRequest:
    return r.PodRequest(
        pods.cards,
        pods.card_milli,
        0,
        0,
        pods.models,
        IslandPolicy.ANY,
        pods.cpu_milli,
        pods.memory_mib,
        (),
        (),
        (),
    )


def queues_of(
    cluster: ClusterSpec, jobs: Iterable[TraceJob], time_ns: int
) -> list[r.QueueConfigured]:
    """All queues of a run: the cluster's, parents first; then others that jobs name, ascending.

    The latter stand at the top with weight 1 and no limit.
    """
    if cluster.rules:
        others = [QueueSpec(name) for name in unnamed_queues(cluster, jobs)]
        ruled = [
            replace(record, time_ns=time_ns, event_id=f"queue/{record.queue}")
            for record in cluster.rules
        ]
        return ruled + [_queue(queue, time_ns) for queue in others]
    specs = {queue.name: queue for queue in cluster.queues}
    named = sorted({job.queue or DEFAULT_QUEUE for job in jobs} - set(specs))
    ordered = sorted(cluster.queues, key=lambda queue: _depth(queue, specs))
    return [_queue(queue, time_ns) for queue in (*ordered, *(QueueSpec(name) for name in named))]


def flavors_of(cluster: ClusterSpec, time_ns: int) -> list[r.FlavorConfigured]:
    """What the quota of a run's queues is counted by."""
    return [
        replace(record, time_ns=time_ns, event_id=f"flavor/{record.flavor}")
        for record in cluster.flavors
    ]


def unnamed_queues(cluster: ClusterSpec, jobs: Iterable[TraceJob]) -> list[str]:
    """Queues that jobs name and the cluster, which does name queues, does not; ascending."""
    if not cluster.queues:
        return []
    return sorted({job.queue or DEFAULT_QUEUE for job in jobs} - {q.name for q in cluster.queues})


def _depth(queue: QueueSpec, specs: dict[str, QueueSpec]) -> int:
    depth = 0
    while queue.parent:
        queue = specs[queue.parent]
        depth += 1
    return depth


def _queue(queue: QueueSpec, time_ns: int) -> r.QueueConfigured:
    guarantee = _amounts(queue.guarantee, absent=0)
    capability = () if queue.capability == NO_LIMIT else _amounts(queue.capability, UNLIMITED)
    return r.QueueConfigured(
        time_ns,
        f"queue/{queue.name}",
        None,
        queue.name,
        queue.parent,
        queue.weight,
        0,
        guarantee,
        (),
        capability,
        (),
        (),
        True,
        QueueState.OPEN,
        False,
    )


def _amounts(amount: Amount, absent: int) -> tuple[r.Amount, ...]:
    """Amounts by the kernel's names of resources, without those that say nothing."""
    found = (
        ("cards_milli", amount.cards, CARD_MILLI),
        ("cpu_milli", amount.cpu_milli, 1),
        ("memory_mib", amount.memory_mib, 1),
    )
    return tuple(r.Amount(name, count * unit) for name, count, unit in found if count != absent)

"""The queue tree as quota rules see it: cohorts that lend each other quota by flavor.

Inner queues are cohorts, leaves hold jobs. Made from State for one pass and used up by it: whoever
admits a job counts what it takes here too.
"""

from ganger.schemas.enums import FlavorPreference, FlavorSearch, Phase, QueueOrder, TaintEffect
from ganger.schemas.enums import VictimRule as Named
from ganger.schemas.parts import PodRequest
from ganger.schemas.records import FlavorConfigured, QueueConfigured
from ganger.streams.kernel.entities import Job, Queue
from ganger.streams.kernel.fairness.cohort import Cohort, Quota, attach, seal
from ganger.streams.kernel.fairness.cohort_rules import Holder, Rule, Rules
from ganger.streams.kernel.fairness.flavors import FlavorGroup, Search
from ganger.streams.kernel.nodes.node_index import matches, tolerates
from ganger.streams.kernel.state import State

_RULES = {
    Named.UNKNOWN: Rule.NEVER,
    Named.NEVER: Rule.NEVER,
    Named.LOWER_PRIORITY: Rule.LOWER_PRIORITY,
    Named.LOWER_OR_NEWER_EQUAL: Rule.LOWER_OR_NEWER_EQUAL,
    Named.ANY: Rule.ANY,
}

_EXCLUDES = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)


def grow(state: State, root: Queue) -> dict[int, Cohort]:
    """The tree below a top-level queue, by queue id, with what its jobs hold. O(queues below)."""
    nodes: dict[int, Cohort] = {}
    line = [root]
    for queue in line:  # grows on the way
        config = queue.config
        node = Cohort(
            config.queue,
            quotas=_quotas(config),
            weight_milli=config.fair_weight_milli,
            is_queue=not queue.children,
        )
        nodes[queue.index] = node
        if node.is_queue:
            node.usage = dict(queue.held)
        if queue is not root:
            attach(node, nodes[queue.parent])
        line += [state.queues[child] for child in queue.children]
    seal(nodes[root.index])
    return nodes


def _quotas(config: QueueConfigured) -> dict[tuple[str, str], Quota]:
    return {
        (quota.flavor, bound.resource): Quota(
            bound.nominal, _limit(bound.borrowing_limit), _limit(bound.lending_limit)
        )
        for group in config.resource_groups
        for quota in group.flavors
        for bound in quota.bounds
    }


def _limit(value: int) -> int | None:
    return None if value < 0 else value


# ---- what a queue says ------------------------------------------------------------------------


def rules_of(config: QueueConfigured) -> Rules:
    """Whom jobs of a queue may have evicted."""
    return Rules(
        _RULES[config.within_queue],
        _RULES[config.reclaim_in_cohort],
        _RULES[config.borrow_in_cohort] is not Rule.NEVER,
        config.borrow_priority_max,
    )


def search_of(config: QueueConfigured) -> Search:
    """How far a queue looks among its flavors."""
    return Search(
        borrow_next=config.when_can_borrow is FlavorSearch.NEXT,
        preempt_next=config.when_can_preempt is not FlavorSearch.STOP,
        preempt_first=config.preference is FlavorPreference.PREEMPTION_FIRST,
    )


def groups_of(config: QueueConfigured) -> tuple[FlavorGroup, ...]:
    """Resources of a queue that get one flavor each time, with the flavors in order."""
    return tuple(
        [
            FlavorGroup(
                tuple(dict.fromkeys([b.resource for quota in group.flavors for b in quota.bounds])),
                tuple([quota.flavor for quota in group.flavors]),
            )
            for group in config.resource_groups
        ]
    )


def is_strict(config: QueueConfigured) -> bool:
    """Whether nobody passes the first job of a queue."""
    return config.order is QueueOrder.STRICT


# ---- flavors ----------------------------------------------------------------------------------


def borne(
    flavors: dict[str, FlavorConfigured], groups: tuple[FlavorGroup, ...], request: PodRequest
) -> tuple[str, ...]:
    """The flavors that pods may get: they bear the taints, and what they select is what the flavor
    is. Of their selectors those count whose key is a label of any flavor of the group.
    """
    found = []
    for group in groups:
        known = [flavors[name] for name in group.flavors if name in flavors]
        keys = {label.key: True for flavor in known for label in flavor.labels}
        selectors = tuple([one for one in request.selectors if one.key in keys])
        for flavor in known:
            tolerations = (*request.tolerations, *flavor.tolerations)
            bears = all(
                tolerates(tolerations, taint)
                for taint in flavor.taints
                if taint.effect in _EXCLUDES
            )
            labels = {label.key: label.value for label in flavor.labels}
            if bears and matches(labels, selectors):
                found.append(flavor.flavor)
    return tuple(found)


# ---- holders ----------------------------------------------------------------------------------


def holder_of(state: State, job: Job, node: Cohort) -> Holder:
    """A job that holds quota. Of those that were admitted at one time the last submitted comes
    last.
    """
    return Holder(
        job.request.job,
        node,
        dict(job.held_quota or {}),
        priority_of(job),
        queued_at(job),
        _admitted_at(state, job),
        job.seq,
        is_leaving(job),
    )


def priority_of(job: Job) -> int:
    """Its priority, boost included."""
    return job.priority + job.request.priority_boost


def queued_at(job: Job) -> int:
    """Since when, in ns, it stands in line: its submission or, if it was put back since it did not
    start in time, the end of the wait that followed.
    """
    return job.not_before_ns if job.requeues else job.submitted_ns


def is_leaving(job: Job) -> bool:
    """Whether all it has running has been told to leave."""
    return bool(job.pods) and all(
        pod.phase is Phase.RELEASING or pod.notice_until_ns for pod in (job.pods or {}).values()
    )


def _admitted_at(state: State, job: Job) -> int:
    """When, in ns, its first attempt that still lives was placed; now, if none is yet."""
    begun = [
        min(pod.allocated_ns, pod.started_ns or pod.allocated_ns)
        for pod in (job.pods or {}).values()
    ]
    return min(begun, default=state.now_ns)

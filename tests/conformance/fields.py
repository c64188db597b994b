"""Every field of a case that is read, so that one that is not is never passed over in silence.

A place is the path of names that lead to an object, lists left out; `*` stands for any name.
Places that are not in the table hold amounts or texts by name, whatever the names are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from conformance.cases import Body, Unsupported

ABOUT = "id source kind title features note expect"
"""Of every case."""

_BOUND = "quota fair_share allocated allocated_non_preemptible limit"
_PREEMPTION = "within_queue reclaim_in_cohort borrow_in_cohort"

TABLE: Mapping[str, Mapping[str, str]] = {
    "volcano": {
        "": f"{ABOUT} policy nodes queues jobs topology tenant_quotas steps probe queue candidates "
        "disruptions_allowed eviction_kind preemptor preemptor_job_known",
        "probe": "call_job_enqueued_first",  # a job is booked once, however often it is asked for
        "policy": "actions tiers shard action_args",
        "policy.tiers": "plugin hooks args",
        "policy.tiers.args.resources.*": "mode weight",
        "policy.shard": "mode nodes",
        "policy.action_args": "preempt",
        "policy.action_args.preempt": "topology_aware",
        "nodes": "name capacity labels",
        "jobs.topology": "mode highest_tier highest_tier_name",
        "topology": "domains tier_names",
        "topology.domains": "name tier nodes",
        "tenant_quotas": "tenant hard",
        "steps": "add_jobs actions expect",
        "queue": "deserved allocated pending_request",  # a share asks nothing of what waits
        "preemptor": "job_priority",
        "candidates": "name preemptable cooldown_s running_for_s",
        "expect": "binds bind_count evicted pipelined job_phase binds_per_leaf_domain allocated "
        "share scores tolerance feasible infeasible enqueueable victims victim_count first order "
        "first_victim suppress_unschedulable_report",
    },
    "kai": {
        "": f"{ABOUT} policy nodes queues jobs topology stage resource total usage_penalty_k "
        "reclaimer saturation_multiplier victims",
        "policy": "actions tiers rounds_until_match rounds_after_match",
        "policy.tiers": "plugin args",
        "nodes": "name capacity labels",
        "nodes.capacity": "gpu cpu_m memory pods",
        "queues": "name parent quota limit over_quota_weight created_at priority weight request "
        "already_given usage allocated resources",
        "queues.quota": "gpu cpu_m memory",
        "queues.limit": "gpu cpu_m memory",
        "queues.over_quota_weight": "gpu cpu_m memory",
        "queues.resources.*": _BOUND,
        "jobs.group_tree": "groups sets topology",
        "reclaimer": "queue preemptible request",
        "victims": "queue resources",
        "expect": "jobs tasks call_limits unenforced_jobs nodes share remaining allowed",
        "expect.jobs.*": "phase node gpu_ids",
        "expect.tasks.*": "phase node gpu_ids",
        "expect.call_limits": "max_binds max_evictions max_pipelined",
    },
    "kueue": {
        "": f"{ABOUT} policy flavors cohorts queues jobs incoming assumed_flavors job usage "
        "preemption_oracle hypothetical_request rule preemptor candidate candidates entries",
        "policy": "cycle feature_flags fair_sharing sort_by_priority preemptors_first "
        "requeue_time_after_start_timeout",
        "policy.feature_flags": "partial_admission "
        "recompute_assignment_upon_preemption_targets_overlap",
        "policy.fair_sharing": "strategies",
        "flavors": "name labels taints tolerations undefined",
        "flavors.taints": "key value effect",
        "flavors.tolerations": "key value effect operator",
        "cohorts": "name parent resource_groups fair_weight",
        "cohorts.resource_groups": "flavor quota",
        "cohorts.resource_groups.quota.*": "nominal borrow_limit lend_limit",
        "queues": "name cohort strategy preemption flavor_search resource_groups fair_weight "
        "tenants_allowed stopped",
        "queues.preemption": _PREEMPTION,
        "queues.preemption.borrow_in_cohort": "policy max_priority",
        "queues.flavor_search": "when_can_borrow when_can_preempt preference",
        "queues.resource_groups": "flavor quota",
        "queues.resource_groups.quota.*": "nominal borrow_limit lend_limit",
        "jobs": "name queue priority priority_boost tenant groups reserved reserved_at created_at "
        "being_evicted",
        "jobs.groups": "name count request min_count tolerations node_selector",
        "jobs.groups.tolerations": "key value effect operator",
        "jobs.reserved.*": "count flavors usage",
        "assumed_flavors.*.*": "flavor mode",
        "job": "name queue priority groups created_at",
        "job.groups": "name count request min_count tolerations node_selector",
        "job.groups.tolerations": "key value effect operator",
        "preemption_oracle": "flavor resource answer borrow_level_after",
        "preemptor": "priority priority_boost created_at",
        "candidate": "priority priority_boost created_at",
        "candidates": "name own_queue priority priority_boost reserved_at being_evicted "
        "recent_usage",
        "entries": "name created_at priority borrow_level evicted_at evicted_for preempted_at "
        "preempted_for already_preempting",
        "expect": "reservations queued inadmissible evicted mode groups borrow_level no_fit_reason "
        "queues cohorts allowed order already_leaving_targets",
        "expect.reservations.*": "queue groups",
        "expect.reservations.*.groups.*": "count flavors",
        "expect.queues.*": "share_permille dominant borrowing",
        "expect.cohorts.*": "share_permille dominant borrowing",
    },
}
"""By peer and place: the fields. Those of jobs and tasks with nodes are told where they are read.
"""


def refuse_unread(peer: str, body: Body) -> None:
    """Raises `Unsupported`, naming the first place with fields that nothing reads."""
    table = TABLE[peer]
    for place, one in _objects(body, (), table):
        known = table.get(place)
        if known is None:
            continue
        unread = [name for name in one if name not in known.split()]
        if unread:
            raise Unsupported(f"fields {unread} of {place or 'the case'}")


def _objects(
    value: Any, path: tuple[str, ...], table: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object with the place of the table that it is at."""
    if isinstance(value, Mapping):
        place = ".".join(path)
        yield place, value
        for name, part in value.items():
            inner = ".".join((*path, name))
            is_named = inner in table or any(key.startswith(f"{inner}.") for key in table)
            yield from _objects(part, (*path, name if is_named else "*"), table)
    elif isinstance(value, list):
        for part in value:
            yield from _objects(part, path, table)

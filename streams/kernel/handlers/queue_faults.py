"""What may be wrong with the configuration of a queue, by itself and in its place in the tree."""

from math import lcm

from ganger.schemas.enums import LimitScope, QueueState
from ganger.schemas.parts import ResourceGroup
from ganger.schemas.reasons import Reason
from ganger.schemas.records import QueueConfigured
from ganger.streams.kernel.entities import Queue
from ganger.streams.kernel.handlers.job_faults import Fault, amounts_fault, bounds_fault
from ganger.streams.kernel.jobs.submissions import PER_HOUR
from ganger.streams.kernel.limits import (
    NAMES_MAX,
    NUMBER_MAX,
    PRIORITY_MAX,
    WEIGHT_BITS_MAX,
    WEIGHT_MAX,
)
from ganger.streams.kernel.state import State

DEPTH_MAX = 16
"""Levels of the queue tree."""


def queue_fault(state: State, record: QueueConfigured) -> Fault | None:
    """Why a queue is not configured so."""
    if not record.queue:
        return (Reason.QUEUE_UNKNOWN, 0, 0)
    if not 0 <= record.weight <= WEIGHT_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, record.weight, WEIGHT_MAX)
    if record.state is QueueState.UNKNOWN:
        return (Reason.VALUE_OUT_OF_RANGE, 0, 1)
    fault = _bounds_fault(record) or _numbers_fault(record) or _limits_fault(record)
    if fault is None:
        fault = _names_fault(record) or _groups_fault(state, record.resource_groups)
    if fault is not None:
        return fault
    place = state.queue_by_name.get(record.queue)
    if place is not None and record.removed:
        queue = state.queues[place]
        if queue.jobs or queue.children:
            return (Reason.QUEUE_NOT_EMPTY, queue.jobs + len(queue.children), 0)
    if place is None and record.removed:
        return (Reason.QUEUE_UNKNOWN, 0, 0)
    fault = _place_fault(state, record, place) or _weight_fault(state, record)
    return fault if fault is not None or record.removed else _sums_fault(state, record)


def _bounds_fault(record: QueueConfigured) -> Fault | None:
    """What is wrong with the amounts of a queue: one per resource, none negative."""
    for amounts in (
        record.guarantee,
        record.deserved,
        record.capability,
        record.borrowing_limit,
        record.lending_limit,
        record.over_quota_weights,
        *[limit.amounts for limit in record.node_group_limits],
    ):
        fault = amounts_fault(amounts)
        if fault is not None:
            return fault
    return None


def _numbers_fault(record: QueueConfigured) -> Fault | None:
    """Which number of a queue is out of its bounds."""
    bounds = [
        (record.fair_weight_milli, 0, WEIGHT_MAX * 1000),
        (record.borrow_priority_max or 0, -PRIORITY_MAX, PRIORITY_MAX),
        (record.preempt_min_runtime_ns, -1, NUMBER_MAX),
        (record.reclaim_min_runtime_ns, -1, NUMBER_MAX),
        (record.usage_weight_milli, 0, WEIGHT_MAX),
    ]
    for group in record.resource_groups:
        for quota in group.flavors:
            for bound in quota.bounds:
                bounds.append((bound.nominal, 0, NUMBER_MAX))
                bounds.append((bound.borrowing_limit, -1, NUMBER_MAX))
                bounds.append((bound.lending_limit, -1, NUMBER_MAX))
    return bounds_fault(*bounds)


def _limits_fault(record: QueueConfigured) -> Fault | None:
    """What is wrong with the limits of a queue, its users and tenants."""
    if len(record.limits) > NAMES_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, len(record.limits), NAMES_MAX)
    for place, limit in enumerate(record.limits, 1):
        if limit.scope is LimitScope.UNKNOWN or not limit.resource:
            return (Reason.LIMIT_UNKNOWN, place, 0)
        if limit.subject and limit.scope is LimitScope.QUEUE:
            return (Reason.LIMIT_UNKNOWN, place, 0)
        if limit.tier and limit.resource == PER_HOUR:
            return (Reason.LIMIT_UNKNOWN, place, 0)  # they are counted in all tiers together
        fault = bounds_fault((limit.count, 0, NUMBER_MAX))
        if fault is not None:
            return fault
    return None


def _names_fault(record: QueueConfigured) -> Fault | None:
    """Which list of names of a queue is too long, or has an empty name or one twice."""
    groups = tuple([limit.group for limit in record.node_group_limits])
    for names in (
        record.tenants,
        record.node_groups_required,
        record.node_groups_preferred,
        record.node_groups_anti_required,
        record.node_groups_anti_preferred,
        groups,
    ):
        if len(names) > NAMES_MAX:
            return (Reason.VALUE_OUT_OF_RANGE, len(names), NAMES_MAX)
        different = len({name: True for name in names if name})
        if different < len(names):
            return (Reason.NAMES_REPEATED, len(names), different)
    return None


def _groups_fault(state: State, groups: tuple[ResourceGroup, ...]) -> Fault | None:
    """What is wrong with quota by flavor: each flavor and resource is in one group, and all flavors
    of a group are of the same resources.
    """
    flavors: dict[str, bool] = {}
    resources: dict[str, bool] = {}
    for place, group in enumerate(groups, 1):
        covered = [[bound.resource for bound in quota.bounds] for quota in group.flavors]
        alike = all(sorted(names) == sorted(covered[0]) for names in covered)
        first = covered[0] if covered else []
        if not first or not alike or len(dict.fromkeys(first)) < len(first):
            return (Reason.QUOTA_GROUPS_OVERLAP, place, 0)
        for quota in group.flavors:
            if quota.flavor not in state.flavors:
                return (Reason.FLAVOR_UNKNOWN, place, 0)
            if quota.flavor in flavors:
                return (Reason.QUOTA_GROUPS_OVERLAP, place, 0)
            flavors[quota.flavor] = True
        for name in first:
            if not name or name in resources:
                return (Reason.QUOTA_GROUPS_OVERLAP, place, 0)
            resources[name] = True
        if len(flavors) > NAMES_MAX or len(resources) > NAMES_MAX:
            return (Reason.VALUE_OUT_OF_RANGE, max(len(flavors), len(resources)), NAMES_MAX)
    return None


def _weight_fault(state: State, record: QueueConfigured) -> Fault | None:
    """Shares of siblings are compared over the least common multiple of their weights."""
    common = max(1, record.weight)
    for queue in state.queues:
        config = queue.config
        if config.parent == record.parent and not queue.is_removed:
            if config.queue != record.queue and config.weight and common % config.weight:
                common = lcm(common, config.weight)
    if common.bit_length() > WEIGHT_BITS_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, common.bit_length(), WEIGHT_BITS_MAX)
    return None


def _place_fault(state: State, record: QueueConfigured, place: int | None) -> Fault | None:
    """What is wrong with the place of a queue in the tree."""
    if not record.parent:
        return None
    above = state.queue_by_name.get(record.parent)
    if above is None or state.queues[above].is_removed:
        return (Reason.PARENT_UNKNOWN, 0, 0)
    parent = state.queues[above]
    if place is not None and any(level.index == place for level in parent.chain):
        return (Reason.PARENT_CYCLE, 0, 0)
    depth = len(parent.chain) + (1 if place is None else _height(state, state.queues[place]))
    if depth > DEPTH_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, depth, DEPTH_MAX)
    if not parent.children and parent.jobs:
        return (Reason.PARENT_HAS_JOBS, parent.jobs, 0)
    return None


def _height(state: State, queue: Queue) -> int:
    """Levels of the subtree of a queue, its own included."""
    depths = [len(q.chain) for q in state.queues if queue in q.chain and not q.is_removed]
    return max(depths, default=len(queue.chain)) - len(queue.chain) + 1


def _sums_fault(state: State, record: QueueConfigured) -> Fault | None:
    """Children share what their parent has: where it is said for both, their guarantees and their
    deserved shares may be no more than the parent's. Asked: their sum; limit: the parent's.
    """
    below = [
        queue.config
        for queue in state.queues
        if not queue.is_removed and queue.config.queue != record.queue
    ]
    children = [config for config in below if config.parent == record.queue]
    fault = _more_than(record, children)
    if fault is None and record.parent:
        parent = state.queues[state.queue_by_name[record.parent]].config
        siblings = [config for config in below if config.parent == record.parent]
        fault = _more_than(parent, [*siblings, record])
    return fault


def _more_than(parent: QueueConfigured, children: list[QueueConfigured]) -> Fault | None:
    for of_parent, of_children in (
        (parent.guarantee, [child.guarantee for child in children]),
        (parent.deserved, [child.deserved for child in children]),
    ):
        for bound in of_parent:
            total = sum(
                amount.count
                for amounts in of_children
                for amount in amounts
                if amount.resource == bound.resource
            )
            if total > bound.count:
                return (Reason.VALUE_OUT_OF_RANGE, total, bound.count)
    return None

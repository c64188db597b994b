"""Records of operators, intake and the owner: queues, policy, reservations, flags, claims."""

from math import lcm

from ganger.schemas.enums import LimitScope, QueueState
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    Amount,
    FlagEnabled,
    FlavorConfigured,
    IntakeClaimed,
    OwnerClaimed,
    PolicyConfigured,
    QueueConfigured,
    ReservationRequested,
    ResourceGroup,
    SnapshotSealed,
    ZoneConfigured,
)
from ganger.streams.kernel import derive, progress
from ganger.streams.kernel.attempts import evict, settle
from ganger.streams.kernel.decide import reject
from ganger.streams.kernel.digest import flavor_term, zone_term
from ganger.streams.kernel.entities import ENDED, ROOT, Queue
from ganger.streams.kernel.flags import ALL_FLAGS
from ganger.streams.kernel.limits import (
    INTERVALS_MAX,
    NAMES_MAX,
    NUMBER_MAX,
    PRIORITY_MAX,
    TIME_MAX,
    WEIGHT_BITS_MAX,
    WEIGHT_MAX,
)
from ganger.streams.kernel.lines import line_up, send_back, step_out
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import build
from ganger.streams.kernel.reservations import refresh_reservations
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

DEPTH_MAX = 16
"""Levels of the queue tree."""

COUNTED = ("jobs", "waiting_jobs", "submissions_per_hour")
"""What a limit of a queue may bound beside resources."""

Fault = tuple[Reason, int, int]
"""Reason, the value asked, the limit it breaks."""


def queue_configured(state: State, record: QueueConfigured) -> None:
    """A queue is made, changed or removed."""
    fault = _fault_of(state, record)
    if fault is not None:
        reject(state, fault[0], "", fault[1], fault[2])
        return
    parent = state.queue_by_name[record.parent] if record.parent else ROOT
    place = state.queue_by_name.get(record.queue)
    moved = False
    if place is None:
        queue = Queue(len(state.queues), record, parent)
        state.queues.append(queue)
        state.queue_by_name[record.queue] = queue.index
    else:
        queue = state.queues[place]
        moved = queue.parent != parent
        queue.config = record
        queue.parent = parent
        queue.is_removed = record.removed
    state.touch(queue)
    progress.changed(state)
    derive.read_queues(state)
    if moved:
        derive.recount_queues(state)
    state.indexes.gate_grew = state.indexes.zero_grew = True
    for waiting in (state.indexes.gate, state.indexes.inqueue):
        waiting.wake_all()
    if queue.jobs:
        for job in state.jobs.values():
            if job.phase not in ENDED and queue in state.queues[job.queue].chain:
                step_out(state, job)
                line_up(state, job)
                send_back(state, job)
        if record.state is QueueState.EVICTING:
            _evict_all(state, queue)


def _evict_all(state: State, queue: Queue) -> None:
    """Every attempt of a queue, and of those below it, is told to end; its job goes back."""
    for job in list(state.jobs.values()):
        if job.pods and job.phase not in ENDED and queue in state.queues[job.queue].chain:
            step_out(state, job)
            for index in sorted(job.pods):
                evict(state, job, job.pods[index], Reason.QUEUE_EVICTED)
            settle(state, job)


def _fault_of(state: State, record: QueueConfigured) -> Fault | None:
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
    return _place_fault(state, record, place) or _weight_fault(state, record)


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
        fault = _amounts_fault(amounts)
        if fault is not None:
            return fault
    return None


def _amounts_fault(amounts: tuple[Amount, ...]) -> Fault | None:
    doubles = len(amounts) - len({amount.resource: True for amount in amounts})
    if doubles or len(amounts) > NAMES_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, len(amounts), min(NAMES_MAX, len(amounts) - doubles))
    for amount in amounts:
        if not 0 <= amount.count <= NUMBER_MAX:
            limit = 0 if amount.count < 0 else NUMBER_MAX
            return (Reason.VALUE_OUT_OF_RANGE, amount.count, limit)
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
    for value, least, most in bounds:
        if not least <= value <= most:
            return (Reason.VALUE_OUT_OF_RANGE, value, least if value < least else most)
    return None


def _limits_fault(record: QueueConfigured) -> Fault | None:
    """What is wrong with the limits of a queue, its users and tenants."""
    if len(record.limits) > NAMES_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, len(record.limits), NAMES_MAX)
    for place, limit in enumerate(record.limits, 1):
        if limit.scope is LimitScope.UNKNOWN or not limit.resource:
            return (Reason.LIMIT_UNKNOWN, place, 0)
        if limit.subject and limit.scope is LimitScope.QUEUE:
            return (Reason.LIMIT_UNKNOWN, place, 0)
        if not 0 <= limit.count <= NUMBER_MAX:
            return (
                Reason.VALUE_OUT_OF_RANGE,
                limit.count,
                0 if limit.count < 0 else NUMBER_MAX,
            )
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


def policy_configured(state: State, record: PolicyConfigured) -> None:
    """The policy changes from the next cycle on; a wrong one is refused and the old one stays."""
    try:
        policy = build(record)
    except PolicyRefused as refused:
        reject(state, refused.reason)
        return
    state.policy_record = record
    state.policy = policy
    progress.changed(state)
    derive.rebuild_lines(state)
    derive.rebuild_timers(state)  # its settings say when attempts and jobs time out


def reservation_requested(state: State, record: ReservationRequested) -> None:
    """Nodes are kept free of new pods for a while, or given back."""
    if record.cancelled:
        if state.reservations.pop(record.reservation, None) is None:
            reject(state, Reason.RESERVATION_UNKNOWN)
            return
    else:
        if record.cards:
            reject(state, Reason.VALUE_OUT_OF_RANGE, "", record.cards, 0)
            return
        if record.request is not None or record.pods:
            reject(state, Reason.VALUE_OUT_OF_RANGE, "", record.pods, 0)
            return
        if not record.nodes:
            reject(state, Reason.RESERVATION_WITHOUT_NODES)
            return
        if any(name not in state.node_by_name for name in record.nodes):
            reject(state, Reason.NODE_UNKNOWN)
            return
        if not 0 <= record.from_ns < record.to_ns:
            reject(state, Reason.VALUE_OUT_OF_RANGE, "", record.from_ns, record.to_ns)
            return
        if record.to_ns > TIME_MAX:
            reject(state, Reason.VALUE_OUT_OF_RANGE, "", record.to_ns, TIME_MAX)
            return
        state.reservations[record.reservation] = record
        for at_ns in (record.from_ns, record.to_ns):
            if at_ns > state.clock_ns:
                state.indexes.timers.at(at_ns, Wake.RESERVATION)
    refresh_reservations(state)


def flavor_configured(state: State, record: FlavorConfigured) -> None:
    """A flavor is made, changed or, when no queue has quota in it, removed."""
    old = state.flavors.get(record.flavor)
    if not record.flavor or (record.removed and old is None):
        reject(state, Reason.FLAVOR_UNKNOWN)
        return
    most = max(len(record.labels), len(record.taints), len(record.tolerations))
    if most > NAMES_MAX:
        reject(state, Reason.VALUE_OUT_OF_RANGE, "", most, NAMES_MAX)
        return
    different = len({label.key: True for label in record.labels if label.key})
    if different < len(record.labels):
        reject(state, Reason.NAMES_REPEATED, "", len(record.labels), different)
        return
    if record.removed:
        users = [queue for queue in state.queues if _has_flavor(queue, record.flavor)]
        if users:
            reject(state, Reason.FLAVOR_USED, "", len(users))
            return
        del state.flavors[record.flavor]
    else:
        if old is None and len(state.flavors) >= NAMES_MAX:
            reject(state, Reason.VALUE_OUT_OF_RANGE, "", len(state.flavors) + 1, NAMES_MAX)
            return
        state.flavors[record.flavor] = record
    state.digest += flavor_term(state.flavors.get(record.flavor)) - flavor_term(old)
    progress.changed(state)
    state.indexes.gate_grew = state.indexes.zero_grew = True
    for waiting in (state.indexes.gate, state.indexes.inqueue):
        waiting.wake_all()


def _has_flavor(queue: Queue, flavor: str) -> bool:
    groups = () if queue.is_removed else queue.config.resource_groups
    return any(quota.flavor == flavor for group in groups for quota in group.flavors)


def zone_configured(state: State, record: ZoneConfigured) -> None:
    """The times of a zone are set anew, or it is removed."""
    old = state.zones.get(record.zone)
    if not record.zone or (record.removed and old is None):
        reject(state, Reason.ZONE_UNKNOWN)
        return
    if old is None and len(state.zones) >= NAMES_MAX:
        reject(state, Reason.VALUE_OUT_OF_RANGE, "", len(state.zones) + 1, NAMES_MAX)
        return
    if len(record.open) > INTERVALS_MAX:
        reject(state, Reason.VALUE_OUT_OF_RANGE, "", len(record.open), INTERVALS_MAX)
        return
    before_ns = -1
    for span in record.open:  # ascending and apart
        if not before_ns < span.from_ns < span.to_ns <= TIME_MAX:
            reject(state, Reason.VALUE_OUT_OF_RANGE, "", span.from_ns, span.to_ns)
            return
        before_ns = span.to_ns
    if record.removed:
        del state.zones[record.zone]
    else:
        state.zones[record.zone] = record
    state.digest += zone_term(state.zones.get(record.zone)) - zone_term(old)
    progress.changed(state)


def flag_enabled(state: State, record: FlagEnabled) -> None:
    """A flag acts from the next record on."""
    if record.flag not in ALL_FLAGS:
        reject(state, Reason.FLAG_UNKNOWN, "", record.flag, ALL_FLAGS[-1] if ALL_FLAGS else 0)
    elif record.flag not in state.flags:
        state.flags = tuple(sorted((*state.flags, record.flag)))


def intake_claimed(state: State, record: IntakeClaimed) -> None:
    """Heartbeats have a new intake; what earlier ones still say of silence counts no more."""
    state.claim = state.cause


def owner_claimed(state: State, record: OwnerClaimed) -> None:
    """The cell has a new owner; Ticks of earlier ones count no more."""
    state.epoch = state.cause


def snapshot_sealed(state: State, record: SnapshotSealed) -> None:
    """A proof for readers; decides nothing."""

"""Records of operators, intake and the owner: queues, policy, flavors, zones, flags, claims."""

from ganger.schemas.enums import QueueState
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    FlagEnabled,
    FlavorConfigured,
    IntakeClaimed,
    OwnerClaimed,
    PolicyConfigured,
    QueueConfigured,
    SnapshotSealed,
    ZoneConfigured,
)
from ganger.streams.kernel import derive
from ganger.streams.kernel.decide import reject
from ganger.streams.kernel.digest import flavor_term, zone_term
from ganger.streams.kernel.entities import ENDED, ROOT, Queue
from ganger.streams.kernel.flags import ALL_FLAGS
from ganger.streams.kernel.handlers.queue_faults import queue_fault
from ganger.streams.kernel.jobs import progress
from ganger.streams.kernel.jobs.attempts import end_rests, settle
from ganger.streams.kernel.jobs.lines import line_up, send_back, step_out
from ganger.streams.kernel.limits import (
    INTERVALS_MAX,
    NAMES_MAX,
    TIME_MAX,
)
from ganger.streams.kernel.nodes import zones
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import build
from ganger.streams.kernel.preemption.evictions import evict
from ganger.streams.kernel.queues import held_quota
from ganger.streams.kernel.state import State


def queue_configured(state: State, record: QueueConfigured) -> None:
    """A queue is made, changed or removed."""
    fault = queue_fault(state, record)
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


def policy_configured(state: State, record: PolicyConfigured) -> None:
    """The policy changes from the next cycle on; a wrong one is refused and the old one stays."""
    try:
        policy = build(record)
    except PolicyRefused as refused:
        reject(state, refused.reason)
        return
    counts_others = policy.admits_unasked != state.policy.admits_unasked
    if state.policy.asks_quota and not policy.asks_quota:
        held_quota.forget_all(state)
    state.policy_record = record
    state.policy = policy
    progress.changed(state)
    if counts_others:
        derive.recount_queues(state)
    derive.rebuild_lines(state)
    derive.rebuild_timers(state)  # its settings say when attempts and jobs time out
    if not policy.resumes:
        end_rests(state)


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
        zones.watch(state, record)
    state.digest += zone_term(state.zones.get(record.zone)) - zone_term(old)
    progress.changed(state)
    zones.turned(state)


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

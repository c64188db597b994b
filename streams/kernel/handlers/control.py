"""Records of operators, intake and the owner: queues, policy, reservations, flags, claims."""

from math import lcm

from ganger.schemas.enums import QueueState
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    FlagEnabled,
    IntakeClaimed,
    OwnerClaimed,
    PolicyConfigured,
    QueueConfigured,
    ReservationRequested,
    SnapshotSealed,
)
from ganger.streams.kernel import derive
from ganger.streams.kernel.decide import reject
from ganger.streams.kernel.entities import ENDED, ROOT, Queue
from ganger.streams.kernel.flags import ALL_FLAGS
from ganger.streams.kernel.limits import (
    NAMES_MAX,
    NUMBER_MAX,
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


def _fault_of(state: State, record: QueueConfigured) -> tuple[Reason, int, int] | None:
    if not record.queue:
        return (Reason.QUEUE_UNKNOWN, 0, 0)
    if not 1 <= record.weight <= WEIGHT_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, record.weight, WEIGHT_MAX)
    if record.state is QueueState.UNKNOWN:
        return (Reason.VALUE_OUT_OF_RANGE, 0, 1)
    fault = _bounds_fault(record)
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


def _bounds_fault(record: QueueConfigured) -> tuple[Reason, int, int] | None:
    """What is wrong with the amounts of a queue: one per resource, none negative."""
    for amounts in (
        record.guarantee,
        record.deserved,
        record.capability,
        record.borrowing_limit,
        record.lending_limit,
    ):
        doubles = len(amounts) - len({amount.resource: True for amount in amounts})
        if doubles or len(amounts) > NAMES_MAX:
            return (Reason.VALUE_OUT_OF_RANGE, len(amounts), min(NAMES_MAX, len(amounts) - doubles))
        for amount in amounts:
            if not 0 <= amount.count <= NUMBER_MAX:
                limit = 0 if amount.count < 0 else NUMBER_MAX
                return (Reason.VALUE_OUT_OF_RANGE, amount.count, limit)
    return None


def _weight_fault(state: State, record: QueueConfigured) -> tuple[Reason, int, int] | None:
    """Shares of siblings are compared over the least common multiple of their weights."""
    common = record.weight
    for queue in state.queues:
        config = queue.config
        if config.parent == record.parent and not queue.is_removed:
            if config.queue != record.queue and common % config.weight:
                common = lcm(common, config.weight)
    if common.bit_length() > WEIGHT_BITS_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, common.bit_length(), WEIGHT_BITS_MAX)
    return None


def _place_fault(
    state: State, record: QueueConfigured, place: int | None
) -> tuple[Reason, int, int] | None:
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

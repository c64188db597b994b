"""The kernel's one entry: `step(state, seq, record) -> decisions`.

Live running, recovery, audit, what-if and simulation call this same function. It changes the state
in place and returns what the record led to; it reads nothing but its arguments.
"""

from collections.abc import Callable
from typing import Any

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.streams.kernel.cycle import run_cycle
from ganger.streams.kernel.digest import event_term
from ganger.streams.kernel.handlers import adoption, control, jobs, nodes, pods, time, windows
from ganger.streams.kernel.handlers.time import next_wake
from ganger.streams.kernel.limits import TIME_MAX
from ganger.streams.kernel.state import State

__all__ = ["HANDLERS", "OutOfOrder", "next_wake", "step"]


def _tick(state: State, record: r.Tick) -> None:
    """Time passes; then a cycle runs, if the Tick says so."""
    if time.pass_time(state, record) and record.cycle:
        run_cycle(state)


HANDLERS: dict[type[r.Record], Callable[[State, Any], None]] = {
    r.JobSubmitRequested: jobs.submit,
    r.JobCancelRequested: jobs.cancel,
    r.JobUpdateRequested: jobs.update,
    r.PodStarted: pods.started,
    r.PodProgressed: pods.progressed,
    r.PodCheckpointed: pods.checkpointed,
    r.PodSucceeded: pods.succeeded,
    r.PodFailed: pods.failed,
    r.PodReleased: pods.released,
    r.PodSuspended: pods.suspended,
    r.PodResumed: pods.resumed,
    r.PodAdopted: adoption.adopted,
    r.QueueConfigured: control.queue_configured,
    r.PolicyConfigured: control.policy_configured,
    r.NodeCordoned: nodes.cordoned,
    r.NodeUncordoned: nodes.uncordoned,
    r.NodeDrained: nodes.drained,
    r.ReservationRequested: windows.reservation_requested,
    r.FlagEnabled: control.flag_enabled,
    r.IntakeClaimed: control.intake_claimed,
    r.NodeChanged: nodes.changed,
    r.NodeLost: nodes.lost,
    r.NodeReturned: nodes.returned,
    r.OwnerClaimed: control.owner_claimed,
    r.Tick: _tick,
    r.SnapshotSealed: control.snapshot_sealed,
    r.FlavorConfigured: control.flavor_configured,
    r.ZoneConfigured: control.zone_configured,
}
"""Everything a ledger may hold: not `NodeHeartbeat`, which intake turns into other facts."""


class OutOfOrder(Exception):
    """A record was handed over out of its turn."""

    def __init__(self, seq: int, expected: int) -> None:
        super().__init__(f"record {seq} handed to the kernel, record {expected} is due")
        self.seq = seq
        self.expected = expected


def step(state: State, seq: int, record: r.Record) -> list[Decision]:
    """Apply one record; returns its decisions in order, chain included.

    Raises:
        OutOfOrder: `seq` is not the next one; nothing has changed.
        KeyError: the record is of a type that no ledger may hold; nothing has changed.
    """
    if seq != state.next_seq:
        raise OutOfOrder(seq, state.next_seq)
    handler = HANDLERS[record.__class__]
    state.next_seq = seq + 1
    state.cause = seq
    state.decision_index = 0
    now, clock = record.time_ns, state.clock_ns
    if now <= clock:
        now = clock
    elif state.policy.settings.tick_max_ns or now > TIME_MAX:
        now = _clamped(state, now)
    state.now_ns = now
    if record.source is not None and _is_copy(state, record.source):
        return []
    if record.event_id and _is_repeat(state, record.event_id):
        return []
    handler(state, record)
    decisions = state.outbox
    state.outbox = []
    return decisions


def _clamped(state: State, now_ns: int) -> int:
    """A record's own time, at most `tick_max` beyond the clock once there is one."""
    beyond = state.policy.settings.tick_max_ns
    if not state.clock_ns or not beyond:
        return min(now_ns, TIME_MAX)
    return min(now_ns, state.clock_ns + beyond, TIME_MAX)


def _is_copy(state: State, source: r.Source) -> bool:
    """Whether the input was appended before; else remember that it is now."""
    place = (source.topic, source.partition)
    position = (source.offset, source.index)
    highest = state.sources.get(place)
    if highest is not None and position <= highest:
        return True
    state.sources[place] = position
    return False


def _is_repeat(state: State, event_id: str) -> bool:
    """Whether the id was seen within the window; else remember it."""
    if event_id in state.event_ids:
        return True
    state.event_ids[event_id] = state.now_ns
    state.digest += event_term(event_id)
    return False

"""Requests to keep nodes or cards for a while, and to give them back."""

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.schemas.records import PodRequest, ReservationRequested
from ganger.streams.kernel.decide import of_job, reject, say
from ganger.streams.kernel.handlers.job_faults import Fault
from ganger.streams.kernel.jobs.lines import mark_anew
from ganger.streams.kernel.limits import CARDS_MAX, NAMES_MAX, QUANTITY_MAX, TIME_MAX
from ganger.streams.kernel.nodes.reservations import (
    drop,
    find_places,
    offer,
    read,
    refresh_reservations,
)
from ganger.streams.kernel.nodes.windows import Place
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake
from ganger.streams.kernel.topology import spans

PODS_MAX = 1 << 16
"""Pods of a shape in one request."""


def reservation_requested(state: State, record: ReservationRequested) -> None:
    """Nodes, cards or places for a shape are kept for a while, or given back."""
    name = record.reservation
    places: tuple[Place, ...] = ()
    if record.cancelled:
        if name not in state.reservations:
            reject(state, Reason.RESERVATION_UNKNOWN)
            return
        drop(state, name)
    else:
        fault = _fault(state, record)
        if fault is not None:
            reject(state, fault[0], "", fault[1], fault[2])
            return
        if record.cards or record.request is not None:
            found = find_places(state, record)
            if found and isinstance(found[0], Reason):
                reject(state, found[0], "", found[1], found[2])
                return
            places = found
        if name in state.reservations:
            drop(state, name)
        state.reservations[name] = record
        if places:
            state.places[name] = places
        for at_ns in (record.from_ns, record.to_ns):
            if at_ns > state.clock_ns:
                state.indexes.timers.at(at_ns, Wake.RESERVATION)
    read(state)
    offer(state)
    refresh_reservations(state)
    mark_anew(state)
    for place in places:
        _say(state, record, place)


def _say(state: State, record: ReservationRequested, place: Place) -> None:
    """RESERVE of no job: which cards of a node the reservation that `rule` names keeps."""
    node = state.nodes[place.node]
    count = place.mask.bit_count() * CARD_MILLI
    free = node.free_count * CARD_MILLI
    capacity = node.healthy.bit_count() * CARD_MILLI
    decision = of_job(state, DecisionKind.RESERVE, "", Reason.NODE_RESERVED, count, free, capacity)
    decision.node = node.report.node
    decision.cards = spans(place.mask)
    decision.rule = record.reservation
    decision.start_ns, decision.until_ns = record.from_ns, record.to_ns
    say(state, decision)


def _fault(state: State, record: ReservationRequested) -> Fault | None:
    """Why nothing is reserved so. Nobody uses what is under maintenance."""
    fault = _fault_of_places(state, record)
    if fault is not None:
        return fault
    if not 0 <= record.from_ns < record.to_ns:
        return (Reason.VALUE_OUT_OF_RANGE, record.from_ns, record.to_ns)
    if record.to_ns > TIME_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, record.to_ns, TIME_MAX)
    for names in (record.queues, record.users, record.tenants):
        if len(names) > NAMES_MAX:
            return (Reason.VALUE_OUT_OF_RANGE, len(names), NAMES_MAX)
        if names and record.is_maintenance:
            return (Reason.VALUE_OUT_OF_RANGE, len(names), 0)
        different = len({name: True for name in names if name})
        if different < len(names):
            return (Reason.NAMES_REPEATED, len(names), different)
    for name in record.queues:
        place = state.queue_by_name.get(name)
        if place is None or state.queues[place].is_removed:
            return (Reason.QUEUE_UNKNOWN, 0, 0)
    return None


def _fault_of_places(state: State, record: ReservationRequested) -> Fault | None:
    """What is wrong with what is to be kept: nodes, cards of nodes, or a shape so many times."""
    if record.request is not None:
        for excess in (len(record.nodes), record.cards):  # a shape finds its own nodes
            if excess:
                return (Reason.VALUE_OUT_OF_RANGE, excess, 0)
        return _fault_of_shape(record.request, record.pods)
    if record.pods:
        return (Reason.VALUE_OUT_OF_RANGE, record.pods, 0)
    if not record.nodes:
        return (Reason.RESERVATION_WITHOUT_NODES, 0, 0)
    if any(name not in state.node_by_name for name in record.nodes):
        return (Reason.NODE_UNKNOWN, 0, 0)
    if not 0 <= record.cards <= CARDS_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, record.cards, CARDS_MAX)
    different = len(dict.fromkeys(record.nodes, True))
    if record.cards and different < len(record.nodes):
        return (Reason.NAMES_REPEATED, len(record.nodes), different)
    return None


def _fault_of_shape(request: PodRequest, pods: int) -> Fault | None:
    """Why no places are kept for a shape: it asks for whole cards, and for cpu and memory beside
    them, but for nothing else that could be kept.
    """
    if not 0 < pods <= PODS_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, pods, PODS_MAX)
    if not 0 < request.cards <= CARDS_MAX:
        return (Reason.VALUE_OUT_OF_RANGE, request.cards, CARDS_MAX)
    shares = request.card_milli, request.card_memory_mib, request.card_count
    for excess in (*shares, len(request.resources)):
        if excess:
            return (Reason.VALUE_OUT_OF_RANGE, excess, 0)
    for amount in (request.cpu_milli, request.memory_mib, request.min_card_memory_mib):
        if not 0 <= amount <= QUANTITY_MAX:
            return (Reason.VALUE_OUT_OF_RANGE, amount, QUANTITY_MAX)
    return None

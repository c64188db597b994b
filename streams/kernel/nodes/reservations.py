"""Nodes kept free of new pods for a while, by request."""

from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.state import State


def reserved_nodes(state: State) -> dict[str, bool]:
    """Names of the nodes inside a reservation that is active now, each mapped to True."""
    return {
        name: True
        for reservation in state.reservations.values()
        if reservation.from_ns <= state.clock_ns < reservation.to_ns
        for name in reservation.nodes
    }


def refresh_reservations(state: State) -> None:
    """Close and open nodes as the reservations of this moment say; drop those that are over."""
    over = [name for name, r in state.reservations.items() if r.to_ns <= state.clock_ns]
    for name in over:
        del state.reservations[name]
    reserved = reserved_nodes(state)
    for node in state.nodes:
        is_reserved = node.report.node in reserved
        if is_reserved != node.is_reserved:
            node.is_reserved = is_reserved
            occupancy.reopen(state, node)

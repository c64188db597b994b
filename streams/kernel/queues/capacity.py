"""What the cell could hold if nothing ran on it: who asks more is not admitted.

Bounds by cards alone, class by class; cpu and memory are bounded by the cell's totals.
"""

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import CARD_MILLI, JobShape, Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import pods_in


def never_fits(state: State, job: JobShape) -> Refusal | None:
    """Why no set of nodes, all empty, could hold the smallest start of a job; none if one might.

    A function of the nodes that are not lost. O(classes) per role, remembered until they change.
    """
    known = state.indexes.never_fits
    if job in known:
        return known[job]
    refusal = None
    total = 0
    for role, shape in zip(job.roles, job.shapes, strict=True):
        room = room_when_empty(state, shape, role.replicas)
        total += room
        if room < role.min_available:
            refusal = Refusal(Reason.NEVER_FITS, role.min_available, room)
            break
    need = max(1, job.min_available)
    if refusal is None and total < need:
        refusal = Refusal(Reason.NEVER_FITS, need, total)
    if len(known) >= 1 << 16:
        known.clear()
    known[job] = refusal
    return refusal


def room_when_empty(state: State, shape: Shape, enough: int) -> int:
    """A bound on the pods of a shape that all nodes, empty, would hold; stops at `enough`."""
    if not shape.cards_milli:
        return enough
    total = 0
    for kind, mask, _ in state.indexes.nodes.eligible(shape):
        if shape.card_milli:
            fit = mask.bit_count() * (CARD_MILLI // shape.card_milli)
        else:
            fit = pods_in(mask, shape.cards, kind.islands, shape.same_island)
        total += fit * kind.node_count
        if total >= enough:
            return enough
    return total

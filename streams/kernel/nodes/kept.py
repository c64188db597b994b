"""What reservations by request keep from a waiting job, for whoever asks why it waits."""

import msgspec

from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.nodes.bars import met_by, run_ns
from ganger.streams.kernel.nodes.windows import WHOLE
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.state import State

EXAMPLES = 3
"""Nodes named with each reservation."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A reservation that a job would meet if it started now, and that is not for it.

    Attributes:
        reservation: its name.
        from_ns: when it begins.
        to_ns: when it ends.
        queues: for whose jobs it is, those of queues below them too; of nobody in these three
            where all are empty.
        users: the same by user.
        tenants: the same by tenant.
        is_maintenance: nobody may use it since something is done there.
        cards: milli-cards kept; 0 where whole nodes are.
        node_count: nodes on which something is kept; the first are named.
        nodes: their names.
        run_ns: how long the job is expected to run; 0 = nobody knows.
    """

    reservation: str
    from_ns: int
    to_ns: int
    queues: tuple[str, ...]
    users: tuple[str, ...]
    tenants: tuple[str, ...]
    is_maintenance: bool
    cards: int
    node_count: int
    nodes: tuple[str, ...]
    run_ns: int


def kept_from(state: State, job: Job) -> tuple[Kept, ...]:
    """The reservations that a job would meet if it started now, by begin."""
    found = []
    for record, places in met_by(state, job):
        nodes = list(dict.fromkeys([place.node for place in places]))
        cards = sum(place.mask.bit_count() for place in places if place.mask != WHOLE)
        found.append(
            Kept(
                record.reservation,
                record.from_ns,
                record.to_ns,
                record.queues,
                record.users,
                record.tenants,
                record.is_maintenance,
                cards * CARD_MILLI,
                len(nodes),
                tuple([state.nodes[node].report.node for node in nodes[:EXAMPLES]]),
                run_ns(state, job),
            )
        )
    return tuple(found)

"""Nodes and cards kept for some jobs, or for nobody, for a while, by request.

A request names nodes, with all they have or so many cards of each, or a shape that finds its own
places. Which cards those are is settled when the request comes and is a fact from then on. What is
kept from whom, and when, says module `windows`.
"""

from collections.abc import Iterator

from ganger.schemas.reasons import Reason
from ganger.schemas.records import ReservationRequested
from ganger.streams.kernel.backfill import estimates
from ganger.streams.kernel.entities import Node
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.nodes.node_index import matches, suitable_cards
from ganger.streams.kernel.nodes.windows import WHOLE, Place, Window, Windows
from ganger.streams.kernel.resources import ResourceTable, Shape
from ganger.streams.kernel.settings import FREED, STIRRED
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards

Lack = tuple[Reason, int, int]
"""Why places cannot be had: the reason, what was asked, what there is."""

# ---- keeping -------------------------------------------------------------------------------------


def closed_nodes(state: State) -> dict[str, bool]:
    """Names of the nodes that are kept from everybody now, each mapped to True."""
    return {
        name: True
        for reservation in state.reservations.values()
        if reservation.from_ns <= state.clock_ns < reservation.to_ns
        if not (reservation.cards or is_for_some(reservation))
        for name in reservation.nodes
    }


def is_for_some(record: ReservationRequested) -> bool:
    """Whether there is a list of those who may use it."""
    return bool(record.queues or record.users or record.tenants)


def refresh_reservations(state: State) -> bool:
    """Close and open nodes as the reservations of this moment say; drop those that are over, and
    offer what they kept. Returns whether any was over.
    """
    over = [name for name, r in state.reservations.items() if r.to_ns <= state.clock_ns]
    for name in over:
        drop(state, name)
    closed = closed_nodes(state)
    for node in state.nodes:
        is_reserved = node.report.node in closed
        if is_reserved != node.is_reserved:
            node.is_reserved = is_reserved
            occupancy.reopen(state, node)
    if over:
        read(state)
        offer(state)
    return bool(over)


def drop(state: State, name: str) -> None:
    """Forget a reservation."""
    del state.reservations[name]
    state.places.pop(name, None)


def read(state: State) -> None:
    """Make the windows anew from the facts."""
    windows = [
        Window(record, state.places.get(name) or _whole(state, record))
        for name, record in state.reservations.items()
    ]
    state.indexes.windows = Windows(windows) if windows else None
    if state.indexes.futures is not None:
        state.indexes.futures.prospect = None


def _whole(state: State, record: ReservationRequested) -> tuple[Place, ...]:
    return tuple([Place(state.node_by_name[name], WHOLE) for name in record.nodes])


def offer(state: State) -> None:
    """What was kept may be had: let all who wait be asked again."""
    indexes = state.indexes
    indexes.gate.wake_all()
    indexes.inqueue.wake_all()
    indexes.gate_grew = indexes.zero_grew = True
    indexes.evict_epoch += 1
    if state.policy.is_timed:
        state.stirred |= STIRRED | FREED


# ---- finding places ------------------------------------------------------------------------------


def find_places(state: State, record: ReservationRequested) -> tuple[Place, ...] | Lack:
    """The cards for a request that does not ask for whole nodes.

    Cards that another reservation keeps at any time of this one are left alone. Those that are
    free, or expected to be when it begins, come first; then whichever there are.
    """
    taken = _taken(state, record)
    if record.request is not None:
        shape = Shape(record.request, ResourceTable())
        return _of_shape(state, record, shape, taken)
    places = []
    for name in record.nodes:
        node = state.nodes[state.node_by_name[name]]
        assert node.kind is not None
        best, rest = _cards(state, node, node.healthy, record.from_ns, taken)
        chosen = _choose(best, rest, record.cards, node.kind.islands)
        if not chosen:
            return Reason.CARDS_TOO_FEW, record.cards, (best | rest).bit_count()
        places.append(Place(node.index, chosen))
    return tuple(places)


def _taken(state: State, record: ReservationRequested) -> dict[int, list[tuple[int, int, int]]]:
    """What other reservations keep at some time of this one: by node the mask, cpu and memory."""
    taken: dict[int, list[tuple[int, int, int]]] = {}
    for window in () if state.indexes.windows is None else state.indexes.windows.windows:
        other = window.record
        if other.reservation == record.reservation:
            continue
        if other.from_ns < record.to_ns and record.from_ns < other.to_ns:
            cpu = 0 if other.request is None else other.request.cpu_milli
            memory = 0 if other.request is None else other.request.memory_mib
            for node, mask in window.places:
                taken.setdefault(node, []).append((mask, cpu, memory))
    return taken


def _cards(
    state: State,
    node: Node,
    cards: int,
    from_ns: int,
    taken: dict[int, list[tuple[int, int, int]]],
) -> tuple[int, int]:
    """Of a node's cards those that may be had and are free by then; and the others of them."""
    for mask, _, _ in taken.get(node.index, ()):
        cards &= ~mask
    best = cards & (node.free | _freed(state, node, from_ns))
    return best, cards & ~best


def _freed(state: State, node: Node, from_ns: int) -> int:
    """Cards that are expected to come free by a moment, and are claimed by nobody."""
    mask = stays = 0
    for pod in node.pods.values():
        if estimates.expected_end(state, state.jobs[pod.job], pod) <= from_ns:
            mask |= pod.mask
        else:
            stays |= pod.mask
    return mask & ~stays & ~node.claimed


def _choose(best: int, rest: int, count: int, islands: tuple[int, ...]) -> int:
    """So many cards, the best first; 0: there are too few."""
    if best.bit_count() >= count:
        return choose_cards(best, count, islands, False)
    more = choose_cards(rest, count - best.bit_count(), islands, False)
    return best | more if more else 0


def _of_shape(
    state: State,
    record: ReservationRequested,
    shape: Shape,
    taken: dict[int, list[tuple[int, int, int]]],
) -> tuple[Place, ...] | Lack:
    """Places for so many pods, on the nodes that are used most and still suffice."""
    places: list[Place] = []
    rooms = {node.index: room for node, room in _rooms(state, shape, taken)}
    found: dict[int, tuple[int, int]] = {}
    for index, (mask, _) in rooms.items():
        found[index] = _cards(state, state.nodes[index], mask, record.from_ns, taken)
    for is_last in (False, True):
        order = sorted(found, key=lambda index: (found[index][0].bit_count(), index))
        for index in order:
            best, rest = found[index]
            free = best | rest if is_last else best
            kind = state.nodes[index].kind
            assert kind is not None
            left = rooms[index][1]
            while left and len(places) < record.pods:
                chosen = choose_cards(free, shape.cards, kind.islands, shape.same_island)
                if not chosen:
                    break
                places.append(Place(index, chosen))
                free &= ~chosen
                left -= 1
            rooms[index] = (rooms[index][0], left)
            found[index] = (best & free, rest if not is_last else rest & free)
    if len(places) < record.pods:
        return Reason.GANG_BELOW_MINIMUM, record.pods, len(places)
    return tuple(sorted(places))


def _rooms(
    state: State, shape: Shape, taken: dict[int, list[tuple[int, int, int]]]
) -> Iterator[tuple[Node, tuple[int, int]]]:
    """Nodes that suit a shape: the cards of each that do, and how many pods they have cpu, memory
    and slots for when nothing runs there.
    """
    for node in state.nodes:
        if node.is_lost or node.is_cordoned or node.is_draining or node.kind is None:
            continue
        mask = suitable_cards(shape, node.kind)
        if mask <= 0 or not matches(node.labels, shape.request.selectors):
            continue
        report = node.report
        kept = taken.get(node.index, ())
        pods = report.pod_slots
        if shape.cpu:
            pods = min(pods, (report.cpu_milli - sum(cpu for _, cpu, _ in kept)) // shape.cpu)
        if shape.memory:
            memory = report.memory_mib - sum(memory for _, _, memory in kept)
            pods = min(pods, memory // shape.memory)
        if pods > 0:
            yield node, (mask & node.healthy, pods)

"""Starts jobs on cards that were chosen before, and tries where a job would be placed at a time.

A trial sees nodes as they will be: without the attempts that are expected to have ended, and with
nothing on cards that somebody holds at any moment of the run; of cpu, memory and the rest it sees
the least that is left at any moment of it.
"""

from collections.abc import Sequence

from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.backfill.bases import NodeHeld, NodeProspect, base_of
from ganger.streams.kernel.backfill.futures import Futures
from ganger.streams.kernel.backfill.several import Take
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import ClaimEntry, Job, Node
from ganger.streams.kernel.nodes.bars import is_barred
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement, give_back
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State

_Numbers = tuple[int, int, int, int, dict[int, tuple[int, int]], dict[int, int]]
"""Of a node: free cards, cpu, memory, slots, rests of shared cards, other resources."""


class NodeSeats:
    """Places jobs in one cycle. See `several.Seats`."""

    __slots__ = ("_futures", "_state", "_statement", "_take")

    def __init__(self, state: State, futures: Futures, statement: Statement, take: Take) -> None:
        """`statement`: what `take` commits."""
        self._state = state
        self._futures = futures
        self._statement = statement
        self._take = take

    def start_at(
        self,
        job: Job,
        places: Sequence[ClaimEntry],
        kind: DecisionKind,
        foreseen: Foreseen,
        run_ns: int,
    ) -> bool:
        """Start a job there, if nothing keeps it; on cards whose holders are due when they are
        gone.
        """
        state, statement = self._state, self._statement
        if is_barred(state, job, places):
            return False
        claims = False
        if not self._seat_all(job, places):
            claims = True
            for holder in self._futures.due(state.now_ns):
                give_back(statement, holder)
            if not statement.operations or not self._seat_all(job, places):
                statement.discard()
                return False
        self._take(job, kind, foreseen, claims, run_ns)
        return True

    def _seat_all(self, job: Job, places: Sequence[ClaimEntry]) -> bool:
        """Hold places, all or none."""
        mark = self._statement.checkpoint()
        if all(self._seat(job, one) for one in places):
            return True
        self._statement.rollback(mark)
        return False

    def _seat(self, job: Job, place: ClaimEntry) -> bool:
        """Hold a place, if it is free and the queue may have it."""
        state, statement = self._state, self._statement
        node, shape = state.nodes[place.node], job.shape.shapes[place.role]
        queue = state.queues[job.queue]
        is_free = (
            node.is_open
            and node.free_slots > 0
            and node.free_cpu >= shape.cpu
            and node.free_memory >= shape.memory
            and all(node.free_extra.get(spot, 0) >= amount for spot, amount in shape.extra)
        )
        if not is_free:
            return False
        if queue.is_capped and not quota.headroom(queue, shape, 1, statement.held())[0]:
            return False
        if not _has_cards(node, place):
            return False
        if place.card_milli:
            statement.hold_share(place.role, shape, node, place.mask.bit_length() - 1)
            return True
        statement.hold(place.role, shape, node, (place.mask,))
        return True

    def within(
        self, job: Job, held: NodeHeld, prospect: NodeProspect, is_inside: bool = False
    ) -> tuple[ClaimEntry, ...] | None:
        """Where a job would be placed beside all that holds cards from when until when; none: it
        would not fit. O(nodes).

        `is_inside`: on cards, too, that a reservation by request keeps for it.
        """
        state = self._state
        lifts, statement = Statement(state), Statement(state)
        statement.at_ns = held.start_ns
        for end_ns, holder, _ in self._futures.releases():
            if end_ns > held.start_ns:
                break
            give_back(lifts, holder)
        shaded = [
            (node, _shade(state, node, job, held, prospect, is_inside))
            for node in state.nodes
            if node.is_open
        ]
        refusal = place_job(state, statement, job)
        places = None if refusal is not None else statement.take_entries()
        for node, numbers in shaded:
            _restore(state, node, numbers)
        lifts.discard()
        return places


def _has_cards(node: Node, place: ClaimEntry) -> bool:
    """Whether nobody holds the cards of a place, or the share that it is."""
    room = node.shared.get(place.mask.bit_length() - 1) if place.card_milli else None
    if room is None:
        return not place.mask & ~node.free
    return room[0] >= place.card_milli and room[1] >= place.card_memory


def _shade(
    state: State, node: Node, job: Job, held: NodeHeld, prospect: NodeProspect, is_inside: bool
) -> _Numbers:
    """Let a node look as it will at worst while a job runs there. Returns what it looked like.

    Attempts that have ended by the start are given back already.
    """
    numbers = (
        node.free,
        node.free_cpu,
        node.free_memory,
        node.free_slots,
        node.shared,
        node.free_extra,
    )
    others = [
        (seq, prospect.booked[seq])
        for seq in prospect.booked_on(node.index)
        if seq != job.seq
        and prospect.booked[seq].start_ns < held.until_ns
        and held.start_ns < prospect.booked[seq].until_ns
    ]
    booked = 0
    for _, other in others:
        for place in other.places:
            booked |= place.mask if place.node == node.index else 0
    if is_inside:
        lasting = base_of(state, node, job).throughout(held.start_ns, held.until_ns) & ~booked
    else:
        own = prospect.own(job.seq)
        lasting = prospect.rooms.free(node.index, held.start_ns, held.until_ns, own)
    free = node.free & lasting
    if free == node.free and not others:
        return numbers
    node.free, node.free_count = free, free.bit_count()
    if others:
        node.shared = {card: rest for card, rest in node.shared.items() if not booked >> card & 1}
        _shade_rest(state, node, held, others)
    state.indexes.nodes.update(node)
    return numbers


def _shade_rest(
    state: State, node: Node, held: NodeHeld, others: Sequence[tuple[int, NodeHeld]]
) -> None:
    """The same for what is not cards: the least that is left of each at any moment of the run."""
    futures = state.indexes.futures
    assert futures is not None
    changes: dict[int, list[tuple[int, Shape]]] = {}
    for holder, pod in node.pods.items():
        found = futures.expected(holder)
        if found is not None and held.start_ns < found[0] < held.until_ns:
            changes.setdefault(found[0], []).append((1, pod.shape))
    for seq, other in others:
        shapes = state.jobs[seq].shape.shapes
        for place in other.places:
            if place.node == node.index:
                start_ns = max(held.start_ns, other.start_ns)
                changes.setdefault(start_ns, []).append((-1, shapes[place.role]))
                changes.setdefault(other.until_ns, []).append((1, shapes[place.role]))
    sums, lows = [0, 0, 0], [0, 0, 0]
    extra: dict[int, int] = {}
    extra_lows: dict[int, int] = {}
    for at_ns in sorted(changes):
        if at_ns >= held.until_ns:
            break
        for sign, shape in changes[at_ns]:
            for which, amount in enumerate((shape.cpu, shape.memory, 1)):
                sums[which] += sign * amount
            for name, amount in shape.extra:
                extra[name] = extra.get(name, 0) + sign * amount
        lows = [min(pair) for pair in zip(lows, sums, strict=True)]
        for name, amount in extra.items():
            extra_lows[name] = min(extra_lows.get(name, 0), amount)
    node.free_cpu += lows[0]
    node.free_memory += lows[1]
    node.free_slots += lows[2]
    node.free_extra = {
        name: amount + extra_lows.get(name, 0) for name, amount in node.free_extra.items()
    }


def _restore(state: State, node: Node, numbers: _Numbers) -> None:
    """Undo of `_shade`."""
    node.free, node.free_cpu, node.free_memory, node.free_slots, node.shared, extra = numbers
    node.free_extra = extra
    node.free_count = node.free.bit_count()
    state.indexes.nodes.update(node)

"""Several reservations at a time on several nodes: what all policies that make them have in common.

The plain meaning of a reservation: the first moment, from now on, at which the job would be placed
if what runs ended as expected, on cards that are free for its whole estimate beside all that is
reserved before it; these very cards are held for it.

Where a job asks for cards alone that moment and the cards are asked of an index (`prospect`); any
other job is placed, at the moments that the index leaves.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.backfill import bookings, estimates
from ganger.streams.kernel.backfill.bases import CardFit, Gang, NodeHeld, NodeProspect, base_of
from ganger.streams.kernel.backfill.bookings import Room
from ganger.streams.kernel.backfill.estimates import Estimate
from ganger.streams.kernel.backfill.futures import Futures
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Booking, ClaimEntry, Job
from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.prospect import by_node
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.jobs.waiting import GROWING
from ganger.streams.kernel.resources import CARD_MILLI, CARDS
from ganger.streams.kernel.settings import Timing
from ganger.streams.kernel.state import State

TRIALS_MAX = 1000
"""Placements tried in a pass, of jobs that ask for more than cards."""

Take = Callable[[Job, DecisionKind, Foreseen, bool, int], None]
"""Starts the job that is placed in the statement; then whether on cards that are due, and for how
long it counts as to run: 0 = as long as is expected of it now.
"""


class Seats(Protocol):
    """Starts jobs on cards that are chosen, and tries where they would be placed."""

    def start_at(
        self,
        job: Job,
        places: Sequence[ClaimEntry],
        kind: DecisionKind,
        foreseen: Foreseen,
        run_ns: int,
    ) -> bool:
        """Start a job there, if nothing keeps it; on cards whose holders are due when they are
        gone. `run_ns`: it counts as to run so long; 0: as long as is expected of it.
        """
        ...

    def within(
        self, job: Job, held: NodeHeld, prospect: NodeProspect, is_inside: bool = False
    ) -> tuple[ClaimEntry, ...] | None:
        """Where a job would be placed beside all that holds cards from when until when; none: it
        would not fit. `is_inside`: on cards, too, that a reservation by request keeps for it.
        """
        ...


class Several:
    """One pass."""

    __slots__ = ("_futures", "_hand", "_left", "_state", "_timing")

    def __init__(self, state: State, futures: Futures, timing: Timing, hand: Seats) -> None:
        self._state = state
        self._futures = futures
        self._timing = timing
        self._hand = hand
        self._left = TRIALS_MAX  # placements that may be tried yet

    def fits(self, job: Job) -> bool:
        """Whether the submission of a job calls for a pass."""
        raise NotImplementedError

    def start_lone(self, job: Job) -> bool:
        """Start a job where nobody else waits; whether it could."""
        raise NotImplementedError

    def walk(self) -> None:
        """Start and reserve, first come first."""
        raise NotImplementedError

    def scan(self) -> None:
        """Offer gaps to those behind."""
        raise NotImplementedError

    def _prospect(self) -> tuple[NodeProspect, list[int]]:
        """What is expected of the nodes, and whose bookings were displaced by what has happened."""
        state, futures = self._state, self._futures
        prospect = futures.prospect
        touched = list(futures.touched)
        futures.touched.clear()
        if prospect is not None and prospect.fit.is_of(touched):
            return prospect, prospect.catch_up(state.now_ns, self._bases(touched))
        bases = [base_of(state, node) for node in state.nodes]
        fit = CardFit(state.indexes.nodes)
        futures.prospect = prospect = NodeProspect(state.now_ns, bases, fit)
        return prospect, self._restore(prospect)

    def _bases(self, nodes: Iterable[int]) -> dict[int, Masks]:
        """What nodes have free but for bookings."""
        return {place: base_of(self._state, self._state.nodes[place]) for place in nodes}

    def _restore(self, prospect: NodeProspect) -> list[int]:
        """Book anew what is booked; who has no cards there any more. First by start, so that cards
        are found wherever counts have promised them.
        """
        raise NotImplementedError

    # ---- finding --------------------------------------------------------------------------------

    def _find(
        self,
        prospect: NodeProspect,
        job: Job,
        duration_ns: int,
        not_before_ns: int,
        before_ns: int = FOREVER,
        own: NodeHeld | None = None,
    ) -> NodeHeld | None:
        """The first start of a job within a time, and its cards; none: there is none.

        Args:
            prospect: of the nodes.
            job: one that waits.
            duration_ns: at least 1; `FOREVER` where no end is known.
            not_before_ns: from now on.
            before_ns: only an earlier start is of use.
            own: what is booked for the job, for as long and not before that: it counts as free.
        """
        gang = gang_of(self._state, job)
        cards = None if own is None else prospect.own(job.seq)
        if gang is not None:
            opening = prospect.rooms.earliest(gang, duration_ns, not_before_ns, before_ns, cards)
            if opening is None:
                return None
            roles = [place for place, role in enumerate(job.roles) if role.pending()]
            places = tuple(
                ClaimEntry(roles[spot.part], spot.node, mask)
                for spot in opening.spots
                for mask in spot.masks
            )
            start_ns = opening.start_ns
            return NodeHeld(start_ns, min(start_ns + duration_ns, FOREVER), places)
        bounds = bounds_of(job)
        for start_ns in prospect.rooms.starts(bounds, duration_ns, not_before_ns, before_ns, cards):
            if not self._left:
                return None
            self._left -= 1
            held: NodeHeld = NodeHeld(start_ns, min(start_ns + duration_ns, FOREVER), ())
            found = self._hand.within(job, held, prospect)
            if found is not None:
                return held._replace(places=found)
        return None

    def _say(self, prospect: NodeProspect, job: Job, held: NodeHeld) -> None:
        """Say what is reserved for a job, node by node."""
        state = self._state
        masks = by_node(held.places)
        entries = tuple((node, mask.bit_count()) for node, mask in masks.items())
        cards = sum(count for _, count in entries)
        rooms = prospect.rooms.nodes
        then = cards + sum(rooms[node].at(held.start_ns).bit_count() for node in masks)
        room = Room(self._free(), then)
        bookings.reserve(
            state,
            job,
            held.start_ns,
            cards,
            self._estimate(job, held),
            room,
            entries,
            held.places,
        )

    def _estimate(self, job: Job, held: NodeHeld) -> Estimate:
        """What is expected of a job, as long as it is booked."""
        return estimates.as_booked(self._state, job, duration_of(held))

    def _free(self) -> int:
        """Cards that nobody holds."""
        state = self._state
        return max(0, state.total[CARDS] - state.used[CARDS]) // CARD_MILLI


def duration_of(held: NodeHeld) -> int:
    """How long cards are held; `FOREVER` where no end is known."""
    return FOREVER if held.until_ns >= FOREVER else held.until_ns - held.start_ns


def held_of(booking: Booking) -> NodeHeld:
    """What a booking of certain cards holds."""
    return NodeHeld(booking.start_ns, booking.until_ns, booking.places)


def gang_of(state: State, job: Job) -> Gang | None:
    """What a job asks for, if it asks for cards alone, and for all pods at once; else none."""
    shape = job.shape
    if shape.is_guided or job.avoid or not state.policy.is_plain:
        return None
    if shape.is_labelled and state.shapes.averse_count:
        return None
    if shape.fresh_total < sum(role.replicas for role in job.roles):
        return None
    gang = []
    for role, one in zip(job.roles, shape.shapes, strict=True):
        if not one.cards or one.cpu or one.memory or one.extra:
            return None
        if role.pending():
            gang.append((one, role.pending()))
    return gang or None


def bounds_of(job: Job) -> Gang:
    """What any start of a job takes at least, of whole cards."""
    needs = job.shape.fresh_needs
    return [
        (one, need) for one, need in zip(job.shape.shapes, needs, strict=True) if one.cards and need
    ]


def is_bookable(job: Job) -> bool:
    """Whether cards may be held for a job: not for one that runs and only grows, nor for shares of
    cards, which start as soon as they fit beside what is held.
    """
    return job.look != GROWING and not any(one.card_milli for one in job.shape.shapes)

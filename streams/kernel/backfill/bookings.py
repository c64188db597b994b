"""Reservations of waiting jobs: made, moved, given up. Each is a fact, and a decision says it.

A reservation ends with the start or the end of its job, which is said anyway; any other end is an
UNRESERVE. Under conservative backfill bookings depend on the path, so they are never made anew from
other facts; elsewhere each pass derives them and says what has changed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import estimates
from ganger.streams.kernel.backfill.estimates import Estimate
from ganger.streams.kernel.decide import Foreseen, say_reserved
from ganger.streams.kernel.entities import Booking, ClaimEntry, Job
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_RESERVE = DecisionKind.RESERVE
_RESERVED_HEAD = Reason.RESERVED_HEAD
_RESERVED_MOVED = Reason.RESERVED_MOVED

Entries = tuple[tuple[int, int], ...]
"""Node and how many cards of it, ascending by node."""


class Room(NamedTuple):
    """Cards free in the cell, for whoever reads the decision."""

    now: int
    then: int  # when the reservation begins


def reserve(
    state: State,
    job: Job,
    start_ns: int,
    cards: int,
    estimate: Estimate,
    room: Room,
    entries: Entries = (),
    places: tuple[ClaimEntry, ...] = (),
) -> None:
    """Hold cards for a job from a moment on; unsaid if they are held so already.

    Where they are held on certain nodes it is said once for each, the first with all the pods.
    `places`: the very cards, where they are chosen already; they are kept and not said.
    """
    booking = state.bookings.get(job.seq)
    until_ns = min(FOREVER, start_ns + estimate.ns) if estimate.ns else FOREVER
    if booking is None:
        booking = state.bookings[job.seq] = Booking(
            job.seq, start_ns, until_ns, cards, entries, places
        )
        reason = _RESERVED_HEAD
    elif (
        booking.start_ns == start_ns
        and booking.until_ns == until_ns
        and booking.cards == cards
        and booking.entries == entries
        and booking.places == places
    ):
        return
    else:
        booking.start_ns, booking.until_ns = start_ns, until_ns
        booking.cards, booking.entries, booking.places = cards, entries, places
        reason = _RESERVED_MOVED
    state.touch(booking)
    pods = sum(role.pending() for role in job.roles)
    until_ns = until_ns if until_ns < FOREVER else 0
    for index, held in entries or ((-1, cards),):
        say_reserved(
            state,
            _RESERVE,
            job,
            reason,
            (held * CARD_MILLI, room.now * CARD_MILLI, room.then * CARD_MILLI),
            (start_ns, until_ns),
            state.nodes[index].report.node if index >= 0 else "",
            estimate.ns,
            estimate.source,
            pods,
        )
        pods = 0


def foreseen(state: State, job: Job, reason: Reason, booked_ns: int = 0) -> Foreseen:
    """What is said of a job that starts when it is its turn. `booked_ns`: for so long it is booked;
    0, or `FOREVER`: it counts as to run as long as is expected of it now.
    """
    if 0 < booked_ns < FOREVER:
        estimate = estimates.as_booked(state, job, booked_ns)
    else:
        estimate = estimates.of_run(state, job)
    return Foreseen(reason, 0, 0, 0, 0, estimate.ns, estimate.source, 0)


def drop(state: State, seq: int) -> None:
    """The job starts or has ended: its reservation, if it has one, is met or void, unsaid."""
    booking = state.bookings.pop(seq, None)
    if booking is not None:
        booking.is_untold = True
        state.touch(booking)


def give_up(state: State, seq: int, reason: Reason) -> None:
    """The reservation of a job that still waits ends."""
    booking = state.bookings[seq]
    start_ns, cards = booking.start_ns, booking.cards
    drop(state, seq)
    job = state.jobs.get(seq)
    if job is not None:
        say_reserved(
            state,
            DecisionKind.UNRESERVE,
            job,
            reason,
            (cards * CARD_MILLI, 0, 0),
            (start_ns, 0),
        )


def keep_only(state: State, seqs: Iterable[int]) -> None:
    """Give up all reservations but those of some jobs."""
    kept = dict.fromkeys(seqs)
    for seq in sorted(state.bookings):
        if seq not in kept:
            give_up(state, seq, Reason.NOT_NEEDED)

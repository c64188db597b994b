"""Orders in which waiting jobs are offered a gap. Keys are int tuples, least first.

Every key ends in the job's place in line, so that ties fall to who came first.
"""

from typing import NamedTuple

from ganger.streams.kernel.horizon.easy import Place

SLOWDOWN_SHIFT = 32
"""Slowdowns are compared in units of 2^-32."""


class Ask(NamedTuple):
    """What an order may look at."""

    place: Place
    cards: int
    estimate_ns: int
    wait_ns: int  # since its submission


def arrival(ask: Ask) -> tuple[int, ...]:
    """First come, first offered."""
    return ask.place


def shortest(ask: Ask) -> tuple[int, ...]:
    """Least estimate first (SJBF)."""
    return (ask.estimate_ns, *ask.place)


def widest(ask: Ask) -> tuple[int, ...]:
    """Most cards first."""
    return (-ask.cards, *ask.place)


def area(ask: Ask) -> tuple[int, ...]:
    """Most cards times estimate first."""
    return (-ask.cards * ask.estimate_ns, *ask.place)


def slowdown(ask: Ask) -> tuple[int, ...]:
    """Greatest wait over estimate first: who has suffered most for what it asks."""
    return (-((ask.wait_ns << SLOWDOWN_SHIFT) // max(1, ask.estimate_ns)), *ask.place)


ORDERS = {
    "arrival": arrival,
    "shortest": shortest,
    "widest": widest,
    "area": area,
    "slowdown": slowdown,
}
"""By the name that policies use."""

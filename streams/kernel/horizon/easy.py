"""EASY: one reservation, for the first job that does not fit, and what may start before it.

The *head* will start when enough cards come free (`Ends.reach`). Another job may start now if it
ends by then, or if it needs no more than what is left beside the head then. Each start makes less
of what is free or left, so what was refused once in a pass stays refused; `Bound` uses that to skip
without asking and changes no outcome.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ganger.streams.kernel.horizon.steps import FOREVER

Place = tuple[int, ...]
"""Where a job stands in line: its key, unique, least first."""


class Candidate(NamedTuple):
    """A waiting job behind the head."""

    place: Place
    cards: int
    estimate_ns: int  # with any margin; `FOREVER` where nothing is known


class Gap:
    """The time before the head's start, and the room beside it.

    Attributes:
        start_ns: the shadow time; `FOREVER` where the head is not expected to start at all.
        extra: cards free then beyond what the head needs.
    """

    __slots__ = ("extra", "start_ns")

    def __init__(self, start_ns: int, extra: int) -> None:
        self.start_ns = start_ns
        self.extra = extra

    def is_safe(self, now_ns: int, estimate_ns: int) -> bool:
        """Whether a job that starts now ends by the head's start. Without an estimate: never."""
        return estimate_ns < FOREVER and now_ns + estimate_ns <= self.start_ns

    def take(self, now_ns: int, cards: int, estimate_ns: int) -> bool:
        """Let a job start now if it delays nobody; whether it may. Free cards are not asked."""
        if self.is_safe(now_ns, estimate_ns):
            return True
        if cards > self.extra:
            return False
        self.extra -= cards
        return True


class Bound:
    """A refused job: nothing at least as wide and as long can start in the same pass."""

    __slots__ = ("cards", "estimate_ns")

    def __init__(self, cards: int, estimate_ns: int) -> None:
        """At first the head's own: it does not fit."""
        self.cards = cards
        self.estimate_ns = estimate_ns

    def skips(self, cards: int, estimate_ns: int) -> bool:
        """Whether a job cannot start, for sure."""
        return cards >= self.cards and estimate_ns >= self.estimate_ns

    def refuse(self, cards: int, estimate_ns: int) -> None:
        """A job could not start: remember it where it says more than what is remembered."""
        if cards <= self.cards and estimate_ns <= self.estimate_ns:
            self.cards = cards
            self.estimate_ns = estimate_ns


def scan(
    candidates: Iterable[Candidate], now_ns: int, free: int, gap: Gap, bound: Bound
) -> list[Candidate]:
    """The candidates that start now, in the order given, each judged after those before it.

    Args:
        candidates: in the order of the scan.
        now_ns: when they would start.
        free: cards free now.
        gap: the head's; what starts beside it is taken from it.
        bound: of this pass.
    """
    chosen = []
    for candidate in candidates:
        _, cards, estimate_ns = candidate
        if bound.skips(cards, estimate_ns):
            continue
        if cards <= free and gap.take(now_ns, cards, estimate_ns):
            free -= cards
            chosen.append(candidate)
            if not free:
                break
        else:
            bound.refuse(cards, estimate_ns)
    return chosen

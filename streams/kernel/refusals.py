"""What rules answer: no with its reason and numbers, yes, or nothing."""

from dataclasses import dataclass
from enum import Enum

from ganger.schemas.reasons import Reason

NO_PLACE = -1
"""For `Refusal.place`: the reason itself says what its numbers count."""

JOBS_PLACE = -2
"""For `Refusal.place`: the numbers count jobs."""


class Permit(Enum):
    """The vote of a rule that says yes, where saying nothing leaves it to the others."""

    PERMIT = "permit"


PERMIT = Permit.PERMIT


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, with the numbers of the reason.

    Attributes:
        reason: the reason.
        asked: its number of this name.
        free: its number of this name.
        limit: its number of this name.
        queue: whose limit it was; -1: none's.
        place: in quantity vectors, of the resource that the numbers count.
        lacks_room: beside that limit there was too little room, so that more of either may be
            enough; of a vote on admission: who makes its own room by taking from others need not
            be refused.
    """

    reason: Reason
    asked: int = 0
    free: int = 0
    limit: int = 0
    queue: int = -1
    place: int = NO_PLACE
    lacks_room: bool = False


Vote = Refusal | Permit | None
"""No, yes, or nothing."""

"""Decisions made by hand, for tests of what carries them."""

from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_payload
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason


def decision(cell: str, cause_seq: int, index: int, time_ns: int = 0, job: str = "j") -> Decision:
    """A decision with this id; the job is what else tells it from others."""
    return Decision(
        *(cell, cause_seq, index, time_ns, DecisionKind.FINISH, job, "", -1, 0, "", (), 0, 0),
        *(Tier.MAIN, 0, "", Reason.UNKNOWN, 0, 0, 0, b"", 0, 0, 0, b""),
        chain=b"\3" * 32,
    )


def payload(cell: str, cause_seq: int, index: int, job: str = "j") -> bytes:
    """The same as bytes."""
    return decision_payload(decision(cell, cause_seq, index, cause_seq, job))


def payloads(cell: str, count: int, begin: int = 0) -> list[bytes]:
    """The decisions at positions from `begin` of a cell where each seq causes three."""
    return [payload(cell, 2 * (n // 3), n % 3) for n in range(begin, begin + count)]

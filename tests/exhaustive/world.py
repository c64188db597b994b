"""The small worlds of the search: cells of one to three nodes with two cards, two queues of equal
weight, and jobs of eight kinds.
"""

from dataclasses import dataclass
from functools import cache

from msgspec.structs import replace

from ganger.schemas import records as r
from support import builders as b

QUEUES = ("a", "b")
CARDS = 2
"""Cards of a node."""

RUNTIME_NS = 10**6 * b.SECOND
"""What jobs declare: longer than any run of the search."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of `replicas` pods of `cards` cards, of which `minimum` start together."""

    name: str
    replicas: int
    minimum: int
    cards: int
    priority: int = 0


KINDS = {
    kind.name: kind
    for kind in (
        Kind("S", 1, 1, 1),  # one card
        Kind("P", 1, 1, 2),  # two cards of one node
        Kind("G2", 2, 2, 1),  # gangs
        Kind("G3", 3, 3, 1),
        Kind("E", 3, 1, 1),  # elastic
        Kind("HS", 1, 1, 1, 9),  # the same of high priority
        Kind("HP", 1, 1, 2, 9),
        Kind("HG2", 2, 2, 1, 9),
    )
}

Choice = tuple[str, str]
"""Kind and queue of one submission."""

CHOICES: tuple[Choice, ...] = tuple((kind, queue) for kind in KINDS for queue in QUEUES)


def name_of(place: int) -> str:
    """The key of the job that is submitted at that place of a sequence."""
    return f"j{place}"


@cache
def submission(place: int, choice: Choice) -> r.JobSubmitRequested:
    """The request of a job."""
    kind = KINDS[choice[0]]
    pods = b.role("pod", kind.replicas, 0, cards=kind.cards)
    return replace(
        b.submission(name_of(place), pods, queue=choice[1], priority=kind.priority),
        min_available=kind.minimum,
        runtime_estimate_ns=RUNTIME_NS,
    )


def nodes(count: int) -> list[r.NodeChanged]:
    """The nodes of a cell."""
    return [b.node(f"n{place}", CARDS) for place in range(count)]

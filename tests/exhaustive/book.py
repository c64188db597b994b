"""What the search itself keeps of a cell: who holds which card, from decisions alone.

It shares no code with the kernel, and applies the executor's side at once: what is told to end is
released, what is told to start runs, when the search says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from exhaustive.world import CARDS, KINDS, Choice, Kind, name_of
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from support.promises import promise

PLACED = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
LEAVE = (DecisionKind.EVICT, DecisionKind.MOVE)

Card = tuple[str, int]
"""Node and number of a card."""


@dataclass(slots=True)
class Attempt:
    """A pod on its cards."""

    pod: int
    attempt: int
    node: str
    cards: tuple[Card, ...]
    is_leaving: bool = False
    is_running: bool = False


@dataclass(slots=True)
class JobBook:
    """A job as the search knows it."""

    name: str
    kind: Kind
    queue: str
    place: int  # in the sequence
    pods: dict[int, Attempt] = field(default_factory=dict)
    claimed: list[tuple[str, tuple[Card, ...]]] = field(default_factory=list)
    done: int = 0  # pods that have succeeded
    is_over: bool = False
    spent: tuple[str, str] | None = None  # its eviction right is: own queue, queue of who spent it

    def live(self) -> list[Attempt]:
        """Pods that hold cards and stay."""
        return [one for one in self.pods.values() if not one.is_leaving]

    def missing(self) -> int:
        """Pods that are to be placed still."""
        return 0 if self.is_over else self.kind.replicas - self.done - len(self.pods)


class Book:
    """All jobs and cards of a cell."""

    def __init__(self, nodes: int) -> None:
        self.cards: list[Card] = [(f"n{n}", c) for n in range(nodes) for c in range(CARDS)]
        self.jobs: dict[str, JobBook] = {}

    def add(self, place: int, choice: Choice) -> None:
        """A job is submitted."""
        name = name_of(place)
        self.jobs[name] = JobBook(name, KINDS[choice[0]], choice[1], place)

    # ---- decisions ----

    def apply(self, decisions: Iterable[Decision]) -> None:
        """Take down decisions in turn; each must be possible when it is made."""
        for decision in decisions:
            if decision.kind in PLACED:
                self._place(decision)
            elif decision.kind in LEAVE:
                self._leave(decision)
            elif decision.kind is DecisionKind.CLAIM:
                cards = spans(decision)
                self.jobs[decision.job].claimed.append((decision.node, cards))
            elif decision.kind is DecisionKind.UNCLAIM:
                self.jobs[decision.job].claimed.clear()
            elif decision.kind is DecisionKind.FINISH:
                self.jobs[decision.job].is_over = True

    def _place(self, decision: Decision) -> None:
        job = self.jobs[decision.job]
        cards = spans(decision)
        held = self.held()
        promise(len(cards) == job.kind.cards, "a pod gets the cards it asks", decision)
        promise(not any(card in held for card in cards), "no card is held twice", decision)
        promise(all(card in self.cards for card in cards), "cards exist", decision)
        promise(decision.pod not in job.pods, "a pod runs once", decision)
        promise(not job.is_over, "an ended job starts nothing", decision)
        taken = [card for other in self.jobs.values() if other is not job for card in claims(other)]
        promise(not any(card in taken for card in cards), "a claim is nobody else's", decision)
        job.claimed.clear()
        job.pods[decision.pod] = Attempt(decision.pod, decision.attempt, decision.node, cards)

    def _leave(self, decision: Decision) -> None:
        attempt = self.jobs[decision.job].pods.get(decision.pod)
        promise(attempt is not None, "who is evicted holds cards", decision)
        assert attempt is not None
        promise(not attempt.is_leaving, "nobody is evicted twice", decision)
        attempt.is_leaving = True

    # ---- what there is ----

    def held(self) -> dict[Card, str]:
        """Cards that pods are on, leaving ones too, with the job."""
        return {
            card: job.name
            for job in self.jobs.values()
            for pod in job.pods.values()
            for card in pod.cards
        }

    def idle(self) -> list[Card]:
        """Cards that nobody holds or has a claim on."""
        held = self.held()
        claimed = [card for job in self.jobs.values() for card in claims(job)]
        return [card for card in self.cards if card not in held and card not in claimed]

    def placement(self) -> tuple[tuple[str, str, int], ...]:
        """How many pods of which job stay on which node, or have a claim to start there."""
        counts: dict[tuple[str, str], int] = {}
        expecting = self.expecting()
        for job in self.jobs.values():
            claimed = [] if job.name in expecting else [node for node, _ in job.claimed]
            for node in [pod.node for pod in job.live()] + claimed:
                counts[job.name, node] = counts.get((job.name, node), 0) + 1
        return tuple(sorted((job, node, count) for (job, node), count in counts.items()))

    def expecting(self) -> list[str]:
        """Jobs that have a claim on cards of a pod that stays: they count on an end that is
        expected and may not come, so that it is no placement yet, and is given up in time.
        """
        staying = {card for job in self.jobs.values() for pod in job.live() for card in pod.cards}
        return [job.name for job in self.jobs.values() if not staying.isdisjoint(claims(job))]

    def used(self, queue: str) -> int:
        """Cards of a queue's pods that stay."""
        return sum(
            len(pod.cards) for job in self.jobs.values() if job.queue == queue for pod in job.live()
        )

    def wanted(self, queue: str) -> int:
        """Cards that the jobs of a queue would have at most."""
        return sum(
            (job.kind.replicas - job.done) * job.kind.cards
            for job in self.jobs.values()
            if job.queue == queue and not job.is_over
        )


def spans(decision: Decision) -> tuple[Card, ...]:
    """The cards that a decision names."""
    return tuple(
        (decision.node, card)
        for span in decision.cards
        for card in range(span.first, span.first + span.count)
    )


def claims(job: JobBook) -> list[Card]:
    """The cards that a job has a claim on."""
    return [card for _, cards in job.claimed for card in cards]

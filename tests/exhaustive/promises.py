"""What must hold after every cycle, and when a cell has come to rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from exhaustive.book import LEAVE, Book, JobBook, claims, spans
from exhaustive.quota import Allows, always
from ganger.schemas.decisions import Decision
from support.promises import promise


@dataclass(slots=True)
class Watch:
    """The promises over one history."""

    book: Book
    allows: Allows
    is_blocking: bool = False  # jobs may wait for those before them though they fit
    visited: list[tuple[tuple[str, str, int], ...]] = field(default_factory=list)
    owing: dict[str, list[Decision]] = field(default_factory=dict)  # takers that have to start

    # ---- after each cycle -----------------------------------------------------------------------

    def after_cycle(self, made: Sequence[Decision]) -> None:
        """One cycle is over; its decisions stand in the book."""
        evictions = [decision for decision in made if decision.kind in LEAVE]
        self._check_gangs()
        self._check_rights(evictions)
        self._check_revisit()
        for decision in evictions:
            self.owing.setdefault(decision.for_job, []).append(decision)
        for name in [name for name in self.owing if has_started(self.book.jobs[name])]:
            made_room = self.owing.pop(name)
            if (
                self.allows is always
            ):  # else victims may be needed for quota and not for their cards
                self._check_needed(self.book.jobs[name], made_room)

    def _check_gangs(self) -> None:
        for job in self.book.jobs.values():
            count = len(job.live()) + job.done
            least = job.kind.minimum
            promise(
                count >= least or not job.live(), "a gang has its minimum, or nothing", job, count
            )

    def _check_rights(self, evictions: Sequence[Decision]) -> None:
        """A taker needs its right, uses it up, and takes its victims' away."""
        takers: dict[str, JobBook] = {}
        for decision in evictions:
            promise(decision.for_job in self.book.jobs, "an eviction names its taker", decision)
            takers[decision.for_job] = taker = self.book.jobs[decision.for_job]
            victim = self.book.jobs[decision.job]
            promise(victim is not taker, "nobody evicts itself", decision)
            if victim.queue == taker.queue:
                promise(
                    victim.kind.priority < taker.kind.priority,
                    "in a queue only lower priority yields",
                    decision,
                )
        for taker in takers.values():
            promise(taker.spent is None, "who evicts has its right to", taker)
            taker.spent = (taker.queue, taker.queue)
        for decision in evictions:
            victim = self.book.jobs[decision.job]
            victim.spent = (victim.queue, self.book.jobs[decision.for_job].queue)

    def _check_revisit(self) -> None:
        now = self.book.placement()
        if self.visited and self.visited[-1] == now:
            return
        promise(now not in self.visited, "no placement is visited twice", now, self.visited)
        self.visited.append(now)

    # ---- at rest --------------------------------------------------------------------------------

    def at_rest(self) -> None:
        """Cycles change nothing any more."""
        promise(not self.owing, "who evicts starts", sorted(self.owing))
        for job in self.book.jobs.values():
            promise(not job.claimed, "no claim is left at rest", job)
        if not self.is_blocking:
            self._check_idle()

    def _check_needed(self, taker: JobBook, evictions: Sequence[Decision]) -> None:
        """The taker starts on a card of each victim; what else a victim had its gang needed."""
        cards = [card for pod in taker.live() for card in pod.cards]
        for victim in {decision.job: None for decision in evictions}:
            gave = [card for d in evictions if d.job == victim for card in spans(d)]
            is_used = not gave or any(card in cards for card in gave)
            promise(is_used, "a victim's cards are used by its taker", victim, taker)

    def _check_idle(self) -> None:
        idle = self.book.idle()
        for job in self.book.jobs.values():
            count = pods_to_start(job)
            if count and fits(idle, count, job.kind.cards):
                promise(
                    not self.allows(self.book, job, count * job.kind.cards),
                    "no card is idle beside a job that fits",
                    job,
                    idle,
                )

    # ---- between ----

    def job_ended(self, job: JobBook) -> None:
        """A job has ended by itself: rights return, placements may come again."""
        for other in self.book.jobs.values():
            if other.spent is not None and (job.queue in other.spent or other is job):
                other.spent = None
        self.visited.clear()

    def all_over(self) -> None:
        """Nothing runs any more: no job is left that fits the cell and that quota lets start."""
        for job in self.book.jobs.values():
            least, cards = job.kind.minimum, job.kind.cards
            if not job.is_over and fits(self.book.cards, least, cards):
                may = self.allows(self.book, job, least * cards)
                promise(not may, "jobs that fit the cell run in the end", job)
        promise(not any(claims(job) for job in self.book.jobs.values()), "no claim is left")


def has_started(job: JobBook) -> bool:
    """Whether a job has its minimum, on cards and not only claims."""
    return len(job.live()) >= job.kind.minimum


def pods_to_start(job: JobBook) -> int:
    """Pods of a job that must start together next; 0: it waits for nothing."""
    if job.is_over or not job.missing() or job.claimed:
        return 0
    return max(1, job.kind.minimum - len(job.pods) - job.done)


def fits(idle: Sequence[tuple[str, int]], count: int, cards: int) -> bool:
    """Whether so many pods of so many cards each go on idle cards, each on one node."""
    free: dict[str, int] = {}
    for node, _ in idle:
        free[node] = free.get(node, 0) + 1
    return sum(number // cards for number in free.values()) >= count

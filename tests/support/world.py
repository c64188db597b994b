"""An executor that does at once what it is told, and a watch on evictions and claims."""

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from support.builders import Cell


def claimed_cards(decision: Decision) -> set[tuple[str, int]]:
    """Cards that a decision is about."""
    return {(decision.node, span.first + i) for span in decision.cards for i in range(span.count)}


class World:
    """A cell with its executor."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.claims: dict[str, set[tuple[str, int]]] = {}

    def cycle(self) -> list[Decision]:
        """One Tick; then all that was said is done."""
        said = self.cell.tick()
        self._check(said)
        for decision in said:
            if decision.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL):
                self.cell.started(decision.job, decision.pod, decision.attempt)
            elif decision.kind is DecisionKind.EVICT:
                self.cell.released(decision.job, decision.pod, decision.attempt)
        return [d for d in said if d.kind not in (DecisionKind.CYCLE_CLOSED, DecisionKind.ADMIT)]

    def _check(self, said: list[Decision]) -> None:
        made: dict[str, set[tuple[str, int]]] = {}
        for decision in said:
            if decision.kind is DecisionKind.CLAIM:
                made.setdefault(decision.job, set()).update(claimed_cards(decision))
            elif decision.kind is DecisionKind.UNCLAIM:
                del self.claims[decision.job]
            elif decision.kind is DecisionKind.ALLOCATE:
                cards = claimed_cards(decision)
                if cards & self.claims.get(decision.job, set()):
                    self.claims[decision.job] -= cards
                else:
                    assert not any(cards & held for held in self.claims.values()), decision
        for decision in said:
            if decision.kind is DecisionKind.EVICT:
                assert made[decision.for_job], (
                    decision
                )  # whoever is evicted for somebody has a claim
                assert claimed_cards(decision) & made[decision.for_job], decision
        self.claims = {job: cards for job, cards in self.claims.items() if cards} | made

    def rest(self, bound: int) -> None:
        """Cycles until nothing is said."""
        for _ in range(bound):
            if not self.cycle():
                return
        raise AssertionError("no rest: evictions go round")

    def run(self) -> dict[str, int]:
        """Cycles until nothing is said; how often attempts of each job were evicted."""
        before = len(self.cell.decisions)
        self.rest(4 * len(self.cell.state.jobs) + 8)
        counts: dict[str, int] = {}
        for decision in self.cell.decisions[before:]:
            if decision.kind is DecisionKind.EVICT:
                counts[decision.job] = counts.get(decision.job, 0) + 1
        return counts

    def running(self, queue: str = "") -> list[str]:
        """Jobs with attempts that stay, of one queue or of all."""
        return sorted(
            job.request.job
            for job in self.cell.state.jobs.values()
            if any(pod.phase is not Phase.RELEASING for pod in (job.pods or {}).values())
            and queue in ("", job.request.queue)
        )

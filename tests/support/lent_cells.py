"""Random histories of cells in whose gaps jobs make way: suspended, resumed, moved, evicted."""

from collections.abc import Mapping

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import BackfillPreference, DecisionKind
from ganger.streams.presets.loader import load_policy
from support import builders as b
from support.timed_cells import STARTS, TimedHistory


def lent_policy(**arguments: Mapping[str, str]) -> r.PolicyConfigured:
    """Preset xirang over declared run times, with other arguments of some actions."""
    preset = load_policy("xirang")
    kept = tuple(one for one in preset.settings if one.key not in ("estimates", "promises"))
    actions = []
    for action in preset.actions:
        others = arguments.get(action.action, {})
        mine = [one for one in action.arguments if one.key not in others]
        more = [r.Argument(key, value) for key, value in others.items()]
        actions.append(replace(action, arguments=(*mine, *more)))
    return replace(preset, settings=kept, actions=tuple(actions), time_ns=b.GENESIS)


class LentHistory(TimedHistory):
    """The same; a third of the jobs can be suspended, some are spot work or take little risk.

    Attributes:
        suspended: times that an attempt stopped.
    """

    suspended = 0

    def see(self, decisions: list[Decision]) -> list[Decision]:
        """Carry decisions out; who is told to stop does so at once or later."""
        cell = self.cell
        for decision in decisions:
            attempt = (decision.job, decision.pod, decision.attempt)
            kind = decision.kind
            if kind in STARTS:
                self.waiting.pop(decision.job, None)
                left_ns = self.left_ns.pop(decision.job, self.run_s[decision.job] * b.SECOND)
                self.ends[attempt] = cell.now_ns + left_ns
                cell.started(*attempt)
            elif kind is DecisionKind.SUSPEND and attempt in self.ends:
                self.stopping.append(attempt)
            elif kind is DecisionKind.RESUME and attempt in self.rests:
                self.ends[attempt] = cell.now_ns + self.rests.pop(attempt)
                cell.put(r.PodResumed(cell.now_ns, "", None, *attempt, cell.now_ns))
            elif kind is DecisionKind.EVICT:
                self._evict(attempt)
            elif kind is DecisionKind.FINISH:
                self.waiting.pop(decision.job, None)
        return decisions

    def _evict(self, attempt: tuple[str, int, int]) -> None:
        if attempt in self.rests:
            self.left_ns[attempt[0]] = self.rests.pop(attempt)
            self.cell.released(*attempt)
        elif attempt in self.ends:
            del self.ends[attempt]
            self.cell.released(*attempt)
        if attempt in self.stopping:
            self.stopping.remove(attempt)

    def step(self) -> list[Decision]:
        """Who was told to stop does so, or something else happens."""
        if not self.stopping or self.chance.random() < 0.2:
            return super().step()
        return self._stop()

    def _stop(self) -> list[Decision]:
        """Who was told to stop first does so."""
        seq = len(self.cell.decisions)
        attempt = self.stopping.pop(0)
        if attempt in self.ends:
            self.rests[attempt] = max(1, self.ends.pop(attempt) - self.cell.now_ns)
            self.suspended += 1
            now_ns = self.cell.now_ns
            self.cell.put(r.PodSuspended(now_ns, "", None, *attempt, 500, now_ns))
        self.see(self.cell.tick(0))
        return self.cell.decisions[seq:]

    def drain(self) -> None:
        """Let everything end; nobody comes any more, and nothing is held back."""
        for job in list(self.waiting):
            self.cell.update(job, held=False)
        self.cell.put(r.NodeUncordoned(self.cell.now_ns, "", None, "n0", "me"))
        self.see(self.cell.tick(0))
        for _ in range(100_000):
            if self.stopping:
                self._stop()
            elif self.ends:
                self.cell.now_ns = max(self.cell.now_ns, min(self.ends.values()))
                self._end()
                self.see(self.cell.tick(0))
            elif not self.see(self.cell.tick(1))[:-1]:
                return
        raise AssertionError("it never ends")

    def __init__(
        self, policy: r.PolicyConfigured, seed: int, nodes: tuple[int, ...] = (8, 8, 4)
    ) -> None:
        """`nodes`: cards of each."""
        self.stopping: list[tuple[str, int, int]] = []
        self.rests: dict[tuple[str, int, int], int] = {}  # what is left of them
        self.left_ns: dict[str, int] = {}  # of jobs that will go on from a checkpoint
        self.requests: dict[str, r.JobSubmitRequested] = {}
        super().__init__(policy, seed, nodes)

    def _submit(self) -> None:
        chance = self.chance
        self._number += 1
        job = f"j{self._number}"
        self.run_s[job] = run_s = chance.randint(1, 40)
        self.waiting[job] = None
        stops = chance.random() < 0.4
        made = replace(
            b.submission(
                job,
                b.role(cards=chance.choice((1, 1, 2, 4, 8)), replicas=chance.choice((1, 1, 2))),
                priority=chance.choice((0, 0, 0, 1)),
                time_ns=self.cell.now_ns,
            ),
            runtime_estimate_ns=chance.choice((0, run_s, run_s, 2 * run_s)) * b.SECOND,
            can_checkpoint=stops,
            accepts_suspend=stops,
            spot=chance.random() < 0.1,
            backfill=chance.choice(list(BackfillPreference)),
            backfill_risk_milli=chance.choice((0, 100, 600)),
        )
        self.requests[job] = made
        self.cell.put(made)

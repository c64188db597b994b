"""Random histories of cells with gaps to which all kinds of things happen besides."""

from collections.abc import Callable

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import (
    BackfillPreference,
    FailureKind,
    Phase,
    QueueState,
    Tri,
)
from ganger.streams.kernel.backfill.manners import takes_part
from ganger.streams.kernel.state import State
from support import builders as b
from support.lent_cells import LentHistory, lent_policy
from support.timed_cells import STARTS, timed_policy

WAYS = {"evict_after_ns": "5s", "floor_ns": "2s", "suspend_max_ns": "60s"}
"""Arguments of making way in these cells."""

_LOST_NS = 1 << 62
"""Whoever runs on a lost node ends by no word of its own."""


class RoughHistory(LentHistory):
    """Nodes are lost, rebooted and drained, queues close and refuse gaps, jobs are cancelled and
    say anew how long they run, attempts save their work and fail, policies change.

    Attributes:
        disturbed: how often what happened.
        stuck: jobs that rested after a cycle although they would fit where they are.
        began: when attempts began to run.
    """

    def __init__(self, seed: int, nodes: tuple[int, ...] = (8, 8, 4)) -> None:
        """`nodes`: cards of each."""
        self.disturbed: dict[str, int] = {}
        self.stuck: list[str] = []
        self.began: dict[tuple[str, int, int], int] = {}
        self.cards_of = {f"n{place}": cards for place, cards in enumerate(nodes)}
        self.lost: dict[str, None] = {}
        self.place: dict[tuple[str, int, int], str] = {}  # node of each attempt
        super().__init__(lent_policy(yielding=WAYS), seed, nodes)

    def see(self, decisions: list[Decision]) -> list[Decision]:
        """The same; on a lost node nothing is carried out."""
        if isinstance(self.cell.records[-1], r.Tick) and self.cell.state.policy.resumes:
            self.stuck += suspended_beside_room(self.cell.state)
        for decision in decisions:
            attempt = (decision.job, decision.pod, decision.attempt)
            if decision.kind in STARTS:
                self.place[attempt] = decision.node
                self.began[attempt] = self.cell.now_ns  # it is reported running at once
        heard = [d for d in decisions if self._is_heard(d)]
        return super().see(heard) and decisions

    def _is_heard(self, decision: Decision) -> bool:
        attempt = (decision.job, decision.pod, decision.attempt)
        return decision.pod < 0 or self.place.get(attempt, "") not in self.lost

    def step(self) -> list[Decision]:
        """Something happens, in one of six cases something rough."""
        if self.chance.random() > 0.17:
            return super().step()
        seq = len(self.cell.decisions)
        acts: tuple[Callable[[], object], ...] = (
            self._lose,
            self._reboot,
            self._drain,
            self._cancel,
            self._queue,
            self._say_anew,
            self._save,
            self._fail,
            self._policy,
        )
        act = self.chance.choice(acts)
        if act() is not None:
            name = act.__name__.strip("_")
            self.disturbed[name] = self.disturbed.get(name, 0) + 1
        self.see(self.cell.decisions[seq:])
        self.see(self.cell.tick(self.chance.choice((0, 1, 3))))
        return self.cell.decisions[seq:]

    def _lose(self) -> object:
        cell = self.cell
        if self.lost:
            return self._return(next(iter(self.lost)), "boot-1")
        node = self.chance.choice(list(self.cards_of))
        self.lost[node] = None
        return cell.put(r.NodeLost(cell.now_ns, "", None, node, cell.state.claim, 5))

    def _reboot(self) -> object:
        node = self.chance.choice(list(self.cards_of))
        return self._return(node, f"boot-{self.cell.state.next_seq}")

    def _return(self, node: str, boot: str) -> object:
        """A node is back; what ran on it and is not told of any more is gone."""
        cell = self.cell
        self.lost.pop(node, None)
        for attempt in [one for one, place in self.place.items() if place == node]:
            self.ends.pop(attempt, None)
            self.rests.pop(attempt, None)
            if attempt in self.stopping:
                self.stopping.remove(attempt)
            del self.place[attempt]
        made = b.report(node, self.cards_of[node], boot=boot, handled=cell.state.next_seq - 1)
        return cell.put(r.NodeReturned(cell.now_ns, "", None, made))

    def _drain(self) -> object:
        now_ns, node = self.cell.now_ns, self.chance.choice(list(self.cards_of))
        is_shut = self.chance.random() < 0.4
        made: r.Record = r.NodeUncordoned(now_ns, "", None, node, "me")
        if is_shut:
            made = r.NodeDrained(now_ns, "", None, node, "me", 0)
        return self.cell.put(made)

    def _cancel(self) -> object:
        live = [
            job.request.job
            for job in self.cell.state.jobs.values()
            if job.pods and not job.ended_ns
        ]
        return self.cell.cancel(self.chance.choice(live)) if live else None

    def _queue(self) -> object:
        state = self.chance.choice((QueueState.OPEN, QueueState.OPEN, QueueState.DRAINING))
        made = b.queue("q", state=state, time_ns=self.cell.now_ns)
        return self.cell.put(replace(made, backfill=self.chance.choice((Tri.UNKNOWN, Tri.NO))))

    def _say_anew(self) -> object:
        """A job says how long it runs, and which gaps it takes."""
        cell, chance = self.cell, self.chance
        names = [job.request.job for job in cell.state.jobs.values() if not job.ended_ns]
        if not names:
            return None
        name = chance.choice(names)
        wish = chance.choice(list(BackfillPreference))
        estimate_ns = chance.choice((1, 5, 20, 60)) * b.SECOND
        self.requests[name] = replace(self.requests[name], backfill=wish, backfill_risk_milli=600)
        made = r.JobUpdateRequested(cell.now_ns, "", None, name, "me", None, None, ())
        return cell.put(
            replace(
                made,
                runtime_estimate_ns=estimate_ns,
                backfill=wish,
                backfill_risk_milli=600,
            )
        )

    def _save(self) -> object:
        attempt = self._live()
        if attempt is None:
            return None
        now_ns, done = self.cell.now_ns, self.chance.randint(0, 1000)
        return self.cell.put(r.PodCheckpointed(now_ns, "", None, *attempt, done, now_ns))

    def _fail(self) -> object:
        attempt = self._live()
        if attempt is None:
            return None
        del self.ends[attempt]
        if attempt in self.stopping:
            self.stopping.remove(attempt)
        return self.cell.failed(*attempt, failure=FailureKind.ERROR)

    def _live(self) -> tuple[str, int, int] | None:
        live = [one for one in self.ends if self.place.get(one, "") not in self.lost]
        return self.chance.choice(live) if live else None

    def _policy(self) -> object:
        cell = self.cell
        rules = self.chance.choice(
            (
                lent_policy(yielding=WAYS),
                lent_policy(yielding=WAYS),
                lent_policy(yielding={**WAYS, "evict_after_ns": "2s"}),
                lent_policy(yielding=WAYS, tune={"window_ns": "10s"}),
                lent_policy(yielding={**WAYS, "large_cards": "2"}),
                timed_policy("hpc-easy"),
                timed_policy("default"),
            )
        )
        return cell.put(replace(rules, time_ns=cell.now_ns))

    def _end(self) -> None:
        attempt = min(self.ends, key=lambda key: (self.ends[key], key))
        if self.place.get(attempt, "") in self.lost:
            self.ends[attempt] = _LOST_NS
            return
        super()._end()

    def settle_down(self) -> None:
        """All nodes are back and open, the queue is open, the policy is the one it was."""
        cell = self.cell
        seq = len(cell.decisions)
        for node in list(self.cards_of):
            if node in self.lost:
                self._return(node, "boot-1")
            cell.put(r.NodeUncordoned(cell.now_ns, "", None, node, "me"))
        cell.put(b.queue("q", time_ns=cell.now_ns))
        cell.put(replace(lent_policy(yielding=WAYS), time_ns=cell.now_ns))
        self.see(cell.decisions[seq:])


def suspended_beside_room(state: State) -> list[str]:
    """Jobs all of whose attempts rest although all of them would fit where they are, or, if there
    is one, on any other node.
    """
    found = []
    for job in state.jobs.values():
        pods = list((job.pods or {}).values())
        if not pods or job.held or any(pod.phase is not Phase.SUSPENDED for pod in pods):
            continue
        cards = job.shape.shapes[0].cards
        asked: dict[int, int] = {}
        for pod in pods:
            asked[pod.node] = asked.get(pod.node, 0) + cards
        is_at_home = all(_has_room(state, node, count) for node, count in asked.items())
        may_move = len(pods) == 1 and takes_part(state, job)
        nodes = range(len(state.nodes))
        if is_at_home or (may_move and any(_has_room(state, node, cards) for node in nodes)):
            found.append(job.request.job)
    return found


def _has_room(state: State, node: int, cards: int) -> bool:
    return state.nodes[node].is_open and state.nodes[node].free_count >= cards

"""Random histories of cells whose policy plans with run times, and what must hold in them.

Run times, estimates and moments are small numbers of seconds, so that ends, starts and expected
ends fall together often.
"""

import random
from hashlib import sha256
from heapq import heappop, heappush
from typing import NamedTuple

from msgspec.structs import replace

from ganger.replay.promises import PromiseCheck
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import BackfillPreference, DecisionKind, FailureKind
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.presets.loader import load_policy
from support import builders as b

STARTS = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
NEVER_NS = 1 << 63


def timed_policy(name: str, **settings: str) -> r.PolicyConfigured:
    """A preset, with other settings."""
    preset = load_policy(name)
    kept = tuple(one for one in preset.settings if one.key not in settings)
    more = tuple(r.Argument(key, value) for key, value in settings.items())
    return replace(preset, settings=(*kept, *more), time_ns=b.GENESIS)


def ask(cell: b.Cell, job: str, cards: int, run_s: int, **more: object) -> None:
    """A job of one pod comes that is expected to run so long."""
    made = b.submission(job, b.role(cards=cards), time_ns=cell.now_ns)
    cell.put(replace(made, runtime_estimate_ns=run_s * b.SECOND, **more))


def go(cell: b.Cell, after_s: int = 1) -> list[Decision]:
    """A cycle; who starts is reported running at once."""
    made = cell.tick(after_s)
    for one in made:
        if one.kind in STARTS:
            cell.started(one.job, one.pod, one.attempt)
    return made


def fills_break_no_promise(cell: b.Cell) -> None:
    """Asserts that jobs were started in gaps, and that by the fold of decisions that `verify` does
    none of them broke a reservation.
    """
    decided: list[list[Decision]] = [[] for _ in cell.records]
    for decision in cell.decisions:
        decided[decision.cause_seq].append(decision)
    check = PromiseCheck()
    check.check(cell.records, decided)
    assert not check.violations, check.first
    assert any(one.kind is DecisionKind.BACKFILL for one in cell.decisions)


class TimedHistory:
    """A cell, whoever runs on it, and chance."""

    def __init__(
        self,
        policy: r.PolicyConfigured,
        seed: int,
        nodes: tuple[int, ...] = (8,),
        *,
        overruns: bool = False,
    ) -> None:
        """`nodes`: cards of each; `overruns`: some jobs run longer than they say or say nothing."""
        self.chance = random.Random(seed)
        self.cell = b.Cell(checks=True)
        self.overruns = overruns
        self.cards = sum(nodes)
        self.ends: dict[tuple[str, int, int], int] = {}  # of live attempts, in ns
        self.run_s: dict[str, int] = {}
        self.waiting: dict[str, None] = {}
        self._number = 0
        named = [b.node(f"n{place}", cards) for place, cards in enumerate(nodes)]
        self.cell.start(*named, rules=policy)
        self.see(self.cell.tick(0))

    def see(self, decisions: list[Decision]) -> list[Decision]:
        """Carry decisions out, as executors would."""
        cell = self.cell
        for decision in decisions:
            attempt = (decision.job, decision.pod, decision.attempt)
            if decision.kind in STARTS:
                self.waiting.pop(decision.job, None)
                self.ends[attempt] = cell.now_ns + self.run_s[decision.job] * b.SECOND
                cell.started(*attempt)
            elif decision.kind is DecisionKind.EVICT and attempt in self.ends:
                self.ends[attempt] = cell.now_ns
            elif decision.kind is DecisionKind.FINISH:
                self.waiting.pop(decision.job, None)
        return decisions

    def step(self) -> list[Decision]:
        """Something happens; the decisions of it and of the Tick after it."""
        cell, chance = self.cell, self.chance
        seq = len(cell.decisions)
        due = min(self.ends.values(), default=None)
        after_s = chance.choice((0, 0, 1, 2, 5))
        if due is not None and due <= cell.now_ns + after_s * b.SECOND:
            cell.now_ns = max(cell.now_ns, due)
            self._end()
        else:
            cell.now_ns += after_s * b.SECOND
            roll = chance.random()
            if roll < 0.75:
                self._submit()
            elif roll < 0.85 and self.waiting:
                self._disturb(chance.choice(list(self.waiting)))
        self.see(cell.tick(0))
        return cell.decisions[seq:]

    def _end(self) -> None:
        cell = self.cell
        attempt = min(self.ends, key=lambda key: (self.ends[key], key))
        del self.ends[attempt]
        if self.chance.random() < 0.05:
            cell.failed(*attempt, failure=FailureKind.ERROR)
        else:
            cell.succeeded(*attempt)

    def _submit(self) -> None:
        chance = self.chance
        self._number += 1
        job = f"j{self._number}"
        self.run_s[job] = run_s = chance.randint(1, 20)
        limit_s = run_s + chance.choice((0, 0, 1, 5, 15))
        if self.overruns:
            limit_s = chance.choice((0, 1, limit_s, limit_s))
        self.waiting[job] = None
        made = b.submission(
            job,
            b.role(cards=chance.choice((1, 1, 2, 3, 4, 6, self.cards))),
            user=chance.choice("abc"),
            priority=chance.choice((0, 0, 0, 1)),
            retries=chance.choice((0, 1)),
            time_ns=self.cell.now_ns,
        )
        refuses = chance.random() < 0.1
        self.cell.put(
            replace(
                made,
                runtime_estimate_ns=limit_s * b.SECOND,
                backfill=BackfillPreference.REFUSE if refuses else BackfillPreference.ACCEPT,
            )
        )

    def _disturb(self, job: str) -> None:
        cell, chance = self.cell, self.chance
        what = chance.choice(("cancel", "hold", "free", "priority", "node"))
        if what == "cancel":
            self.see(cell.cancel(job))
        elif what == "priority":
            cell.update(job, priority=chance.choice((0, 1, 2)))
        elif what == "node":
            cell.put(chance.choice((_cordon, _uncordon))(cell.now_ns))
        else:
            cell.update(job, held=what == "hold")


def follow_restored(history: TimedHistory, steps: int, seed: int) -> None:
    """Drive a history beside a state that takes its records and is restored from its own snapshot
    after some of them; asserts that both decide the same.
    """
    chance = random.Random(seed)
    other = State("cell", sha256(b"cell").digest())
    seen = 0
    for _ in range(steps):
        history.step()
        records = history.cell.records
        for record in records[seen:]:
            step(other, other.next_seq, record)
            if chance.random() < 0.2:
                other = snapshot.decode(snapshot.encode(other))
        seen = len(records)
        assert other.chain == history.cell.state.chain


def _cordon(now_ns: int) -> r.Record:
    return r.NodeCordoned(now_ns, "", None, "n0", "me")


def _uncordon(now_ns: int) -> r.Record:
    return r.NodeUncordoned(now_ns, "", None, "n0", "me")


class Work(NamedTuple):
    """A job of a workload in whole seconds."""

    job: str
    submit_s: int
    run_s: int
    cards: int
    limit_s: int
    user: str = "u"


def random_work(seed: int, count: int, cards: int) -> list[Work]:
    """A workload that keeps so many cards busy, in order of submission."""
    chance = random.Random(seed)
    now_s, made = 0, []
    for number in range(1, count + 1):
        now_s += chance.choice((0, 0, 1, 2, 4))
        run_s = chance.randint(1, 15)
        limit_s = run_s + chance.choice((0, 0, 2, 10))
        width = chance.choice((1, 1, 2, 3, cards // 2, cards))
        made.append(Work(str(number), now_s, run_s, width, limit_s, chance.choice("abc")))
    return made


def carry_out(policy: r.PolicyConfigured, work: list[Work], cards: int) -> list[Decision]:
    """All decisions of a workload on one node: submissions of a second first, then ends in order
    of starts, a Tick after each.
    """
    cell = b.Cell(checks=False)
    cell.start(b.node("n", cards), rules=policy)
    run_s = {one.job: one.run_s for one in work}
    ends: list[tuple[int, int, str, int]] = []
    decisions = cell.decisions

    def tick() -> None:
        seen = len(decisions)
        cell.tick(0)
        for order, decision in enumerate(decisions[seen:], seen):
            if decision.kind in STARTS:
                cell.started(decision.job, 0, decision.attempt)
                end_ns = cell.now_ns + run_s[decision.job] * b.SECOND
                heappush(ends, (end_ns, order, decision.job, decision.attempt))

    place = 0
    while place < len(work) or ends:
        submit_ns = b.GENESIS + work[place].submit_s * b.SECOND if place < len(work) else NEVER_NS
        if submit_ns <= (ends[0][0] if ends else NEVER_NS):
            one = work[place]
            place += 1
            cell.now_ns = submit_ns
            made = b.submission(one.job, b.role(cards=one.cards), user=one.user, time_ns=submit_ns)
            cell.put(replace(made, runtime_estimate_ns=one.limit_s * b.SECOND))
        else:
            cell.now_ns, _, job, attempt = heappop(ends)
            cell.succeeded(job, 0, attempt)
        tick()
    return decisions


def waits_s(decisions: list[Decision], work: list[Work]) -> dict[int, int]:
    """Seconds from submission to start by number."""
    starts = {d.job: (d.time_ns - b.GENESIS) // b.SECOND for d in decisions if d.kind in STARTS}
    return {int(one.job): starts[one.job] - one.submit_s for one in work}

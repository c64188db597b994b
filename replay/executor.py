"""Carries decisions out, for a virtual cluster: what starts, how long it runs, what is reported.

A fold of decisions and the workload's run times, with no clock and no randomness of its own, so
that a run can be repeated and resumed: whoever drives it says what time it is, a simulation in
virtual time, a node simulator by the clock. An allocation starts at once. An attempt ends after
its job's run time (a retried one runs the whole time again), or when it is evicted and its grace
is over. Ends of one instant come in order of starts, the pods of a job together.

A node can go away. What ends there meanwhile is reported when it is back; if it was powered off,
all that it held is gone without a word.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count

from msgspec import Struct

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, FailureKind
from ganger.schemas.records import (
    AttemptRef,
    PodFailed,
    PodReleased,
    PodStarted,
    PodSucceeded,
    Record,
)

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_EVICT = DecisionKind.EVICT

Failing = Callable[[str, int, int, int], int | None]
"""From job, pod, attempt and run time (ns) to when it fails (ns after its start), if it does."""

_NEVER_NS = -1
_AttemptKey = tuple[str, int, int]


class _Attempt(Struct, gc=False):
    """One run of a pod."""

    job: str
    pod: int
    attempt: int
    node: str
    order: int  # of starts, over all attempts
    end_ns: int  # when it ends by itself
    due_ns: int  # when its end is to be reported
    fails: bool  # how it ends by itself
    is_evicted: bool = False
    is_over: bool = False  # ended where nobody hears of it


class _Away:
    """A node that nobody hears: decisions that wait for it, attempts that ended on it."""

    __slots__ = ("decisions", "ended")

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.ended: list[_Attempt] = []


class Executor:
    """All executors of a cell.

    The order of calls is the order of events: `observe` what was decided, `take` what is due.
    """

    def __init__(
        self, run_ns: Mapping[str, int], *, grace_ns: int = 0, failing: Failing | None = None
    ) -> None:
        """An executor that runs nothing.

        Args:
            run_ns: run time of each job by key; negative: it never ends by itself.
            grace_ns: from an eviction to the release.
            failing: which attempts fail; by default none.
        """
        self._run_ns = run_ns
        self._grace_ns = grace_ns
        self._failing = failing
        self._orders = count(1)
        self._live: dict[_AttemptKey, _Attempt] = {}  # in order of starts
        self._ends: list[tuple[int, int, _Attempt]] = []  # heap; stale where due_ns differs
        self._handled: dict[str, int] = {}  # node -> cause of its last decision
        self._away: dict[str, _Away] = {}

    def observe(self, decisions: Iterable[Decision], now_ns: int) -> list[Record]:
        """Carry decisions out; the facts that are true at once: `PodStarted` of what was placed."""
        facts: list[Record] = []
        for decision in decisions:
            node = decision.node
            if not node:  # nothing that a node carries out
                continue
            kind = decision.kind
            if kind is _ALLOCATE or kind is _BACKFILL:
                if self._away and self._waits(decision):
                    continue
                self._handled[node] = decision.cause_seq
                facts.append(self._place(decision, now_ns))
            elif kind is _EVICT:
                if self._away and self._waits(decision):
                    continue
                self._handled[node] = decision.cause_seq
                self._evict(decision, now_ns)
        return facts

    def due(self) -> int | None:
        """When the next end is to be looked at; None while nothing will ever end."""
        ends = self._ends
        while ends:
            due_ns, _, attempt = ends[0]
            if attempt.due_ns == due_ns:
                return due_ns
            heappop(ends)
        return None

    def take(self, now_ns: int) -> list[Record] | None:
        """The facts of one end that is due: of all pods of one job that end at one instant.

        None if nothing is due; empty if it happened where nobody hears of it.
        """
        ends = self._ends
        facts: list[Record] | None = None
        job, first_ns = "", 0
        while ends and ends[0][0] <= now_ns:
            due_ns, _, attempt = ends[0]
            if attempt.due_ns == due_ns:
                if facts is None:
                    facts = []
                elif facts and (attempt.job != job or due_ns != first_ns):
                    break
                if self._away and attempt.node in self._away:
                    attempt.due_ns = _NEVER_NS
                    attempt.is_over = True
                    self._away[attempt.node].ended.append(attempt)
                else:
                    job, first_ns = attempt.job, due_ns
                    facts.append(self._end(attempt, now_ns))
            heappop(ends)
        return facts

    def leave(self, node: str, *, is_powered_off: bool) -> None:
        """A node goes away; powered off, its attempts end without a word."""
        if node in self._away:
            raise ValueError(f"node {node!r}: it is away already; let it return first")
        self._away[node] = _Away()
        if is_powered_off:
            self._forget(node)

    def come_back(self, node: str, now_ns: int, *, is_rebooted: bool) -> list[Record]:
        """A node is back; the facts that are true at once.

        If it kept running, it now handles what was decided meanwhile, and ends that nobody heard of
        are due now. Else it starts empty, and decisions of before mean nothing to it.
        """
        away = self._away.pop(node)
        if away.decisions:
            self._handled[node] = away.decisions[-1].cause_seq
        if is_rebooted:
            self._forget(node)
            return []
        for attempt in away.ended:
            self._schedule(attempt, now_ns)
        evicted = {(d.job, d.pod, d.attempt) for d in away.decisions if d.kind is _EVICT}
        facts: list[Record] = []
        for decision in away.decisions:
            if decision.kind is _EVICT:
                self._evict(decision, now_ns)
                continue
            fact = self._place(decision, now_ns)
            if (decision.job, decision.pod, decision.attempt) not in evicted:
                facts.append(fact)
        return facts

    def is_away(self, node: str) -> bool:
        """Whether nobody hears the node."""
        return node in self._away

    def alive(self) -> dict[str, list[AttemptRef]]:
        """Attempts that have not ended by node, in order of starts; O(attempts)."""
        by_node: dict[str, list[AttemptRef]] = {}
        for (job, pod, attempt), run in self._live.items():
            if not run.is_over:
                by_node.setdefault(run.node, []).append(AttemptRef(job, pod, attempt))
        return by_node

    def handled_seq(self, node: str) -> int:
        """Cause of the last decision for the node that it has handled; -1: none."""
        return self._handled.get(node, -1)

    def _waits(self, decision: Decision) -> bool:
        """Whether a decision is for a node that is away; it is kept for it."""
        away = self._away.get(decision.node)
        if away is None:
            return False
        away.decisions.append(decision)
        return True

    def _place(self, decision: Decision, now_ns: int) -> PodStarted:
        """Begin an attempt; the fact that it started."""
        job, pod, attempt, node = decision.job, decision.pod, decision.attempt, decision.node
        run_ns = self._run_ns[job]
        fails = False
        if self._failing is not None:
            failed_ns = self._failing(job, pod, attempt, run_ns)
            if failed_ns is not None:
                run_ns = failed_ns
                fails = True
        end_ns = now_ns + run_ns if run_ns >= 0 else _NEVER_NS
        order = next(self._orders)
        run = _Attempt(job, pod, attempt, node, order, end_ns, end_ns, fails)
        self._live[job, pod, attempt] = run
        if run_ns >= 0:
            heappush(self._ends, (end_ns, order, run))
        return PodStarted(now_ns, "", None, job, pod, attempt, node, now_ns)

    def _evict(self, decision: Decision, now_ns: int) -> None:
        """Begin to end an attempt, unless it ends by itself before its grace is over."""
        attempt = self._live.get((decision.job, decision.pod, decision.attempt))
        if attempt is None or attempt.is_evicted:
            return
        released_ns = now_ns + self._grace_ns
        if attempt.end_ns == _NEVER_NS or attempt.end_ns > released_ns:
            attempt.is_evicted = True
            self._schedule(attempt, released_ns)

    def _schedule(self, attempt: _Attempt, due_ns: int) -> None:
        attempt.due_ns = due_ns
        heappush(self._ends, (due_ns, attempt.order, attempt))

    def _end(self, attempt: _Attempt, now_ns: int) -> Record:
        job, pod, number, end_ns = attempt.job, attempt.pod, attempt.attempt, attempt.end_ns
        del self._live[job, pod, number]
        attempt.due_ns = _NEVER_NS
        if attempt.is_evicted:
            return PodReleased(now_ns, "", None, job, pod, number, now_ns)
        if attempt.fails:
            why = "simulated failure"
            return PodFailed(now_ns, "", None, job, pod, number, FailureKind.ERROR, 1, why, end_ns)
        return PodSucceeded(now_ns, "", None, job, pod, number, end_ns)

    def _forget(self, node: str) -> None:
        for key in [key for key, attempt in self._live.items() if attempt.node == node]:
            self._live.pop(key).due_ns = _NEVER_NS

"""Carries decisions out, for a virtual cluster: what starts, how long it runs, what is reported.

A fold of decisions and the workload's run times, with no clock and no randomness of its own, so
that a run can be repeated and resumed: whoever drives it says what time it is, a simulation in
virtual time, a node simulator by the clock. An allocation starts at once. An attempt ends after
its job's run time, or when it is evicted and its grace is over. A suspended one stops when its
grace is over and goes on for the rest of its time when it is resumed. A job that can checkpoint
saves when it is warned, suspended or evicted: its next attempt runs only for what is missing, in
thousandths as reported; of any other job it runs the whole time again. Ends of one instant come in
order of starts, the pods of a job together; of what started at one instant, in the order in which
that was settled: by the start, by a claim made then, or by a reservation that named that instant.

A node can go away. What ends there meanwhile is reported when it is back; if it was powered off,
all that it held is gone without a word.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count

from ganger.replay.attempts import NEVER_NS, Attempt, Order, Stretch, Watch, Way
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, FailureKind
from ganger.schemas.records import (
    AttemptRef,
    PodCheckpointed,
    PodFailed,
    PodReleased,
    PodResumed,
    PodStarted,
    PodSucceeded,
    PodSuspended,
    Record,
)

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_CLAIM = DecisionKind.CLAIM
_NOTICE = DecisionKind.NOTICE
_RESERVE = DecisionKind.RESERVE
_RESUME = DecisionKind.RESUME
_SUSPEND = DecisionKind.SUSPEND
_RUNS = Way.RUNS
_STOPS = Way.STOPS
_STANDS = Way.STANDS
_LEAVES = Way.LEAVES

PLACES = (_ALLOCATE, _BACKFILL)
ENDS = (DecisionKind.EVICT, DecisionKind.MOVE)
TELLS = (*ENDS, _NOTICE, _RESUME, _SUSPEND)
"""Decisions that a node carries out: those that begin an attempt, that end one, that tell it."""
VOIDS = (DecisionKind.FINISH, DecisionKind.UNCLAIM, DecisionKind.UNRESERVE)
"""Decisions after which no start of the job is settled."""

Failing = Callable[[str, int, int, int], int | None]
"""From job, pod, attempt and run time (ns) to when it fails (ns after its start), if it does."""

_AttemptKey = tuple[str, int, int]


class _Away:
    """A node that nobody hears: decisions that wait for it, attempts that ended on it."""

    __slots__ = ("decisions", "ended")

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.ended: list[Attempt] = []


class Executor:
    """All executors of a cell.

    The order of calls is the order of events: `observe` what was decided, `take` what is due.

    Attributes:
        suspended_count: attempts that stand.
    """

    def __init__(
        self,
        run_ns: Mapping[str, int],
        *,
        grace_ns: int = 0,
        failing: Failing | None = None,
        saves: Callable[[str], bool] = lambda job: False,
        watch: Watch | None = None,
        watches_all: bool = False,
    ) -> None:
        """An executor that runs nothing.

        Args:
            run_ns: run time of each job by key; negative: it never ends by itself.
            grace_ns: from an eviction to the release, from a suspension to the stop.
            failing: which attempts fail; by default none.
            saves: whether a job can checkpoint; by default none can.
            watch: told of each stretch that an attempt placed in a gap ran, when it is over.
            watches_all: tell it of all attempts.
        """
        self.suspended_count = 0
        self._run_ns = run_ns
        self._grace_ns = grace_ns
        self._failing = failing
        self._saves = saves
        self._watch = watch
        self._watches_all = watches_all
        self._orders = count(1)
        self._settled: dict[str, tuple[int, int]] = {}  # job -> when it is to start, place then
        self._live: dict[_AttemptKey, Attempt] = {}  # in order of starts
        self._saved: dict[str, dict[int, int]] = {}  # job -> pod -> thousandths done and saved
        self._ends: list[tuple[int, Order, Attempt]] = []  # heap; stale where due_ns differs
        self._handled: dict[str, int] = {}  # node -> cause of its last decision
        self._away: dict[str, _Away] = {}

    def observe(self, decisions: Iterable[Decision], now_ns: int) -> list[Record]:
        """Carry decisions out; the facts that are true at once."""
        facts: list[Record] = []
        for decision in decisions:
            node, kind = decision.node, decision.kind
            if kind is _RESERVE or kind is _CLAIM:
                self._settle(decision, now_ns)
                continue
            if not node:  # nothing that a node carries out
                if self._settled and kind in VOIDS:
                    self._settled.pop(decision.job, None)
                continue
            if kind is _ALLOCATE or kind is _BACKFILL:
                if self._away and self._waits(decision):
                    continue
                self._handled[node] = decision.cause_seq
                facts.append(self._place(decision, now_ns))
            elif kind in TELLS:
                if self._away and self._waits(decision):
                    continue
                self._handled[node] = decision.cause_seq
                facts += self._tell(decision, now_ns)
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

        A stop is an end here. None if nothing is due; empty if it happened where nobody hears of
        it.
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
                    attempt.due_ns = NEVER_NS
                    attempt.halted_ns = due_ns
                    self._away[attempt.node].ended.append(attempt)
                else:
                    job, first_ns = attempt.job, due_ns
                    if attempt.way is _RUNS:
                        facts.append(self._end(attempt, now_ns))
                    elif attempt.way is _STOPS:
                        facts += self._stop(attempt, now_ns)
                    else:
                        facts += self._release(attempt, now_ns)
            heappop(ends)
        return facts

    def leave(self, node: str, now_ns: int, *, is_powered_off: bool) -> None:
        """A node goes away; powered off, its attempts end without a word."""
        if node in self._away:
            raise ValueError(f"node {node!r}: it is away already; let it return first")
        self._away[node] = _Away()
        if is_powered_off:
            self._lose(node, now_ns)

    def come_back(self, node: str, now_ns: int, *, is_rebooted: bool) -> list[Record]:
        """A node is back; the facts that are true at once.

        If it kept running, it now handles what was decided meanwhile, and ends that nobody heard of
        are due now. Else it starts empty, and decisions of before mean nothing to it.
        """
        away = self._away.pop(node)
        if away.decisions:
            self._handled[node] = away.decisions[-1].cause_seq
        if is_rebooted:
            self._lose(node, now_ns)
            return []
        for attempt in away.ended:
            self._schedule(attempt, now_ns)
        gone = {(d.job, d.pod, d.attempt) for d in away.decisions if d.kind in ENDS}
        facts: list[Record] = []
        for decision in away.decisions:
            if decision.kind not in PLACES:
                facts += self._tell(decision, now_ns)
                continue
            fact = self._place(decision, now_ns)
            if (decision.job, decision.pod, decision.attempt) not in gone:
                facts.append(fact)
        return facts

    def recall(self, fact: Record, at_ns: int) -> None:
        """A fact of the past about an attempt or a former one of its pod, in the ledger's order."""
        if isinstance(fact, PodCheckpointed):
            self._keep(fact.job, fact.pod, fact.progress_milli)
        elif isinstance(fact, PodSuspended):
            if self._saves(fact.job):
                self._keep(fact.job, fact.pod, fact.progress_milli)
            attempt = self._live.get((fact.job, fact.pod, fact.attempt))
            if attempt is not None and attempt.way is _RUNS:
                self._order_stop(attempt, at_ns)
                self._stop(attempt, at_ns)
        elif isinstance(fact, PodResumed):
            attempt = self._live.get((fact.job, fact.pod, fact.attempt))
            if attempt is not None:
                self._resume(attempt, at_ns)

    def forget(self, job: str) -> None:
        """A job is over: what its pods saved is of no use to another one of its key."""
        self._saved.pop(job, None)

    def stop_watching(self, now_ns: int) -> None:
        """Tell the watch of the stretches that still go on."""
        for attempt in self._live.values():
            if attempt.way is not _STANDS:
                self._tell_stretch(attempt, now_ns)
        self._watch = None

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

    def _settle(self, decision: Decision, now_ns: int) -> None:
        """Note when a job is to start, and its place among all that start then."""
        job, settled = decision.job, self._settled
        at_ns = decision.start_ns if decision.kind is _RESERVE else now_ns
        if job not in settled or settled[job][0] != at_ns:
            settled[job] = at_ns, next(self._orders)

    # ---- what is told ----------------------------------------------------------------------------

    def _place(self, decision: Decision, now_ns: int) -> PodStarted:
        """Begin an attempt; the fact that it started."""
        job, pod, attempt, node = decision.job, decision.pod, decision.attempt, decision.node
        run_ns = self._run_ns[job]
        base_milli = self._saved[job].get(pod, 0) if job in self._saved else 0
        if base_milli and run_ns > 0:
            run_ns -= run_ns * base_milli // 1000
        fails = False
        if self._failing is not None:
            failed_ns = self._failing(job, pod, attempt, run_ns)
            if failed_ns is not None:
                run_ns = failed_ns
                fails = True
        end_ns = now_ns + run_ns if run_ns >= 0 else NEVER_NS
        place = next(self._orders)
        at_ns, settled = self._settled.get(job, (NEVER_NS, 0))
        order = now_ns, settled if at_ns == now_ns else place, place
        run = Attempt(job, pod, attempt, node, order, end_ns, end_ns, fails, decision, now_ns)
        if base_milli:
            run.base_milli = run.saved_milli = base_milli
        self._live[job, pod, attempt] = run
        if run_ns >= 0:
            heappush(self._ends, (end_ns, order, run))
        return PodStarted(now_ns, "", None, job, pod, attempt, node, now_ns)

    def _tell(self, decision: Decision, now_ns: int) -> list[Record]:
        """Tell a live attempt what was decided about it; the facts that are true at once."""
        attempt = self._live.get((decision.job, decision.pod, decision.attempt))
        if attempt is None or attempt.way is _LEAVES or attempt.halted_ns != NEVER_NS:
            return []
        kind = decision.kind
        if kind in ENDS:
            self._evict(attempt, decision, now_ns)
        elif kind is _SUSPEND:
            self._order_stop(attempt, max(now_ns + self._grace_ns, decision.until_ns))
        elif kind is _RESUME:
            return self._resume(attempt, now_ns)
        elif attempt.way is _RUNS:
            return self._save(attempt, now_ns)
        return []

    def _evict(self, attempt: Attempt, decision: Decision, now_ns: int) -> None:
        """Begin to end an attempt, unless it ends by itself before its grace is over."""
        is_standing = attempt.way is _STANDS
        released_ns = now_ns
        if not is_standing:
            released_ns = max(now_ns + self._grace_ns, decision.until_ns)
        if not is_standing and NEVER_NS < attempt.end_ns <= released_ns:
            return
        if is_standing:
            self.suspended_count -= 1
            attempt.stood = True
        attempt.way = _LEAVES
        attempt.reason = decision.reason
        self._schedule(attempt, released_ns)

    def _order_stop(self, attempt: Attempt, stopped_ns: int) -> None:
        """Let an attempt stop at a moment, unless it ends by itself before."""
        end_ns = attempt.end_ns
        if attempt.way is not _RUNS or NEVER_NS < end_ns <= stopped_ns:
            return
        attempt.way = _STOPS
        attempt.left_ns = NEVER_NS if end_ns == NEVER_NS else end_ns - stopped_ns
        self._schedule(attempt, stopped_ns)

    def _resume(self, attempt: Attempt, now_ns: int) -> list[Record]:
        """A suspended attempt goes on; among ends of one instant its place is that of its start."""
        if attempt.way is not _STANDS:
            return []
        self.suspended_count -= 1
        attempt.way = _RUNS
        attempt.since_ns = now_ns
        if attempt.left_ns != NEVER_NS:
            attempt.end_ns = now_ns + attempt.left_ns
            self._schedule(attempt, attempt.end_ns)
        return [PodResumed(now_ns, "", None, attempt.job, attempt.pod, attempt.attempt, now_ns)]

    # ---- what comes of it ------------------------------------------------------------------------

    def _schedule(self, attempt: Attempt, due_ns: int) -> None:
        attempt.due_ns = due_ns
        heappush(self._ends, (due_ns, attempt.order, attempt))

    def _end(self, attempt: Attempt, now_ns: int) -> Record:
        """An attempt ends by itself."""
        job, pod, number, end_ns = attempt.job, attempt.pod, attempt.attempt, attempt.end_ns
        del self._live[job, pod, number]
        attempt.due_ns = NEVER_NS
        if self._watch is not None:
            self._tell_stretch(attempt, now_ns)
        if attempt.fails:
            why = "simulated failure"
            return PodFailed(now_ns, "", None, job, pod, number, FailureKind.ERROR, 1, why, end_ns)
        if job in self._saved:
            self._saved[job].pop(pod, None)
        return PodSucceeded(now_ns, "", None, job, pod, number, end_ns)

    def _release(self, attempt: Attempt, now_ns: int) -> list[Record]:
        """An evicted attempt is gone; who can, saves before."""
        job, pod, number = attempt.job, attempt.pod, attempt.attempt
        facts = self._save(attempt, now_ns)
        del self._live[job, pod, number]
        attempt.due_ns = NEVER_NS
        self._tell_stretch(attempt, now_ns)
        facts.append(PodReleased(now_ns, "", None, job, pod, number, now_ns))
        return facts

    def _stop(self, attempt: Attempt, now_ns: int) -> list[Record]:
        """An attempt has stopped."""
        job, pod, number = attempt.job, attempt.pod, attempt.attempt
        attempt.due_ns = NEVER_NS
        done_milli = attempt.done_milli(now_ns, self._run_ns[job])
        if self._saves(job):
            attempt.saved_milli = self._keep(job, pod, done_milli)
        self._tell_stretch(attempt, now_ns)
        attempt.ran_ns = attempt.done_ns(now_ns)
        attempt.way = _STANDS
        attempt.halted_ns = NEVER_NS
        self.suspended_count += 1
        return [PodSuspended(now_ns, "", None, job, pod, number, done_milli, now_ns)]

    def _save(self, attempt: Attempt, now_ns: int) -> list[Record]:
        """Save how far a pod is, if its job can; the fact, if that is farther than before."""
        job, pod = attempt.job, attempt.pod
        if not self._saves(job):
            return []
        done_milli = attempt.done_milli(now_ns, self._run_ns[job])
        if done_milli <= attempt.saved_milli:
            return []
        attempt.saved_milli = self._keep(job, pod, done_milli)
        return [PodCheckpointed(now_ns, "", None, job, pod, attempt.attempt, done_milli, now_ns)]

    def _keep(self, job: str, pod: int, done_milli: int) -> int:
        """Remember how far a pod is for its next attempts."""
        self._saved.setdefault(job, {})[pod] = done_milli
        return done_milli

    def _tell_stretch(self, attempt: Attempt, now_ns: int) -> None:
        """Tell the watch of a stretch that is over; none of one that was released while it stood,
        unless something is lost with it.
        """
        if self._watch is None or not (self._watches_all or attempt.is_lent):
            return
        to_ns = attempt.now_or_halt(now_ns)
        lost_ns = 0
        if attempt.way is _LEAVES:
            lost_ns = attempt.lost_ns(now_ns, self._run_ns[attempt.job])
        from_ns = to_ns if attempt.stood else attempt.since_ns
        if lost_ns or from_ns < to_ns:
            self._watch(Stretch(attempt.placed, from_ns, to_ns, lost_ns, attempt.reason))

    def _lose(self, node: str, now_ns: int) -> None:
        """All that a node held is gone; what was saved is elsewhere."""
        for key in [key for key, attempt in self._live.items() if attempt.node == node]:
            attempt = self._live.pop(key)
            attempt.due_ns = NEVER_NS
            if attempt.way is _STANDS:
                self.suspended_count -= 1
            else:
                self._tell_stretch(attempt, now_ns)

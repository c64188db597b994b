"""Whether a ledger kept the promise of backfill: no job in a gap delays a reservation made before.

A fold of records and decisions that knows nothing of the kernel's plans. Of each pod that holds
cards it keeps when it should end *by the estimate with which it was admitted*, as its decision
says; of each reservation when it begins and ends and how many cards it holds. When a job was placed
in a gap, for its estimate and its margin, all that is reserved must still fit: at no moment may
pods and reservations hold more cards than there are, on each node that reservations name, or in the
cell where they name none. A reservation that does not fit, and would without the job, is
broken by it. Jobs in gaps that yield on demand (suspendable and spot ones) break none.

Where the fold cannot know better it takes the side of the kernel: a pod that outlives its estimate
counts as gone, so does one that was told to end, and lost or closed nodes count as open. Who starts
when it was to, by its reservation, delays nobody; nor does who starts later than it claimed or than
was reserved for it, as it waited for somebody who outlived his estimate.

It also holds evictions against the protection that a pod was given when it was placed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter

from msgspec import Struct

from ganger.replay.attempts import milli_cards
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import CardHealth, DecisionKind
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    JobUpdateRequested,
    NodeChanged,
    NodeReturned,
    PodFailed,
    PodReleased,
    PodStarted,
    PodSucceeded,
    PodSuspended,
    PolicyConfigured,
    Record,
)
from ganger.streams.kernel.horizon.steps import FOREVER, Steps

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_CLAIM = DecisionKind.CLAIM
_EVICT = DecisionKind.EVICT
_FINISH = DecisionKind.FINISH
_MOVE = DecisionKind.MOVE
_RESERVE = DecisionKind.RESERVE
_RESUME = DecisionKind.RESUME
_UNCLAIM = DecisionKind.UNCLAIM
_UNRESERVE = DecisionKind.UNRESERVE

_YIELDS = (Reason.SUSPENDABLE, Reason.SPOT_FILL, Reason.RESUMED)
_ENDS = (PodSucceeded, PodFailed, PodReleased)
_NODE_FACTS = frozenset((NodeChanged, NodeReturned))
_EARLY_FACTS = _NODE_FACTS.union((PolicyConfigured,))
_FACTS = _NODE_FACTS.union((*_ENDS, PodStarted, PodSuspended, JobUpdateRequested))
_TIMED = frozenset(("reserve", "beyond", "timed"))
"""Arguments of actions that plan with run times."""
_CARD_MILLI = 1000

_times_of = attrgetter("estimate_ns", "start_ns")
_NO_TIMES = (0, 0)


def _plans(decisions: Iterable[Decision]) -> Iterator[bool]:
    """Of each whether it plans with time. Those before the first of them promised nothing."""
    return map(_NO_TIMES.__ne__, map(_times_of, decisions))


class Violation(Struct, frozen=True):
    """A promise that was broken.

    Attributes:
        seq: cause of the decision that broke it.
        index: of that decision.
        job: to whom it was made; where `node` is named, the reservation by request.
        by: who was placed, or served, instead.
        promised_ns: when the reservation was to begin, or until when the pod was protected.
        until_ns: when the job in the gap should end by its estimate; 0 for an eviction.
        lacking_milli: milli-cards that are not there for the reservation; 0 for an eviction.
        node: where somebody was placed whom a reservation by request kept out.
        begin_ns: when that was.
    """

    seq: int
    index: int
    job: str
    by: str
    promised_ns: int
    until_ns: int
    lacking_milli: int
    node: str = ""
    begin_ns: int = 0


class _Held(Struct):
    """Cards that a pod holds."""

    node: str
    milli: int
    placed_ns: int
    end_ns: int  # by the estimate with which it was admitted, and the margin
    protect_ns: int
    margin_ns: int = 0  # beyond its estimate; it counts while it is let into its gap
    started_ns: int = 0
    left_ns: int = 0  # of a suspended one
    stands: bool = False


def _begin(held: _Held, now_ns: int) -> None:
    """The pod runs, as is said for the first time: all its run is still to come."""
    if held.started_ns:
        return
    held.started_ns = now_ns
    if held.placed_ns < held.end_ns < FOREVER:
        held.end_ns += now_ns - held.placed_ns


class _Booked(Struct, frozen=True):
    """A reservation."""

    start_ns: int
    until_ns: int
    milli: int


def _span(booked: _Booked, now_ns: int) -> tuple[int, int]:
    """From when to when a reservation holds cards, as of now."""
    begin_ns = max(booked.start_ns, now_ns)
    return begin_ns, max(booked.until_ns, begin_ns + 1)


_AttemptKey = tuple[str, int, int]
_Bookings = dict[str, _Booked]
"""Reservations of one job by node; "" for one that counts cards of the cell."""

_Renewed = dict[str, _Bookings]
"""Of jobs whose reservations are said anew: what they were."""


class PromiseCheck:
    """Told of records and their decisions, in order.

    Attributes:
        violations: how many promises were broken.
        first: the first of them.
    """

    def __init__(self) -> None:
        self.violations = 0
        self.first: Violation | None = None
        self._is_active = False  # once a decision plans with time
        self._cards: dict[str, int] = {}  # milli-cards by node, as it reported last
        self._total = 0
        self._held: dict[_AttemptKey, _Held] = {}
        self._attempts: dict[str, dict[_AttemptKey, None]] = {}  # keys of `_held` by job
        self._booked: dict[str, _Bookings] = {}  # by job
        self._claimed_ns: dict[str, int] = {}  # job -> when it claimed what it waits for
        self._leaving: dict[str, dict[_AttemptKey, None]] = {}  # told to end, by job

    def check(self, records: Sequence[Record], decided: Sequence[Sequence[Decision]]) -> None:
        """Records, and all that each led to."""
        if not self._is_active:
            planned = any(_plans(chain.from_iterable(decided)))
            if not planned and _EARLY_FACTS.isdisjoint(map(type, records)):
                return
        for record, decisions in zip(records, decided, strict=True):
            if record.__class__ in (_FACTS if self._is_active else _EARLY_FACTS):
                self._learn(record)
            if decisions and (self._is_active or any(_plans(decisions))):
                self._take(decisions)

    def _learn(self, record: Record) -> None:
        """A fact that changes who holds what, or by which policy."""
        if isinstance(record, NodeChanged | NodeReturned):
            report = record.report
            healthy = CardHealth.HEALTHY
            cards = sum([run.count for run in report.cards if run.health is healthy])
            self._total += _CARD_MILLI * cards - self._cards.get(report.node, 0)
            self._cards[report.node] = _CARD_MILLI * cards
        elif isinstance(record, PolicyConfigured):
            self._is_active = self._is_active or any(
                argument.key in _TIMED for action in record.actions for argument in action.arguments
            )
        elif isinstance(record, JobUpdateRequested):
            for key in self._attempts.get(record.job, ()):
                self._held[key].end_ns = 0  # nobody said by which estimate it is judged now
        elif isinstance(record, PodStarted | PodSuspended | PodSucceeded | PodFailed | PodReleased):
            key = (record.job, record.pod, record.attempt)
            held = self._held.get(key)
            if held is None:
                if isinstance(record, _ENDS):
                    self._gone(key)
                return
            if isinstance(record, PodStarted):
                _begin(held, record.time_ns)
            elif isinstance(record, PodSuspended):
                held.stands = True
                held.left_ns = max(0, held.end_ns - record.time_ns)
            else:
                self._forget(key)

    def _take(self, decisions: Sequence[Decision]) -> None:
        """The decisions of one record."""
        fills: dict[str, Decision] = {}
        waited: set[str] = set()  # who were to start by now
        late: dict[str, _Bookings] = {}  # as promised before a fill
        renewed: _Renewed = {}
        for decision in decisions:
            kind = decision.kind
            if kind is _ALLOCATE or kind is _BACKFILL:
                if not self._is_active and not decision.estimate_ns:
                    continue
                self._is_active = True
                self._hold(decision)
                if self._meet(decision):
                    waited.add(decision.job)
                if kind is _BACKFILL and decision.reason not in _YIELDS:
                    fills.setdefault(decision.job, decision)
            elif kind is _RESERVE and decision.job:  # else it was asked for, see module `windows`
                self._is_active = True
                self._book(decision, renewed, late if fills else None)
            elif kind is _UNRESERVE:
                self._booked.pop(decision.job, None)
            elif kind is _CLAIM:
                self._booked.pop(decision.job, None)  # who claims its cards has what was promised
                self._claimed_ns.setdefault(decision.job, decision.time_ns)
            elif kind is _UNCLAIM:
                self._claimed_ns.pop(decision.job, None)
            elif kind is _RESUME:
                self._resume(decision)
            elif kind is _FINISH:
                self._booked.pop(decision.job, None)
                self._claimed_ns.pop(decision.job, None)
                self._leaving.pop(decision.job, None)
                for key in [*self._attempts.get(decision.job, ())]:
                    self._forget(key)
            elif kind is _EVICT or kind is _MOVE:
                self._evict(decision)
        judged = {job: fill for job, fill in fills.items() if job not in waited}
        if judged and self._booked:
            self._prove(judged, {} if waited else late)
        for key in [key for job in fills for key in self._attempts.get(job, ())]:
            held = self._held[key]
            held.end_ns -= held.margin_ns
            held.margin_ns = 0

    # ---- who holds what --------------------------------------------------------------------------

    def _hold(self, decision: Decision) -> None:
        milli = milli_cards(decision)
        if not milli and not decision.protect_ns:
            return
        end_ns, margin_ns = FOREVER, 0
        if decision.reason in _YIELDS:
            end_ns = decision.time_ns  # who makes way holds nothing against a reservation
        elif decision.estimate_ns:
            margin_ns = decision.margin_ns
            end_ns = decision.time_ns + decision.estimate_ns + margin_ns
        key = (decision.job, decision.pod, decision.attempt)
        if self._leaving:
            self._gone(key)
        self._held[key] = _Held(
            decision.node, milli, decision.time_ns, end_ns, decision.protect_ns, margin_ns
        )
        self._attempts.setdefault(decision.job, {})[key] = None

    def _meet(self, decision: Decision) -> bool:
        """A job is placed and needs neither claim nor reservation any more. Whether it was to be
        placed by now, by either.
        """
        now_ns = decision.time_ns
        booked = self._booked.pop(decision.job, {}).values()
        if self._claimed_ns.pop(decision.job, FOREVER) < now_ns:
            return True
        held = self._held.get((decision.job, decision.pod, decision.attempt))
        end_ns = now_ns if held is None else held.end_ns
        return any(
            one.start_ns < now_ns or (one.start_ns == now_ns and end_ns <= one.until_ns)
            for one in booked
        )

    def _forget(self, key: _AttemptKey) -> None:
        del self._held[key]
        keys = self._attempts[key[0]]
        del keys[key]
        if not keys:
            del self._attempts[key[0]]

    def _resume(self, decision: Decision) -> None:
        held = self._held.get((decision.job, decision.pod, decision.attempt))
        if held is not None and held.stands:
            held.stands = False
            held.end_ns = min(FOREVER, decision.time_ns + held.left_ns)

    def _evict(self, decision: Decision) -> None:
        key = (decision.job, decision.pod, decision.attempt)
        held = self._held.get(key)
        if held is None:
            return
        protected_ns = held.started_ns + held.protect_ns
        if held.protect_ns and held.started_ns and decision.for_job:
            if decision.time_ns < protected_ns and not held.stands:
                self._break(decision, decision.job, decision.for_job, protected_ns, 0, 0)
        self._forget(key)
        self._leaving.setdefault(key[0], {})[key] = None

    def _gone(self, key: _AttemptKey) -> None:
        """A pod that was told to end has ended, or counts as such: its job has another one."""
        leaving = self._leaving.get(key[0])
        if leaving is not None:
            for other in [other for other in leaving if other[1] == key[1]]:
                del leaving[other]
            if not leaving:
                del self._leaving[key[0]]

    def _book(
        self, decision: Decision, renewed: _Renewed, late: dict[str, _Bookings] | None
    ) -> None:
        """A reservation, made or said anew.

        What is said of a job's nodes one after the other replaces what was said before; the first
        of them has a count of pods.

        `late`: to keep what was promised before, where it is moved back; none: no need.
        """
        job = decision.job
        if decision.count or job not in renewed:
            renewed[job] = self._booked.pop(job, {})
        old = renewed[job]
        booked = _Booked(decision.start_ns, decision.until_ns or FOREVER, decision.asked)
        self._booked.setdefault(job, {})[decision.node] = booked
        if late is not None and old and booked.start_ns > min(o.start_ns for o in old.values()):
            late.setdefault(job, old)

    # ---- the proof -------------------------------------------------------------------------------

    def _prove(self, fills: dict[str, Decision], late: dict[str, _Bookings]) -> None:
        """Whether all that is reserved still fits beside the jobs placed in gaps just now.

        A reservation that was moved back after them is looked at where it was, unless some pod is
        late or told to leave: then that may be the reason.
        """
        now_ns = next(iter(fills.values())).time_ns
        if late and (
            self._leaving
            or any(one.end_ns < now_ns and not one.stands for one in self._held.values())
        ):
            late = {}
        places = self._places(late)
        if late:
            late = {job: old for job, old in late.items() if self._fits(job, places, now_ns, fills)}
            places = self._places(late)
        for node, booked in places.items():
            crossing = self._all_crossing(node, booked, fills)
            if crossing:
                self._prove_at(node, now_ns, booked, fills, crossing)

    def _places(self, late: dict[str, _Bookings]) -> dict[str, dict[str, _Booked]]:
        """What is reserved by node, or "" for the cell, then by job; of `late`, as it was."""
        places: dict[str, dict[str, _Booked]] = {}
        for job, booked in self._booked.items():
            for node, one in (late.get(job) or booked).items():
                places.setdefault(node, {})[job] = one
        return places

    def _fits(
        self,
        job: str,
        places: dict[str, dict[str, _Booked]],
        now_ns: int,
        fills: dict[str, Decision],
    ) -> bool:
        """Whether what is reserved for a job would fit but for the jobs placed in gaps just now."""
        for node, booked in places.items():
            if job in booked:
                crossing = self._all_crossing(node, booked, fills)
                without = self._without(now_ns, self._free(node, now_ns, booked), crossing)
                if without.least(*_span(booked[job], now_ns)) < 0:
                    return False
        return True

    def _all_crossing(
        self, node: str, booked: dict[str, _Booked], fills: dict[str, Decision]
    ) -> dict[str, list[_AttemptKey]]:
        """Pods of those placed in gaps that hold cards at a place when anything is reserved."""
        first_ns = min(one.start_ns for one in booked.values())
        return {job: keys for job in fills if (keys := self._crossing(job, node, first_ns))}

    def _crossing(self, job: str, node: str, first_ns: int) -> list[_AttemptKey]:
        """Pods of a job that hold cards at a place beyond a moment."""
        return [
            key
            for key in self._attempts.get(job, ())
            if self._held[key].end_ns > first_ns and (not node or self._held[key].node == node)
        ]

    def _prove_at(
        self,
        node: str,
        now_ns: int,
        booked: dict[str, _Booked],
        fills: dict[str, Decision],
        crossing: dict[str, list[_AttemptKey]],
    ) -> None:
        """The same for one node, or for the cell as a whole."""
        free = self._free(node, now_ns, booked)
        if min(free.values) >= 0:
            return
        without = self._without(now_ns, free, crossing)
        ends = {job: max(self._held[key].end_ns for key in keys) for job, keys in crossing.items()}
        by = max(crossing, key=lambda job: (ends[job], job))
        until_ns = min(ends[by], FOREVER - 1)
        for job, one in booked.items():
            begin_ns, end_ns = _span(one, now_ns)
            lacking = -free.least(begin_ns, end_ns)
            if lacking > 0 and without.least(begin_ns, end_ns) >= 0:
                self._break(fills[by], job, by, one.start_ns, until_ns, lacking)

    def _without(self, now_ns: int, free: Steps, crossing: dict[str, list[_AttemptKey]]) -> Steps:
        """What would be free but for these pods."""
        without = Steps(now_ns, 0)
        without.times, without.values = list(free.times), list(free.values)
        for keys in crossing.values():
            for key in keys:
                without.add(now_ns, self._held[key].end_ns, self._held[key].milli)
        return without

    def _free(self, node: str, now_ns: int, booked: dict[str, _Booked]) -> Steps:
        """Milli-cards that neither pods nor reservations hold at a place, from now on."""
        changes: dict[int, int] = {}
        free = self._cards.get(node, 0) if node else self._total
        for held in self._held.values():
            if held.end_ns > now_ns and not held.stands and (not node or held.node == node):
                free -= held.milli
                changes[held.end_ns] = changes.get(held.end_ns, 0) + held.milli
        for one in booked.values():
            changes[one.start_ns] = changes.get(one.start_ns, 0) - one.milli
            changes[one.until_ns] = changes.get(one.until_ns, 0) + one.milli
        changes.pop(FOREVER, None)
        return Steps.changing(now_ns, free, changes)

    def _break(
        self, decision: Decision, job: str, by: str, promised_ns: int, until_ns: int, lacking: int
    ) -> None:
        self.violations += 1
        if self.first is None:
            self.first = Violation(
                decision.cause_seq, decision.index, job, by, promised_ns, until_ns, lacking
            )

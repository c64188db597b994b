"""Whether nobody was placed on cards that a reservation by request kept from it.

A fold of records and decisions beside the kernel's own: requests say who may use what and when,
RESERVE decisions of no job which cards those are where the request left that open. Each placement
is held against them. Of the state only what a job asked is read.

A placement breaks a reservation if the job is not on its list and is placed inside its time, or
before it without an estimate, or for longer than until it begins. Where several estimates are known
the shortest counts, so that a placement that any of them allows is none.
"""

from collections.abc import Sequence

from msgspec import Struct

from ganger.replay.promises import Violation
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.records import Record, ReservationRequested
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import mask_of

# bound once: looking a member up on its Enum class costs more than what is done with it
_REJECT = DecisionKind.REJECT
_RESERVE = DecisionKind.RESERVE
_RESUME = DecisionKind.RESUME

_PLACES = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL, _RESUME)


class _Kept(Struct):
    """A reservation."""

    record: ReservationRequested
    cards: dict[str, int]  # masks by node; empty: all of the nodes that it names


class WindowCheck:
    """Told of records and their decisions, in order, right after each was stepped.

    Attributes:
        violations: how many placements broke a reservation.
        first: the first of them.
    """

    def __init__(self) -> None:
        self.violations = 0
        self.first: Violation | None = None
        self._kept: dict[str, _Kept] = {}

    @property
    def is_active(self) -> bool:
        """Whether anything is reserved."""
        return bool(self._kept)

    def check(self, state: State, record: Record, decisions: Sequence[Decision]) -> None:
        """A record, and all that it led to."""
        if isinstance(record, ReservationRequested):
            self._learn(record, decisions)
        for decision in decisions:
            if decision.kind in _PLACES:
                self._prove(state, decision)

    def _learn(self, record: ReservationRequested, decisions: Sequence[Decision]) -> None:
        if any(decision.kind is _REJECT for decision in decisions):
            return
        name = record.reservation
        self._kept.pop(name, None)
        if record.cancelled:
            return
        cards: dict[str, int] = {}
        for decision in decisions:
            if decision.kind is _RESERVE and not decision.job and decision.rule == name:
                cards[decision.node] = cards.get(decision.node, 0) | mask_of(decision.cards)
        self._kept[name] = _Kept(record, cards)

    def _prove(self, state: State, decision: Decision) -> None:
        now_ns = decision.time_ns
        for name in [name for name, kept in self._kept.items() if kept.record.to_ns <= now_ns]:
            del self._kept[name]
        job = state.jobs.get(state.job_by_key.get(decision.job, -1))
        if job is None:
            return
        for kept in self._kept.values():
            record = kept.record
            if not _is_kept(kept, decision) or _is_listed(state, job, record):
                continue
            end_ns = _end_ns(decision, job)
            meets = decision.kind is not _RESUME and end_ns > record.from_ns
            if meets or record.from_ns <= now_ns:
                self._break(decision, record, end_ns)

    def _break(self, decision: Decision, record: ReservationRequested, end_ns: int) -> None:
        self.violations += 1
        if self.first is None:
            self.first = Violation(
                decision.cause_seq,
                decision.index,
                record.reservation,
                decision.job,
                record.from_ns,
                min(end_ns, FOREVER - 1),
                0,
                node=decision.node,
                begin_ns=decision.time_ns,
            )


def _is_kept(kept: _Kept, decision: Decision) -> bool:
    """Whether a placement is on cards that are kept."""
    if kept.cards:
        return bool(kept.cards.get(decision.node, 0) & mask_of(decision.cards))
    return decision.node in kept.record.nodes


def _is_listed(state: State, job: Job, record: ReservationRequested) -> bool:
    """Whether the job may use the reservation."""
    request = job.request
    queues = [level.config.queue for level in state.queues[job.queue].chain]
    return (
        (bool(request.user) and request.user in record.users)
        or (bool(request.tenant) and request.tenant in record.tenants)
        or any(queue in record.queues for queue in queues)
    )


def _end_ns(decision: Decision, job: Job) -> int:
    """When a placement ends by the shortest estimate there is."""
    request = job.request
    known = (decision.estimate_ns, request.runtime_estimate_ns, request.time_limit_ns)
    lasts_ns = min((ns for ns in known if ns), default=FOREVER)
    return min(FOREVER, decision.time_ns + lasts_ns)

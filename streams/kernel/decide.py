"""Saying decisions: the one place that makes them, numbers them and extends the chain."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_body_1, decision_body_with
from ganger.schemas.enums import DecisionKind, Estimates, IdleClass, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import CardSpan
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.foresight.risk import Terms
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import spans

# bound once: looking a member up on its Enum class costs more than what is done with it
_CYCLE_CLOSED = DecisionKind.CYCLE_CLOSED
_REJECT = DecisionKind.REJECT
_CYCLE_DONE = Reason.CYCLE_DONE
_PLACED_IN_TURN = Reason.PLACED_IN_TURN
_PLACED_WITHOUT_RESOURCES = Reason.PLACED_WITHOUT_RESOURCES
_MAIN = Tier.MAIN
_UNKNOWN = Tier.UNKNOWN

_NO_CARDS: tuple[CardSpan, ...] = ()
_OF_NO_POD = {
    "role": "",
    "pod": -1,
    "attempt": 0,
    "node": "",
    "cards": _NO_CARDS,
    "card_milli": 0,
    "card_memory_mib": 0,
    "protected_until_ns": 0,
    "for_job": "",
}
_NOTHING_MORE = {
    "queue": "",
    "rule": "",
    "start_ns": 0,
    "start_late_ns": 0,
    "until_ns": 0,
    "estimate_ns": 0,
    "estimate_source": Estimates.UNKNOWN,
    "margin_ns": 0,
    "protect_ns": 0,
    "hold_ns": 0,
    "risk_milli": 0,
    "idle": IdleClass.UNKNOWN,
    "count": 0,
    "order": 0,
    "considered": 0,
    "flavors": (),
}
"""Fields that only decisions about quota, victims, claims and the future have."""
_job_body = decision_body_with(
    "of_job",
    **_OF_NO_POD,
    started_count=0,
    evicted_count=0,
    waiting_count=0,
    digest=b"",
    **_NOTHING_MORE,
)
_placed_body = decision_body_with(
    "placed",
    protected_until_ns=0,
    for_job="",
    limit=0,
    started_count=0,
    evicted_count=0,
    waiting_count=0,
    digest=b"",
    **_NOTHING_MORE,
)
_TIMELESS = {
    key: value
    for key, value in _NOTHING_MORE.items()
    if key not in ("start_ns", "until_ns", "estimate_ns", "estimate_source", "margin_ns", "count")
}
"""Those that also decisions about the future do without."""
_foreseen_body = decision_body_with(
    "foreseen",
    until_ns=0,
    count=0,
    protected_until_ns=0,
    for_job="",
    started_count=0,
    evicted_count=0,
    waiting_count=0,
    digest=b"",
    **_TIMELESS,
)
_reserved_body = decision_body_with(
    "reserved",
    **{key: value for key, value in _OF_NO_POD.items() if key != "node"},
    tier=Tier.MAIN,
    margin_ns=0,
    started_count=0,
    evicted_count=0,
    waiting_count=0,
    digest=b"",
    **_TIMELESS,
)
_closed_body = decision_body_with(
    "cycle_closed",
    **_OF_NO_POD,
    kind=DecisionKind.CYCLE_CLOSED,
    job="",
    tier=Tier.UNKNOWN,
    reason=Reason.CYCLE_DONE,
    asked=0,
    free=0,
    limit=0,
    **_NOTHING_MORE,
)


def say(
    state: State,
    decision: Decision,
    encode: Callable[[Decision], bytes] = decision_body_1,
) -> None:
    """Extend the chain over a decision and put it out. `encode` may know some of its fields."""
    body = encode(decision)
    decision.body = body
    decision.chain = state.chain = sha256(state.chain + body).digest()
    state.decision_index += 1
    state.outbox.append(decision)


def of_job(
    state: State,
    kind: DecisionKind,
    job: str,
    reason: Reason,
    asked: int = 0,
    free: int = 0,
    limit: int = 0,
    tier: Tier = Tier.UNKNOWN,
) -> Decision:
    """A decision about no pod, yet to be said; `job` is empty where it is about none either."""
    return Decision(
        state.cell,
        state.cause,
        state.decision_index,
        state.now_ns,
        kind,
        job,
        "",
        -1,
        0,
        "",
        _NO_CARDS,
        0,
        0,
        tier,
        0,
        "",
        reason,
        asked,
        free,
        limit,
        state.policy.digest,
        0,
        0,
        0,
        b"",
    )


def of_pod(
    state: State,
    kind: DecisionKind,
    job: Job,
    role: str,
    pod: Pod,
    node: str,
    reason: Reason,
    numbers: tuple[int, int, int],
) -> Decision:
    """A decision about one attempt, yet to be said. `numbers`: asked, free, limit of the reason."""
    asked, free, limit = numbers
    return Decision(
        state.cell,
        state.cause,
        state.decision_index,
        state.now_ns,
        kind,
        job.request.job,
        role,
        pod.index,
        pod.attempt,
        node,
        spans(pod.mask) if pod.mask else _NO_CARDS,
        pod.card_milli,
        pod.card_memory,
        pod.tier,
        0,
        "",
        reason,
        asked,
        free,
        limit,
        state.policy.digest,
        0,
        0,
        0,
        b"",
    )


def say_placed(
    state: State, kind: DecisionKind, job: Job, role: str, pod: Pod, node: str, free: int
) -> None:
    """ALLOCATE or BACKFILL of one pod. `free`: milli-cards the node had free before."""
    shape = pod.shape
    say(
        state,
        Decision(
            state.cell,
            state.cause,
            state.decision_index,
            state.now_ns,
            kind,
            job.request.job,
            role,
            pod.index,
            pod.attempt,
            node,
            spans(pod.mask) if pod.mask else _NO_CARDS,
            pod.card_milli,
            pod.card_memory,
            pod.tier,
            0,
            "",
            _PLACED_WITHOUT_RESOURCES if shape.is_empty else _PLACED_IN_TURN,
            shape.cards_milli,
            free,
            0,
            state.policy.digest,
            0,
            0,
            0,
            b"",
        ),
        _placed_body,
    )


class Foreseen(NamedTuple):
    """What a placement counted with, of time."""

    reason: Reason
    asked: int  # numbers of the reason; 0 where they are those of any placement
    free: int
    limit: int
    start_ns: int  # of the reservation that it was judged against; 0 = none
    estimate_ns: int  # how long the pod is expected to run; 0 = nothing is known
    estimate_source: Estimates
    margin_ns: int
    terms: Terms | None = None  # of a job in a gap that may have to make way


def say_foreseen(
    state: State,
    kind: DecisionKind,
    job: Job,
    role: str,
    pod: Pod,
    node: str,
    free: int,
    foreseen: Foreseen,
) -> None:
    """The same under a policy that plans with run times."""
    asked = foreseen.asked or pod.shape.cards_milli
    numbers = asked, foreseen.free or free, foreseen.limit
    decision = of_pod(state, kind, job, role, pod, node, foreseen.reason, numbers)
    decision.start_ns = foreseen.start_ns
    decision.estimate_ns = foreseen.estimate_ns
    decision.estimate_source = foreseen.estimate_source
    decision.margin_ns = foreseen.margin_ns
    terms = foreseen.terms
    if terms is None:
        say(state, decision, _foreseen_body)
        return
    decision.for_job = terms.for_job
    decision.protect_ns = terms.protect_ns
    decision.hold_ns = terms.hold_ns
    decision.risk_milli = terms.risk_milli
    decision.idle = terms.idle
    say(state, decision)


def say_promised(
    state: State,
    kind: DecisionKind,
    job: str,
    reason: Reason,
    numbers: tuple[int, int, int],
    span_ns: tuple[int, int],
) -> None:
    """ADMIT of a job that waits. `numbers`: asked, free, limit of the reason; `span_ns`: when it is
    promised to have started, as likely as not and with a probability of nine in ten.
    """
    decision = of_job(state, kind, job, reason, *numbers)
    decision.start_ns, decision.start_late_ns = span_ns
    say(state, decision)


def say_reserved(
    state: State,
    kind: DecisionKind,
    job: Job,
    reason: Reason,
    numbers: tuple[int, int, int],
    span_ns: tuple[int, int],
    node: str = "",
    estimate_ns: int = 0,
    estimate_source: Estimates = Estimates.UNKNOWN,
    count: int = 0,
) -> None:
    """RESERVE or UNRESERVE of a job. `numbers`: asked, free, limit of the reason; `span_ns`: begin
    and end of the reservation; `count`: pods.
    """
    decision = of_job(state, kind, job.request.job, reason, *numbers, tier=_MAIN)
    decision.node = node
    decision.start_ns, decision.until_ns = span_ns
    decision.estimate_ns = estimate_ns
    decision.estimate_source = estimate_source
    decision.count = count
    say(state, decision, _reserved_body)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt must leave, or may go on, and for whom."""

    reason: Reason
    asked: int = 0
    free: int = 0
    limit: int = 0
    for_job: str = ""
    queue: str = ""  # whose due it was taken for
    rule: str = ""
    order: int = 0  # of this attempt among those that leave together, from 1
    considered: int = 0  # candidates


def say_told(
    state: State, kind: DecisionKind, job: Job, pod: Pod, cause: Cause, until_ns: int = 0
) -> None:
    """EVICT, SUSPEND or RESUME of one attempt; NOTICE of an eviction at `until_ns`."""
    role = job.shape.roles[pod.index % len(job.roles)].name
    node = state.nodes[pod.node].report.node
    numbers = cause.asked, cause.free, cause.limit
    decision = of_pod(state, kind, job, role, pod, node, cause.reason, numbers)
    decision.for_job = cause.for_job
    decision.queue = cause.queue
    decision.rule = cause.rule
    decision.until_ns = until_ns
    decision.order = cause.order
    decision.considered = cause.considered
    say(state, decision)


def say_of_job(
    state: State,
    kind: DecisionKind,
    job: str,
    reason: Reason,
    asked: int = 0,
    free: int = 0,
    limit: int = 0,
    tier: Tier = Tier.UNKNOWN,
) -> None:
    """ADMIT, FINISH of a job; REJECT of a request (`job` empty when it was about none)."""
    say(state, of_job(state, kind, job, reason, asked, free, limit, tier), _job_body)


def reject(state: State, reason: Reason, job: str = "", asked: int = 0, limit: int = 0) -> None:
    """REJECT: a request was refused and changed nothing. `cause_seq` says which request."""
    say_of_job(state, _REJECT, job, reason, asked, 0, limit)


def say_cycle_closed(state: State, started: int, evicted: int, digest: bytes) -> None:
    """CYCLE_CLOSED: counts of the cycle and the digest of the state after it."""
    say(
        state,
        Decision(
            state.cell,
            state.cause,
            state.decision_index,
            state.now_ns,
            _CYCLE_CLOSED,
            "",
            "",
            -1,
            0,
            "",
            _NO_CARDS,
            0,
            0,
            _UNKNOWN,
            0,
            "",
            _CYCLE_DONE,
            0,
            0,
            0,
            state.policy.digest,
            started,
            evicted,
            state.waiting_count,
            digest,
        ),
        _closed_body,
    )

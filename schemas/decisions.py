"""Decisions: what the kernel says, one flat record for all kinds so that SQL engines can read them.

A decision is identified by (cell, cause_seq, index). Fields that a kind does not use hold their
empty value ("" , -1 for `pod`, 0, (), b"").
"""

from msgspec import Struct

from ganger.schemas.enums import DecisionKind, Estimates, IdleClass, Tier
from ganger.schemas.parts import CardSpan, FlavorChoice
from ganger.schemas.reasons import Reason


class Decision(Struct, gc=False):
    """One decision. Field order is the Avro field order; `chain` is last.

    `chain` is sha256(previous chain + Avro bytes of all fields before it), so it proves this
    decision and all before it. `body` is those bytes, kept so that nothing is encoded twice; it is
    no field of the record.
    """

    cell: str
    cause_seq: int
    index: int  # position among the decisions of the same cause
    time_ns: int
    kind: DecisionKind
    job: str
    role: str
    pod: int
    attempt: int
    node: str
    cards: tuple[CardSpan, ...]
    card_milli: int  # of the one card in `cards`, when it is shared
    card_memory_mib: int
    tier: Tier
    protected_until_ns: int
    for_job: str  # who an eviction serves
    reason: Reason
    asked: int
    free: int
    limit: int
    policy: bytes  # first 8 bytes of the policy's digest
    started_count: int  # CYCLE_CLOSED: allocations and backfills of the cycle
    evicted_count: int  # CYCLE_CLOSED
    waiting_count: int  # CYCLE_CLOSED: jobs that wait after it
    digest: bytes  # CYCLE_CLOSED: state digest, 16 bytes
    queue: str = ""  # whose rule or limit it was
    rule: str = ""  # policy that decided
    start_ns: int = 0  # when it is to start: promised, shadow time or gather time
    start_late_ns: int = 0  # by then with a probability of nine in ten
    until_ns: int = 0  # end of the claim, reservation, notice, grace or backoff
    estimate_ns: int = 0  # runtime that the decision counts with
    estimate_source: Estimates = Estimates.UNKNOWN
    margin_ns: int = 0  # added to the estimate before it was called safe
    protect_ns: int = 0  # protection window, counted from the attempt's first run
    hold_ns: int = 0  # how long the cards are expected to be kept
    risk_milli: int = 0  # probability of preemption
    idle: IdleClass = IdleClass.UNKNOWN
    count: int = 0  # pods admitted, or reserved for
    order: int = 0  # place of this victim among those of its taker, from 1
    considered: int = 0  # candidates that were looked at
    flavors: tuple[FlavorChoice, ...] = ()
    chain: bytes = b""
    body: bytes = b""

"""What a policy record says in numbers and words, compiled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What the policy record says beside its rules. Durations of 0 mean never or none, where the
    comment does not say otherwise.
    """

    start_timeout_ns: int = 600 * 10**9
    ttl_ns: int = 3600 * 10**9
    tick_min_ns: int = 0
    tick_max_ns: int = 0
    event_id_ns: int = 600 * 10**9
    votes: str = "all"  # how `job_enqueue`, `job_pipelined` and `job_starving` combine
    vetoes: str = "intersection"  # how `preemptable` and `reclaimable` combine
    grace_ns: int = 0  # between notice and eviction, of jobs that name no notice
    release_ns: int = 0  # between eviction and release, of jobs that name no grace
    claim_ns: int = 300 * 10**9  # a claim not met by then is given up
    stale_ns: int = 60 * 10**9  # a gang below its minimum for so long is evicted whole
    requeue_base_ns: int = 60 * 10**9  # first wait after a start that timed out; then it doubles
    requeue_max_ns: int = 3600 * 10**9
    requeue_limit: int = -1  # put back so often at most; -1 = no bound
    inqueue_ns: int = 0  # an admission not used by then is taken back
    usage_half_life_ns: int = 0  # past use counts half after it; 0 = past use is not kept
    usage_k_milli: int = 1000  # how much past use weighs, in thousandths
    min_runtime_ns: int = 0  # nobody is a victim before it has run so long
    estimates: str = "declared"
    expect: str = "limit"  # when running pods are expected to end
    passes: str = "all"  # which submissions call for a pass
    end_at_limit: bool = False
    overrun: str = "limit"  # what is expected of a job that has outlived its estimate
    margin: str = "off"
    alike: str = "narrowest"  # which former runs predict a run: of whatever is most alike and known
    promises: bool = False


STIRRED, FREED = 1, 2
"""What has happened since the last pass over time: anything; cards came free."""

RESERVE_ALL = 1 << 31
"""Reservations for whoever waits."""

ROUTES = ("safe", "beside")
"""Ways into a gap: ending before the reservation, or on cards that it leaves."""

LENT_ROUTES = ("suspendable", "spot")
"""Ways into a gap of those that make way: by being suspended, or by being evicted."""


@dataclass(frozen=True, slots=True)
class Yielding:
    """How jobs in gaps make way for those whose turn it is."""

    evict_after_ns: int  # wait of a job before others are evicted for it
    lost_max_ns: int  # run time that one eviction may undo
    floor_ns: int  # of the protection window
    ceiling_ns: int
    large_cards: int  # a pod with so many is large
    suspend_max_ns: int  # whoever was suspended for longer waits in line like others


@dataclass(frozen=True, slots=True)
class Timing:
    """How actions plan with run times."""

    reserve: int = 0  # jobs that are given reservations, first in line first
    depth: int = 0  # jobs that have them at a time on several nodes, where all are given some
    stops: bool = False  # nobody passes a job that does not fit and has no reservation
    scans: bool = False  # those behind are offered the gaps
    order: str = "arrival"  # in which they are
    by_estimate: bool = False  # judged by what is expected of them, else by their limit
    guard_ns: int = 0  # by their limit once the head has waited so long; 0 = never
    scan_max: int = 0  # looked at in a pass
    routes: tuple[str, ...] = ROUTES
    yields: Yielding | None = None  # none: who is in a gap stays

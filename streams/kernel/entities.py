"""The entities of a cell: nodes, queues, jobs and their pods.

Primary facts are what a snapshot holds and the digest covers; each field says when it is derived
instead (kept for speed, made again by `rebuild`, checked by `invariants`). Entities refer to each
other by id: nodes and queues by their place in a list that only grows, jobs by the seq of the
record that made them. Nobody but the handlers and the statement of a cycle changes any of it.

Jobs and pods, of which there are many, say themselves how they begin: an `__init__` that
`dataclass` makes is interpreted even where the kernel is compiled.
"""

from dataclasses import dataclass, field
from typing import Protocol

from ganger.schemas.enums import Estimates, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    FlavorChoice,
    JobSubmitRequested,
    Limit,
    NodeReport,
    QueueConfigured,
)
from ganger.streams.kernel.resources import JobShape, Shape
from ganger.streams.kernel.topology import Bucket, NodeClass

ROOT = -1
"""The parent of top-level queues; no queue has this id."""

LIVE = (Phase.ALLOCATED, Phase.RUNNING, Phase.RELEASING, Phase.SUSPENDED)
"""Phases in which an attempt holds cards."""

Key = tuple[int, ...]
"""Place of a job among the waiting jobs of its queue; ends in its seq, so no two are equal."""

ENDED = (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)
"""Phases that a job never leaves."""


class Entity(Protocol):
    """Anything the digest covers: it packs its primary facts and keeps its last term."""

    term: int
    is_dirty: bool
    is_untold: bool  # the digest has no term for it, or has to forget the one it has


class Pod:
    """One live attempt of one pod."""

    job: int  # seq of the job
    index: int  # within the job; role = index modulo the number of roles
    attempt: int  # from 1
    node: int
    shape: Shape  # derived from the job's role
    mask: int  # its cards; exactly one when shared
    card_milli: int  # of that one card; 0 = whole cards
    card_memory: int  # MiB of that one card
    tier: Tier
    phase: Phase
    allocated_seq: int  # cause of the decision that placed it
    allocated_ns: int
    started_ns: int = 0  # 0 = not reported running yet
    evict_seq: int = -1  # cause of the decision that told it to end
    evict_reason: Reason = Reason.UNKNOWN
    progress_milli: int = 0
    checkpoint_milli: int = -1  # progress at the last checkpoint; -1 = none
    protected_until_ns: int = 0  # before then nobody's victim
    notice_until_ns: int = 0  # told that it will be evicted then; 0 = not told
    expect_ns: int = 0  # when it is expected to end, where that was set; 0 = as its job says
    protect_ns: int = 0  # for how long it is nobody's victim once it runs
    for_job: int = -1  # seq of the job for which it will be suspended; -1 = none
    suspended_ns: int = 0  # since then; 0 = not
    ran_ns: int = 0  # before it was last suspended
    earlier_ns: int = 0  # former attempts of its pod ran, from whose checkpoint it goes on
    is_untold: bool = False  # ended, or told with its job
    term: int = 0
    is_dirty: bool = False

    def __init__(
        self,
        job: int,
        index: int,
        attempt: int,
        node: int,
        shape: Shape,
        mask: int,
        card_milli: int,
        card_memory: int,
        tier: Tier,
        phase: Phase,
        allocated_seq: int,
        allocated_ns: int,
    ) -> None:
        self.job = job
        self.index = index
        self.attempt = attempt
        self.node = node
        self.shape = shape
        self.mask = mask
        self.card_milli = card_milli
        self.card_memory = card_memory
        self.tier = tier
        self.phase = phase
        self.allocated_seq = allocated_seq
        self.allocated_ns = allocated_ns


@dataclass(slots=True, eq=False)
class Node:
    """A host with its cards."""

    index: int
    report: NodeReport  # as last forwarded by intake, `attempts` and utilisation aside
    is_lost: bool = False
    is_cordoned: bool = False
    is_draining: bool = False
    lost_seq: int = -1  # when lost: the record that said so
    unknown: tuple[tuple[str, int, int], ...] = ()  # attempts it lists that are not known here
    pods: dict[tuple[int, int, int], Pod] = field(default_factory=dict)  # by job, index, attempt
    # derived from the report
    kind: NodeClass | None = None
    healthy: int = 0  # mask
    # derived from report and pods; may be negative where a report shrank below what is held
    free: int = 0  # mask of healthy cards that no pod holds
    free_count: int = 0  # bits of `free`
    # shared healthy cards -> free milli, free MiB
    shared: dict[int, tuple[int, int]] = field(default_factory=dict)
    claimed: int = 0  # mask of cards that claims are on, held by pods that leave or free
    claimed_whole: int = 0  # those of them that are claimed whole, not for a share
    free_cpu: int = 0
    free_memory: int = 0
    free_slots: int = 0
    free_extra: dict[int, int] = field(default_factory=dict)
    bucket: Bucket | None = None  # where the node index holds it, if it does
    keys: tuple[int, int] = (0, 0)  # in the two lists of its bucket
    partial: tuple[tuple[int, int, int], ...] = ()  # its entries in its class's `partial`
    labels: dict[str, str] = field(default_factory=dict)
    counted: NodeClass | None = None  # the class whose `node_count` it is part of
    capacity: dict[int, int] = field(default_factory=dict)  # its part of the cell's, by place
    barred: dict[int, int] = field(default_factory=dict)  # that part of it that is out of use
    is_reserved: bool = False  # inside an active reservation
    is_open: bool = False  # takes new pods: none of the above forbids it
    is_untold: bool = False  # never: nodes stay known
    term: int = 0
    is_dirty: bool = False


@dataclass(slots=True, eq=False)
class RoleState:
    """How far the pods of one role are. Local number i is pod i * roles + position of the job."""

    replicas: int
    fresh: int = 0  # local numbers from here on were never placed
    returned: list[int] | None = None  # ascending local numbers to be placed again
    live: int = 0  # attempts that hold cards, releasing ones too
    succeeded: int = 0

    def pending(self) -> int:
        """Pods that are to be placed."""
        again = len(self.returned) if self.returned else 0
        return max(0, self.replicas - self.fresh) + again


@dataclass(slots=True, eq=False)
class Alike:
    """Jobs that placement and admission cannot tell apart, in all queues."""

    shape: JobShape
    look: int
    groups: "dict[int, Group]" = field(default_factory=dict)  # by `slot_of` their jobs
    has_failed: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """Look-alikes in one line. `keys` is a heap, cleaned when read."""

    queue: int
    alike: Alike
    keys: list[Key] = field(default_factory=list)
    count: int = 0  # jobs that really stand in it
    is_limited: bool = False  # a queue's limit stops it
    listed: Key | None = None  # its entry in the line's heads

    def __lt__(self, other: "Group") -> bool:
        """Entries with equal keys, of which one is stale: any order will do."""
        return False


@dataclass(slots=True)
class Tally:
    """What is counted against limits of queues; amounts by resource place."""

    jobs: int = 0  # admitted and not ended
    held: dict[int, int] = field(default_factory=dict)  # by live attempts and claims
    admitted: dict[int, int] = field(default_factory=dict)  # minimums of jobs that wait for cards


class Job:
    """A submitted unit."""

    seq: int  # of the record that made it: its id
    request: JobSubmitRequested
    shape: JobShape
    queue: int
    priority: int
    phase: Phase
    held: bool
    submitted_ns: int
    roles: list[RoleState]
    pods: dict[int, Pod] | None = None  # live attempts by pod index
    attempts: dict[int, int] | None = None  # last attempt of pods that were placed before
    failures: dict[int, int] | None = None  # failed attempts by pod index
    avoid: tuple[int, ...] = ()  # nodes where a pod of it failed to start
    dependencies: tuple[int, ...] = ()  # jobs that must succeed first and have not yet
    not_before_ns: int = 0  # backing off until then
    first_started_ns: int = 0
    last_tier: Tier = Tier.UNKNOWN
    ending: Phase = Phase.UNKNOWN  # terminal phase it goes to once its pods are released
    reason: Reason = Reason.UNKNOWN  # why it ended or is ending
    asked: int = 0  # numbers of that reason
    limit: int = 0
    ended_ns: int = 0
    right: tuple[
        int, ...
    ] = ()  # when its eviction right was spent (module `progress`); () = has it
    flavors: tuple[FlavorChoice, ...] = ()  # that its use is counted in
    admitted_counts: tuple[int, ...] = ()  # pods admitted per role; () = all
    requeues: int = 0  # times put back since it was last admitted and started
    restarts: int = 0  # times its pods were started anew together
    stale_since_ns: int = 0  # below its minimum since then; 0 = not
    admitted_ns: int = 0  # when, if an admission that is not used expires
    waiting_since_ns: int = 0  # last began to wait with no pod placed; 0 = no action asks for it
    restarted_seq: int = 0  # cause of its last restart; 0 = none
    # estimate, time limit, preference and risk as updates left them; () = as submitted
    wishes: tuple[int, ...] = ()
    estimate_ns: int = 0  # run time that was counted with last; 0 = as its request says
    estimate_source: Estimates = Estimates.UNKNOWN
    promise: tuple[int, ...] = ()  # when it was told how long it waits: that time, and two waits
    credit: int = 0  # compensation for work lost in gaps
    lost_milli_ns: int = 0  # card-time lost so, in milli-card-ns
    # derived
    key: tuple[int, ...] | None = None  # its place in a waiting line, if it stands in one
    look: int = 0  # how far it is: see `Alike`
    group: Group | None = None  # its look-alikes in that line
    is_scaled: bool = False  # its roles are no longer those of its request
    owner: int = 0  # whose it is, in queues with limits that may tell jobs apart by that
    tally: Tally | None = None  # its part of `Indexes.tallies`
    claims: bool = False  # its minimum counts as admitted demand: INQUEUE and may be placed
    # quota that it holds, by flavor and resource: see module `held_quota`; none: it holds none
    held_quota: dict[tuple[str, str], int] | None = None
    is_untold: bool = False  # forgotten
    term: int = 0
    is_dirty: bool = False

    def __init__(
        self,
        seq: int,
        request: JobSubmitRequested,
        shape: JobShape,
        queue: int,
        priority: int,
        phase: Phase,
        held: bool,
        submitted_ns: int,
        roles: list[RoleState],
    ) -> None:
        self.seq = seq
        self.request = request
        self.shape = shape
        self.queue = queue
        self.priority = priority
        self.phase = phase
        self.held = held
        self.submitted_ns = submitted_ns
        self.roles = roles


@dataclass(slots=True, eq=False)
class Queue:
    """A node of the queue tree; only leaves hold jobs."""

    index: int
    config: QueueConfigured
    parent: int  # ROOT at the top
    is_removed: bool = False
    progress: int = 0  # jobs of it that have ended
    # derived from the configuration, by resource place
    guarantee: dict[int, int] = field(default_factory=dict)
    capability: dict[int, int] = field(default_factory=dict)
    given: dict[int, int] = field(default_factory=dict)  # deserved, where it is given
    # quota by flavor: place of `flavor|resource` -> nominal, borrowing limit, lending limit
    quotas: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)
    chain: "tuple[Queue, ...]" = ()  # itself, its parent, ... up to the top
    stride: int = 0  # what a step of progress adds to the digest
    weight_scale: int = 1  # least common multiple of the siblings' weights / own weight
    used_up: tuple[list[int], ...] = ()  # the vectors `used` of its chain, then the cell's
    admitted_up: tuple[list[int], ...] = ()  # the same of `admitted`
    waiting_up: tuple[list[int], ...] = ()  # the vectors `waiting` of its chain
    leaving_up: tuple[list[int], ...] = ()  # the vectors `leaving` of its chain
    is_closed: bool = False  # it or an ancestor takes no new jobs
    is_draining: bool = False  # it or an ancestor drains
    is_capped: bool = False  # it or an ancestor has a capability
    # limits of it and its ancestors on submissions, each with the queue whose it is
    gates: "tuple[tuple[Queue, Limit], ...]" = ()
    bounds: "tuple[tuple[Queue, Limit], ...]" = ()  # the other limits of its chain
    # ns that its attempts run before they may be preempted, and reclaimed; -1: as the policy says
    min_runtimes_ns: tuple[int, int] = (-1, -1)
    tenants: tuple[tuple[str, ...], ...] = ()  # who may submit, where it or an ancestor says so
    # derived from jobs and pods, summed over the subtree, by resource place
    used: list[int] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)  # held by attempts that have to leave
    admitted: list[int] = field(default_factory=list)  # minimums of jobs in phase INQUEUE
    waiting: list[int] = field(default_factory=list)  # requests of pods not yet placed
    jobs: int = 0  # not ended
    # of a leaf: quota that its jobs hold, by flavor and resource, and seqs of those jobs
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    holders: dict[int, None] = field(default_factory=dict)
    is_untold: bool = False  # never: a removed queue keeps its id
    term: int = 0
    is_dirty: bool = False


@dataclass(slots=True, eq=False)
class Claim:
    """Cards that a job will start on as soon as those who hold them have left. Never changed.

    While it stands, the cards and all else that its pods ask for are nobody else's.
    """

    job: int  # seq of the job: one claim each
    since_ns: int
    until_ns: int  # given up then
    entries: tuple["ClaimEntry", ...]  # one per pod
    victims: tuple[tuple[int, int, int], ...]  # attempts that leave for it: job, index, attempt
    reason: Reason
    is_untold: bool = False  # given up or met
    term: int = 0
    is_dirty: bool = False


@dataclass(frozen=True, slots=True)
class ClaimEntry:
    """Where one pod of a claim will start."""

    role: int  # position of its role within the job
    node: int
    mask: int  # exactly one card when shared
    card_milli: int = 0
    card_memory: int = 0


@dataclass(slots=True, eq=False)
class Booking:
    """Cards held for a waiting job from a future moment on: its reservation."""

    job: int  # seq of the job: one booking each
    start_ns: int
    until_ns: int  # by its estimate; `FOREVER` where nothing is known
    cards: int  # in all
    # node and how many cards of it; () where all cards are alike, so that the sum says it all
    entries: tuple[tuple[int, int], ...] = ()
    # where each of its pods will start, under conservative backfill on several nodes
    places: tuple[ClaimEntry, ...] = ()
    is_untold: bool = False  # given up or met
    term: int = 0
    is_dirty: bool = False


@dataclass(slots=True, eq=False)
class Usage:
    """Card-time that one user had in one queue."""

    queue: int
    user: str
    hours: dict[int, int] = field(default_factory=dict)  # hour since 1970 -> milli-card-seconds
    is_untold: bool = False
    term: int = 0
    is_dirty: bool = False


@dataclass(slots=True, eq=False)
class Submissions:
    """Jobs that one user submitted to one queue for one tenant, of late."""

    queue: int
    user: str
    tenant: str
    minutes: dict[int, int] = field(default_factory=dict)  # minute since 1970 -> jobs
    is_untold: bool = False
    term: int = 0
    is_dirty: bool = False


@dataclass(slots=True, eq=False)
class Row:
    """What a policy or a controller has learnt: plain numbers under a name."""

    name: str
    values: tuple[int, ...]
    is_untold: bool = False  # forgotten
    term: int = 0
    is_dirty: bool = False


@dataclass(frozen=True, slots=True)
class Victim:
    """An attempt that may have to leave. Victims of one bundle leave together or not at all."""

    job: Job
    pod: Pod
    bundle: int


@dataclass(frozen=True, slots=True)
class Taker:
    """A job that asks for the cards of others, with the pods per role that it must start."""

    job: Job
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """How the pods of a job stand, one number per role each."""

    live: tuple[int, ...]  # hold cards and have not been told to leave
    leaving: tuple[int, ...]  # told to leave, or to be told
    claimed: tuple[int, ...]  # wait for their cards under a claim
    placed: tuple[int, ...]  # in the statement under way
    pending: tuple[int, ...]  # to be placed
    succeeded: tuple[int, ...]

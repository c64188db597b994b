"""The state of one cell, and what is derived from it for speed.

`State` owns every entity. `Indexes` holds the derived, ordered structures over them; `rebuild`
(module `derive`) makes all of it again from the primary facts.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import lcm
from typing import Protocol

from ganger.schemas.decisions import Decision
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    FlavorConfigured,
    PolicyConfigured,
    PriorityClass,
    ReservationRequested,
    ZoneConfigured,
)
from ganger.streams.kernel.entities import (
    Claim,
    Counts,
    Entity,
    Job,
    Node,
    Pod,
    Queue,
    Row,
    Submissions,
    Taker,
    Usage,
    Victim,
)
from ganger.streams.kernel.node_index import NodeIndex
from ganger.streams.kernel.resources import (
    NAMED,
    SHARED,
    JobShape,
    Need,
    ResourceTable,
    Shape,
    ShapeTable,
)
from ganger.streams.kernel.timers import Timers
from ganger.streams.kernel.waiting import Waiting


class Permit(Enum):
    """The vote of a rule that says yes, where saying nothing leaves it to the others."""

    PERMIT = "permit"


PERMIT = Permit.PERMIT


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, with the numbers of the reason. `queue`: whose limit it was; -1: none's.

    `lacks_room`: beside that limit there was too little room, so that more of either may be enough.
    """

    reason: Reason
    asked: int = 0
    free: int = 0
    limit: int = 0
    queue: int = -1
    lacks_room: bool = False


Vote = Refusal | Permit | None
"""No, yes, or nothing."""


class JobKey(Protocol):
    """Order of the waiting jobs of a queue: least first. The job's seq is appended."""

    def __call__(self, state: "State", job: Job) -> tuple[int, ...]: ...


class QueueKey(Protocol):
    """Order of queues: least first. `admits`: for admission, so that admitted demand counts too."""

    def __call__(self, state: "State", queue: Queue, admits: bool) -> tuple[int, ...]: ...


class RoleKey(Protocol):
    """Order of the roles of a job in placement: least first. The role's position is appended."""

    def __call__(self, state: "State", job: Job, role: int) -> tuple[int, ...]: ...


class JobVote(Protocol):
    """A vote on a job as a whole."""

    def __call__(self, state: "State", job: Job) -> Vote: ...


class Headroom(Protocol):
    """A bound on what one admission may ask now: more is refused for sure. Speeds up the gate."""

    def __call__(self, state: "State") -> Need: ...


class GangTest(Protocol):
    """Whether a job is well made, or may start, with its pods standing so."""

    def __call__(self, state: "State", job: Job, counts: Counts) -> bool: ...


class GangVote(Protocol):
    """Whether a job that waits for cards that leave may keep them."""

    def __call__(self, state: "State", job: Job, counts: Counts) -> Vote: ...


class JobTest(Protocol):
    """A question about a job with yes or no for an answer."""

    def __call__(self, state: "State", job: Job) -> bool: ...


class QueueVote(Protocol):
    """Why a queue must not be served now; none: it may."""

    def __call__(self, state: "State", queue: Queue) -> Refusal | None: ...


class Allocatable(Protocol):
    """How many of `count` pods of a shape a queue may be given, and what stops the next one.

    `held`: what is placed for the queue but not charged to it yet, by resource place.
    """

    def __call__(
        self, state: "State", queue: Queue, shape: Shape, count: int, held: dict[int, int]
    ) -> tuple[int, Refusal | None]: ...


class Preemptive(Protocol):
    """Why a queue must not take from others for a job; none: it may."""

    def __call__(self, state: "State", queue: Queue, taker: Taker) -> Refusal | None: ...


class Predicate(Protocol):
    """Why pods of a role must not go to a node; `Reason.UNKNOWN`: they may."""

    def __call__(self, state: "State", job: Job, role: int, node: Node) -> Reason: ...


class NodeScore(Protocol):
    """How good a node is for pods of a role, in millionths; more is better, scores are added."""

    def __call__(self, state: "State", job: Job, role: int, node: Node) -> int: ...


class DomainScore(Protocol):
    """The same for a topology domain, given by its path, and all pods of a job."""

    def __call__(self, state: "State", job: Job, domain: tuple[str, ...]) -> int: ...


class Veto(Protocol):
    """Those of the candidates that the rule lets go, in their order; none: it has no opinion."""

    def __call__(
        self, state: "State", taker: Taker, candidates: list[Victim]
    ) -> list[Victim] | None: ...


class Judgement(Protocol):
    """What all vetoes together let go of the candidates."""

    def __call__(self, state: "State", taker: Taker, candidates: list[Victim]) -> list[Victim]: ...


class Outcasts(Protocol):
    """Attempts that must leave whoever asks, in order."""

    def __call__(self, state: "State") -> list[Pod]: ...


class VictimKey(Protocol):
    """Order of victims: least first. Its bundle, job and pod are appended."""

    def __call__(self, state: "State", taker: Taker, victim: Victim) -> tuple[int, ...]: ...


class Protection(Protocol):
    """Until when an attempt that starts now is nobody's victim; 0: no protection."""

    def __call__(self, state: "State", job: Job, pod: Pod) -> int: ...


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
    grace_ns: int = 0  # between notice and eviction
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
    promises: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy record made into functions. A field of a hook's name holds what rules contribute to
    it in configured order; module `votes` says how it is to be asked.
    """

    digest: bytes = b""  # first 8 bytes of the hash of the record's content
    actions: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)  # arguments of actions: "action.key"
    words: dict[str, str] = field(default_factory=dict)  # those that name a choice
    job_order: tuple[JobKey, ...] = ()
    queue_order: tuple[QueueKey, ...] = ()
    task_order: tuple[RoleKey, ...] = ()
    job_enqueue: tuple[JobVote, ...] = ()  # first refusal stands
    headroom: tuple[Headroom, ...] = ()
    job_valid: tuple[GangTest, ...] = ()
    job_ready: tuple[GangTest, ...] = ()
    job_pipelined: tuple[GangVote, ...] = ()  # first refusal stands
    job_starving: JobTest | None = None  # none: whatever lacks its minimum
    overused: tuple[QueueVote, ...] = ()
    allocatable: tuple[Allocatable, ...] = ()
    preemptive: tuple[Preemptive, ...] = ()
    predicate: tuple[Predicate, ...] = ()
    node_order: tuple[NodeScore, ...] = ()
    domain_order: tuple[DomainScore, ...] = ()
    preemptable: Judgement | None = None  # none: all may go
    reclaimable: Judgement | None = None
    victim: tuple[Outcasts, ...] = ()
    victim_order: VictimKey | None = None  # none: the kernel's own cost
    protected: tuple[Protection, ...] = ()
    spread: bool = False
    is_plain: bool = True  # no rule looks at a node or bounds a queue while pods are placed
    classes: dict[str, PriorityClass] = field(default_factory=dict)
    settings: Settings = Settings()


class Indexes:
    """Derived structures of a cell."""

    __slots__ = (
        "claims",
        "dependents",
        "evict_epoch",
        "gate",
        "gate_grew",
        "ghosts",
        "idle_left",
        "inqueue",
        "never_fits",
        "nodes",
        "timers",
        "zero",
        "zero_grew",
    )

    def __init__(self, nodes: list[Node], jobs: dict[int, Job]) -> None:
        self.nodes = NodeIndex(nodes)
        self.gate = Waiting(jobs, by_pod=False)  # phase PENDING, asking to be admitted
        self.inqueue = Waiting(jobs, by_pod=True)  # admitted, with pods to place
        self.gate_grew = False  # demand or use changed since the gate was last asked
        self.claims: dict[Need, int] = {}  # jobs that count as demand, by what their start asks
        self.idle_left: Need | None = None  # see `quota.idle_left`; none: to be made anew
        self.evict_epoch = 0  # grows with whatever may let an eviction that was refused succeed
        self.zero: dict[int, Job] = {}  # admitted, with zero-request pods to place
        self.zero_grew = False  # such a job came, or a node got something back
        self.dependents: dict[int, list[int]] = {}  # job -> jobs that wait for it
        # attempts that their jobs have given up and whose nodes have not released them
        self.ghosts: dict[tuple[int, int, int], Pod] = {}
        self.never_fits: dict[JobShape, Refusal | None] = {}  # see module `capacity`
        self.timers = Timers()

    def is_idle(self) -> bool:
        """Whether no job waits that could be offered, nor any that may be once something grew."""
        return not (
            self.gate.open_count
            or self.inqueue.open_count
            or self.gate.failed
            or self.inqueue.failed
            or self.zero
        )


class State:
    """All of one cell."""

    __slots__ = (
        "admitted",
        "cause",
        "cell",
        "chain",
        "claim",
        "claims",
        "clock_ns",
        "decision_index",
        "digest",
        "dirty",
        "epoch",
        "event_ids",
        "event_queue",
        "flags",
        "flavors",
        "indexes",
        "job_by_key",
        "jobs",
        "memory",
        "next_seq",
        "node_by_name",
        "nodes",
        "now_ns",
        "outbox",
        "policy",
        "policy_record",
        "progress",
        "queue_by_name",
        "queues",
        "reservations",
        "scales",
        "shapes",
        "sources",
        "submissions",
        "table",
        "total",
        "usage",
        "used",
        "waiting_count",
        "zones",
    )

    def __init__(self, cell: str, chain: bytes) -> None:
        self.cell = cell
        self.next_seq = 0
        self.clock_ns = 0  # time of the latest valid Tick
        self.epoch = -1  # seq of the latest OwnerClaimed
        self.claim = -1  # seq of the latest IntakeClaimed
        self.chain = chain  # over all decisions; seeded by whoever makes the state
        self.flags: tuple[int, ...] = ()
        self.nodes: list[Node] = []
        self.queues: list[Queue] = []
        self.jobs: dict[int, Job] = {}
        self.node_by_name: dict[str, int] = {}
        self.queue_by_name: dict[str, int] = {}
        self.job_by_key: dict[str, int] = {}
        self.policy_record: PolicyConfigured | None = None
        self.reservations: dict[str, ReservationRequested] = {}
        self.sources: dict[tuple[str, int], tuple[int, int]] = {}  # highest offset, index taken
        self.event_ids: dict[str, int] = {}  # request ids -> time when seen, in that order
        self.progress = 0  # changes by operators, and of capacity, that give eviction rights back
        self.flavors: dict[str, FlavorConfigured] = {}
        self.zones: dict[str, ZoneConfigured] = {}
        self.claims: dict[int, Claim] = {}  # by seq of the job
        self.usage: dict[tuple[int, str], Usage] = {}  # by queue and user
        # by queue, user and tenant
        self.submissions: dict[tuple[int, str, str], Submissions] = {}
        self.memory: dict[str, Row] = {}  # what policies have learnt, by name
        # derived
        self.table = ResourceTable()
        self.shapes = ShapeTable(self.table)
        self.total: list[int] = [0] * len(NAMED)  # capacity of nodes that are not lost, by place
        self.used: list[int] = [0] * len(NAMED)  # held by live attempts, by place
        self.admitted: list[int] = [0] * len(NAMED)  # minimums of jobs in phase INQUEUE
        self.scales: tuple[int, ...] = ()  # lcm of the totals / total, for share comparison
        self.waiting_count = 0  # jobs in phase PENDING or INQUEUE
        self.digest = 0  # sum of entity terms modulo 2**128, as of the last seal
        self.dirty: list[Entity] = []
        self.indexes = Indexes(self.nodes, self.jobs)
        self.policy = Policy()
        # of the step under way
        self.cause = -1
        self.now_ns = 0
        self.decision_index = 0
        self.outbox: list[Decision] = []

    def touch(self, entity: Entity) -> None:
        """Remember that the entity's digest term must be made anew."""
        if not entity.is_dirty:
            entity.is_dirty = True
            self.dirty.append(entity)

    def touch_pod(self, job: Job, pod: Pod) -> None:
        """The same for an attempt, which may be told with its job."""
        self.touch(job if pod.is_untold else pod)

    def widen(self) -> None:
        """Give every quantity vector a place for resources mentioned since."""
        width = len(self.table.names)
        vectors = [self.total, self.used, self.admitted]
        for queue in self.queues:
            vectors += [queue.used, queue.admitted, queue.waiting]
        for vector in vectors:
            vector.extend([0] * (width - len(vector)))

    def rescale(self) -> None:
        """Make the scales of share comparison again after the cell's capacity changed."""
        totals = [self.total[place] for place in SHARED]
        common = lcm(*[total for total in totals if total > 0])
        self.scales = tuple(common // total if total > 0 else 0 for total in totals)

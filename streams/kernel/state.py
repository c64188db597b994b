"""The state of one cell, and what is derived from it for speed.

`State` owns every entity. `Indexes` holds the derived, ordered structures over them; `rebuild`
(module `derive`) makes all of it again from the primary facts.
"""

from dataclasses import dataclass, field
from math import lcm
from typing import Protocol

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import LimitScope
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    FlavorConfigured,
    PolicyConfigured,
    PriorityClass,
    ReservationRequested,
    ZoneConfigured,
)
from ganger.streams.kernel.backfill.futures import Futures
from ganger.streams.kernel.entities import (
    Booking,
    Claim,
    ClaimEntry,
    Counts,
    Entity,
    Job,
    Node,
    Pod,
    Queue,
    Row,
    Submissions,
    Taker,
    Tally,
    Usage,
    Victim,
)
from ganger.streams.kernel.foresight.standing import Promised
from ganger.streams.kernel.jobs.waiting import PARKED, Waiting
from ganger.streams.kernel.nodes.domains import Tree
from ganger.streams.kernel.nodes.node_index import NodeIndex
from ganger.streams.kernel.nodes.ranking import Rankings
from ganger.streams.kernel.nodes.windows import Place, Windows
from ganger.streams.kernel.queues.priorities import Priorities
from ganger.streams.kernel.refusals import Refusal, Vote
from ganger.streams.kernel.resources import (
    NAMED,
    SHARED,
    JobShape,
    Need,
    ResourceTable,
    Shape,
    ShapeTable,
)
from ganger.streams.kernel.settings import FREED, RESERVE_ALL, STIRRED, Settings, Timing
from ganger.streams.kernel.timers import Timers


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
    """How many of `count` pods of a shape a job may be given, and what stops the next one.

    `held`: what is placed for the queue but not charged to it yet, by resource place.
    """

    def __call__(
        self, state: "State", job: Job, shape: Shape, count: int, held: dict[int, int]
    ) -> tuple[int, Refusal | None]: ...


class Preemptive(Protocol):
    """Why a queue must not take from others for a job; none: it may."""

    def __call__(self, state: "State", queue: Queue, taker: Taker) -> Refusal | None: ...


class Spare(Protocol):
    """Milli-cards that a veto lets go at most from each leaf queue, for a taker of another,
    or, without one, for any; of those left out nothing. None: it sets no bound. Speeds up those who
    take.
    """

    def __call__(self, state: "State", taker: Taker | None) -> dict[int, int] | None: ...


class Predicate(Protocol):
    """Why pods of a role must not go to a node; `Reason.UNKNOWN`: they may.

    In `predicate` the answer may depend on the role's name, request, labels and zone, on the
    flavors that it is counted in, on the job's queue if the policy says so (`by_queue`), on what
    the node is and holds, and on which zones are open: it is remembered until one of these changes.
    In `predicate_now` it may depend on anything, and each node is asked when its turn comes.
    """

    def __call__(self, state: "State", job: Job, role: int, node: Node) -> Reason: ...


class NodeScore(Protocol):
    """How good a node is for pods of a role, in millionths; more is better, scores are added.

    For `node_order` holds what `Predicate` says of `predicate`. `node_order_now` may look at other
    pods of the job too, also at `Indexes.placing`; it is asked only for jobs with affinities or a
    topology.
    """

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
    """Moments at which something that keeps an attempt which runs from being a victim ends, in
    order. Until the first it is nobody's victim; empty: not protected.
    """

    def __call__(self, state: "State", job: Job, pod: Pod) -> tuple[int, ...]: ...


class Refresh(Protocol):
    """Called before each cycle: what lines remember of a rule's refusals is made good."""

    def __call__(self, state: "State") -> None: ...


MOVED_MAX = 4096
"""Jobs that changed; beyond it making anew what is kept about jobs is cheaper than catching up."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy record made into functions. A field of a hook's name holds what rules contribute to
    it in configured order; module `votes` says how it is to be asked.
    """

    digest: bytes = b""  # first 8 bytes of the hash of the record's content
    digest_term: int = 0  # the number that they say, lowest byte first
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
    spare: tuple[Spare, ...] = ()  # none where vetoes do not all count
    predicate: tuple[Predicate, ...] = ()
    predicate_now: tuple[Predicate, ...] = ()
    node_order: tuple[NodeScore, ...] = ()
    node_order_now: tuple[NodeScore, ...] = ()
    domain_order: tuple[DomainScore, ...] = ()
    preemptable: Judgement | None = None  # none: all may go
    reclaimable: Judgement | None = None
    victim: tuple[Outcasts, ...] = ()
    victim_order: VictimKey | None = None  # none: the kernel's own cost
    protected: tuple[Protection, ...] = ()
    spread: bool = False
    by_queue: bool = False  # what is remembered of a node may differ between queues
    refresh: tuple[Refresh, ...] = ()
    follows_capacity: bool = False  # the order of jobs depends on what the cell has
    follows_clock: bool = False  # it depends on the hour
    sla_waiting_ns: int | None = None  # promised to jobs that say nothing; none: no rule asks
    is_patient: bool = False  # jobs wait for a time before they take from others
    evicts: bool = False  # some action may have attempts evicted
    ends_stale: bool = False  # one ends jobs that stay below their minimum
    is_plain: bool = True  # no rule looks at a node or bounds a queue while pods are placed
    asks_quota: bool = False  # jobs are admitted by quota
    admits_all: bool = False  # no action admits jobs, so all are let in
    admits_unasked: bool = False  # jobs that do not say what they ask are admitted, uncounted
    timing: Timing | None = None  # how actions plan with run times; none: they do not
    classes: dict[str, PriorityClass] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)

    @property
    def is_timed(self) -> bool:
        """Whether some action plans with run times."""
        return self.timing is not None

    @property
    def resumes(self) -> bool:
        """Whether those who are suspended are let go on."""
        return self.timing is not None and self.timing.yields is not None


@dataclass(slots=True)
class Shares:
    """Amounts per queue by a rule of module `quota_tree`, and what they were computed from."""

    amounts: dict[int, dict[int, int]]  # by queue, then by resource place
    epochs: tuple[int, int]  # of capacity and of the queue tree
    requests: list[int] = field(default_factory=list)  # of all queues, where they matter
    cause: int = -1  # the step for which they were last found to be right
    contended: tuple[int, ...] = ()  # resources of which more is asked for than there is
    sources: list[list[int]] = field(default_factory=list)  # vectors of queues, where they matter
    vectors: list[list[int]] = field(default_factory=list)  # what these were


Waiter = tuple[int, str, str, bool]
"""Whose waiting jobs are counted together: leaf queue, user, tenant, spot work or not."""


@dataclass(slots=True)
class PastUse:
    """Decayed milli-card-seconds of full hours, and what they were computed from."""

    versions: tuple[int, int, int]  # hour, half-life, version of the queue tree
    users: dict[tuple[int, str], int] = field(default_factory=dict)  # by queue and user
    queues: dict[int, int] = field(default_factory=dict)  # summed over subtrees


class Indexes:
    """Derived structures of a cell."""

    __slots__ = (
        "candidates",
        "capacity_epoch",
        "claims",
        "dependents",
        "domains",
        "elastic",
        "evict_epoch",
        "evict_seen",
        "futures",
        "gate",
        "gate_grew",
        "ghosts",
        "idle_left",
        "ids_kept_ns",
        "inqueue",
        "last_stand",
        "lifted",
        "moved",
        "never_fits",
        "nodes",
        "overdue",
        "owners",
        "past_use",
        "patient",
        "placing",
        "priorities",
        "promised",
        "queue_epoch",
        "rankings",
        "reserved",
        "shares",
        "stale",
        "tallies",
        "timers",
        "uncounted",
        "waiters",
        "windows",
        "zero",
        "zero_grew",
    )

    def __init__(self, nodes: list[Node], jobs: dict[int, Job]) -> None:
        self.nodes = NodeIndex(nodes)
        self.gate = Waiting(jobs, by_pod=False)  # phase PENDING, asking to be admitted
        self.inqueue = Waiting(jobs, by_pod=True)  # admitted, with pods to place
        self.gate_grew = False  # demand or use changed since the gate was last asked
        self.claims: dict[JobShape, int] = {}  # jobs that count as demand
        self.idle_left: Need | None = None  # see `quota.idle_left`; none: to be made anew
        self.evict_seen: tuple[int, int] | None = None  # see module `cycle`
        self.stale: dict[int, Job] = {}  # jobs below their minimum, by seq; see module `stale`
        self.priorities: dict[int, Priorities] = {}  # of jobs that have not ended, by queue
        self.patient: dict[int, int] = {}  # until when jobs must wait before they take, by seq
        self.candidates: dict[str, object] = {}  # kept by module `candidates`, by action
        self.moved: dict[int, bool] | None = None  # jobs that changed since, by seq; none: all
        self.evict_epoch = 0  # grows with whatever may let an eviction that was refused succeed
        self.capacity_epoch = 0  # grows with every change of `total` and `barred`
        self.queue_epoch = 0  # grows with every change of the queue tree
        self.shares: dict[str, Shares] = {}  # kept by module `quota_tree`
        # by queue, whose doings, name, and whether of spot jobs; none: no limits
        self.tallies: dict[tuple[int, LimitScope, str, bool], Tally] | None = None
        # jobs whose part of it has to be made anew, by seq; none: no limits
        self.uncounted: dict[int, Job] | None = None
        self.elastic: dict[int, Job] = {}  # elastic jobs that have pods, and some that had
        self.past_use: PastUse | None = None  # kept by module `usage`
        self.overdue: dict[int, Job] = {}  # see module `deadlines`, by seq
        # numbers from 1 for user, tenant and whether spot, of jobs in queues with limits
        self.owners: dict[tuple[str, str, bool], int] = {}
        self.zero: dict[int, Job] = {}  # admitted, with zero-request pods to place
        self.windows: Windows | None = None  # none: nothing is reserved
        self.zero_grew = False  # such a job came, or a node got something back
        self.dependents: dict[int, list[int]] = {}  # job -> jobs that wait for it
        # attempts that their jobs have given up and whose nodes have not released them
        self.ghosts: dict[tuple[int, int, int], Pod] = {}
        # what claims hold: by node, then by seq of the job
        self.reserved: dict[int, dict[int, list[tuple[Shape, ClaimEntry]]]] = {}
        self.never_fits: dict[JobShape, Refusal | None] = {}  # see module `capacity`
        self.domains: Tree | None = None  # see `regions.tree`; none: to be made anew
        self.rankings: Rankings | None = None  # see module `scoring`
        # what queues had and asked for when jobs were last placed, where that may wake jobs
        self.last_stand: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
        # attempts (job, index, attempt) that a statement sees as gone
        self.lifted: dict[tuple[int, int, int], bool] = {}
        # pods of the job that is being placed, by role and node, as far as they have a place
        self.placing: list[tuple[int, Node, int]] = []
        self.timers = Timers()
        self.ids_kept_ns = 0  # until then no remembered request id is too old
        self.futures: Futures | None = None  # of policies that plan with run times
        self.promised: Promised | None = None  # of those that promise starts
        # waiting jobs by leaf queue, user, tenant and whether they are spot work; none: no limit
        # of any queue asks
        self.waiters: dict[Waiter, int] | None = None

    def is_idle(self) -> bool:
        """Whether no job waits that could be offered, nor any that may be once something grew."""
        return not (
            self.gate.open_count
            or self.inqueue.open_count
            or self.gate.failed
            or self.inqueue.failed
            or self.inqueue.cramped
            or self.zero
            or (self.gate_grew and PARKED in self.gate.limited)
        )

    def is_place_wanted(self) -> bool:
        """Whether some job stands in line to be placed, offered or not, or is suspended."""
        resting = self.futures is not None and self.futures.resting
        return bool(self.inqueue.count or resting)


class State:
    """All of one cell."""

    __slots__ = (
        "admitted",
        "barred",
        "bookings",
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
        "knobs",
        "memory",
        "next_seq",
        "node_by_name",
        "nodes",
        "now_ns",
        "outbox",
        "places",
        "policy",
        "policy_record",
        "progress",
        "queue_by_name",
        "queues",
        "reservations",
        "scales",
        "shapes",
        "sources",
        "stirred",
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
        self.places: dict[str, tuple[Place, ...]] = {}  # of those that do not name whole nodes
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
        self.bookings: dict[int, Booking] = {}  # by seq of the job
        self.knobs: tuple[int, ...] = ()  # as the controller of backfill has set them
        self.stirred = 0  # since the last pass over time: see `stir`
        # derived
        self.table = ResourceTable()
        self.shapes = ShapeTable(self.table)
        self.total: list[int] = [0] * len(NAMED)  # capacity of nodes that are not lost, by place
        self.barred: list[int] = [0] * len(NAMED)  # of it, on nodes that are cordoned or drain
        self.used: list[int] = [0] * len(NAMED)  # held by live attempts, by place
        self.admitted: list[int] = [0] * len(NAMED)  # minimums of jobs in phase INQUEUE
        self.scales: tuple[int, ...] = (0, 0, 0)  # lcm of the totals / total, for share comparison
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

    def note_moved(self) -> None:
        """Note which jobs are marked now: whatever changes a fact of theirs, or of their attempts,
        marks them for the digest. For what is kept about jobs between cycles. O(marks).
        """
        moved = self.indexes.moved
        if moved is None:
            return
        for entity in self.dirty:
            if isinstance(entity, Job):
                moved[entity.seq] = True
            elif isinstance(entity, Pod):
                moved[entity.job] = True
        if len(moved) > MOVED_MAX:
            self.indexes.moved = None

    def touch(self, entity: Entity) -> None:
        """Remember that the entity's digest term must be made anew."""
        if not entity.is_dirty:
            entity.is_dirty = True
            self.dirty.append(entity)

    def touch_pod(self, job: Job, pod: Pod) -> None:
        """The same for an attempt, which may be told with its job."""
        self.touch(job if pod.is_untold else pod)

    def stir(self) -> None:
        """Something may start now that could not before. Only for policies that plan with time."""
        self.stirred |= STIRRED

    def shake(self, node: Node) -> None:
        """The node may hold more cards than before, or fewer, and not since pods began or ended."""
        futures, timing = self.indexes.futures, self.policy.timing
        if futures is not None and timing is not None and timing.reserve > 1:
            futures.touched[node.index] = None
            if timing.reserve >= RESERVE_ALL:
                self.stirred |= FREED

    def widen(self) -> None:
        """Give every quantity vector a place for resources mentioned since."""
        width = len(self.table.names)
        vectors = [self.total, self.used, self.admitted, self.barred]
        for queue in self.queues:
            vectors += [queue.used, queue.admitted, queue.waiting, queue.leaving]
        for vector in vectors:
            vector.extend([0] * (width - len(vector)))

    def rescale(self) -> None:
        """Make the scales of share comparison again after the cell's capacity changed."""
        totals = [self.total[place] for place in SHARED]
        common = lcm(*[total for total in totals if total > 0])
        self.scales = tuple(common // total if total > 0 else 0 for total in totals)

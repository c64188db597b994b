"""The state of one cell, and what is derived from it for speed.

`State` owns every entity. `Indexes` holds the derived, ordered structures over them; `rebuild`
(module `derive`) makes all of it again from the primary facts.
"""

from dataclasses import dataclass, field
from math import lcm
from typing import Protocol

from ganger.schemas.decisions import Decision
from ganger.schemas.reasons import Reason
from ganger.schemas.records import PolicyConfigured, ReservationRequested
from ganger.streams.kernel.entities import Entity, Job, Node, Pod, Queue
from ganger.streams.kernel.node_index import NodeIndex
from ganger.streams.kernel.resources import NAMED, SHARED, JobShape, Need, ResourceTable, ShapeTable
from ganger.streams.kernel.timers import Timers
from ganger.streams.kernel.waiting import Waiting


class QueueKey(Protocol):
    """Order of queues: least first. `admits`: for admission, so that admitted demand counts too."""

    def __call__(self, state: "State", queue: Queue, admits: bool) -> tuple[int, ...]: ...


class JobKey(Protocol):
    """Order of the waiting jobs of a queue: least first. The job's seq is appended."""

    def __call__(self, state: "State", job: Job) -> tuple[int, ...]: ...


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


class Admission(Protocol):
    """Whether a pending job may be placed from now on; none means yes."""

    def __call__(self, state: "State", job: Job) -> Refusal | None: ...


class Headroom(Protocol):
    """A bound on what one admission may ask now: more is refused for sure. Speeds up the gate."""

    def __call__(self, state: "State") -> Need: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers of the policy record that belong to no single rule."""

    start_timeout_ns: int = 600 * 10**9
    ttl_ns: int = 3600 * 10**9
    tick_min_ns: int = 0
    tick_max_ns: int = 0  # 0 = none
    event_id_ns: int = 600 * 10**9


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy record made into functions. Hooks of one kind stand in configured order."""

    digest: bytes = b""  # first 8 bytes of the hash of the record's content
    actions: tuple[str, ...] = ()
    job_keys: tuple[JobKey, ...] = ()
    queue_keys: tuple[QueueKey, ...] = ()
    admissions: tuple[Admission, ...] = ()
    headrooms: tuple[Headroom, ...] = ()
    spread: bool = False
    classes: dict[str, tuple[int, bool]] = field(default_factory=dict)  # name: priority, preempts
    settings: Settings = Settings()


class Indexes:
    """Derived structures of a cell."""

    __slots__ = (
        "claims",
        "dependents",
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
        "clock_ns",
        "decision_index",
        "digest",
        "dirty",
        "epoch",
        "event_ids",
        "event_queue",
        "flags",
        "indexes",
        "job_by_key",
        "jobs",
        "next_seq",
        "node_by_name",
        "nodes",
        "now_ns",
        "outbox",
        "policy",
        "policy_record",
        "queue_by_name",
        "queues",
        "reservations",
        "scales",
        "shapes",
        "sources",
        "table",
        "total",
        "used",
        "waiting_count",
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

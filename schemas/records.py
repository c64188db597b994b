"""Ledger records: the inputs of the kernel, one struct per Avro record in `schemas/avro`.

Field order is the Avro field order. Facts are past tense, requests end in `Requested`. All structs
are frozen and untracked by the collector: they hold scalars, strings, bytes, tuples and the values
of `parts` only, which can be had from here as well. A field with a default stands for one that says
nothing unless it is given; the default is the Avro one.

Base fields come first in every record: `time_ns` is the clock of whoever appended the record
(intake for input topics), UTC nanoseconds since 1970; `event_id` is the producer's id of the event,
the idempotency key of requests (may be empty in facts, which are idempotent by entity state);
`source` is where the record came from on Kafka, none elsewhere.
"""

from msgspec import Struct

from ganger.schemas.enums import (
    BackfillPreference,
    Communication,
    FailureKind,
    FlavorPreference,
    FlavorSearch,
    LimitAction,
    QueueOrder,
    QueueState,
    Tier,
    Tri,
    VictimRule,
)
from ganger.schemas.parts import (
    Affinity,
    Amount,
    AttemptRef,
    Budget,
    CardRun,
    CardSpan,
    EventAction,
    FlavorChoice,
    FlavorQuota,
    GroupLimit,
    Interval,
    Label,
    Limit,
    NodeReport,
    Part,
    PodGroup,
    PodRequest,
    QuotaBound,
    ResourceGroup,
    RetryPolicy,
    Role,
    RoleScale,
    Selector,
    Source,
    Taint,
    Toleration,
    Topology,
)

__all__ = [
    "RECORD_TYPES",
    "ActionConfig",
    "Affinity",
    "Amount",
    "Argument",
    "AttemptRef",
    "Budget",
    "CardRun",
    "CardSpan",
    "EventAction",
    "FlagEnabled",
    "FlavorChoice",
    "FlavorConfigured",
    "FlavorQuota",
    "GroupLimit",
    "IntakeClaimed",
    "Interval",
    "JobCancelRequested",
    "JobSubmitRequested",
    "JobUpdateRequested",
    "Label",
    "Limit",
    "NodeChanged",
    "NodeCordoned",
    "NodeDrained",
    "NodeHeartbeat",
    "NodeLost",
    "NodeReport",
    "NodeReturned",
    "NodeUncordoned",
    "OwnerClaimed",
    "Part",
    "PodAdopted",
    "PodCheckpointed",
    "PodFailed",
    "PodGroup",
    "PodProgressed",
    "PodReleased",
    "PodRequest",
    "PodResumed",
    "PodStarted",
    "PodSucceeded",
    "PodSuspended",
    "PolicyConfig",
    "PolicyConfigured",
    "PolicyTier",
    "PriorityClass",
    "QueueConfigured",
    "QuotaBound",
    "Record",
    "ReservationRequested",
    "ResourceGroup",
    "RetryPolicy",
    "Role",
    "RoleScale",
    "Selector",
    "SnapshotSealed",
    "Source",
    "Taint",
    "Tick",
    "Toleration",
    "Topology",
    "ZoneConfigured",
]


class Record(Struct, frozen=True, gc=False):
    """Base of every ledger record."""

    time_ns: int
    event_id: str
    source: Source | None


# ---- from producers and executors -------------------------------------------------------------


class NodeHeartbeat(Record, frozen=True, gc=False):
    """Reports of one or many nodes. Input topic only: intake makes the Node* facts of it."""

    reports: tuple[NodeReport, ...]


class JobSubmitRequested(Record, frozen=True, gc=False):
    """A job. `job` is the client's key, unique in the cell until the job's time to live is over."""

    job: str
    queue: str
    user: str
    tenant: str
    priority_class: str
    priority: int
    roles: tuple[Role, ...]
    min_available: int  # pods of all roles that must start together; 0 = the roles' minimums
    runtime_estimate_ns: int  # 0 = none
    time_limit_ns: int  # 0 = none
    can_checkpoint: bool
    accepts_suspend: bool
    backfill: BackfillPreference
    backfill_risk_milli: int  # highest probability of preemption accepted, in thousandths
    sla_waiting_ns: int  # 0 = none
    dependencies: tuple[str, ...]
    retry: RetryPolicy
    ttl_ns: int  # how long an ended job is remembered; -1 = the policy's default
    held: bool
    groups: tuple[PodGroup, ...] = ()
    topology: Topology | None = None  # of all its pods
    budget: Budget | None = None
    start_request: tuple[Amount, ...] | None = None  # what it asks to be admitted; none = minimum
    preempts: Tri = Tri.UNKNOWN
    preemptable: Tri = Tri.UNKNOWN
    priority_boost: int = 0  # added to its priority when victims are chosen
    protected_ns: int = 0  # nobody's victim for so long after its start
    grace_ns: int = -1  # between being told to end and being ended; -1 = the policy's
    actions: tuple[EventAction, ...] = ()
    restarts_max: int = -1  # restarts of all its pods together; -1 = no bound
    min_success: int = 0  # pods that must succeed for the job to; 0 = all
    spot: bool = False
    notice_ns: int = 0  # warned so long before it is suspended or evicted
    communication: Communication = Communication.UNKNOWN
    on_limit: LimitAction = LimitAction.UNKNOWN


class JobCancelRequested(Record, frozen=True, gc=False):
    """Ends a job: a waiting one at once, a running one by evicting its pods."""

    job: str
    requested_by: str


class JobUpdateRequested(Record, frozen=True, gc=False):
    """Changes a job that has not ended; `None` leaves a value as it is."""

    job: str
    requested_by: str
    priority: int | None
    held: bool | None
    scale: tuple[RoleScale, ...]
    deactivated: bool | None = None  # evicted and kept from starting until it is False again
    runtime_estimate_ns: int | None = None
    time_limit_ns: int | None = None
    backfill: BackfillPreference | None = None
    backfill_risk_milli: int | None = None


class PodStarted(Record, frozen=True, gc=False):
    """An attempt runs."""

    job: str
    pod: int
    attempt: int
    node: str
    reported_ns: int


class PodProgressed(Record, frozen=True, gc=False):
    """An attempt says how far it is, in thousandths."""

    job: str
    pod: int
    attempt: int
    progress_milli: int
    reported_ns: int


class PodCheckpointed(Record, frozen=True, gc=False):
    """An attempt has saved its state at `progress_milli`."""

    job: str
    pod: int
    attempt: int
    progress_milli: int
    reported_ns: int


class PodSucceeded(Record, frozen=True, gc=False):
    """An attempt ended well; its cards are free."""

    job: str
    pod: int
    attempt: int
    reported_ns: int


class PodFailed(Record, frozen=True, gc=False):
    """An attempt ended badly; its cards are free. `message` is the executor's word, for people."""

    job: str
    pod: int
    attempt: int
    failure: FailureKind
    exit_code: int
    message: str
    reported_ns: int


class PodReleased(Record, frozen=True, gc=False):
    """An evicted attempt is gone; its cards are free."""

    job: str
    pod: int
    attempt: int
    reported_ns: int


class PodAdopted(Record, frozen=True, gc=False):
    """A pod that ran already when ganger took the cell over. Makes its job if it is not known."""

    job: str
    role: str
    queue: str
    user: str
    tenant: str
    priority: int
    pod: int
    attempt: int
    node: str
    cards: tuple[CardSpan, ...]
    card_milli: int
    card_memory_mib: int
    cpu_milli: int
    memory_mib: int
    started_ns: int
    runtime_estimate_ns: int
    resources: tuple[Amount, ...] = ()
    flavors: tuple[FlavorChoice, ...] = ()
    is_leaving: bool = False  # it has been told to end
    tier: Tier = Tier.UNKNOWN  # UNKNOWN = main
    labels: tuple[Label, ...] = ()
    time_limit_ns: int = 0
    accepts_suspend: bool = False
    can_checkpoint: bool = False


class PodSuspended(Record, frozen=True, gc=False):
    """An attempt has stopped at `progress_milli` and given its cards back; it can go on."""

    job: str
    pod: int
    attempt: int
    progress_milli: int
    reported_ns: int


class PodResumed(Record, frozen=True, gc=False):
    """A suspended attempt runs again."""

    job: str
    pod: int
    attempt: int
    reported_ns: int


# ---- from operators ---------------------------------------------------------------------------


class QueueConfigured(Record, frozen=True, gc=False):
    """Creates, changes or removes a queue.

    `guarantee`: floor, absent = 0. `deserved`: given share, absent = computed. `capability`: cap,
    absent = unlimited. `borrowing_limit`, `lending_limit`: absent = unlimited. `weight` 0: nothing
    beyond the guarantee. `fair_weight_milli`: weight under fair sharing of a cohort; 0 = last of
    all. `over_quota_weights`: share of what nobody's quota holds, absent = `weight`.
    `resource_groups`: quota by flavor. `tenants`: who may submit; empty = everyone. Minimum
    runtimes of -1 are the parent's. `usage_weight_milli`: how much past use counts.
    """

    queue: str
    parent: str  # empty = top level
    weight: int
    priority: int
    guarantee: tuple[Amount, ...]
    deserved: tuple[Amount, ...]
    capability: tuple[Amount, ...]
    borrowing_limit: tuple[Amount, ...]
    lending_limit: tuple[Amount, ...]
    reclaimable: bool
    state: QueueState
    removed: bool
    fair_weight_milli: int = 1000
    over_quota_weights: tuple[Amount, ...] = ()
    order: QueueOrder = QueueOrder.UNKNOWN
    within_queue: VictimRule = VictimRule.UNKNOWN
    reclaim_in_cohort: VictimRule = VictimRule.UNKNOWN
    borrow_in_cohort: VictimRule = VictimRule.UNKNOWN
    borrow_priority_max: int | None = None  # victims of a borrower have at most this priority
    when_can_borrow: FlavorSearch = FlavorSearch.UNKNOWN
    when_can_preempt: FlavorSearch = FlavorSearch.UNKNOWN
    preference: FlavorPreference = FlavorPreference.UNKNOWN
    resource_groups: tuple[ResourceGroup, ...] = ()
    limits: tuple[Limit, ...] = ()
    tenants: tuple[str, ...] = ()
    node_groups_required: tuple[str, ...] = ()
    node_groups_preferred: tuple[str, ...] = ()
    node_groups_anti_required: tuple[str, ...] = ()
    node_groups_anti_preferred: tuple[str, ...] = ()
    node_group_limits: tuple[GroupLimit, ...] = ()
    preempt_min_runtime_ns: int = -1
    reclaim_min_runtime_ns: int = -1
    usage_weight_milli: int = 0
    backfill: Tri = Tri.UNKNOWN  # its jobs may be run in gaps
    lends: Tri = Tri.UNKNOWN  # its idle cards may be lent


class Argument(Part, frozen=True, gc=False):
    """One argument of an action or a policy, as text; its owner parses and checks it."""

    key: str
    value: str


class ActionConfig(Part, frozen=True, gc=False):
    """An action of the cycle with its arguments."""

    action: str
    arguments: tuple[Argument, ...]


class PolicyConfig(Part, frozen=True, gc=False):
    """A rule module with the hooks it contributes (empty: all it has) and its arguments."""

    policy: str
    hooks: tuple[str, ...]
    arguments: tuple[Argument, ...]


class PolicyTier(Part, frozen=True, gc=False):
    """Policies that vote together."""

    policies: tuple[PolicyConfig, ...]


class PriorityClass(Part, frozen=True, gc=False):
    """A named priority; `preempts` says whether its jobs may evict others, `critical` that nobody
    may evict them.
    """

    name: str
    priority: int
    preempts: bool
    critical: bool = False


class PolicyConfigured(Record, frozen=True, gc=False):
    """The scheduling policy of the cell, in force from the next cycle on."""

    policy: str
    actions: tuple[ActionConfig, ...]
    tiers: tuple[PolicyTier, ...]
    priority_classes: tuple[PriorityClass, ...]
    settings: tuple[Argument, ...]


class NodeCordoned(Record, frozen=True, gc=False):
    """No new pods on the node."""

    node: str
    requested_by: str


class NodeUncordoned(Record, frozen=True, gc=False):
    """Ends a cordon or a drain."""

    node: str
    requested_by: str


class NodeDrained(Record, frozen=True, gc=False):
    """No new pods on the node, and those there are evicted."""

    node: str
    requested_by: str
    grace_ns: int


class ReservationRequested(Record, frozen=True, gc=False):
    """Keeps nodes (or cards) free of new pods from `from_ns` to `to_ns`, or gives them back.

    `queues`, `users`, `tenants`: who may use it meanwhile. Instead of nodes a shape may be named,
    `pods` times `request`.
    """

    reservation: str
    requested_by: str
    nodes: tuple[str, ...]
    cards: int
    from_ns: int
    to_ns: int
    cancelled: bool
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    request: PodRequest | None = None
    pods: int = 0
    is_maintenance: bool = False
    tenants: tuple[str, ...] = ()


class FlavorConfigured(Record, frozen=True, gc=False):
    """A kind of resources that quota is counted by: nodes with these labels and taints.

    Pods that are counted in it bear its `tolerations` beside their own.
    """

    flavor: str
    labels: tuple[Label, ...]
    taints: tuple[Taint, ...]
    tolerations: tuple[Toleration, ...]
    removed: bool


class ZoneConfigured(Record, frozen=True, gc=False):
    """When the nodes of a revocable zone take pods that named it; whoever writes this expands local
    times of day to intervals.
    """

    zone: str
    open: tuple[Interval, ...]
    removed: bool


class FlagEnabled(Record, frozen=True, gc=False):
    """Switches on a numbered change of decision logic, from the next record on."""

    flag: int


# ---- from intake ------------------------------------------------------------------------------


class IntakeClaimed(Record, frozen=True, gc=False):
    """An intake has taken over the cell's heartbeats; its seq is the claim."""

    intake: str


class NodeChanged(Record, frozen=True, gc=False):
    """A node is new, or what it reports has changed."""

    report: NodeReport


class NodeLost(Record, frozen=True, gc=False):
    """No heartbeat of the node for `silent_ns`, as the intake of `claim` counted."""

    node: str
    claim: int
    silent_ns: int


class NodeReturned(Record, frozen=True, gc=False):
    """A lost node reports again."""

    report: NodeReport


# ---- from the owner ---------------------------------------------------------------------------


class OwnerClaimed(Record, frozen=True, gc=False):
    """A scheduler has taken the cell over; its seq is the epoch."""

    owner: str


class Tick(Record, frozen=True, gc=False):
    """The passing of time: the kernel's clock becomes `time_ns`. A cycle runs if `cycle`."""

    epoch: int
    cycle: bool


class SnapshotSealed(Record, frozen=True, gc=False):
    """A base snapshot: the state after seq `snapshot_seq`, with proofs of what lies before it."""

    snapshot_seq: int
    snapshot_sha256: bytes
    chain: bytes
    record_hash: bytes


RECORD_TYPES: tuple[type[Record], ...] = (
    NodeHeartbeat,
    JobSubmitRequested,
    JobCancelRequested,
    JobUpdateRequested,
    PodStarted,
    PodProgressed,
    PodCheckpointed,
    PodSucceeded,
    PodFailed,
    PodReleased,
    PodAdopted,
    QueueConfigured,
    PolicyConfigured,
    NodeCordoned,
    NodeUncordoned,
    NodeDrained,
    ReservationRequested,
    FlagEnabled,
    IntakeClaimed,
    NodeChanged,
    NodeLost,
    NodeReturned,
    OwnerClaimed,
    Tick,
    SnapshotSealed,
    FlavorConfigured,
    ZoneConfigured,
    PodSuspended,
    PodResumed,
)

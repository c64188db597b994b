"""Ledger records: the inputs of the kernel, one struct per Avro record in `schemas/avro`.

Field order is the Avro field order. Facts are past tense, requests end in `Requested`. All structs
are frozen and untracked by the collector: they hold scalars, strings, bytes and tuples only.

Base fields come first in every record: `time_ns` is the clock of whoever appended the record
(intake for input topics), UTC nanoseconds since 1970; `event_id` is the producer's id of the event,
the idempotency key of requests (may be empty in facts, which are idempotent by entity state);
`source` is where the record came from on Kafka, none elsewhere.
"""

from msgspec import Struct

from ganger.schemas.enums import (
    BackfillPreference,
    CardHealth,
    FailureKind,
    IslandPolicy,
    QueueState,
    SelectorOperator,
    TaintEffect,
    TolerationOperator,
)


class Part(Struct, frozen=True, gc=False):
    """Base of every nested value."""


class Source(Part, frozen=True, gc=False):
    """Position of an input on Kafka: topic id, partition, offset, index inside a framed record."""

    topic: str
    partition: int
    offset: int
    index: int


class Record(Struct, frozen=True, gc=False):
    """Base of every ledger record."""

    time_ns: int
    event_id: str
    source: Source | None


# ---- values -----------------------------------------------------------------------------------


class Amount(Part, frozen=True, gc=False):
    """A count of a resource: `cards_milli`, `cpu_milli`, `memory_mib`, `pods`, or any other."""

    resource: str
    count: int


class Label(Part, frozen=True, gc=False):
    """A node label."""

    key: str
    value: str


class Taint(Part, frozen=True, gc=False):
    """A node taint."""

    key: str
    value: str
    effect: TaintEffect


class Selector(Part, frozen=True, gc=False):
    """A condition on one node label."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...]


class Toleration(Part, frozen=True, gc=False):
    """A taint that a pod bears. Effect `UNKNOWN` tolerates every effect."""

    key: str
    operator: TolerationOperator
    value: str
    effect: TaintEffect


class CardRun(Part, frozen=True, gc=False):
    """`count` neighbouring equal cards of a node; `island` numbers the node's link islands."""

    count: int
    model: str
    memory_mib: int
    island: int
    health: CardHealth


class AttemptRef(Part, frozen=True, gc=False):
    """One attempt of one pod of a job."""

    job: str
    pod: int
    attempt: int


class NodeReport(Part, frozen=True, gc=False):
    """All that a node agent says of its node.

    `handled_seq` is the cause seq of the last decision for this node that the agent has carried out
    (-1: none). `utilisation_milli` is per card, 0..1000, may be empty; it never reaches the ledger.
    `topology` is the path from the outermost tier to the node's own.
    """

    node: str
    boot_id: str
    cards: tuple[CardRun, ...]
    cpu_milli: int
    memory_mib: int
    pod_slots: int
    resources: tuple[Amount, ...]
    labels: tuple[Label, ...]
    taints: tuple[Taint, ...]
    topology: tuple[str, ...]
    attempts: tuple[AttemptRef, ...]
    handled_seq: int
    utilisation_milli: tuple[int, ...]


class PodRequest(Part, frozen=True, gc=False):
    """What one pod needs on its node.

    `cards` whole cards, or `card_milli` thousandths of one card with `card_memory_mib` of its
    memory (then `cards` is 0). `models`: allowed card models, empty for any. `min_card_memory_mib`:
    least memory of each card.
    """

    cards: int
    card_milli: int
    card_memory_mib: int
    min_card_memory_mib: int
    models: tuple[str, ...]
    island: IslandPolicy
    cpu_milli: int
    memory_mib: int
    resources: tuple[Amount, ...]
    selectors: tuple[Selector, ...]
    tolerations: tuple[Toleration, ...]


class Role(Part, frozen=True, gc=False):
    """A named group of equal pods: `replicas` at most, `min_available` of them at least."""

    name: str
    replicas: int
    min_available: int
    request: PodRequest


class RetryPolicy(Part, frozen=True, gc=False):
    """How often one pod may fail and be tried again.

    `limit` retries after the first attempt; the n-th retry waits `backoff_ns` * 2^(n-1), at most
    `backoff_max_ns`.
    """

    limit: int
    backoff_ns: int
    backoff_max_ns: int


class RoleScale(Part, frozen=True, gc=False):
    """New size of a role."""

    role: str
    replicas: int
    min_available: int


class CardSpan(Part, frozen=True, gc=False):
    """`count` neighbouring cards from index `first`."""

    first: int
    count: int


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


# ---- from operators ---------------------------------------------------------------------------


class QueueConfigured(Record, frozen=True, gc=False):
    """Creates, changes or removes a queue.

    `guarantee`: floor, absent = 0. `deserved`: given share, absent = computed. `capability`: cap,
    absent = unlimited. `borrowing_limit`, `lending_limit`: absent = unlimited.
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
    """A named priority; `preempts` says whether its jobs may evict others."""

    name: str
    priority: int
    preempts: bool


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
    """Keeps nodes (or cards) free of new pods from `from_ns` to `to_ns`, or gives them back."""

    reservation: str
    requested_by: str
    nodes: tuple[str, ...]
    cards: int
    from_ns: int
    to_ns: int
    cancelled: bool


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
)

"""Values inside ledger records and decisions, one struct per nested record in `schemas/avro`.

Field order is the Avro field order. All structs are frozen and untracked by the collector. A field
with a default stands for one that says nothing unless it is given; the default is the Avro one.
"""

from msgspec import Struct

from ganger.schemas.enums import (
    CardHealth,
    IslandPolicy,
    JobAction,
    LimitScope,
    PodEvent,
    SelectorOperator,
    TaintEffect,
    Tier,
    TolerationOperator,
    Tri,
)


class Part(Struct, frozen=True, gc=False):
    """Base of every nested value."""


class Source(Part, frozen=True, gc=False):
    """Position of an input on Kafka: topic id, partition, offset, index inside a framed record."""

    topic: str
    partition: int
    offset: int
    index: int


class Amount(Part, frozen=True, gc=False):
    """A count of a resource: `cards_milli`, `cpu_milli`, `memory_mib`, `pods`, or any other."""

    resource: str
    count: int


class Label(Part, frozen=True, gc=False):
    """A label of a node or of a pod."""

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


class PodRequest(Part, frozen=True, gc=False, cache_hash=True):
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
    card_count: int = 0  # a share is wanted on so many cards; 0 = one


class Affinity(Part, frozen=True, gc=False):
    """A wish of a role's pods to share a topology domain with certain pods, or to avoid them.

    `tier`: the domain, counted outward from 1, the innermost; 0 = the node. The others are pods of
    the job's `roles`, or pods of any job that bear all `labels`.
    """

    tier: int
    roles: tuple[str, ...]
    labels: tuple[Label, ...]
    is_anti: bool
    is_required: bool
    preemptable_only: bool  # looks at pods only that may be evicted


class Role(Part, frozen=True, gc=False, cache_hash=True):
    """A named group of equal pods: `replicas` at most, `min_available` of them at least.

    `labels` are what affinities of other pods look at; `order`: roles of lower number start first.
    """

    name: str
    replicas: int
    min_available: int
    request: PodRequest
    group: str = ""  # the `PodGroup` it belongs to
    priority: int = 0  # among the roles of the job; higher is placed first, evicted last
    preemptable: Tri = Tri.UNKNOWN
    preempts: Tri = Tri.UNKNOWN
    labels: tuple[Label, ...] = ()
    affinities: tuple[Affinity, ...] = ()
    revocable_zone: str = ""  # a zone whose nodes it may use while the zone is open
    order: int = 0


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


class Topology(Part, frozen=True, gc=False):
    """How close pods must, or should, be: tiers counted outward from 1, the innermost element of a
    node's path; 0 = no wish. All pods in one domain of at most the required tier; the lowest that
    holds them is preferred, up to the preferred tier, and that never refuses.
    """

    required_tier: int = 0
    preferred_tier: int = 0


class PodGroup(Part, frozen=True, gc=False):
    """Roles of a job that belong together, with a minimum of their own. Groups nest by `parent`."""

    name: str
    parent: str = ""
    min_available: int = 0
    topology: Topology | None = None


class Budget(Part, frozen=True, gc=False):
    """How much of a job evictions must leave. -1 = no bound; milli: thousandths of its pods."""

    min_available_count: int = -1
    min_available_milli: int = -1
    max_unavailable_count: int = -1
    max_unavailable_milli: int = -1


class EventAction(Part, frozen=True, gc=False):
    """What follows when an event meets pods of a role (empty: of any).

    `exit_codes`: only for these; empty = for all. `timeout_ns`: how long the event must last.
    """

    event: PodEvent
    exit_codes: tuple[int, ...]
    role: str
    action: JobAction
    timeout_ns: int


class QuotaBound(Part, frozen=True, gc=False):
    """What a queue has of a resource in a flavor; limits of -1 are none."""

    resource: str
    nominal: int
    borrowing_limit: int = -1
    lending_limit: int = -1


class FlavorQuota(Part, frozen=True, gc=False):
    """Quota in one flavor."""

    flavor: str
    bounds: tuple[QuotaBound, ...]


class ResourceGroup(Part, frozen=True, gc=False):
    """Flavors of the same resources, in the order in which they are tried."""

    flavors: tuple[FlavorQuota, ...]


class Limit(Part, frozen=True, gc=False):
    """A bound on what a queue, or one user or tenant in it, may have at once.

    `subject`: whose; empty = each one's. `resource`: that of an `Amount`, or `jobs` (running),
    `waiting_jobs`, `submissions_per_hour`. `tier`: only what runs in it counts; UNKNOWN = all.
    """

    scope: LimitScope
    subject: str
    resource: str
    count: int
    tier: Tier = Tier.UNKNOWN


class GroupLimit(Part, frozen=True, gc=False):
    """What a queue may have on the nodes of one node group."""

    group: str
    amounts: tuple[Amount, ...]


class FlavorChoice(Part, frozen=True, gc=False):
    """The flavor in which a role's use of a resource is counted."""

    role: str
    resource: str
    flavor: str


class Interval(Part, frozen=True, gc=False):
    """From one moment to, and without, another."""

    from_ns: int
    to_ns: int

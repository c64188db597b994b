"""Records with sensible defaults, and a cell that steps them: what tests are written in."""

from collections.abc import Iterable
from hashlib import sha256

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import (
    BackfillPreference,
    CardHealth,
    DecisionKind,
    FailureKind,
    IslandPolicy,
    QueueState,
)
from ganger.streams.kernel import invariants
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step

SECOND = 10**9
GENESIS = 1_000 * SECOND  # first time of test cells


def request(
    cards: int = 0,
    *,
    milli: int = 0,
    card_memory: int = 0,
    min_card_memory: int = 0,
    models: Iterable[str] = (),
    same_island: bool = False,
    cpu: int = 0,
    memory: int = 0,
    resources: Iterable[tuple[str, int]] = (),
    selectors: Iterable[r.Selector] = (),
    tolerations: Iterable[r.Toleration] = (),
) -> r.PodRequest:
    """A pod request; cpu in milli-cores, memory in MiB."""
    return r.PodRequest(
        cards,
        milli,
        card_memory,
        min_card_memory,
        tuple(models),
        IslandPolicy.SAME if same_island else IslandPolicy.ANY,
        cpu,
        memory,
        tuple(r.Amount(name, count) for name, count in resources),
        tuple(selectors),
        tuple(tolerations),
    )


def role(
    name: str = "worker", replicas: int = 1, minimum: int | None = None, **asks: object
) -> r.Role:
    """A role; its minimum is all of it unless said otherwise."""
    least = replicas if minimum is None else minimum
    return r.Role(name, replicas, least, request(**asks))  # type: ignore[arg-type]


def submission(
    job: str,
    *roles: r.Role,
    queue: str = "q",
    user: str = "u",
    priority: int = 0,
    priority_class: str = "",
    minimum: int = 0,
    retries: int = 0,
    backoff_ns: int = 0,
    ttl_ns: int = -1,
    held: bool = False,
    depends: Iterable[str] = (),
    event_id: str = "",
    time_ns: int = GENESIS,
) -> r.JobSubmitRequested:
    """A job submission; one role of one one-card pod unless roles are given."""
    return r.JobSubmitRequested(
        time_ns,
        event_id,
        None,
        job,
        queue,
        user,
        "",
        priority_class,
        priority,
        roles or (role(cards=1),),
        minimum,
        0,
        0,
        False,
        False,
        BackfillPreference.ACCEPT,
        0,
        0,
        tuple(depends),
        r.RetryPolicy(retries, backoff_ns, backoff_ns * 16),
        ttl_ns,
        held,
    )


def report(
    node: str,
    cards: int = 8,
    *,
    model: str = "A",
    card_memory: int = 81_920,
    island: int = 0,
    failed: Iterable[int] = (),
    runs: Iterable[r.CardRun] | None = None,
    cpu: int = 64_000,
    memory: int = 1 << 20,
    slots: int = 110,
    resources: Iterable[tuple[str, int]] = (),
    labels: Iterable[tuple[str, str]] = (),
    taints: Iterable[r.Taint] = (),
    boot: str = "boot-1",
    attempts: Iterable[tuple[str, int, int]] = (),
    handled: int = -1,
) -> r.NodeReport:
    """A node report; `island` cards per link island (0: all in one)."""
    bad = sorted(failed)
    if runs is None:
        size = island or max(cards, 1)
        runs = [
            r.CardRun(
                1,
                model,
                card_memory,
                card // size,
                CardHealth.FAILED if card in bad else CardHealth.HEALTHY,
            )
            for card in range(cards)
        ]
    return r.NodeReport(
        node,
        boot,
        tuple(runs),
        cpu,
        memory,
        slots,
        tuple(r.Amount(name, count) for name, count in resources),
        tuple(r.Label(key, value) for key, value in labels),
        tuple(taints),
        (),
        tuple(r.AttemptRef(*attempt) for attempt in attempts),
        handled,
        (),
    )


def node(name: str, cards: int = 8, time_ns: int = GENESIS, **facts: object) -> r.NodeChanged:
    """A node that is new or has changed; facts as `report` takes them."""
    return r.NodeChanged(time_ns, "", None, report(name, cards, **facts))  # type: ignore[arg-type]


def amounts(limits: dict[str, int] | None) -> tuple[r.Amount, ...]:
    """Amounts by resource name."""
    return tuple(r.Amount(name, count) for name, count in (limits or {}).items())


def queue(
    name: str,
    *,
    parent: str = "",
    weight: int = 1,
    priority: int = 0,
    guarantee: dict[str, int] | None = None,
    deserved: dict[str, int] | None = None,
    capability: dict[str, int] | None = None,
    state: QueueState = QueueState.OPEN,
    removed: bool = False,
    limits: Iterable[r.Limit] = (),
    time_ns: int = GENESIS,
) -> r.QueueConfigured:
    """A queue's configuration."""
    return r.QueueConfigured(
        time_ns,
        "",
        None,
        name,
        parent,
        weight,
        priority,
        amounts(guarantee),
        amounts(deserved),
        amounts(capability),
        (),
        (),
        True,
        state,
        removed,
        limits=tuple(limits),
    )


DEFAULT_RULES = ("priority", "gang", "overcommit", "capability", "fair_share", "pack")


def policy(
    *rules: str | tuple[str, dict[str, str]],
    actions: Iterable[str] = ("enqueue", "allocate", "backfill"),
    settings: dict[str, str] | None = None,
    classes: Iterable[tuple[str, int]] = (),
    time_ns: int = GENESIS,
    searches: str = "",
) -> r.PolicyConfigured:
    """A policy of one tier; the default rules unless some are given.

    `searches`: where actions that take from others seek victims.
    """
    pairs_of = (("search", searches),) if searches else ()
    configs = []
    for rule in rules or DEFAULT_RULES:
        name, arguments = (rule, {}) if isinstance(rule, str) else rule
        pairs = tuple(r.Argument(key, value) for key, value in arguments.items())
        configs.append(r.PolicyConfig(name, (), pairs))
    return r.PolicyConfigured(
        time_ns,
        "",
        None,
        "test",
        tuple(
            r.ActionConfig(
                action,
                tuple(r.Argument(*pair) for pair in pairs_of)
                if action in ("preempt", "reclaim")
                else (),
            )
            for action in actions
        ),
        (r.PolicyTier(tuple(configs)),),
        tuple(r.PriorityClass(name, value, True) for name, value in classes),
        tuple(r.Argument(key, value) for key, value in (settings or {}).items()),
    )


class Cell:
    """A kernel state with a clock, and everything it decided."""

    def __init__(self, name: str = "cell", *, checks: bool = True) -> None:
        self.state = State(name, sha256(name.encode()).digest())
        self.checks = checks
        self.now_ns = GENESIS
        self.decisions: list[Decision] = []
        self.records: list[r.Record] = []

    def put(self, *records: r.Record) -> list[Decision]:
        """Step records as they are; returns their decisions."""
        made: list[Decision] = []
        for record in records:
            made += step(self.state, self.state.next_seq, record)
            self.records.append(record)
            if self.checks:
                invariants.check(self.state)
        self.decisions += made
        return made

    def start(self, *records: r.Record, rules: r.PolicyConfigured | None = None) -> "Cell":
        """Owner, intake, policy, then the given records, with a queue `q` unless one is there."""
        claims = (
            r.OwnerClaimed(self.now_ns, "", None, "o"),
            r.IntakeClaimed(self.now_ns, "", None, "i"),
        )
        self.put(*claims, rules or policy())
        if not any(isinstance(record, r.QueueConfigured) for record in records):
            self.put(queue("q"))
        self.put(*records)
        return self

    def tick(self, after_s: int = 1, *, cycle: bool = True) -> list[Decision]:
        """Let time pass and run a cycle; returns its decisions without the closing one."""
        self.now_ns += after_s * SECOND
        made = self.put(r.Tick(self.now_ns, "", None, self.state.epoch, cycle))
        return [d for d in made if d.kind is not DecisionKind.CYCLE_CLOSED]

    def submit(self, job: str, *roles: r.Role, **facts: object) -> list[Decision]:
        """Submit a job now."""
        request = submission(job, *roles, time_ns=self.now_ns, **facts)  # type: ignore[arg-type]
        return self.put(request)

    def started(self, job: str, pod: int = 0, attempt: int = 1) -> list[Decision]:
        """Report an attempt running."""
        return self.put(r.PodStarted(self.now_ns, "", None, job, pod, attempt, "", self.now_ns))

    def succeeded(self, job: str, pod: int = 0, attempt: int = 1) -> list[Decision]:
        """Report an attempt ended well."""
        return self.put(r.PodSucceeded(self.now_ns, "", None, job, pod, attempt, self.now_ns))

    def failed(
        self,
        job: str,
        pod: int = 0,
        attempt: int = 1,
        failure: FailureKind = FailureKind.ERROR,
    ) -> list[Decision]:
        """Report an attempt ended badly."""
        return self.put(
            r.PodFailed(self.now_ns, "", None, job, pod, attempt, failure, 1, "", self.now_ns)
        )

    def released(self, job: str, pod: int = 0, attempt: int = 1) -> list[Decision]:
        """Report an evicted attempt gone."""
        return self.put(r.PodReleased(self.now_ns, "", None, job, pod, attempt, self.now_ns))

    def cancel(self, job: str) -> list[Decision]:
        """Ask for a job's end."""
        return self.put(r.JobCancelRequested(self.now_ns, "", None, job, "me"))

    def update(
        self,
        job: str,
        *,
        priority: int | None = None,
        held: bool | None = None,
        scale: Iterable[tuple[str, int, int]] = (),
    ) -> list[Decision]:
        """Ask for a job's change."""
        scales = tuple(r.RoleScale(*one) for one in scale)
        return self.put(
            r.JobUpdateRequested(self.now_ns, "", None, job, "me", priority, held, scales)
        )

    @property
    def digest(self) -> bytes:
        """The state digest now."""
        return seal(self.state)


def placed(decisions: Iterable[Decision]) -> list[tuple[str, int, int, str]]:
    """(job, pod, attempt, node) of the placements among decisions, in order."""
    kinds = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
    return [(d.job, d.pod, d.attempt, d.node) for d in decisions if d.kind in kinds]

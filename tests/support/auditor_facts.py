"""What the auditor knows of a cell: nodes, queues, jobs and attempts, from records alone.

Plain and slow on purpose: every number is counted anew from the attempts when it is asked for.
Nothing of the kernel is used; only the records' types are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import structs

from ganger.schemas import records as r
from ganger.schemas.enums import (
    CardHealth,
    IslandPolicy,
    QueueState,
    SelectorOperator,
    TaintEffect,
    TolerationOperator,
)

NO_LIMIT = 1 << 60


@dataclass(slots=True, eq=False)
class AttemptFacts:
    """One attempt that holds what its request names, on its node."""

    job: "JobFacts"
    pod: int
    number: int
    node: str
    cards: tuple[int, ...]
    allocated_ns: int
    has_started: bool = False
    evicted_seq: int = -1  # -1: was not told to end
    is_ghost: bool = False  # its job has given it up; it counts for its node alone

    @property
    def request(self) -> r.PodRequest:
        return self.job.roles[self.pod % len(self.job.roles)].request

    @property
    def name(self) -> tuple[str, int, int]:
        return (self.job.key, self.pod, self.number)


@dataclass(slots=True, eq=False)
class JobFacts:
    """One accepted job."""

    seq: int
    key: str
    queue: str
    priority: int
    roles: tuple[r.Role, ...]
    min_available: int
    retry: r.RetryPolicy
    ttl_ns: int  # -1: the policy's
    is_held: bool
    waits_for: list["JobFacts"] = field(default_factory=list)
    not_before_ns: int = 0
    is_admitted: bool = False
    is_unplaced: bool = False  # admitted, and not one pod placed in turn since
    live: dict[int, AttemptFacts] = field(default_factory=dict)
    succeeded: dict[int, bool] = field(default_factory=dict)
    last_number: dict[int, int] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)
    avoid: dict[str, bool] = field(default_factory=dict)
    ending: str = ""  # name of the reason why it is to end
    outcome: str = ""  # the reason of its FINISH
    ended_ns: int = 0
    is_old: bool = False  # its time to live was over at some Tick

    def least(self) -> int:
        """Pods that must run together."""
        return max(self.min_available, sum(role.min_available for role in self.roles))

    def pods(self, role: int) -> range:
        """Pod numbers of a role."""
        count = len(self.roles)
        return range(role, self.roles[role].replicas * count, count)

    def pending(self, role: int) -> list[int]:
        """Pods of a role that are to be placed."""
        return [p for p in self.pods(role) if p not in self.live and p not in self.succeeded]

    def held(self, role: int, leaving_counts: bool) -> int:
        """Pods of a role that count for its minimum: running, ended and zero-request ones."""
        count = sum(1 for pod in self.pods(role) if pod in self.succeeded)
        for pod in self.pods(role):
            attempt = self.live.get(pod)
            count += attempt is not None and (leaving_counts or attempt.evicted_seq < 0)
        if is_zero(self.roles[role].request):
            count += len(self.pending(role))
        return count

    def missing(self, leaving_counts: bool) -> tuple[list[int], int]:
        """Pods that each role lacks for its minimum, and how many the job lacks beyond those.

        `leaving_counts`: an attempt that is being released counts, as its pod comes back.
        """
        held = [self.held(role, leaving_counts) for role in range(len(self.roles))]
        needs = [max(0, s.min_available - h) for s, h in zip(self.roles, held, strict=True)]
        return needs, max(0, self.least() - sum(held) - sum(needs))

    def send_back(self) -> None:
        """Ask for admission anew, if it was admitted and nothing of it was ever placed."""
        if self.is_unplaced and not self.last_number and not (self.ending or self.outcome):
            self.is_admitted = self.is_unplaced = False

    def has_begun(self) -> bool:
        return bool(self.live or self.succeeded)

    def is_over(self) -> bool:
        """Whether nothing of it is left to do."""
        if self.live:
            return False
        return bool(self.ending) or not any(self.pending(i) for i in range(len(self.roles)))

    def minimum(self) -> dict[str, int]:
        """Resources of its smallest start: role minimums, the rest from the smallest pods."""
        counts = [role.min_available for role in self.roles]
        for i in sorted(range(len(counts)), key=lambda i: _size(self.roles[i].request)):
            short = max(0, self.least() - sum(counts))
            counts[i] += min(short, self.roles[i].replicas - counts[i])
        total: dict[str, int] = {}
        for role, count in zip(self.roles, counts, strict=True):
            add(total, amounts_of(role.request), count)
        return {name: count for name, count in total.items() if count}


@dataclass(slots=True, eq=False)
class NodeFacts:
    """One node as last reported."""

    report: r.NodeReport
    is_lost: bool = False
    is_cordoned: bool = False
    is_draining: bool = False
    strangers: list[tuple[str, int, int]] = field(default_factory=list)
    attempts: dict[tuple[int, int, int], AttemptFacts] = field(default_factory=dict)

    def cards(self) -> list[r.CardRun]:
        """One entry per card."""
        return [run for run in self.report.cards for _ in range(run.count)]

    def capacity(self) -> dict[str, int]:
        """What it has, failed cards aside."""
        healthy = sum(run.health is CardHealth.HEALTHY for run in self.cards())
        total = {
            "cards_milli": healthy * 1000,
            "cpu_milli": self.report.cpu_milli,
            "memory_mib": self.report.memory_mib,
            "pods": self.report.pod_slots,
        }
        for amount in self.report.resources:
            total[amount.resource] = amount.count
        return total

    def free(self) -> dict[str, int]:
        """What is left of all but cards; negative where a report shrank below what is held."""
        total = self.capacity()
        for attempt in self.attempts.values():
            add(total, amounts_of(attempt.request), -1)
        del total["cards_milli"]
        return total

    def shares(self, card: int) -> tuple[int, int, int]:
        """Whole holders of a card, and the milli-cards and MiB that shares of it hold."""
        whole = milli = memory = 0
        for attempt in self.attempts.values():
            if card in attempt.cards:
                whole += attempt.request.cards > 0
                milli += 0 if attempt.request.cards else attempt.request.card_milli
                memory += 0 if attempt.request.cards else attempt.request.card_memory_mib
        return whole, milli, memory


@dataclass(slots=True, eq=False)
class QueueFacts:
    """One queue as configured."""

    config: r.QueueConfigured
    parent: str


def add(total: dict[str, int], amounts: dict[str, int], count: int) -> None:
    """Add `count` times the amounts."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount * count


def amounts_of(request: r.PodRequest) -> dict[str, int]:
    """What one pod asks, by resource; cards in milli."""
    asked = {
        "cards_milli": request.cards * 1000 + (0 if request.cards else request.card_milli),
        "cpu_milli": request.cpu_milli,
        "memory_mib": request.memory_mib,
        "pods": 1,
    }
    for amount in request.resources:
        asked[amount.resource] = amount.count
    return {name: count for name, count in asked.items() if count}


def _size(request: r.PodRequest) -> tuple[int, int, int]:
    asked = amounts_of(request)
    return asked.get("cards_milli", 0), request.cpu_milli, request.memory_mib


def is_zero(request: r.PodRequest) -> bool:
    """Whether a pod asks for nothing but a place."""
    return list(amounts_of(request)) == ["pods"]


def card_suits(card: r.CardRun, request: r.PodRequest) -> bool:
    """Whether a card is healthy and of the kind that is asked for."""
    return card.health is CardHealth.HEALTHY and kind_suits(card, request)


def kind_suits(card: r.CardRun, request: r.PodRequest) -> bool:
    """Whether a card is of the kind that is asked for."""
    return (not request.models or card.model in request.models) and card.memory_mib >= max(
        request.min_card_memory_mib, request.card_memory_mib
    )


def tolerates(request: r.PodRequest, taint: r.Taint) -> bool:
    """Whether the pod may go to a node with this taint."""
    if taint.effect is TaintEffect.PREFER_NO_SCHEDULE:
        return True
    for one in request.tolerations:
        if one.effect in (TaintEffect.UNKNOWN, taint.effect):
            if one.operator is TolerationOperator.EXISTS:
                if one.key in ("", taint.key):
                    return True
            elif (one.key, one.value) == (taint.key, taint.value):
                return True
    return False


def selects(request: r.PodRequest, labels: dict[str, str]) -> bool:
    """Whether every selector of the pod holds for the labels."""
    verdicts = []
    for one in request.selectors:
        value = labels.get(one.key)
        verdicts.append(
            {
                SelectorOperator.IN: value in one.values,
                SelectorOperator.NOT_IN: value not in one.values,
                SelectorOperator.EXISTS: value is not None,
                SelectorOperator.NOT_EXISTS: value is None,
            }.get(one.operator, False)
        )
    return all(verdicts)


def islands_of(cards: list[r.CardRun], chosen: Iterator[int] | tuple[int, ...]) -> dict[int, int]:
    """How many of the chosen cards lie on each link island."""
    counts: dict[int, int] = {}
    for card in chosen:
        counts[cards[card].island] = counts.get(cards[card].island, 0) + 1
    return counts


class CellFacts:
    """All of one cell."""

    def __init__(self) -> None:
        self.clock_ns = 0
        self.epoch = -1
        self.claim = -1
        self.nodes: dict[str, NodeFacts] = {}
        self.queues: dict[str, QueueFacts] = {}
        self.jobs: dict[str, JobFacts] = {}  # by key; the latest of each
        self.reservations: dict[str, r.ReservationRequested] = {}
        self.policy: r.PolicyConfigured | None = None
        self.event_ids: dict[str, int] = {}
        self.sources: dict[tuple[str, int], tuple[int, int]] = {}

    # ---- the policy -----------------------------------------------------------------------------

    def rule(self, name: str) -> dict[str, str] | None:
        """Arguments of a policy in force; none if it is not."""
        for tier in self.policy.tiers if self.policy else ():
            for config in tier.policies:
                if config.policy == name:
                    return {a.key: a.value for a in config.arguments}
        return None

    def actions(self) -> tuple[str, ...]:
        return tuple(a.action for a in self.policy.actions) if self.policy else ()

    def setting(self, key: str, default: int) -> int:
        """A number of the policy, ns."""
        pairs = self.policy.settings if self.policy else ()
        return next((int(a.value) for a in pairs if a.key == key), default)

    # ---- questions ------------------------------------------------------------------------------

    def attempt(self, key: str, pod: int, number: int) -> AttemptFacts | None:
        """A live attempt, ghosts too."""
        for node in self.nodes.values():
            for attempt in node.attempts.values():
                if attempt.name == (key, pod, number) and self.jobs[key] is attempt.job:
                    return attempt
        return None

    def chain(self, queue: str) -> list[str]:
        """The queue and its ancestors."""
        found = []
        while queue:
            found.append(queue)
            queue = self.queues[queue].parent
        return found

    def send_back(self, queue: str) -> None:
        """What the jobs of a queue's subtree were admitted on may have shrunk."""
        for job in self.jobs.values():
            if queue in self.chain(job.queue):
                job.send_back()

    def never_fits(self, job: JobFacts) -> bool:
        """Whether all nodes that are not lost, empty, have too few cards for its smallest start."""
        room = [self._room_when_empty(role) for role in job.roles]
        short = any(r < role.min_available for r, role in zip(room, job.roles, strict=True))
        return short or sum(room) < max(1, job.least())

    def _room_when_empty(self, role: r.Role) -> int:
        request, total = role.request, 0
        if not (request.cards or request.card_milli):
            return role.replicas
        least = max(request.min_card_memory_mib, 0 if request.cards else request.card_memory_mib)
        for node in self.nodes.values():
            if node.is_lost or not all(tolerates(request, t) for t in node.report.taints):
                continue
            cards = node.cards()
            good = [
                card
                for card, run in enumerate(cards)
                if run.memory_mib >= least and (not request.models or run.model in request.models)
            ]
            if not request.cards:
                total += len(good) * (1000 // request.card_milli)
            elif request.island is IslandPolicy.SAME and request.cards > 1:
                parts = islands_of(cards, tuple(good)).values()
                total += sum(part // request.cards for part in parts)
            else:
                total += len(good) // request.cards
        return min(total, role.replicas)

    def used(self, queue: str) -> dict[str, int]:
        """What the attempts of a queue's subtree hold, given-up ones aside. Empty: of the cell."""
        total: dict[str, int] = {}
        for job in self.jobs.values():
            if not queue or queue in self.chain(job.queue):
                for attempt in job.live.values():
                    add(total, amounts_of(attempt.request), 1)
        return total

    def admitted(self, queue: str) -> dict[str, int]:
        """Minimums of the admitted jobs of a subtree that could be placed and are not.

        Who is held or backs off keeps nobody out. Empty: of the cell.
        """
        total: dict[str, int] = {}
        for job in self.jobs.values():
            is_below = not queue or queue in self.chain(job.queue)
            if job.is_unplaced and is_below and self.may_start(job):
                add(total, job.minimum(), 1)
        return total

    def capacity(self) -> dict[str, int]:
        """What the nodes that are not lost have."""
        total: dict[str, int] = {}
        for node in self.nodes.values():
            if not node.is_lost:
                add(total, node.capacity(), 1)
        return total

    def is_reserved(self, node: str) -> bool:
        """Whether a node is kept now or later: no job here says how long it runs."""
        return any(
            node in one.nodes and self.clock_ns < one.to_ns for one in self.reservations.values()
        )

    def is_open(self, name: str) -> bool:
        """Whether a node takes new pods."""
        node = self.nodes[name]
        closed = node.is_lost or node.is_cordoned or node.is_draining or node.strangers
        return not closed and not self.is_reserved(name)

    def may_start(self, job: JobFacts) -> bool:
        """Whether nothing but admission, limits and room keeps pods of a job from being placed."""
        return (
            not job.is_held
            and not job.waits_for
            and not job.ending
            and not job.outcome
            and job.not_before_ns <= self.clock_ns
            and all(
                self.queues[queue].config.state is not QueueState.DRAINING
                for queue in self.chain(job.queue)
            )
        )

    def limits(self, queue: str) -> dict[str, int]:
        """A queue's own capability."""
        return {a.resource: a.count for a in self.queues[queue].config.capability}

    # ---- room -----------------------------------------------------------------------------------

    def room_of_queue(self, job: JobFacts, request: r.PodRequest) -> int:
        """Pods of a request that the capabilities above a job allow."""
        least = NO_LIMIT
        for queue in self.chain(job.queue):
            limits = self.limits(queue)
            used = self.used(queue) if limits else {}
            for name, amount in amounts_of(request).items():
                if name in limits:
                    least = min(least, (limits[name] - used.get(name, 0)) // amount)
        return max(0, least)

    def room(self, job: JobFacts, request: r.PodRequest) -> int:
        """Pods of a request that would find a place now, each node looked at on its own."""
        return sum(self.room_on(n, request) for n in self.usable_nodes(job, request))

    def has_room(self, job: JobFacts) -> bool:
        """Whether, by counts of whole cards alone, open nodes of a kind to suit hold the pods that
        a start of the job must place.
        """
        needs = [0 if is_zero(role.request) else role.min_available for role in job.roles]
        costless = sum(role.replicas for role in job.roles if is_zero(role.request))
        least = max(job.least(), sum(role.min_available for role in job.roles))
        wanted = max(sum(needs), least - costless)
        total = 0
        for role, need in zip(job.roles, needs, strict=True):
            count = max(need, wanted)
            if role.request.cards:
                count = sum(self._cards_idle(n, role.request) for n in self.nodes)
            if count < need:
                return False
            total += count
        return total >= wanted

    def _cards_idle(self, name: str, request: r.PodRequest) -> int:
        """Pods of whole cards that the idle healthy cards of a node are enough for, of whatever
        model they are; none where it takes no pods, or none of that kind.
        """
        node = self.nodes[name]
        labels_aside = structs.replace(request, selectors=())
        if not self.is_open(name) or not self._suits(node, labels_aside):
            return 0
        if node.free().get("pods", 0) < 1:
            return 0
        healthy = [i for i, card in enumerate(node.cards()) if card.health is CardHealth.HEALTHY]
        return sum(node.shares(i) == (0, 0, 0) for i in healthy) // request.cards

    def usable_nodes(self, job: JobFacts, request: r.PodRequest) -> list[str]:
        """Nodes that are not avoided; all of them if no other that is not lost is of a kind to
        suit.
        """
        others = [name for name in self.nodes if name not in job.avoid]
        if any(self._suits(self.nodes[name], request) for name in others):
            return others
        return list(self.nodes)

    def _suits(self, node: NodeFacts, request: r.PodRequest) -> bool:
        labels = {label.key: label.value for label in node.report.labels}
        if node.is_lost or not selects(request, labels):
            return False
        if not all(tolerates(request, taint) for taint in node.report.taints):
            return False
        return not (request.cards or request.card_milli) or any(
            kind_suits(card, request) for card in node.cards()
        )

    def room_on(self, name: str, request: r.PodRequest) -> int:
        """Pods of a request that one node can take now."""
        node = self.nodes[name]
        labels = {label.key: label.value for label in node.report.labels}
        if not self.is_open(name) or not selects(request, labels):
            return 0
        if not all(tolerates(request, taint) for taint in node.report.taints):
            return 0
        free = node.free()
        if min(free.values()) < 0:
            return 0
        count = NO_LIMIT
        for resource, amount in amounts_of(request).items():
            if resource != "cards_milli":
                count = min(count, free.get(resource, 0) // amount)
        return min(count, _room_on_cards(node, request))


def _room_on_cards(node: NodeFacts, request: r.PodRequest) -> int:
    cards = node.cards()
    suitable = [i for i, card in enumerate(cards) if card_suits(card, request)]
    if request.cards:
        idle = tuple(i for i in suitable if node.shares(i) == (0, 0, 0))
        if request.island is IslandPolicy.SAME:
            return sum(n // request.cards for n in islands_of(cards, idle).values())
        return len(idle) // request.cards
    if not request.card_milli:
        return NO_LIMIT
    count = 0
    for card in suitable:
        whole, milli, memory = node.shares(card)
        fits = 0 if whole else (1000 - milli) // request.card_milli
        if request.card_memory_mib:
            fits = min(fits, (cards[card].memory_mib - memory) // request.card_memory_mib)
        count += max(0, fits)
    return count

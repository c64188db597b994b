"""Why a job waits, runs or ended: worked out from the state when asked, never kept.

For a waiting job every reason that applies is given, not only the first one met: those of the job
and its queue, then for each role how many nodes each reason excludes, with what was asked and the
best that any of these nodes has. O(nodes x roles).
"""

import msgspec

from ganger.schemas.enums import Phase, QueueState, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import quota
from ganger.streams.kernel.entities import ENDED, Job, Node
from ganger.streams.kernel.gangs import missing
from ganger.streams.kernel.lines import line_of
from ganger.streams.kernel.node_index import holds_extra, matches, pods_on, tolerated, usable_cards
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, Shape
from ganger.streams.kernel.state import Refusal, State
from ganger.streams.kernel.topology import best_island, pods_in

EXAMPLES = 3
"""Nodes named with each finding."""

AHEAD = 5
"""Jobs named that are ahead in line."""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One reason, with its numbers. `count` nodes have it (0: it is no node's); some are named."""

    reason: Reason
    asked: int = 0
    free: int = 0
    limit: int = 0
    role: str = ""
    count: int = 0
    nodes: tuple[str, ...] = ()


class PodFinding(msgspec.Struct, frozen=True, gc=False):
    """Where one live attempt is."""

    pod: int
    attempt: int
    phase: Phase
    node: str
    cards: int  # milli-cards
    tier: Tier


class Explanation(msgspec.Struct, frozen=True, gc=False):
    """What can be said of a job at one moment. Quantities of cards are milli-cards."""

    job: str
    phase: Phase
    queue: str
    priority: int
    submitted_ns: int
    ended_ns: int
    pods_wanted: int
    pods_live: int
    pods_succeeded: int
    pods_needed: int  # more at once before it can start or go on
    position: int  # 1 = first of its queue; 0 = stands in no line
    ahead: tuple[str, ...]
    queue_used: int
    queue_deserved: int
    queue_capability: int  # -1 = unlimited
    reasons: tuple[Finding, ...]
    pods: tuple[PodFinding, ...]


def explain(state: State, job_key: str) -> Explanation | None:
    """Everything about a job, or none if the state does not know it."""
    seq = state.job_by_key.get(job_key)
    if seq is None:
        return None
    job = state.jobs[seq]
    queue = state.queues[job.queue]
    needs, short = missing(job)
    position, ahead = _position(state, job)
    return Explanation(
        job=job_key,
        phase=job.phase,
        queue=queue.config.queue,
        priority=job.priority,
        submitted_ns=job.submitted_ns,
        ended_ns=job.ended_ns,
        pods_wanted=sum(role.replicas for role in job.roles),
        pods_live=sum(role.live for role in job.roles),
        pods_succeeded=sum(role.succeeded for role in job.roles),
        pods_needed=0 if job.phase in ENDED else sum(needs) + short,
        position=position,
        ahead=ahead,
        queue_used=queue.used[CARDS],
        queue_deserved=quota.deserved(state)[queue.index][0],
        queue_capability=min(
            (level.capability[CARDS] for level in queue.chain if CARDS in level.capability),
            default=-1,
        ),
        reasons=_reasons(state, job),
        pods=tuple(
            PodFinding(
                pod.index,
                pod.attempt,
                pod.phase,
                state.nodes[pod.node].report.node,
                pod.shape.cards_milli,
                pod.tier,
            )
            for _, pod in sorted((job.pods or {}).items())
        ),
    )


def _position(state: State, job: Job) -> tuple[int, tuple[str, ...]]:
    if job.key is None:
        return 0, ()
    keys = line_of(state, job).keys(job.queue)
    place = keys.index(job.key)
    ahead = tuple(state.jobs[key[-1]].request.job for key in keys[:place][:AHEAD])
    return place + 1, ahead


def _reasons(state: State, job: Job) -> tuple[Finding, ...]:
    if job.phase in ENDED or job.ending is not Phase.UNKNOWN:
        return (Finding(job.reason, job.asked, 0, job.limit),)
    if not any(role.pending() for role in job.roles):
        return ()
    findings = _own(state, job)
    if job.phase is Phase.PENDING:
        for voter in state.policy.job_enqueue:
            vote = voter(state, job)
            if isinstance(vote, Refusal):
                findings.append(Finding(vote.reason, vote.asked, vote.free, vote.limit))
    if all(finding.reason is not Reason.QUEUE_CAPABILITY for finding in findings):
        findings += _of_capability(state, job)
    findings += _of_nodes(state, job)
    position, _ = _position(state, job)
    if position > 1:
        findings.append(Finding(Reason.BEHIND_OTHERS, position - 1))
    if not findings:
        findings.append(Finding(Reason.FITS_NEXT_CYCLE))
    return tuple(findings)


def _own(state: State, job: Job) -> list[Finding]:
    """What holds the job itself back, before any quantity is looked at."""
    findings = []
    if job.held:
        findings.append(Finding(Reason.HELD))
    if job.not_before_ns > state.clock_ns:
        findings.append(Finding(Reason.BACKING_OFF, job.not_before_ns - state.clock_ns))
    if job.dependencies:
        findings.append(Finding(Reason.DEPENDENCY_WAITING, len(job.dependencies)))
    if state.queues[job.queue].config.state is QueueState.DRAINING:
        findings.append(Finding(Reason.QUEUE_DRAINING))
    if state.policy_record is None:
        findings.append(Finding(Reason.NO_CYCLE_YET))
    return findings


def _of_capability(state: State, job: Job) -> list[Finding]:
    queue = state.queues[job.queue]
    needs, short = missing(job)
    findings = []
    for role, shape in enumerate(job.shape.shapes):
        pending = job.roles[role].pending()
        wanted = min(pending, max(1, needs[role] + short))
        if pending and not shape.is_empty:
            count, refusal = quota.headroom(queue, shape, wanted, {})
            if refusal is not None and count < wanted:
                findings.append(
                    Finding(
                        refusal.reason,
                        refusal.asked,
                        refusal.free,
                        refusal.limit,
                        job.shape.roles[role].name,
                    )
                )
    return findings


def _of_nodes(state: State, job: Job) -> list[Finding]:
    if not state.nodes:
        return [Finding(Reason.NO_NODES)]
    needs, short = missing(job)
    findings = []
    fits_all = empty_all = 0
    for role, shape in enumerate(job.shape.shapes):
        pending = job.roles[role].pending()
        if not pending:
            continue
        name = job.shape.roles[role].name
        tally = _Tally(name)
        fits = empty = 0
        for node in state.nodes:
            fits += _look(state, job, shape, node, tally, pending)
            empty += _when_empty(node, shape, pending)
        wanted = max(needs[role], 1 if len(job.roles) == 1 and not short else 0)
        fits, empty = min(fits, pending), min(empty, pending)
        fits_all, empty_all = fits_all + fits, empty_all + empty
        if empty < wanted:
            findings.append(Finding(Reason.NEVER_FITS, wanted, empty, 0, name))
        if fits < wanted:
            if fits or wanted > 1:
                findings.append(Finding(Reason.GANG_BELOW_MINIMUM, wanted, fits, wanted, name))
            findings += tally.findings()
    total = sum(needs) + short
    if short:
        if empty_all < total:
            findings.append(Finding(Reason.NEVER_FITS, total, empty_all))
        if fits_all < total:
            findings.append(Finding(Reason.GANG_BELOW_MINIMUM, total, fits_all, total))
    return findings


class _Tally:
    """Reasons of nodes, counted, with the best figure of any node that has the reason."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.found: dict[Reason, list[int]] = {}
        self.names: dict[Reason, list[str]] = {}

    def add(self, node: Node, reason: Reason, asked: int = 0, free: int = 0) -> None:
        """One node has the reason."""
        kept = self.found.setdefault(reason, [0, asked, free])
        kept[0] += 1
        kept[2] = max(kept[2], free)
        names = self.names.setdefault(reason, [])
        if len(names) < EXAMPLES:
            names.append(node.report.node)

    def findings(self) -> list[Finding]:
        """In the order of the enum."""
        return [
            Finding(reason, asked, free, 0, self.role, count, tuple(self.names[reason]))
            for reason, (count, asked, free) in sorted(self.found.items())
        ]


def _look(state: State, job: Job, shape: Shape, node: Node, tally: _Tally, pending: int) -> int:
    """Pods that fit on a node now; what keeps more from it goes to the tally."""
    before = sum(kept[0] for kept in tally.found.values())
    if node.is_lost:
        tally.add(node, Reason.NODE_UNREACHABLE)
    if node.is_cordoned or node.is_draining:
        tally.add(node, Reason.NODE_CORDONED)
    if node.unknown:
        tally.add(node, Reason.NODE_HAS_UNKNOWN_PODS)
    if node.is_reserved:
        tally.add(node, Reason.NODE_RESERVED)
    if node.index in job.avoid:
        tally.add(node, Reason.NODE_FAILED_BEFORE)
    assert node.kind is not None
    if not tolerated(shape, node.kind):
        tally.add(node, Reason.TAINT_NOT_TOLERATED)
    if not matches(node.labels, shape.request.selectors):
        tally.add(node, Reason.LABEL_MISMATCH)
    _look_at_cards(shape, node, tally)
    if node.free_cpu < shape.cpu:
        tally.add(node, Reason.CPU_TOO_LITTLE, shape.cpu, node.free_cpu)
    if node.free_memory < shape.memory:
        tally.add(node, Reason.MEMORY_TOO_LITTLE, shape.memory, node.free_memory)
    if node.free_slots < 1:
        tally.add(node, Reason.POD_SLOTS_TAKEN, 1, max(0, node.free_slots))
    if not holds_extra(node, shape):
        lacking = [(a, node.free_extra.get(p, 0)) for p, a in shape.extra]
        asked, free = next((a, f) for a, f in lacking if f < a)
        tally.add(node, Reason.RESOURCE_TOO_LITTLE, asked, free)
    if sum(kept[0] for kept in tally.found.values()) > before:
        return 0
    return pods_on(node, shape, usable_cards(shape, node.kind), pending)


def _look_at_cards(shape: Shape, node: Node, tally: _Tally) -> None:
    if not shape.cards_milli:
        return
    assert node.kind is not None
    request = shape.request
    kinds = [k for k in node.kind.kinds if not request.models or k[0] in request.models]
    if not any(mask & node.healthy for _, _, mask in kinds):
        tally.add(node, Reason.CARD_MODEL if request.models else Reason.CARDS_TOO_FEW, shape.cards)
        return
    least = max(request.min_card_memory_mib, shape.card_memory)
    largest = max(memory for _, memory, _ in kinds)
    if largest < least:
        tally.add(node, Reason.CARD_MEMORY, least, largest)
        return
    mask = usable_cards(shape, node.kind)
    free = node.free & mask
    if shape.card_milli:
        rooms = [m for card, (m, _) in node.shared.items() if mask >> card & 1]
        best = CARD_MILLI if free else max(rooms, default=0)
        if best < shape.card_milli:
            tally.add(node, Reason.CARD_SHARE_TOO_SMALL, shape.card_milli, best)
    elif free.bit_count() < shape.cards:
        tally.add(node, Reason.CARDS_TOO_FEW, shape.cards, free.bit_count())
    elif not pods_in(free, shape.cards, node.kind.islands, shape.same_island):
        best = best_island(free, node.kind.islands)
        tally.add(node, Reason.ISLAND_TOO_SMALL, shape.cards, best)


def _when_empty(node: Node, shape: Shape, pending: int) -> int:
    """Pods that the node would hold if nothing ran on it and it took pods."""
    assert node.kind is not None
    if not tolerated(shape, node.kind) or not matches(node.labels, shape.request.selectors):
        return 0
    report = node.report
    count = min(pending, report.pod_slots)
    if shape.cpu:
        count = min(count, report.cpu_milli // shape.cpu)
    if shape.memory:
        count = min(count, report.memory_mib // shape.memory)
    amounts = {amount.resource: amount.count for amount in report.resources}
    for amount in shape.request.resources:
        if amount.count > 0:
            count = min(count, amounts.get(amount.resource, 0) // amount.count)
    if shape.cards_milli:
        mask = node.healthy & usable_cards(shape, node.kind)
        if shape.card_milli:
            count = min(count, mask.bit_count() * (CARD_MILLI // shape.card_milli))
        else:
            count = min(count, pods_in(mask, shape.cards, node.kind.islands, shape.same_island))
    return count

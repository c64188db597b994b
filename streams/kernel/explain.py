"""Why a job waits, runs or ended: worked out from the state when asked, never kept.

For a waiting job every reason that applies is given, not only the first one met: those of the job
and its queue, then for each role how many nodes each reason excludes, with what was asked and the
best that any of these nodes has. O(nodes x roles).
"""

import msgspec

from ganger.schemas.enums import Phase, QueueState, Tier, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill.outlooks import missed
from ganger.streams.kernel.entities import ENDED, Claim, Job, Node, Queue, Taker
from ganger.streams.kernel.jobs.gangs import missing, needed
from ganger.streams.kernel.jobs.lines import line_of
from ganger.streams.kernel.jobs.progress import may_evict
from ganger.streams.kernel.nodes import scoring
from ganger.streams.kernel.nodes.bars import bars_of
from ganger.streams.kernel.nodes.kept import Kept, kept_from
from ganger.streams.kernel.nodes.node_index import (
    can_hold,
    holds_extra,
    left_of,
    matches,
    most_beside,
    pods_on,
    suits,
    tolerated,
    usable_cards,
)
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.nodes.windows import WHOLE, Bars
from ganger.streams.kernel.policies.hooks import Hooks
from ganger.streams.kernel.policies.registry import rules_of
from ganger.streams.kernel.preemption.spared import Spared, patience, spared
from ganger.streams.kernel.preemption.taking import lacks_room_alone
from ganger.streams.kernel.queues import admission, quota
from ganger.streams.kernel.refusals import JOBS_PLACE, NO_PLACE, Refusal
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, NAMED, Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import best_island, pods_in

EXAMPLES = 3
"""Nodes named with each finding."""

AHEAD = 5
"""Jobs named that are ahead in line."""

EVICTING = ("preempt", "reclaim", "admit", "consolidate")
"""Actions that have others evicted for a job."""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One reason, with its numbers. `count` nodes have it (0: it is no node's); some are named."""

    reason: Reason
    asked: int = 0
    free: int = 0
    limit: int = 0
    role: str = ""
    count: int = 0
    nodes: tuple[str, ...] = ()
    rule: str = ""  # of the policy; empty: the kernel's own
    queue: str = ""  # whose limit or due it is
    resource: str = ""  # that the numbers count, as `Amount` names it; empty: the reason says it


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
    queue_deserved: int  # under quota admission its nominal quota; -1 = no quota bounds it
    queue_capability: int  # -1 = unlimited
    reasons: tuple[Finding, ...]
    pods: tuple[PodFinding, ...]
    kept: tuple[Kept, ...] = ()  # what reservations by request keep from it though it waits
    spared: tuple[Spared, ...] = ()  # whom preempt and reclaim leave alone though it waits


def explain(state: State, job_key: str) -> Explanation | None:
    """Everything about a job, or none if the state does not know it."""
    seq = state.job_by_key.get(job_key)
    if seq is None:
        return None
    job = state.jobs[seq]
    queue = state.queues[job.queue]
    needs, short = missing(job)
    position, ahead = _position(state, job)
    deserved, capability = _cards_of(state, queue)
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
        queue_deserved=deserved,
        queue_capability=capability,
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
        kept=() if job.phase in ENDED or not any(needed(job)) else kept_from(state, job),
        spared=_spared(state, job),
    )


def _cards_of(state: State, queue: Queue) -> tuple[int, int]:
    """Milli-cards that a queue deserves, and those that it may have; -1: any number."""
    if state.policy.asks_quota:
        return admission.bounds(state, queue, NAMED[CARDS])
    bounds = [level.capability[CARDS] for level in queue.chain if CARDS in level.capability]
    return quota.deserved(state)[queue.index][0], min(bounds, default=-1)


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
    claim = state.claims.get(job.seq)
    if claim is not None:
        return (Finding(Reason.CLAIM_MADE, _still_there(state, claim)),)
    findings = _own(state, job)
    rules = [] if state.policy_record is None else rules_of(state.policy_record)
    if job.phase is Phase.PENDING:
        findings += _of_admission(state, job, rules)
    if all(finding.reason is not Reason.QUEUE_CAPABILITY for finding in findings):
        findings += _of_capability(state, job)
    if job.phase is not Phase.PENDING:
        findings += _of_queue(state, job, rules)
    findings += _of_nodes(state, job)
    findings += _of_company(state, job)
    findings += _of_evictions(state, job, rules)
    gap = missed(state, job)
    if gap is not None:
        findings.append(Finding(gap.reason, gap.asked, 0, gap.limit))
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
                findings.append(_refused(state, refusal, "", job.shape.roles[role].name))
    return findings


def _still_there(state: State, claim: Claim) -> int:
    """Attempts that a claim waits for."""
    jobs = [(state.jobs.get(seq), index, attempt) for seq, index, attempt in claim.victims]
    pods = [(job.pods or {}).get(index) for job, index, _ in jobs if job is not None]
    attempts = [attempt for job, _, attempt in jobs if job is not None]
    return sum(p is not None and p.attempt == a for p, a in zip(pods, attempts, strict=True))


def _of_admission(state: State, job: Job, rules: list[tuple[str, Hooks]]) -> list[Finding]:
    """What keeps it from being admitted: quota, and every rule that votes against it."""
    if state.policy.asks_quota:
        lack = admission.lacks(state, job)
        return [] if lack is None else [_refused(state, lack, "cohort")]
    votes = [(hooks.job_enqueue(state, job), name) for name, hooks in rules if hooks.job_enqueue]
    return [_refused(state, vote, name) for vote, name in votes if isinstance(vote, Refusal)]


def _of_queue(state: State, job: Job, rules: list[tuple[str, Hooks]]) -> list[Finding]:
    """What rules say of the queue of an admitted job: it has its due, or is at a bound."""
    queue = state.queues[job.queue]
    findings = []
    for name, hooks in rules:
        if hooks.overused is not None:
            refusal = hooks.overused(state, queue)
            if refusal is not None:
                findings.append(_refused(state, refusal, name))
        for role, shape in enumerate(job.shape.shapes):
            if hooks.allocatable is None or shape.is_empty or not job.roles[role].pending():
                continue
            wanted = max(1, needed(job)[role])
            count, refusal = hooks.allocatable(state, job, shape, wanted, {})
            if count < wanted and refusal is not None:
                findings.append(_refused(state, refusal, name, job.shape.roles[role].name))
    return findings


def _refused(state: State, refusal: Refusal, rule: str, role: str = "") -> Finding:
    """A refusal of a rule as a finding."""
    queue = state.queues[refusal.queue].config.queue if refusal.queue >= 0 else ""
    return Finding(
        refusal.reason,
        refusal.asked,
        refusal.free,
        refusal.limit,
        role=role,
        rule=rule,
        queue=queue,
        resource=_resource(state, refusal.place),
    )


def _resource(state: State, place: int) -> str:
    """The name of what numbers count."""
    if place == JOBS_PLACE:
        return "job"
    return "" if place == NO_PLACE else state.table.names[place]


def _spared(state: State, job: Job) -> tuple[Spared, ...]:
    """For a job that waits and may have others evicted, or for which others leave."""
    if job.seq in state.claims:
        return spared(state, job)
    waits = job.phase in (Phase.INQUEUE, Phase.RUNNING, Phase.ALLOCATED) or (
        job.phase is Phase.PENDING and lacks_room_alone(state, job)
    )
    return spared(state, job) if waits and any(needed(job)) and may_evict(state, job) else ()


def _of_evictions(state: State, job: Job, rules: list[tuple[str, Hooks]]) -> list[Finding]:
    """Why nobody is evicted for it, where the policy has others evicted at all."""
    if not any(action in state.policy.actions for action in EVICTING):
        return []
    if job.request.preempts is Tri.NO:
        return [Finding(Reason.NEVER_PREEMPTS)]
    if not may_evict(state, job):
        return [Finding(Reason.EVICTION_RIGHT_USED)]
    findings = []
    waits = patience(state, job)
    if waits is not None:
        action, left_ns, whole_ns = waits
        rule = f"{action}.patience_ns"
        findings.append(Finding(Reason.PROTECTED, left_ns, 0, whole_ns, rule=rule))
    if "reclaim" in state.policy.actions:
        queue, taker = state.queues[job.queue], Taker(job, needed(job))
        for name, hooks in rules:
            refusal = None if hooks.preemptive is None else hooks.preemptive(state, queue, taker)
            if refusal is not None:
                findings.append(_refused(state, refusal, name))
    return findings


def _of_nodes(state: State, job: Job) -> list[Finding]:
    if not state.nodes:
        return [Finding(Reason.NO_NODES)]
    needs, short = missing(job)
    findings = []
    windows = state.indexes.windows
    bars = None if windows is None else bars_of(state, windows, job, state.clock_ns)
    fits_all = empty_all = 0
    for role, shape in enumerate(job.shape.shapes):
        pending = job.roles[role].pending()
        if not pending:
            continue
        name = job.shape.roles[role].name
        tally = _Tally(name)
        fits = empty = 0
        for node in state.nodes:
            fits += _look(state, job, role, node, tally, pending, bars)
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


def _of_company(state: State, job: Job) -> list[Finding]:
    """Whether the places of the job's own pods, or of others, are what keeps it from a start: found
    by trying one.
    """
    if not job.shape.is_guided:
        return []
    statement = Statement(state)
    refusal = place_job(state, statement, job, surplus=False)
    statement.discard()
    if refusal is None or refusal.queue >= 0:
        return []
    if refusal.reason is Reason.TOPOLOGY_TIER:
        return [Finding(refusal.reason, refusal.asked, refusal.free, refusal.limit)]
    has_wishes = any(wish.is_required for role in job.shape.roles for wish in role.affinities)
    return [Finding(Reason.AFFINITY)] if has_wishes else []


class _Tally:
    """Reasons of nodes, counted, with the best figure of any node that has the reason."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.found: dict[tuple[Reason, str], list[int]] = {}
        self.names: dict[tuple[Reason, str], list[str]] = {}

    def add(
        self, node: Node, reason: Reason, asked: int = 0, free: int = 0, resource: str = ""
    ) -> None:
        """One node has the reason, of this resource if it can be of any."""
        kept = self.found.setdefault((reason, resource), [0, asked, free])
        kept[0] += 1
        kept[2] = max(kept[2], free)
        names = self.names.setdefault((reason, resource), [])
        if len(names) < EXAMPLES:
            names.append(node.report.node)

    def findings(self) -> list[Finding]:
        """In the order of the enum."""
        found = []
        for (reason, resource), (count, asked, free) in sorted(self.found.items()):
            names = tuple(self.names[reason, resource])
            counted = Finding(reason, asked, free, 0, self.role, count, names, resource=resource)
            found.append(counted)
        return found


def _look(
    state: State,
    job: Job,
    role: int,
    node: Node,
    tally: _Tally,
    pending: int,
    bars: Bars | None,
) -> int:
    """Pods that fit on a node now; what keeps more from it goes to the tally. `bars`: what it must
    leave alone.
    """
    shape = job.shape.shapes[role]
    before = sum(kept[0] for kept in tally.found.values())
    if node.is_lost:
        tally.add(node, Reason.NODE_UNREACHABLE)
    if node.is_cordoned or node.is_draining:
        tally.add(node, Reason.NODE_CORDONED)
    if node.unknown:
        tally.add(node, Reason.NODE_HAS_UNKNOWN_PODS)
    if node.is_reserved or _is_kept(shape, node, bars):
        tally.add(node, Reason.NODE_RESERVED)
    if node.index in job.avoid:
        tally.add(node, Reason.NODE_FAILED_BEFORE)
    assert node.kind is not None
    if not tolerated(shape, node.kind):
        tally.add(node, Reason.TAINT_NOT_TOLERATED)
    if not matches(node.labels, shape.request.selectors):
        tally.add(node, Reason.LABEL_MISMATCH)
    forbidden = scoring.refused(state, job, role, node)
    if forbidden is not Reason.UNKNOWN:
        tally.add(node, forbidden)
    if node.is_lost:  # nobody knows what is free there
        return 0
    _look_at_cards(shape, node, tally)
    if node.free_cpu < shape.cpu:
        tally.add(node, Reason.CPU_TOO_LITTLE, shape.cpu, node.free_cpu)
    if node.free_memory < shape.memory:
        tally.add(node, Reason.MEMORY_TOO_LITTLE, shape.memory, node.free_memory)
    if node.free_slots < 1:
        tally.add(node, Reason.POD_SLOTS_TAKEN, 1, max(0, node.free_slots))
    if not holds_extra(node, shape):
        for place, asked in shape.extra:
            free = node.free_extra.get(place, 0)
            if free < asked:
                name = state.table.names[place]
                tally.add(node, Reason.RESOURCE_TOO_LITTLE, asked, free, name)
    if sum(kept[0] for kept in tally.found.values()) > before:
        return 0
    mask = left_of(node, usable_cards(shape, node.kind), bars)
    bar = None if bars is None else bars.get(node.index)
    most = pending if bar is None else most_beside(node, shape, bar, pending)
    return pods_on(node, shape, mask, most)


def _is_kept(shape: Shape, node: Node, bars: Bars | None) -> bool:
    """Whether what reservations keep of a node is what a pod lacks there."""
    if bars is None or node.index not in bars:
        return False
    assert node.kind is not None
    mask = usable_cards(shape, node.kind)
    if bars[node.index].mask == WHOLE:
        return True
    return can_hold(node, shape, mask) and not suits(node, shape, mask, bars)


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

"""Claims: made, given up, and found to be met.

A claim keeps the places of pods that will start once those who hold them have left. While it stands
its places are held on the nodes, its pods count as used by their queue and no more as waiting, and
its job stands in no line, so nothing else can take what was freed for it and nothing is evicted for
it a second time. Module `starts` turns a claim that is met into allocations.
"""

from collections.abc import Iterable

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import estimates
from ganger.streams.kernel.decide import of_job, say
from ganger.streams.kernel.entities import Claim, ClaimEntry, Job, Node, Pod
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.queues import held_quota, quota
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake
from ganger.streams.kernel.topology import spans

Place = tuple[Shape, ClaimEntry]

Quantity = int | str | tuple[str, int]
"""A named resource by its place; a quantity of the node by its name, of a card with its number."""


def make(
    state: State,
    job: Job,
    entries: tuple[ClaimEntry, ...],
    victims: tuple[tuple[int, int, int], ...] = (),
    until_ns: int = 0,
    reason: Reason = Reason.CLAIM_MADE,
    rule: str = "",
) -> Claim:
    """Claim places for pods of a job, which must stand in no line and have no claim.

    `victims`: attempts (job, pod, attempt) that have been told to leave for it. `until_ns`: when it
    is given up; 0: the time of the policy's `claim_ns` from now. `reason`: with which it will be
    placed in a gap; CLAIM_MADE: in turn. `rule`: who decided.
    """
    assert entries and job.seq not in state.claims and job.key is None, job.request.job
    until = until_ns or state.now_ns + state.policy.settings.claim_ns
    claim = Claim(job.seq, state.now_ns, until, entries, victims, reason)
    state.claims[job.seq] = claim
    state.touch(claim)
    quota.disclaim(state, job)
    book(state, job, claim)
    for shape, entry in places(job, claim):
        occupancy.reserve(state, state.nodes[entry.node], shape, entry)
        _say(state, DecisionKind.CLAIM, job, claim, Reason.CLAIM_MADE, entry=entry, rule=rule)
    count(state, job, claim, 1)
    state.indexes.timers.at(until, Wake.CLAIM, job.seq)
    futures = state.indexes.futures
    if futures is not None:
        estimates.claim_made(state, futures, job)
    return claim


def give_up(
    state: State, job: Job, reason: Reason, numbers: tuple[int, int, int] | None = None
) -> None:
    """The claim of a job ends unmet: what it held is offered to all. Its job must be lined up.

    Attempts that have only been warned stay, unless their node is drained. `numbers`: asked, free
    and limit of the reason; else those of the claim.
    """
    claim = take(state, job)
    if job.flavors and not job.pods:  # quota goes with a place, or is asked for anew
        held_quota.give_back(state, job)
    for seq, index, attempt in claim.victims:
        other = state.jobs.get(seq)
        pod = other.pods.get(index) if other is not None and other.pods else None
        if other is not None and pod is not None and pod.attempt == attempt:
            if pod.notice_until_ns and pod.evict_reason is not Reason.NODE_DRAINED:
                spare(state, other, pod)
    for index in _nodes(claim):
        occupancy.offer(state, state.nodes[index])
    _say(state, DecisionKind.UNCLAIM, job, claim, reason, numbers=numbers)


def spare(state: State, job: Job, pod: Pod) -> None:
    """Take a notice back: the attempt stays."""
    quota.depart(state, state.queues[job.queue], pod.shape.charges, -1)
    pod.notice_until_ns = 0
    pod.evict_reason = Reason.UNKNOWN
    state.touch_pod(job, pod)


def take(state: State, job: Job) -> Claim:
    """Remove the claim of a job and free what it held, unsaid."""
    claim = state.claims.pop(job.seq)
    claim.is_untold = True
    state.touch(claim)
    reserved = state.indexes.reserved
    for index in _nodes(claim):
        del reserved[index][job.seq]
        if not reserved[index]:
            del reserved[index]
        occupancy.recount(state, state.nodes[index])
    count(state, job, claim, -1)
    futures = state.indexes.futures
    if futures is not None:
        estimates.claim_ended(state, futures, claim)
    return claim


def book(state: State, job: Job, claim: Claim) -> None:
    """List a claim under its nodes."""
    reserved = state.indexes.reserved
    for place in places(job, claim):
        on_node = reserved.setdefault(place[1].node, {})
        on_node.setdefault(job.seq, []).append(place)


def count(state: State, job: Job, claim: Claim, sign: int) -> None:
    """Its pods begin (1) or cease (-1) to count as used by their queue instead of as waiting."""
    queue = state.queues[job.queue]
    for shape, _ in places(job, claim):
        quota.charge(state, queue, shape.charges, sign)
        quota.expect(queue, shape.charges, -sign)
    if state.indexes.uncounted is not None:
        state.indexes.uncounted[job.seq] = job


def places(job: Job, claim: Claim) -> list[Place]:
    """The entries of a claim, each with what its pod asks."""
    shapes = job.shape.shapes
    return [(shapes[entry.role], entry) for entry in claim.entries]


def pods_by_role(job: Job, claim: Claim) -> list[int]:
    """How many pods of each role a claim is for."""
    counts = [0] * len(job.roles)
    for entry in claim.entries:
        counts[entry.role] += 1
    return counts


def fault(state: State, job: Job) -> Reason:
    """Why the claim of a job cannot be met any more: the job may not start, has too few pods to
    place, or a place is gone. `UNKNOWN`: it can.
    """
    claim = state.claims[job.seq]
    if job.ending is not Phase.UNKNOWN:
        return job.reason
    for is_so, reason in (
        (job.held, Reason.HELD),
        (bool(job.dependencies), Reason.DEPENDENCY_WAITING),
        (job.not_before_ns > state.clock_ns, Reason.BACKING_OFF),
        (state.queues[job.queue].is_draining, Reason.QUEUE_DRAINING),
    ):
        if is_so:
            return reason
    for role, count in zip(job.roles, pods_by_role(job, claim), strict=True):
        if role.pending() < count:
            return Reason.SCALED_DOWN
    for entry in claim.entries:
        node = state.nodes[entry.node]
        if not node.is_open:
            return Reason.NODE_UNREACHABLE if node.is_lost else Reason.NODE_CORDONED
        if entry.mask & ~node.healthy:
            return Reason.CARD_FAILED
    return Reason.UNKNOWN


def is_met(state: State, claim: Claim) -> bool:
    """Whether all that held its places has left, other claims aside; under quota admission also
    whether all its victims have, whose quota it waits for.
    """
    if state.jobs[claim.job].flavors and any(_is_live(state, *victim) for victim in claim.victims):
        return False
    for index in _nodes(claim):
        node = state.nodes[index]
        on_node = state.indexes.reserved[index]
        if not _fits(node, on_node[claim.job], [on_node[seq] for seq in on_node]):
            return False
    return True


def _is_live(state: State, seq: int, index: int, attempt: int) -> bool:
    job = state.jobs.get(seq)
    pod = job.pods.get(index) if job is not None and job.pods else None
    is_ghost = (seq, index, attempt) in state.indexes.ghosts
    return is_ghost or (pod is not None and pod.attempt == attempt)


def _fits(node: Node, own: list[Place], everyone: list[list[Place]]) -> bool:
    """Whether a node could hold these places now if no claims were on it."""
    cards = 0
    for _, entry in own:
        cards |= entry.mask
    for pod in node.pods.values():
        if pod.mask & cards and not _is_beside(pod.card_milli, pod.mask, own):
            return False
    claimed = [place for of_job in everyone for place in of_job]
    asked = _sums(own)
    left: dict[Quantity, int] = dict(node.free_extra.items())
    left["cpu"], left["memory"], left["slots"] = node.free_cpu, node.free_memory, node.free_slots
    for card, (milli, memory) in node.shared.items():
        left["milli", card], left["card memory", card] = milli, memory
    for key, amount in _sums(claimed).items():
        left[key] = left.get(key, 0) + amount
    return all(left.get(key, 0) >= amount for key, amount in asked.items())


def _is_beside(card_milli: int, mask: int, own: list[Place]) -> bool:
    """Whether an attempt has a share of a card of which the claim wants another share."""
    return bool(card_milli) and all(entry.card_milli for _, entry in own if entry.mask & mask)


def _sums(places_: Iterable[Place]) -> dict[Quantity, int]:
    """What places ask in all, by quantity; whole cards aside."""
    sums: dict[Quantity, int] = {}
    for shape, entry in places_:
        asks: list[tuple[Quantity, int]] = [
            ("cpu", shape.cpu),
            ("memory", shape.memory),
            ("slots", 1),
            *shape.extra,
        ]
        if entry.card_milli:
            card = entry.mask.bit_length() - 1
            asks += [
                (("milli", card), entry.card_milli),
                (("card memory", card), entry.card_memory),
            ]
        for key, amount in asks:
            if amount:
                sums[key] = sums.get(key, 0) + amount
    return sums


def _nodes(claim: Claim) -> list[int]:
    """Nodes that a claim is on, ascending."""
    return sorted(dict.fromkeys([entry.node for entry in claim.entries]))


def _say(
    state: State,
    kind: DecisionKind,
    job: Job,
    claim: Claim,
    reason: Reason,
    entry: ClaimEntry | None = None,
    rule: str = "",
    numbers: tuple[int, int, int] | None = None,
) -> None:
    """CLAIM of one pod, which has no number yet; UNCLAIM of all (`entry` none)."""
    if numbers is None:
        numbers = len(claim.victims), 0, claim.until_ns - claim.since_ns
    decision = of_job(state, kind, job.request.job, reason, *numbers, tier=Tier.MAIN)
    if entry is not None:
        decision.role = job.shape.roles[entry.role].name
        decision.node = state.nodes[entry.node].report.node
        decision.cards = spans(entry.mask)
        decision.card_milli = entry.card_milli
        decision.card_memory_mib = entry.card_memory
    decision.queue = state.queues[job.queue].config.queue
    decision.rule = rule
    decision.until_ns = claim.until_ns
    decision.count = len(claim.entries)
    say(state, decision)

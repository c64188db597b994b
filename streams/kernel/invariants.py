"""What must hold after every record; each derived number recounted from the primary facts.

For tests, simulations and `verify`; O(all entities).
"""

from ganger.schemas.enums import Phase
from ganger.streams.kernel import topology
from ganger.streams.kernel.derive import claimed_masks
from ganger.streams.kernel.digest import recompute, seal
from ganger.streams.kernel.entities import ENDED, LIVE, Job, Node, Queue
from ganger.streams.kernel.lifecycle import WAITING
from ganger.streams.kernel.lines import look_of, may_start, order_key
from ganger.streams.kernel.node_index import CPU_SHIFT, MEMORY_SHIFT
from ganger.streams.kernel.occupancy import is_open
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, CPU, MEMORY, PODS, Need
from ganger.streams.kernel.state import State


class InvariantViolation(AssertionError):
    """A derived number differs from its recount, or a rule of the model is broken: a bug."""

    def __init__(self, what: str, who: str, kept: object, true: object) -> None:
        super().__init__(f"{what} of {who}: kept {kept}, recounted {true}")


def check(state: State) -> None:
    """Raise `InvariantViolation` at the first rule that does not hold."""
    for node in state.nodes:
        _check_node(state, node)
    _check_index(state)
    for job in state.jobs.values():
        _check_job(state, job)
    _check_lines(state)
    _check_queues(state)
    _check_claims(state)
    _check_rest(state)
    _same("digest", "the cell", seal(state), recompute(state))


def _same(what: str, who: str, kept: object, true: object) -> None:
    if kept != true:
        raise InvariantViolation(what, who, kept, true)


def _check_node(state: State, node: Node) -> None:
    name = node.report.node
    kinds, islands, healthy = topology.card_masks(node.report.cards)
    assert node.kind is not None
    _same("class", name, (node.kind.kinds, node.kind.islands), (kinds, islands))
    _same("healthy cards", name, node.healthy, healthy)
    _same("openness", name, node.is_open, is_open(node))
    whole = 0
    shares: dict[int, int] = {}
    cpu, memory, slots = node.report.cpu_milli, node.report.memory_mib, node.report.pod_slots
    for key, pod in node.pods.items():
        _same("key of a pod", name, key, (pod.job, pod.index, pod.attempt))
        if pod.phase not in LIVE:
            raise InvariantViolation("phase of a held pod", name, pod.phase, LIVE)
        if pod.card_milli:
            card = pod.mask.bit_length() - 1
            shares[card] = shares.get(card, 0) + pod.card_milli
        elif pod.mask & whole:
            raise InvariantViolation("cards held twice", name, bin(pod.mask & whole), 0)
        else:
            whole |= pod.mask
        cpu -= pod.shape.cpu
        memory -= pod.shape.memory
        slots -= 1
    for card, milli in shares.items():
        if milli > CARD_MILLI or whole >> card & 1:
            raise InvariantViolation("share of card", f"{name}/{card}", milli, CARD_MILLI)
    shared = sum(1 << card for card in shares)
    _same("free cards", name, node.free, healthy & ~whole & ~shared)
    _same("free card count", name, node.free_count, node.free.bit_count())
    kept = {card: room[0] for card, room in node.shared.items()}
    true = {card: CARD_MILLI - milli for card, milli in shares.items() if healthy >> card & 1}
    _same("shared cards", name, kept, true)
    _same(
        "free cpu, memory, slots",
        name,
        (node.free_cpu, node.free_memory, node.free_slots),
        (cpu, memory, slots),
    )


def _check_index(state: State) -> None:
    """The lists are a function of the nodes."""
    for kind in state.indexes.nodes.classes.values():
        listed: dict[int, list[int]] = {}
        partial = []
        for node in state.nodes:
            if node.kind is not kind:
                continue
            if node.is_open and node.free_slots > 0:
                memory = max(0, node.free_memory) << MEMORY_SHIFT | node.index
                listed.setdefault(node.free_count, []).append(
                    -(max(0, node.free_cpu) << CPU_SHIFT | memory)
                )
            if node.is_open:
                partial += [(milli, node.index, card) for card, (milli, _) in node.shared.items()]
        kept = {count: b.by_cpu for count, b in kind.buckets.items() if b.by_cpu}
        _same("node lists", str(kind.order), kept, {c: sorted(keys) for c, keys in listed.items()})
        low = (1 << CPU_SHIFT) - 1
        for count, bucket in kind.buckets.items():
            by_memory = sorted(-(-key & low) for key in bucket.by_cpu)
            _same("node list by memory", str(count), bucket.by_memory, by_memory)
        _same("levels", str(kind.order), kind.levels, sum(1 << count for count in listed))
        _same("shared cards of class", str(kind.order), kind.partial, sorted(partial))


def _check_job(state: State, job: Job) -> None:
    name = job.request.job
    _same("key", name, state.job_by_key.get(name), job.seq)
    claims = job.phase is Phase.INQUEUE and may_start(state, job)
    _same("claim", name, job.claims, claims)
    live = [0] * len(job.roles)
    for index, pod in (job.pods or {}).items():
        live[index % len(job.roles)] += 1
        held = state.nodes[pod.node].pods.get((pod.job, pod.index, pod.attempt))
        if held is not pod:
            raise InvariantViolation("node of pod", f"{name}/{index}", held, pod)
        if job.attempts and job.attempts.get(index, 0) >= pod.attempt:
            raise InvariantViolation("attempt", f"{name}/{index}", pod.attempt, job.attempts)
    for position, role in enumerate(job.roles):
        _same("live pods", name, role.live, live[position])
        _same("replicas", name, role.replicas, job.shape.roles[position].replicas)
        again = role.returned or []
        _same("order of returned pods", name, again, sorted(dict.fromkeys(again)))
        if any(local >= role.fresh for local in again):
            raise InvariantViolation("returned pods", name, again, role.fresh)
        if any(local * len(job.roles) + position in (job.pods or {}) for local in again):
            raise InvariantViolation("returned pods that live", name, again, job.pods)
    if job.phase in ENDED and job.pods:
        raise InvariantViolation("live pods of an ended job", name, sorted(job.pods), [])
    if job.phase is Phase.ALLOCATED and not job.pods:
        raise InvariantViolation("pods of an allocated job", name, 0, ">0")


def _check_lines(state: State) -> None:
    """Every job stands in the line that its facts name."""
    gate: dict[int, list[tuple[int, ...]]] = {}
    inqueue: dict[int, list[tuple[int, ...]]] = {}
    zero = []
    for job in state.jobs.values():
        if job.phase in ENDED or not may_start(state, job):
            _same("line", job.request.job, job.key, None)
            continue
        if job.phase is Phase.PENDING:
            gate.setdefault(job.queue, []).append(order_key(state, job))
        elif job.phase is not Phase.RELEASING:
            pairs = list(zip(job.roles, job.shape.shapes, strict=True))
            if any(role.pending() and not shape.is_empty for role, shape in pairs):
                inqueue.setdefault(job.queue, []).append(order_key(state, job))
                _same("look", job.request.job, job.look, look_of(job))
            if any(role.pending() and shape.is_empty for role, shape in pairs):
                zero.append(job.seq)
    indexes = state.indexes
    for queue in state.queues:
        for waiting, true in ((indexes.gate, gate), (indexes.inqueue, inqueue)):
            line = sorted(true.get(queue.index, []))
            _same("line", queue.config.queue, waiting.keys(queue.index), line)
    for waiting in (indexes.gate, indexes.inqueue):
        _same("open groups", "the cell", waiting.open_count, waiting.recount_open())
    claims: dict[Need, int] = {}
    for job in state.jobs.values():
        if job.claims:
            need = job.shape.min_needs[0]
            claims[need] = claims.get(need, 0) + 1
    _same("claims by size", "the cell", indexes.claims, claims)
    _same("zero-request jobs", "the cell", sorted(indexes.zero), sorted(zero))
    count = sum(1 for job in state.jobs.values() if job.phase in WAITING)
    _same("waiting jobs", "the cell", state.waiting_count, count)


def _check_queues(state: State) -> None:
    width = len(state.table.names)
    used = [[0] * width for _ in state.queues]
    waiting = [[0] * width for _ in state.queues]
    admitted = [[0] * width for _ in state.queues]
    jobs = [0] * len(state.queues)
    for job in state.jobs.values():
        if job.phase in ENDED:
            continue
        for level in state.queues[job.queue].chain:
            jobs[level.index] += 1
            for pod in (job.pods or {}).values():
                _add(used[level.index], pod.shape.charges, 1)
            for role, shape in zip(job.roles, job.shape.shapes, strict=True):
                _add(waiting[level.index], shape.charges, role.pending())
            if job.claims:
                _add(admitted[level.index], job.shape.min_charges, 1)
    for queue in state.queues:
        name = queue.config.queue
        place = queue.index
        _same("used", name, queue.used, used[place])
        _same("waiting", name, queue.waiting, waiting[place])
        _same("admitted", name, queue.admitted, admitted[place])
        _same("jobs", name, queue.jobs, jobs[place])
        _within_capability(queue)
    tops = [q.index for q in state.queues if len(q.chain) == 1]
    for what, kept, parts in (("used", state.used, used), ("admitted", state.admitted, admitted)):
        _same(what, "the cell", kept, [sum(parts[q][i] for q in tops) for i in range(width)])
    total = [0] * width
    for node in state.nodes:
        if not node.is_lost:
            total[CARDS] += node.healthy.bit_count() * CARD_MILLI
            total[CPU] += node.report.cpu_milli
            total[MEMORY] += node.report.memory_mib
            total[PODS] += node.report.pod_slots
    _same("capacity", "the cell", state.total[:4], total[:4])


def _check_claims(state: State) -> None:
    """One claim per job that waits, on cards that no other claim is on."""
    masks = claimed_masks(state)
    _same("claimed cards", "the cell", [node.claimed for node in state.nodes], masks)
    whole = [0] * len(state.nodes)
    shares: dict[tuple[int, int], int] = {}
    for seq, claim in state.claims.items():
        job = state.jobs.get(seq)
        name = str(seq) if job is None else job.request.job
        if job is None or claim.job != seq or job.phase in ENDED:
            raise InvariantViolation("claim", name, seq, "a job that has not ended")
        for entry in claim.entries:
            if entry.role >= len(job.roles):
                raise InvariantViolation("role of a claim", name, entry.role, len(job.roles))
            if entry.card_milli:
                card = (entry.node, entry.mask.bit_length() - 1)
                shares[card] = shares.get(card, 0) + entry.card_milli
            elif whole[entry.node] & entry.mask:
                raise InvariantViolation("cards claimed twice", name, bin(entry.mask), 0)
            else:
                whole[entry.node] |= entry.mask
    for (place, number), milli in shares.items():
        if milli > CARD_MILLI or whole[place] >> number & 1:
            name = f"{state.nodes[place].report.node}/{number}"
            raise InvariantViolation("claimed share of card", name, milli, CARD_MILLI)


def _check_rest(state: State) -> None:
    """Rights were spent in the past; keys say whose counts they are; no count is negative."""
    for job in state.jobs.values():
        if job.right:
            cell, own, other, others = job.right
            now = (
                state.progress,
                state.queues[job.queue].progress,
                state.queues[other].progress if other >= 0 else 0,
            )
            if any(kept > true for kept, true in zip((cell, own, others), now, strict=True)):
                raise InvariantViolation("eviction right", job.request.job, job.right, now)
        if job.admitted_counts and len(job.admitted_counts) != len(job.roles):
            name = job.request.job
            raise InvariantViolation("admitted counts", name, job.admitted_counts, len(job.roles))
    for key, usage in state.usage.items():
        _same("usage", str(key), (usage.queue, usage.user), key)
        _same("least usage", str(key), min(0, *usage.hours.values(), 0), 0)
    for who, made in state.submissions.items():
        _same("submissions", str(who), (made.queue, made.user, made.tenant), who)
        _same("least submissions", str(who), min(0, *made.minutes.values(), 0), 0)
    for name, row in state.memory.items():
        _same("memory", name, row.name, name)


def _within_capability(queue: Queue) -> None:
    """Nothing is placed above a cap; a cap that was lowered below use is not a fault."""
    for place, limit in queue.capability.items():
        if queue.used[place] < 0 or limit < 0:
            raise InvariantViolation("use", queue.config.queue, queue.used[place], limit)


def _add(vector: list[int], charges: tuple[tuple[int, int], ...], count: int) -> None:
    for place, amount in charges:
        vector[place] += amount * count

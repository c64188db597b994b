"""What must hold after every record; each derived number recounted from the primary facts.

For tests, simulations and `verify`; O(all entities).
"""

from collections.abc import Callable

from ganger.schemas.enums import Phase
from ganger.streams.kernel import topology
from ganger.streams.kernel.digest import recompute, seal
from ganger.streams.kernel.entities import ENDED, LIVE, Job, Node, Queue, Tally
from ganger.streams.kernel.foresight.standing import Told
from ganger.streams.kernel.jobs.gangs import placeable
from ganger.streams.kernel.jobs.lifecycle import WAITING
from ganger.streams.kernel.jobs.lines import look_of, may_start, order_key
from ganger.streams.kernel.jobs.submissions import count_waiters
from ganger.streams.kernel.nodes.marks import marked
from ganger.streams.kernel.nodes.node_index import CPU_SHIFT, MEMORY_SHIFT
from ganger.streams.kernel.nodes.occupancy import is_open
from ganger.streams.kernel.preemption.candidates import Pool, pool_of
from ganger.streams.kernel.preemption.claims_book import Place, places
from ganger.streams.kernel.queues.held_quota import held_by
from ganger.streams.kernel.queues.quota import is_counted
from ganger.streams.kernel.queues.tallies import catch_up, tally_of
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, CPU, MEMORY, PODS, JobShape
from ganger.streams.kernel.state import State


class InvariantViolation(AssertionError):
    """A derived number differs from its recount, or a rule of the model is broken: a bug."""

    def __init__(self, what: str, who: str, kept: object, true: object) -> None:
        super().__init__(f"{what} of {who}: kept {kept}, recounted {true}")


def check(state: State) -> None:
    """Raise `InvariantViolation` at the first rule that does not hold."""
    _check_claims(state)
    for node in state.nodes:
        _check_node(state, node)
    _check_index(state)
    for job in state.jobs.values():
        _check_job(state, job)
    _check_lines(state)
    _check_queues(state)
    _check_held(state)
    _check_tallies(state)
    _check_promises(state)
    _check_candidates(state)
    _check_rest(state)
    _same("digest", "the cell", seal(state), recompute(state))


def _check_candidates(state: State) -> None:
    for rule, pool in list(state.indexes.candidates.items()):
        if isinstance(pool, Pool):
            kept = pool_of(state, pool.hunt)
            _same("candidates", rule, kept.facts(), Pool(state, pool.hunt).facts())


def _check_promises(state: State) -> None:
    promised = state.indexes.promised
    if promised is not None:
        told = [Told(*job.promise) for job in state.jobs.values() if job.promise]
        _same("promised work", "the cell", promised.work, sum(one.work for one in told))


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
    claimed = 0
    for own in state.indexes.reserved.get(node.index, {}).values():
        for shape, entry in own:
            cpu -= shape.cpu
            memory -= shape.memory
            slots -= 1
            claimed |= entry.mask
            if entry.card_milli:
                card = entry.mask.bit_length() - 1
                shares[card] = shares.get(card, 0) + entry.card_milli
    for card in shares:  # what is held or claimed whole beside shares leaves them nothing
        shares[card] += CARD_MILLI * (whole >> card & 1) + CARD_MILLI * (
            node.claimed_whole >> card & 1
        )
    shared = sum(1 << card for card in shares)
    _same("claimed cards", name, node.claimed, claimed)
    _same("free cards", name, node.free, healthy & ~whole & ~shared & ~claimed)
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
        elif job.phase not in (Phase.RELEASING, Phase.SUSPENDED):
            shapes = list(enumerate(job.shape.shapes))
            if any(placeable(job, place) and not shape.is_empty for place, shape in shapes):
                inqueue.setdefault(job.queue, []).append(order_key(state, job))
                _same("look", job.request.job, job.look, marked(state, job, look_of(job)))
            if any(placeable(job, place) and shape.is_empty for place, shape in shapes):
                zero.append(job.seq)
    indexes = state.indexes
    for queue in state.queues:
        for waiting, true in ((indexes.gate, gate), (indexes.inqueue, inqueue)):
            line = sorted(true.get(queue.index, []))
            _same("line", queue.config.queue, waiting.keys(queue.index), line)
    for waiting in (indexes.gate, indexes.inqueue):
        _same("open groups", "the cell", waiting.open_count, waiting.recount_open())
        standing = sum([len(waiting.keys(queue.index)) for queue in state.queues])
        _same("jobs in line", "the cell", waiting.count, standing)
    claims: dict[JobShape, int] = {}
    for job in state.jobs.values():
        if job.claims and is_counted(state, job):
            claims[job.shape] = claims.get(job.shape, 0) + 1
    _same("claims by shape", "the cell", indexes.claims, claims)
    _same("zero-request jobs", "the cell", sorted(indexes.zero), sorted(zero))
    count = sum(1 for job in state.jobs.values() if job.phase in WAITING)
    _same("waiting jobs", "the cell", state.waiting_count, count)
    waiters = state.indexes.waiters
    _same("waiting jobs by user", "the cell", waiters, count_waiters(state))


def _check_queues(state: State) -> None:
    width = len(state.table.names)
    used = [[0] * width for _ in state.queues]
    waiting = [[0] * width for _ in state.queues]
    admitted = [[0] * width for _ in state.queues]
    leaving = [[0] * width for _ in state.queues]
    jobs = [0] * len(state.queues)
    for job in state.jobs.values():
        if job.phase in ENDED:
            continue
        for level in state.queues[job.queue].chain:
            jobs[level.index] += 1
            for pod in (job.pods or {}).values():
                _add(used[level.index], pod.shape.charges, 1)
                if pod.evict_seq >= 0 or pod.notice_until_ns:
                    _add(leaving[level.index], pod.shape.charges, 1)
            for role, shape in zip(job.roles, job.shape.shapes, strict=True):
                _add(waiting[level.index], shape.charges, role.pending())
            if job.seq in state.claims:
                for shape, _ in places(job, state.claims[job.seq]):
                    _add(used[level.index], shape.charges, 1)
                    _add(waiting[level.index], shape.charges, -1)
            if job.claims and is_counted(state, job):
                _add(admitted[level.index], job.shape.min_charges, 1)
    for queue in state.queues:
        name = queue.config.queue
        place = queue.index
        _same("used", name, queue.used, used[place])
        _same("waiting", name, queue.waiting, waiting[place])
        _same("admitted", name, queue.admitted, admitted[place])
        _same("leaving", name, queue.leaving, leaving[place])
        _same("jobs", name, queue.jobs, jobs[place])
        _within_capability(queue)
    tops = [q.index for q in state.queues if len(q.chain) == 1]
    for what, kept, parts in (("used", state.used, used), ("admitted", state.admitted, admitted)):
        _same(what, "the cell", kept, [sum(parts[q][i] for q in tops) for i in range(width)])
    total = [0] * width
    barred = [0] * width
    for node in state.nodes:
        if node.is_cordoned or node.is_draining:
            for place, amount in node.capacity.items():
                barred[place] += amount
        if not node.is_lost:
            total[CARDS] += node.healthy.bit_count() * CARD_MILLI
            total[CPU] += node.report.cpu_milli
            total[MEMORY] += node.report.memory_mib
            total[PODS] += node.report.pod_slots
    _same("capacity", "the cell", state.total[:4], total[:4])
    _same("capacity out of use", "the cell", state.barred, barred)


def _check_held(state: State) -> None:
    """What jobs hold of the quota by flavor, and its sums by queue."""
    held: dict[int, dict[tuple[str, str], int]] = {}
    holders: dict[int, list[int]] = {}
    for job in state.jobs.values():
        true = held_by(state, job)
        _same("held quota", job.request.job, job.held_quota or {}, true)
        if true:
            holders.setdefault(job.queue, []).append(job.seq)
            sums = held.setdefault(job.queue, {})
            for key, amount in true.items():
                sums[key] = sums.get(key, 0) + amount
    for queue in state.queues:
        name = queue.config.queue
        _same("held quota", name, queue.held, held.get(queue.index, {}))
        _same("holders", name, sorted(queue.holders), sorted(holders.get(queue.index, [])))


def _check_claims(state: State) -> None:
    """One claim per job that waits, on cards that no other claim is on."""
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
    booked: dict[int, dict[int, list[Place]]] = {}
    for seq, claim in state.claims.items():
        for one in places(state.jobs[seq], claim):
            booked.setdefault(one[1].node, {}).setdefault(seq, []).append(one)
    _same("booked places", "the cell", state.indexes.reserved, booked)


def _check_tallies(state: State) -> None:
    """What is counted against limits is what the jobs' facts say."""
    catch_up(state)
    for job in state.jobs.values():
        now = None if state.indexes.tallies is None else tally_of(state, job)
        _same("tally", job.request.job, job.tally, now)
    if state.indexes.tallies is None:
        return
    for name, pick in _TALLIED:
        kept = sum(pick(tally) for tally in state.indexes.tallies.values())
        true = sum(
            pick(job.tally) * len(state.queues[job.queue].chain) * 3
            for job in state.jobs.values()
            if job.tally is not None
        )
        _same(name, "limited queues", kept, true)


_TALLIED: tuple[tuple[str, Callable[[Tally], int]], ...] = (
    ("jobs", lambda tally: tally.jobs),
    ("held", lambda tally: sum(tally.held.values())),
    ("admitted", lambda tally: sum(tally.admitted.values())),
)


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

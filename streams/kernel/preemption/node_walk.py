"""Victims on one node after the other, as Volcano seeks them: the other way beside `victims`.

Pod by pod the nodes that suit are walked, the best first for `preempt`, in their own order for
`reclaim`. On a node the vetoes judge its candidates together, and of those they let go the last in
order leave, one by one, until the pod fits there and its queue may have it; if it never does, they
stay. What was found for a job counts only if the job is then pipelined, minimum and all.

Inside a job (Volcano's second phase of `preempt`) victims are its own pods beyond its minimums, of
roles that rules place after the one that asks. There each pod that finds a place counts by itself,
and the first that finds none ends the walk.
"""

from ganger.schemas.enums import Phase, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Node, Pod, Taker, Victim
from ganger.streams.kernel.jobs.gangs import counts_of, covers, standing, surplus
from ganger.streams.kernel.jobs.progress import may_evict
from ganger.streams.kernel.nodes import scoring
from ganger.streams.kernel.nodes.bars import bars_of
from ganger.streams.kernel.nodes.node_index import left_of, matches, pick_shared, suits
from ganger.streams.kernel.nodes.statement import Place, Statement
from ganger.streams.kernel.preemption.candidates import Hunt, Pool, Solution, is_starving, may_lose
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards

_BOUND = (Phase.ALLOCATED, Phase.RUNNING)
_RUNNING = (Phase.RUNNING,)
_NO = Tri.NO
_MAY = Reason.UNKNOWN


def solve(state: State, taker: Taker, hunt: Hunt, pool: Pool, place: Place) -> Solution | None:
    """The solution for a job, or none. `place` is not asked: pods go where victims leave."""
    walk = _Walk(state, taker.job, hunt)
    state.indexes.placing = []
    try:
        walk.run()
        if not (hunt.is_inside or walk.is_pipelined()):
            return None
        if walk.victims and not may_evict(state, taker.job):
            return None
        entries = walk.statement.take_entries()
        return Solution(entries, tuple(walk.victims), walk.considered) if entries else None
    finally:
        state.indexes.placing = []
        walk.statement.discard()


class _Walk:
    """One job on its way over the nodes."""

    def __init__(self, state: State, job: Job, hunt: Hunt) -> None:
        self.statement = Statement(state)
        if state.indexes.windows is not None:
            self.statement.bars = bars_of(state, state.indexes.windows, job, state.now_ns)
        self.victims: list[Victim] = []
        self.considered = 0
        self._state = state
        self._job = job
        self._hunt = hunt
        self._known: dict[tuple[int, int, int], bool] = {}  # victims

    def run(self) -> None:
        """Find places for the job's pods while it starves."""
        state, job = self._state, self._job
        for role in sorted(range(len(job.roles)), key=self._role_key):
            if job.shape.shapes[role].is_empty or job.shape.roles[role].preempts is _NO:
                continue
            for _ in range(job.roles[role].pending()):
                if not (self._hunt.is_inside or is_starving(state, job)):
                    return
                if not (self._has_right(role) and self._seat_somewhere(role)):
                    if self._hunt.is_inside:
                        return
                    break  # nor would another like it

    def is_pipelined(self) -> bool:
        """Whether the job may keep what was found: by the rules, and by the kernel's own."""
        state, job = self._state, self._job
        placed = self._placed()
        have = [a + b for a, b in zip(standing(job), placed, strict=True)]
        if not covers(job.shape, have):
            return False
        counts = counts_of(job, state.claims.get(job.seq), placed)
        votes = [vote(state, job, counts) for vote in state.policy.job_pipelined]
        return not any(isinstance(vote, Refusal) for vote in votes)

    def _placed(self) -> list[int]:
        placed = [0] * len(self._job.roles)
        for role, _, count in self._state.indexes.placing:
            placed[role] += count
        return placed

    def _role_key(self, role: int) -> tuple[int, ...]:
        return (*self._order(role), role)

    def _order(self, role: int) -> tuple[int, ...]:
        """Place of a role of the job by the rules; equal for roles that they do not tell apart."""
        key: tuple[int, ...] = ()
        for hook in self._state.policy.task_order:
            key += hook(self._state, self._job, role)
        return key

    def _has_right(self, role: int) -> bool:
        """Whether the queue may take from others for one more pod of a role."""
        if not self._hunt.is_across:
            return True
        counts = self._placed()
        counts[role] += 1
        taker = Taker(self._job, tuple(counts))
        queue = self._state.queues[self._job.queue]
        return not any(rule(self._state, queue, taker) for rule in self._state.policy.preemptive)

    def _seat_somewhere(self, role: int) -> bool:
        """Walk the nodes whose kind suits. What rules say of a node may change with its victims."""
        state, job = self._state, self._job
        shape = job.shape.shapes[role]
        kinds = {kind.order: True for kind, _, _ in state.indexes.nodes.eligible(shape)}
        nodes = [
            node
            for node in state.nodes
            if node.is_open
            and node.kind is not None
            and node.kind.order in kinds
            and matches(node.labels, shape.request.selectors)
        ]
        if not self._hunt.is_across and state.policy.node_order:
            nodes.sort(key=lambda node: -scoring.score(state, job, role, node))
        return any(self._seat(role, node) for node in nodes)

    def _seat(self, role: int, node: Node) -> bool:
        """Place one pod of a role on a node, with the victims that takes; undone if it cannot."""
        state = self._state
        counts = [0] * len(self._job.roles)
        counts[role] = 1
        taker = Taker(self._job, tuple(counts))
        candidates = [victim for victim in self._on(node) if self._may(victim, role)]
        self.considered += len(candidates)
        judge = self._hunt.judge
        victims = candidates if judge is None else judge(state, taker, candidates)
        is_across = self._hunt.is_across
        victims = sorted(victims, key=lambda one: victim_key(state, taker, one, is_across))
        victims = self._spare(victims)
        mark, before = self.statement.checkpoint(), len(self.victims)
        while not self._fits(role, node):
            if not victims:
                self.statement.rollback(mark)
                for victim in self.victims[before:]:
                    del self._known[_identity(victim.pod)]
                del self.victims[before:]
                return False
            victim = victims.pop(0)
            self.victims.append(victim)
            self._known[_identity(victim.pod)] = True
            self.statement.give_back(victim.pod)
        self._hold(role, node)
        return True

    def _on(self, node: Node) -> list[Victim]:
        """The attempts of a node that may be told to leave."""
        found: list[Victim] = []
        phases = _RUNNING if self._hunt.is_across else _BOUND
        for key in sorted(node.pods):
            pod = node.pods[key]
            if pod.phase not in phases or pod.notice_until_ns or key in self._known:
                continue
            job = self._state.jobs[pod.job]
            if job.pods is not None and job.pods.get(pod.index) is pod:
                found.append(Victim(job, pod, len(found)))
        return found

    def _may(self, victim: Victim, role: int) -> bool:
        """Whether an attempt is a candidate at all."""
        job, pod = victim.job, victim.pod
        spec = job.shape.roles[pod.index % len(job.roles)]
        if _NO in (spec.preemptable, job.request.preemptable) or job.ending is not Phase.UNKNOWN:
            return False
        if pod.protected_until_ns > self._state.clock_ns:
            return False
        if (job is self._job) is not self._hunt.is_inside:
            return False
        if not may_lose(self._hunt, pod, self._state.clock_ns):
            return False
        if pod.allocated_seq == self._state.cause:  # placed in this very cycle
            return False
        if self._hunt.is_inside:
            return self._order(role) < self._order(pod.index % len(job.roles))
        if not self._hunt.is_across:
            return job.queue == self._job.queue
        levels = self._state.queues[job.queue].chain
        return job.queue != self._job.queue and all(q.config.reclaimable for q in levels)

    def _spare(self, victims: list[Victim]) -> list[Victim]:
        """Those whose jobs keep their minimums, or have nothing left: the kernel's own rule."""
        lifted = self._state.indexes.lifted
        pods: dict[int, list[Pod]] = {}
        for victim in victims:
            pods.setdefault(victim.job.seq, []).append(victim.pod)
        spare: dict[tuple[int, int, int], bool] = {}
        for seq, of_job in pods.items():
            job = self._state.jobs[seq]
            alone = sum(standing(job, lifted)) - sum([role.succeeded for role in job.roles]) == 1
            alone = alone and not self._hunt.is_inside
            for pod in of_job if alone else surplus(job, of_job, lifted):
                spare[_identity(pod)] = True
        return [victim for victim in victims if _identity(victim.pod) in spare]

    def _fits(self, role: int, node: Node) -> bool:
        """Whether one pod of a role fits on a node now, and its queue may have it."""
        state, shape = self._state, self._job.shape.shapes[role]
        assert node.kind is not None
        if node.free_slots < 1 or node.free_cpu < shape.cpu or node.free_memory < shape.memory:
            return False
        mask = state.indexes.nodes.cards_for(shape, node.kind)
        if not suits(node, shape, mask, self.statement.bars):
            return False
        if scoring.refused(state, self._job, role, node) is not _MAY:
            return False
        queue, held = state.queues[self._job.queue], self.statement.held()
        if queue.is_capped and quota.headroom(queue, shape, 1, held)[1] is not None:
            return False
        if self._hunt.is_across:
            return True  # the right to take was asked for before
        hooks = state.policy.allocatable
        return all(hook(state, self._job, shape, 1, held)[0] >= 1 for hook in hooks)

    def _hold(self, role: int, node: Node) -> None:
        state, shape = self._state, self._job.shape.shapes[role]
        assert node.kind is not None
        mask = state.indexes.nodes.cards_for(shape, node.kind)
        mask = left_of(node, mask, self.statement.bars)
        if shape.card_milli:
            self.statement.hold_share(role, shape, node, pick_shared(node, shape, mask))
        else:
            chosen = 0
            if shape.cards:
                islands = node.kind.islands
                chosen = choose_cards(node.free & mask, shape.cards, islands, shape.same_island)
            self.statement.hold(role, shape, node, (chosen,))
        state.indexes.placing.append((role, node, 1))


def victim_key(state: State, taker: Taker, victim: Victim, is_across: bool) -> tuple[object, ...]:
    """Who leaves first: by the rule that says so, else the last of the last queue (`is_across`),
    the last job in it and its last role, in the orders that rules give.
    """
    job, pod = victim.job, victim.pod
    identity = (-job.seq, -pod.index)
    if state.policy.victim_order is not None:
        return (state.policy.victim_order(state, taker, victim), identity)
    queue: tuple[int, ...] = ()
    if is_across:
        for hook in state.policy.queue_order:
            queue += hook(state, state.queues[job.queue], False)
    order: tuple[int, ...] = ()
    for by_job in state.policy.job_order:
        order += by_job(state, job)
    role = pod.index % len(job.roles)
    tasks: tuple[int, ...] = ()
    for by_role in state.policy.task_order:
        tasks += by_role(state, job, role)
    return (_reversed(queue), _reversed(order), _reversed(tasks), -role, identity)


def _identity(pod: Pod) -> tuple[int, int, int]:
    return (pod.job, pod.index, pod.attempt)


def _reversed(key: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([-part for part in key])

"""The transaction of a cycle: its operations change nodes at once and can all be undone.

`checkpoint` / `rollback` / `commit` / `discard`. Until commit only nodes' free numbers differ:
pods, counts and decisions are made by `commit`. Any sequence of operations followed by `discard`
leaves the state, and so its digest, as it was.
"""

from typing import Protocol

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.streams.kernel.backfill.estimates import note_pods
from ganger.streams.kernel.backfill.futures import HolderKey
from ganger.streams.kernel.decide import Foreseen, say_foreseen, say_placed
from ganger.streams.kernel.digest import holds_all
from ganger.streams.kernel.entities import ClaimEntry, Job, Node, Pod, RoleState
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.nodes.windows import Bars
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import CARD_MILLI, Shape
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED

_GIVEN_BACK = -1
"""Stands where an operation names a role: an attempt is seen as gone, see `give_back`."""

Operation = tuple[int, Shape, Node, int, tuple[int, ...], bool, int]
"""Role position, shape, node, union of masks, the mask of each pod, shared?, milli-cards free
before. After `_GIVEN_BACK` shape, node and the mask that was free before.
"""


class Statement:
    """Placements of one job that are tried together.

    Attributes:
        at_ns: when the job is to start; -1: now.
        bars: what it must leave alone then; none: nothing.
    """

    __slots__ = ("at_ns", "bars", "lifted", "operations", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.operations: list[Operation] = []
        self.at_ns = -1
        self.bars: Bars | None = None
        # what `give_back` needs to be undone: the attempt, and shared cards of its node before
        self.lifted: list[tuple[Pod, dict[int, tuple[int, int]]]] = []

    def hold(self, role: int, shape: Shape, node: Node, masks: tuple[int, ...]) -> None:
        """Place one pod per mask (0: no cards) on a node that can hold them all."""
        union = masks[0]
        if len(masks) > 1:
            for mask in masks:
                union |= mask
        self.operations.append(
            (role, shape, node, union, masks, False, node.free_count * CARD_MILLI)
        )
        occupancy.hold(self.state, node, shape, union, len(masks))

    def hold_share(self, role: int, shape: Shape, node: Node, card: int) -> None:
        """Place one pod on a share of a card that has room for it."""
        mask = 1 << card
        self.operations.append(
            (role, shape, node, mask, (mask,), True, node.free_count * CARD_MILLI)
        )
        occupancy.hold_share(self.state, node, shape, card)

    def give_back(self, pod: Pod) -> None:
        """See node and queue as if a live attempt had left them. Such a statement cannot be
        committed: `take_entries` says where pods would go, for a claim.
        """
        node = self.state.nodes[pod.node]
        self.operations.append((_GIVEN_BACK, pod.shape, node, node.free, (), False, 0))
        self.lifted.append((pod, dict(node.shared)))
        occupancy.lift(self.state, node, pod)
        self.state.indexes.lifted[pod.job, pod.index, pod.attempt] = True
        self._count(pod, -1)

    def return_all(self) -> None:
        """Undo what was given back though other things were done since, claims made for example:
        nodes are counted anew. The statement must have placed nothing.
        """
        nodes: dict[int, Node] = {}
        for pod, _ in self.lifted:
            del self.state.indexes.lifted[pod.job, pod.index, pod.attempt]
            self._count(pod, 1)
            nodes[pod.node] = self.state.nodes[pod.node]
        self.lifted.clear()
        self.operations.clear()
        for node in nodes.values():
            occupancy.recount(self.state, node)

    def take_again(self, pod: Pod) -> bool:
        """Let an attempt that was given back, in another statement, have its very cards again,
        if they and all else it asks are free and its queue may have them.
        """
        state = self.state
        node, shape, card = state.nodes[pod.node], pod.shape, pod.mask.bit_length() - 1
        queue = state.queues[state.jobs[pod.job].queue]
        if pod.card_milli:
            room = node.shared.get(card)
            if room is None:
                room = (CARD_MILLI, pod.card_memory) if node.free >> card & 1 else (0, 0)
            has_cards = room[0] >= pod.card_milli and room[1] >= pod.card_memory
        else:
            mask = pod.mask & node.healthy & ~node.claimed
            has_cards = not mask & ~node.free
        if not (
            has_cards
            and node.free_slots >= 1
            and node.free_cpu >= shape.cpu
            and node.free_memory >= shape.memory
            and all(node.free_extra.get(place, 0) >= amount for place, amount in shape.extra)
            and (not queue.is_capped or not quota.headroom(queue, shape, 1, self.held())[1])
        ):
            return False
        if pod.card_milli:
            self.hold_share(0, shape, node, card)
        else:
            self.hold(0, shape, node, (pod.mask & node.healthy & ~node.claimed,))
        return True

    def _count(self, pod: Pod, sign: int) -> None:
        """An attempt ceases (-1) or begins to count as used by its queue, in this statement."""
        state = self.state
        job = state.jobs[pod.job]
        if job.pods is None or job.pods.get(pod.index) is not pod:
            return  # given up by its job before
        queue = state.queues[job.queue]
        vectors = queue.used_up
        if quota.is_departing(pod):
            vectors = (*vectors, *queue.leaving_up)
        for vector in vectors:
            for place, amount in pod.shape.charges:
                vector[place] += sign * amount
        state.indexes.idle_left = None

    def held(self) -> dict[int, int]:
        """What the pods placed so far ask, by resource place."""
        held: dict[int, int] = {}
        for _, shape, _, _, masks, _, _ in self.operations:
            for place, amount in shape.charges:
                held[place] = held.get(place, 0) + amount * len(masks)
        return held

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self.operations)

    def rollback(self, mark: int) -> None:
        """Undo what was done since the mark, the latest first."""
        state = self.state
        operations = self.operations
        while len(operations) > mark:
            role, shape, node, union, masks, is_shared, _ = operations.pop()
            if role == _GIVEN_BACK:
                pod, shared = self.lifted.pop()
                occupancy.unlift(state, node, pod, union, shared)
                del state.indexes.lifted[pod.job, pod.index, pod.attempt]
                self._count(pod, 1)
            elif is_shared:
                occupancy.unhold_share(state, node, shape, union.bit_length() - 1)
            else:
                occupancy.unhold(state, node, shape, union, len(masks))

    def take_entries(self) -> tuple[ClaimEntry, ...]:
        """Where pods have been placed, in order; then everything is undone."""
        entries = tuple(
            [
                ClaimEntry(
                    role,
                    node.index,
                    mask,
                    shape.card_milli if is_shared else 0,
                    shape.card_memory if is_shared else 0,
                )
                for role, shape, node, _, masks, is_shared, _ in self.operations
                for mask in masks
            ]
        )
        self.discard()
        return entries

    def discard(self) -> None:
        """Undo everything."""
        self.rollback(0)
        if self.state.indexes.placing:
            self.state.indexes.placing = []

    def commit(
        self, job: Job, kind: DecisionKind, tier: Tier, foreseen: Foreseen | None = None
    ) -> int:
        """Make the pods and say the decisions. Returns the number of pods.

        `foreseen`: what policies that plan with run times counted with.
        """
        state = self.state
        indexes, roles = state.indexes, job.shape.roles
        queue = state.queues[job.queue]
        if job.pods is None:
            job.pods = {}
        is_untold = holds_all(job)
        placed = 0
        for role, shape, node, _, masks, is_shared, free in self.operations:
            name = roles[role].name
            at_node = node.report.node
            for mask in masks:
                pod = _make_pod(state, job, role, shape, node, mask, is_shared, tier, is_untold)
                if foreseen is None:
                    say_placed(state, kind, job, name, pod, at_node, free)
                else:
                    terms = foreseen.terms
                    if terms is not None:
                        pod.protect_ns, pod.for_job = terms.protect_ns, terms.for_seq
                    say_foreseen(state, kind, job, name, pod, at_node, free, foreseen)
                free -= shape.cards * CARD_MILLI
            count = len(masks)
            job.roles[role].live += count
            placed += count
            quota.charge(state, queue, shape.charges, count)
            quota.expect(queue, shape.charges, -count)
        self.operations.clear()
        if indexes.placing:
            indexes.placing = []
        if indexes.uncounted is not None:
            indexes.uncounted[job.seq] = job
        if job.shape.is_elastic:
            indexes.elastic[job.seq] = job
        if indexes.futures is not None:
            note_pods(state, indexes.futures, job)
        return placed


def _make_pod(
    state: State,
    job: Job,
    role: int,
    shape: Shape,
    node: Node,
    mask: int,
    is_shared: bool,
    tier: Tier,
    is_untold: bool,
) -> Pod:
    roles = job.roles
    role_state = roles[role]
    local = role_state.fresh
    if role_state.returned:
        local = next_local(role_state)
    else:
        assert local < role_state.replicas, role_state
        role_state.fresh = local + 1
    index = local * len(roles) + role
    attempt = 1
    if job.attempts is not None:
        attempt = job.attempts.get(index, 0) + 1
    now, seq = state.now_ns, job.seq
    pod = Pod(
        seq,
        index,
        attempt,
        node.index,
        shape,
        mask,
        shape.card_milli if is_shared else 0,
        shape.card_memory if is_shared else 0,
        tier,
        _ALLOCATED,
        state.cause,
        now,
    )
    pod.is_untold = is_untold
    state.touch(job if is_untold else pod)
    key = (seq, index, attempt)
    node.pods[key] = pod
    assert job.pods is not None
    job.pods[index] = pod
    timeout_ns = state.policy.settings.start_timeout_ns
    state.indexes.timers.await_start(now + timeout_ns, key)
    return pod


def next_local(role: RoleState) -> int:
    """Take the local number of the next pod to place: returned ones first."""
    if role.returned:
        local = role.returned.pop(0)
        if not role.returned:
            role.returned = None
        return local
    local = role.fresh
    assert local < role.replicas, role
    role.fresh += 1
    return local


def give_back(statement: Statement, holder: HolderKey) -> None:
    """See a holder's cards as free, unless it is a claim."""
    seq, index, attempt = holder
    job = statement.state.jobs[seq]
    pod = job.pods.get(index) if job.pods else None
    if pod is not None and pod.attempt == attempt:
        statement.give_back(pod)


class Place(Protocol):
    """Finds places in a statement for a job: without `surplus` for its smallest start alone.

    Holds nothing on refusal.
    """

    def __call__(
        self, state: State, statement: Statement, job: Job, surplus: bool = True
    ) -> Refusal | None: ...

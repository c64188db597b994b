"""The transaction of a cycle: its operations change nodes at once and can all be undone.

`checkpoint` / `rollback` / `commit` / `discard`. Until commit only nodes' free numbers differ:
pods, counts and decisions are made by `commit`. Any sequence of operations followed by `discard`
leaves the state, and so its digest, as it was.
"""

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.streams.kernel import occupancy, quota
from ganger.streams.kernel.decide import say_placed
from ganger.streams.kernel.digest import holds_all
from ganger.streams.kernel.entities import Job, Node, Pod, RoleState
from ganger.streams.kernel.resources import CARD_MILLI, Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATED = Phase.ALLOCATED
_POD_START = Wake.POD_START

Operation = tuple[int, Shape, Node, int, tuple[int, ...], bool, int]
"""Role position, shape, node, union of masks, the mask of each pod, shared?, milli-cards free
before.
"""


class Statement:
    """Placements of one job that are tried together."""

    __slots__ = ("operations", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.operations: list[Operation] = []

    def hold(self, role: int, shape: Shape, node: Node, masks: tuple[int, ...]) -> None:
        """Place one pod per mask (0: no cards) on a node that can hold them all."""
        union = 0
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
            _, shape, node, union, masks, is_shared, _ = operations.pop()
            if is_shared:
                occupancy.unhold_share(state, node, shape, union.bit_length() - 1)
            else:
                occupancy.unhold(state, node, shape, union, len(masks))

    def discard(self) -> None:
        """Undo everything."""
        self.rollback(0)

    def commit(self, job: Job, kind: DecisionKind, tier: Tier) -> int:
        """Make the pods and say the decisions. Returns the number of pods."""
        state = self.state
        queue = state.queues[job.queue]
        if job.pods is None:
            job.pods = {}
        is_untold = holds_all(job)
        placed = 0
        for role, shape, node, _, masks, is_shared, free in self.operations:
            role_state = job.roles[role]
            name = job.shape.roles[role].name
            for mask in masks:
                pod = _make_pod(state, job, role, shape, node, mask, is_shared, tier, is_untold)
                say_placed(state, kind, job, name, pod, node.report.node, free)
                free -= shape.cards * CARD_MILLI
            role_state.live += len(masks)
            placed += len(masks)
            quota.charge(state, queue, shape.charges, len(masks))
            quota.expect(queue, shape.charges, -len(masks))
        self.operations.clear()
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
    index = next_local(job.roles[role]) * len(job.roles) + role
    attempt = 1
    if job.attempts is not None:
        attempt = job.attempts.get(index, 0) + 1
    now = state.now_ns
    pod = Pod(
        job.seq,
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
        is_untold=is_untold,
    )
    state.touch_pod(job, pod)
    node.pods[(job.seq, index, attempt)] = pod
    assert job.pods is not None
    job.pods[index] = pod
    state.indexes.timers.at(
        now + state.policy.settings.start_timeout_ns, _POD_START, job.seq, index, attempt
    )
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

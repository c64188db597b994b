"""Finding nodes for the pods of one job, all that it needs at once or none.

The simple rule: place the role minimums, then as many of the other pods as fit, in the order of
roles; if fewer than `min_available` found a place undo everything. Zero-request pods are not placed
here and count as placed: backfill puts them anywhere.
"""

from collections.abc import Sequence
from dataclasses import replace

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.jobs.gangs import missing, placeable
from ganger.streams.kernel.jobs.waiting import FRESH
from ganger.streams.kernel.nodes.bars import bars_of
from ganger.streams.kernel.nodes.node_index import most_beside, pick_shared, pods_on
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.nodes.trial import Trial
from ganger.streams.kernel.nodes.windows import Bars
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards

_TOPOLOGY_TIER = Reason.TOPOLOGY_TIER
_EVERY = 1 << 31


def place_job(state: State, statement: Statement, job: Job, surplus: bool = True) -> Refusal | None:
    """Place what the job needs and what else fits, in `statement`. On refusal nothing is held.

    Without `surplus` only the smallest start is placed, or one pod of a job that has it.
    """
    shape = job.shape
    windows = state.indexes.windows
    if windows is not None:
        statement.bars = bars_of(state, windows, job, _start_ns(state, statement))
    is_plain = state.policy.is_plain
    # most jobs are one pod: the rest of this function comes to the same for them, in more steps
    if shape.is_single and is_plain and not state.queues[job.queue].is_capped:
        if _put_some(state, statement, job, 0, shape.shapes[0], 1):
            return None
        return Refusal(Reason.GANG_BELOW_MINIMUM, 1, 0, 1)
    if is_guided(state, job):
        return _place_guided(state, statement, job, surplus)
    needs: Sequence[int]
    if job.look == FRESH:
        needs, wanted = shape.fresh_needs, shape.fresh_total
    else:
        # a pod that is being released is missed, but cannot be placed before it is back
        pending = [_pending(job, role) for role in range(len(job.roles))]
        lacking, short = missing(job)
        needs = [min(need, most) for need, most in zip(lacking, pending, strict=True)]
        wanted = min(sum(needs) + short, sum(pending))
    refusal = _too_little(state, job, needs, wanted)
    if refusal is not None:
        return refusal
    order = role_order(state, job)
    placed = 0
    for role in order:
        if needs[role]:
            count, refusal = _put(state, statement, job, role, needs[role])
            placed += count
            if refusal is not None:
                return _refuse(statement, refusal, wanted, placed)
    limit = None
    spare = _EVERY if surplus else max(1, wanted) - placed
    for role in order:
        more = min(_pending(job, role) - needs[role], spare)
        if more > 0:
            count, refusal = _put(state, statement, job, role, more)
            placed += count
            spare -= count
            if refusal is not None:
                limit = refusal if limit is None else _either(state, job, limit, refusal)
    if placed < wanted:
        return _refuse(statement, limit, wanted, placed)
    return None if placed else limit


def _start_ns(state: State, statement: Statement) -> int:
    return statement.at_ns if statement.at_ns >= 0 else state.now_ns


def place_counts(state: State, statement: Statement, job: Job, counts: Sequence[int]) -> bool:
    """Place so many pods of each role of a job, whether or not they are pending; whether all found
    a place. Only for jobs that no rule guides.
    """
    windows = state.indexes.windows
    if windows is not None:
        statement.bars = bars_of(state, windows, job, _start_ns(state, statement))
    return all(
        not count or _put(state, statement, job, role, count)[0] == count
        for role, count in enumerate(counts)
    )


def is_guided(state: State, job: Job) -> bool:
    """Whether rules look at the nodes or pods of the job, or the pods at each other."""
    shape = job.shape
    return (
        not state.policy.is_plain
        or shape.is_guided
        or (shape.is_labelled and state.shapes.averse_count > 0)
    )


def _too_little(state: State, job: Job, needs: Sequence[int], wanted: int) -> Refusal | None:
    """A refusal where the nodes' free cards alone tell that the minimum of a role has no room."""
    for role, need in enumerate(needs):
        if need > 1:
            bound = state.indexes.nodes.room(job.shape.shapes[role], need)
            if bound < need:
                return Refusal(Reason.GANG_BELOW_MINIMUM, wanted, bound, wanted)
    return None


def role_order(state: State, job: Job) -> Sequence[int]:
    """Positions of the roles in the order in which their pods are placed."""
    roles = job.shape.roles
    hooks = state.policy.task_order
    if len(roles) == 1 or not (hooks or job.shape.is_ordered):
        return range(len(roles))

    def key(role: int) -> tuple[int, ...]:
        said = [part for hook in hooks for part in hook(state, job, role)]
        return (roles[role].order, *said, role)

    return sorted(range(len(roles)), key=key)


def _place_guided(state: State, statement: Statement, job: Job, surplus: bool) -> Refusal | None:
    """The same where rules look at nodes, or pods must be near each other or apart."""
    trial = _trial(state, statement, job)
    wanted = trial.lacks()
    refusal = _too_little(state, job, trial.needs(), wanted)
    if refusal is not None:
        return refusal
    if not trial.start():
        return _refuse(statement, trial.limit, wanted, 0)
    if surplus or not trial.placed():
        trial.grow(_EVERY if surplus else 1)
    if trial.placed():
        return None
    return _refuse(statement, trial.limit, 1, 0)


def place_empty(state: State, statement: Statement, job: Job, role: int, at_most: int) -> None:
    """Place zero-request pods of a role of a guided job, as far as rules allow."""
    windows = state.indexes.windows
    if windows is not None:
        statement.bars = bars_of(state, windows, job, _start_ns(state, statement))
    _trial(state, statement, job).join(role, at_most)


def _trial(state: State, statement: Statement, job: Job) -> Trial:
    def seat(role: int, shape: Shape, node: Node, at_most: int) -> int:
        return _seat(state, statement, role, shape, node, at_most)

    return Trial(state, statement, job, seat, role_order(state, job), statement.bars)


def _either(state: State, job: Job, first: Refusal, second: Refusal) -> Refusal:
    """One refusal for two roles: of two limits the upper one, to which those below give too."""
    if first.queue < 0 and second.queue < 0:
        return first
    levels = [level.index for level in state.queues[job.queue].chain]
    limits = [one for one in (first, second) if one.queue >= 0]
    upper = max(limits, key=lambda one: levels.index(one.queue))
    return replace(upper, lacks_room=len(limits) == 1 or first.lacks_room or second.lacks_room)


def _pending(job: Job, role: int) -> int:
    return 0 if job.shape.shapes[role].is_empty else placeable(job, role)


def _refuse(statement: Statement, refusal: Refusal | None, wanted: int, placed: int) -> Refusal:
    statement.discard()
    if refusal is not None and (refusal.queue >= 0 or refusal.reason is _TOPOLOGY_TIER):
        return refusal
    return Refusal(Reason.GANG_BELOW_MINIMUM, wanted, placed, wanted)


def _put(
    state: State, statement: Statement, job: Job, role: int, wanted: int
) -> tuple[int, Refusal | None]:
    """Place up to `wanted` pods of a role. Returns how many, and why not all."""
    shape = job.shape.shapes[role]
    queue = state.queues[job.queue]
    count, refusal = wanted, None
    if queue.is_capped:
        count, refusal = quota.headroom(queue, shape, wanted, statement.held())
    left = count
    while left:
        done = _put_some(state, statement, job, role, shape, left)
        if not done:
            return count - left, Refusal(Reason.GANG_BELOW_MINIMUM, wanted, count - left, wanted)
        left -= done
    return count, refusal


def find_node(state: State, job: Job, shape: Shape, bars: Bars | None) -> Node | None:
    """The node for one pod of a job, or none; nodes where it failed only where no other suits."""
    index = state.indexes.nodes
    spread = state.policy.spread
    node = index.seek(shape, job.avoid, spread, bars)
    if node is None and job.avoid and not index.has_other(shape, job.avoid):
        node = index.seek(shape, (), spread, bars)
    return node


def _put_some(
    state: State, statement: Statement, job: Job, role: int, shape: Shape, at_most: int
) -> int:
    """Place pods on the best node: as many as fit there, or one where pods are spread."""
    node = find_node(state, job, shape, statement.bars)
    if node is None:
        return 0
    return _seat(state, statement, role, shape, node, 1 if state.policy.spread else at_most)


def _seat(
    state: State, statement: Statement, role: int, shape: Shape, node: Node, at_most: int
) -> int:
    """Hold up to so many pods on a node that can hold one. Returns how many."""
    assert node.kind is not None
    mask = state.indexes.nodes.cards_for(shape, node.kind)
    bar = None if statement.bars is None else statement.bars.get(node.index)
    if bar is not None:
        mask &= ~bar.mask
        at_most = most_beside(node, shape, bar, at_most)
    if shape.card_milli:
        statement.hold_share(role, shape, node, pick_shared(node, shape, mask))
        return 1
    count = 1 if at_most == 1 else pods_on(node, shape, mask, at_most)
    if not shape.cards:
        statement.hold(role, shape, node, (0,) * count)
        return count
    free = node.free & mask
    islands = node.kind.islands
    masks = []
    for _ in range(count):
        chosen = choose_cards(free, shape.cards, islands, shape.same_island)
        free &= ~chosen
        masks.append(chosen)
    statement.hold(role, shape, node, tuple(masks))
    return count

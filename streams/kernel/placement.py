"""Finding nodes for the pods of one job, all that it needs at once or none.

The simple rule: place the role minimums, then as many of the other pods as fit, in the order of
roles; if fewer than `min_available` found a place undo everything. Zero-request pods are not placed
here and count as placed: backfill puts them anywhere.
"""

from collections.abc import Sequence
from dataclasses import replace

from ganger.schemas.reasons import Reason
from ganger.streams.kernel import quota
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.gangs import missing
from ganger.streams.kernel.node_index import pick_shared, pods_on
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import Refusal, State
from ganger.streams.kernel.statement import Statement
from ganger.streams.kernel.topology import choose_cards
from ganger.streams.kernel.waiting import FRESH


def place_job(state: State, statement: Statement, job: Job) -> Refusal | None:
    """Place what the job needs and what else fits, in `statement`. On refusal nothing is held."""
    # most jobs are one pod: the rest of this function comes to the same for them, in more steps
    if job.shape.is_single and not state.queues[job.queue].is_capped:
        if _put_some(state, statement, job, 0, job.shape.shapes[0], 1):
            return None
        return Refusal(Reason.GANG_BELOW_MINIMUM, 1, 0, 1)
    needs: Sequence[int]
    if job.look == FRESH:
        needs, wanted = job.shape.fresh_needs, job.shape.fresh_total
    else:
        # a pod that is being released is missed, but cannot be placed before it is back
        pending = [_pending(job, role) for role in range(len(job.roles))]
        lacking, short = missing(job)
        needs = [min(need, most) for need, most in zip(lacking, pending, strict=True)]
        wanted = min(sum(needs) + short, sum(pending))
    index = state.indexes.nodes
    for role, need in enumerate(needs):
        if need > 1:
            bound = index.room(job.shape.shapes[role], need)
            if bound < need:
                return Refusal(Reason.GANG_BELOW_MINIMUM, wanted, bound, wanted)
    placed = 0
    rest = []
    for role, need in enumerate(needs):
        rest.append(_pending(job, role) - need)
        if need:
            count, refusal = _put(state, statement, job, role, need)
            placed += count
            if refusal is not None:
                return _refuse(statement, refusal, wanted, placed)
    limit = None
    for role, more in enumerate(rest):
        if more > 0:
            count, refusal = _put(state, statement, job, role, more)
            placed += count
            if refusal is not None:
                limit = refusal if limit is None else _either(state, job, limit, refusal)
    if placed < wanted:
        assert limit is not None or not any(rest), job.request.job
        return _refuse(statement, limit, wanted, placed)
    return None if placed else limit


def _either(state: State, job: Job, first: Refusal, second: Refusal) -> Refusal:
    """One refusal for two roles: of two limits the upper one, to which those below give too."""
    if first.queue < 0 and second.queue < 0:
        return first
    levels = [level.index for level in state.queues[job.queue].chain]
    limits = [one for one in (first, second) if one.queue >= 0]
    upper = max(limits, key=lambda one: levels.index(one.queue))
    return replace(upper, lacks_room=len(limits) == 1 or first.lacks_room or second.lacks_room)


def _pending(job: Job, role: int) -> int:
    return 0 if job.shape.shapes[role].is_empty else job.roles[role].pending()


def _refuse(statement: Statement, refusal: Refusal | None, wanted: int, placed: int) -> Refusal:
    statement.discard()
    if refusal is not None and refusal.queue >= 0:
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


def find_node(state: State, job: Job, shape: Shape) -> Node | None:
    """The node for one pod of a job, or none; nodes where it failed only where no other suits."""
    index = state.indexes.nodes
    spread = state.policy.spread
    node = index.seek(shape, job.avoid, spread)
    if node is None and job.avoid and not index.has_other(shape, job.avoid):
        node = index.seek(shape, (), spread)
    return node


def _put_some(
    state: State, statement: Statement, job: Job, role: int, shape: Shape, at_most: int
) -> int:
    """Place pods on the best node: as many as fit there, or one where pods are spread."""
    index = state.indexes.nodes
    spread = state.policy.spread
    node = find_node(state, job, shape)
    if node is None:
        return 0
    assert node.kind is not None
    mask = index.cards_for(shape, node.kind)
    if shape.card_milli:
        statement.hold_share(role, shape, node, pick_shared(node, shape, mask))
        return 1
    count = 1 if spread or at_most == 1 else pods_on(node, shape, mask, at_most)
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

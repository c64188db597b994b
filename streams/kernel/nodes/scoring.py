"""Which node is best for a pod where rules say who may use a node and how good it is.

The obvious algorithm: of all open nodes on which the pod fits and that every predicate allows, take
the one with the highest sum of scores; among equals the one that placement takes where no rule has
a say (module `node_index`): shared cards with the least room, the fewest free cards, the class, the
tighter of cpu and memory, the lowest number. What departs from it: answers of rules that look at
the node alone are remembered per kind of pod and asked again only for nodes that have changed.
"""

from collections.abc import Callable, Mapping, Sequence

from ganger.schemas.parts import FlavorChoice
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.nodes.node_index import can_hold, least_room
from ganger.streams.kernel.nodes.ranking import Entry, Ranking, Rankings
from ganger.streams.kernel.resources import CARD_MILLI, Shape
from ganger.streams.kernel.state import NodeScore, Predicate, State

ENTRIES_MAX = 400_000
"""Nodes times kinds of pods that are remembered at once, some 250 bytes each; `KINDS_MIN` kinds
however many nodes there are.
"""

KINDS_MIN = 8

_MAY = Reason.UNKNOWN


def refused(state: State, job: Job, role: int, node: Node) -> Reason:
    """Why a predicate forbids a node to pods of a role; `Reason.UNKNOWN`: none does."""
    reason = _first_no(state.policy.predicate, state, job, role, node)
    return refused_now(state, job, role, node) if reason is _MAY else reason


def refused_now(state: State, job: Job, role: int, node: Node) -> Reason:
    """The same of those predicates alone that must be asked each time."""
    return _first_no(state.policy.predicate_now, state, job, role, node)


def score(state: State, job: Job, role: int, node: Node) -> int:
    """How good a node is for pods of a role, by all rules together, in millionths."""
    total = _sum(state.policy.node_order, state, job, role, node)
    return total + (score_now(state, job, role, node) if job.shape.is_guided else 0)


def score_now(state: State, job: Job, role: int, node: Node) -> int:
    """The part of it that looks at the job's other pods."""
    return _sum(state.policy.node_order_now, state, job, role, node)


def _first_no(
    hooks: tuple[Predicate, ...], state: State, job: Job, role: int, node: Node
) -> Reason:
    for hook in hooks:
        reason = hook(state, job, role, node)
        if reason is not _MAY:
            return reason
    return _MAY


def _sum(hooks: tuple[NodeScore, ...], state: State, job: Job, role: int, node: Node) -> int:
    total = 0
    for hook in hooks:
        total += hook(state, job, role, node)
    return total


def best(
    state: State,
    job: Job,
    role: int,
    among: Sequence[int] | None,
    passes: Callable[[int], bool] | None,
    bonus: Callable[[int], int] | None = None,
) -> Node | None:
    """The node for one pod of a role, or none.

    Args:
        state: The cell.
        job: The job.
        role: Position of the role.
        among: Nodes to choose from, by number; none: all.
        passes: What a node, by number, must satisfy too.
        bonus: What a node, by number, scores beside what rules say.
    """
    ranking = _ranking(state, job, role)
    is_asked = bool(state.policy.node_order_now) and job.shape.is_guided
    is_moving = is_asked or bonus is not None
    if among is None and not is_moving:
        found = ranking.first(passes)
        return None if found < 0 else state.nodes[found]
    entries = ranking.entries
    top: Entry | None = None
    for number in entries if among is None else among:
        entry = entries.get(number)
        if entry is None:
            continue
        if is_moving:
            more = 0 if bonus is None else bonus(number)
            if is_asked:
                more += score_now(state, job, role, state.nodes[number])
            entry = (entry[0] - more, *entry[1:])
        if (top is None or entry < top) and (passes is None or passes(number)):
            top = entry
    return None if top is None else state.nodes[top[-1]]


def suitable(state: State, job: Job, role: int) -> Mapping[int, Entry]:
    """The nodes, by number, on which one pod of a role fits and that no remembered rule forbids."""
    return _ranking(state, job, role).entries


def ranked(state: State, job: Job, role: int, nodes: Sequence[Node]) -> list[Node]:
    """Nodes that suit a pod of a role but perhaps lack room, the best first.

    Equal ones stand in the order given.
    """
    shape = job.shape.shapes[role]
    kinds = {kind.order: True for kind, _, _ in state.indexes.nodes.eligible(shape)}
    kept = [
        node
        for node in nodes
        if node.kind is not None
        and node.kind.order in kinds
        and refused(state, job, role, node) is _MAY
    ]
    return sorted(kept, key=lambda node: -score(state, job, role, node))


# ---- what is remembered --------------------------------------------------------------------------


def _ranking(state: State, job: Job, role: int) -> Ranking:
    """Nodes that suit a pod of a role now, in order."""
    indexes = state.indexes
    # queues and flavors change with `progress`; when a zone opens or closes all is forgotten
    stamp = (state.policy.digest, state.progress, indexes.queue_epoch)
    rankings = indexes.rankings
    changed = indexes.nodes.changed
    if (
        rankings is None
        or changed is None
        or rankings.stamp != stamp
        or len(rankings.kinds) > max(KINDS_MIN, ENTRIES_MAX // (len(state.nodes) + 1))
        or len(changed) > 1024 + 8 * len(state.nodes)
    ):
        rankings = indexes.rankings = Rankings()
        rankings.stamp = stamp
        changed = indexes.nodes.changed = []
    kind = _kind_of(state, job, role)
    ranking = rankings.kinds.get(kind)
    if ranking is None:
        ranking = rankings.kinds[kind] = Ranking()
    _refresh(state, job, role, ranking, changed)
    return ranking


def _kind_of(state: State, job: Job, role: int) -> tuple[object, ...]:
    """All of a pod that a remembered rule may look at."""
    spec = job.shape.roles[role]
    flavors: tuple[FlavorChoice, ...] = ()
    if job.flavors:
        flavors = tuple([choice for choice in job.flavors if choice.role == spec.name])
    queue = job.queue if state.policy.by_queue else -1
    return job.shape.shapes[role], spec.name, spec.labels, spec.revocable_zone, queue, flavors


def _refresh(state: State, job: Job, role: int, ranking: Ranking, changed: list[int]) -> None:
    """Take in what has changed since the ranking was last asked."""
    shape = job.shape.shapes[role]
    eligible = state.indexes.nodes.eligible(shape)
    fresh = len(changed) - ranking.seen
    if ranking.basis is eligible and fresh == 0:
        return
    ranks = {kind.order: (rank, mask) for rank, (kind, mask, _) in enumerate(eligible)}
    if ranking.basis is not eligible or fresh > len(state.nodes) // 2:
        entries = [_entry(state, job, role, shape, ranks, node) for node in state.nodes]
        ranking.fill([entry for entry in entries if entry is not None])
        ranking.basis = eligible
    else:
        for number in dict.fromkeys(changed[ranking.seen :]):
            node = state.nodes[number]
            ranking.put(number, _entry(state, job, role, shape, ranks, node))
    ranking.seen = len(changed)


def _entry(
    state: State,
    job: Job,
    role: int,
    shape: Shape,
    ranks: dict[tuple[object, ...], tuple[int, int]],
    node: Node,
) -> Entry | None:
    """The place of a node; none where one more pod does not fit or a rule forbids it."""
    if node.bucket is None or node.free_cpu < shape.cpu or node.free_memory < shape.memory:
        return None
    assert node.kind is not None
    found = ranks.get(node.kind.order)
    if found is None or not can_hold(node, shape, found[1]):
        return None
    policy = state.policy
    if policy.predicate and _first_no(policy.predicate, state, job, role, node) is not _MAY:
        return None
    total = _sum(policy.node_order, state, job, role, node) if policy.node_order else 0
    opened = least_room(node, shape, found[1]) if shape.card_milli else 0
    if 0 < opened < CARD_MILLI:
        return (-total, opened, node.index)
    number, free = node.index, node.free_count
    if policy.spread:
        turn = (-free, found[0], -node.free_cpu, -node.free_memory, -number, number)
    else:
        turn = (free, found[0], node.free_cpu, node.free_memory, number, number)
    return (-total, opened, *turn)

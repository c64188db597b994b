"""nodegroup: queues bound to groups of nodes. A label of the node names its group.

A group that the queue requires or prefers may be used; one that it must not use may not, unless it
is also one that it merely would not; one that it names nowhere may not. Points: 100 for a required
group, 50 more for a preferred one, in all 0 for a forbidden one and -1 for one to be avoided. A
queue that names no group may use no node, or, with `strict = no`, those without a group. With
`hierarchy = yes` such a queue takes the lists of the nearest queue above it that has any.

What a queue has on the nodes of a group is bounded by its `node_group_limits`, those of the queues
above it too.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument, QueueConfigured
from ganger.streams.kernel.entities import Job, Node, Queue
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.state import State

NAME = "nodegroup"
HOOKS = ("predicate", "node_order")

_POINT = 1_000_000
_REQUIRED, _PREFERRED, _AVOIDED = 100 * _POINT, 50 * _POINT, -_POINT


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`label`: its key, `node_group` unless said. `strict` and `hierarchy`: yes or no.
    `ordered_preference`: whether preferred groups that are named earlier are preferred more.
    """
    reader = Arguments(arguments, where)
    label = reader.name("label", "node_group")
    strict = reader.yes("strict", True)
    hierarchy = reader.yes("hierarchy", False)
    ordered = reader.yes("ordered_preference", False)
    reader.close()

    def wishes(state: State, job: Job) -> QueueConfigured | None:
        levels = state.queues[job.queue].chain
        for level in levels if hierarchy else levels[:1]:
            if _names_groups(level.config):
                return level.config
        return None

    def predicate(state: State, job: Job, role: int, node: Node) -> Reason:
        config, group = wishes(state, job), node.labels.get(label)
        if config is None:
            allowed = not strict and group is None
        else:
            allowed = group is not None and _may_use(config, group)
        return Reason.UNKNOWN if allowed else Reason.NODE_GROUP

    def bound(state: State, job: Job, role: int, node: Node) -> Reason:
        group = node.labels.get(label)
        if group is not None:
            for level in state.queues[job.queue].chain:
                for limit in level.config.node_group_limits:
                    if limit.group == group:
                        bounds = state.table.vector(limit.amounts)
                        if not _has_room(state, job, role, level, (label, group), bounds):
                            return Reason.NODE_GROUP_LIMIT
        return Reason.UNKNOWN

    def score(state: State, job: Job, role: int, node: Node) -> int:
        config, group = wishes(state, job), node.labels.get(label)
        if config is None or group is None:
            return 0
        return _points(config, group, ordered)

    return Hooks(predicate=predicate, predicate_now=bound, node_order=score, by_queue=True)


def _names_groups(config: QueueConfigured) -> bool:
    return bool(
        config.node_groups_required
        or config.node_groups_preferred
        or config.node_groups_anti_required
        or config.node_groups_anti_preferred
    )


def _may_use(config: QueueConfigured, group: str) -> bool:
    """Later lists overrule earlier ones: required or preferred, must not, would not."""
    if group in config.node_groups_anti_preferred:
        return True
    if group in config.node_groups_anti_required:
        return False
    return group in config.node_groups_required or group in config.node_groups_preferred


def _points(config: QueueConfigured, group: str, ordered: bool) -> int:
    """Millionths."""
    if group in config.node_groups_anti_preferred:
        return _AVOIDED
    if group in config.node_groups_anti_required:
        return 0
    points = _REQUIRED if group in config.node_groups_required else 0
    preferred = config.node_groups_preferred
    if group in preferred:
        behind = preferred.index(group) if ordered else 0
        points += _PREFERRED * (len(preferred) - behind) // len(preferred)
    return points


def _has_room(
    state: State,
    job: Job,
    role: int,
    level: Queue,
    label: tuple[str, str],
    bounds: dict[int, int],
) -> bool:
    """Whether a pod keeps what a queue has on the nodes of a group within bounds. O(its pods)."""
    held = dict.fromkeys(bounds, 0)
    for number in state.indexes.nodes.by_label.get(label, ()):
        for key, pod in state.nodes[number].pods.items():
            owner = state.queues[state.jobs[pod.job].queue]
            if key not in state.indexes.lifted and level in owner.chain:
                _add(held, pod.shape.charges, 1)
    for placed, node, count in state.indexes.placing:
        if node.labels.get(label[0]) == label[1]:
            _add(held, job.shape.shapes[placed].charges, count)
    _add(held, job.shape.shapes[role].charges, 1)
    asked = dict(job.shape.shapes[role].charges)
    return all(held[place] <= most for place, most in bounds.items() if asked.get(place, 0) > 0)


def _add(held: dict[int, int], charges: tuple[tuple[int, int], ...], count: int) -> None:
    for place, amount in charges:
        if place in held:
            held[place] += amount * count

"""task_topology: roles of a job that want to be together on a node, or apart, by their affinities.

Wishes for nodes in which a role names itself or other roles make its turn: roles that avoid
themselves first, then those that want others, then those that want themselves, then those that
avoid others, as in Volcano; of equals the one that wants more pods. A node scores by the pods there
that the role wants, less those that it avoids; all of them together would score 100 points.
"""

from ganger.schemas.records import Argument, Role
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "task_topology"
HOOKS = ("task_order", "node_order")

_FULL = 100_000_000
_NOTHING = 4
"""Rank of a role without wishes: the last."""


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`weight`: of the score."""
    weight = integers(arguments, where, {"weight": (1, 0, PRIORITY_MAX)})["weight"]

    def score(state: State, job: Job, role: int, node: Node) -> int:
        return _closeness(state, job, role, node) * weight

    return Hooks(task_order=_role_key, node_order_now=score)


def _role_key(state: State, job: Job, role: int) -> tuple[int, ...]:
    spec = job.shape.roles[role]
    rank = _NOTHING
    for wish in spec.affinities:
        for name in wish.roles:
            if wish.is_anti:
                rank = min(rank, 0 if name == spec.name else 3)
            else:
                rank = min(rank, 2 if name == spec.name else 1)
    return (rank, -sum(other.replicas for other in _mates(job, role)))


def _mates(job: Job, role: int) -> list[Role]:
    """Roles that a role wants on its node, itself aside."""
    spec = job.shape.roles[role]
    wanted = {name: True for wish in spec.affinities if not wish.is_anti for name in wish.roles}
    return [other for other in job.shape.roles if other.name in wanted and other is not spec]


def _closeness(state: State, job: Job, role: int, node: Node) -> int:
    """Millionths of a point."""
    spec = job.shape.roles[role]
    there = _pods_on(state, job, node)
    found = size = 0
    for wish in spec.affinities:
        if wish.tier:
            continue
        for position, other in enumerate(job.shape.roles):
            if other.name in wish.roles:
                size += other.replicas
                found += -there[position] if wish.is_anti else there[position]
    return _FULL * found // size if size else 0


def _pods_on(state: State, job: Job, node: Node) -> list[int]:
    """Pods of a job on a node, by role, those included that are being placed."""
    counts = [0] * len(job.roles)
    for pod in (job.pods or {}).values():
        if pod.node == node.index:
            counts[pod.index % len(counts)] += 1
    for role, placed, count in state.indexes.placing:
        if placed is node:
            counts[role] += count
    return counts

"""Where pods stand that the affinities of a job look at, and what follows for its nodes.

A required wish for others' company is met where such a pod is in the domain; the first of pods that
wish for their own kind may go anywhere. Required wishes to be apart bind both sides: a pod that
stands already keeps away those whose labels it does not want near.
"""

from ganger.schemas.enums import Tri
from ganger.schemas.parts import Affinity, Role
from ganger.streams.kernel.entities import Job, Node, Pod
from ganger.streams.kernel.nodes.domains import Path, around
from ganger.streams.kernel.state import State

Place = int | Path
"""A node by its number, or a domain by its path."""


class Census:
    """Counts of pods by place, for one job, over all nodes. O(pods) to make."""

    __slots__ = ("_barred", "_counts", "_job")

    def __init__(self, state: State, job: Job) -> None:
        """Attempts that a statement sees as gone are not counted."""
        self._job = job
        # by role of the job, then by its wish, pods that it looks at
        self._counts: list[list[dict[Place, int]]] = [
            [{} for _ in role.affinities] for role in job.shape.roles
        ]
        # by role of the job, pods that keep its pods away
        self._barred: list[dict[tuple[int, Place], int]] = [{} for _ in job.shape.roles]
        lifted = state.indexes.lifted
        for node in state.nodes:
            for key, pod in node.pods.items():
                if key not in lifted:
                    self._count_pod(state.jobs[pod.job], pod, node)

    def _count_pod(self, owner: Job, pod: Pod, node: Node) -> None:
        role = owner.shape.roles[pod.index % len(owner.shape.roles)]
        if role.labels or role.affinities or owner is self._job:
            self._count(owner, role, node, 1)

    def add(self, role: int, node: Node, count: int) -> None:
        """So many pods of a role of the job are placed on a node (negative: taken back)."""
        self._count(self._job, self._job.shape.roles[role], node, count)

    def _count(self, owner: Job, role: Role, node: Node, count: int) -> None:
        is_own = owner is self._job
        for position, mine in enumerate(self._job.shape.roles):
            counts = self._counts[position]
            for wish, places in zip(mine.affinities, counts, strict=True):
                if _looks_at(wish, owner, role, is_own):
                    place = place_of(node, wish.tier)
                    places[place] = places.get(place, 0) + count
            for wish in role.affinities:
                if wish.is_anti and wish.is_required and _is_kept_away(wish, mine, is_own):
                    key = (wish.tier, place_of(node, wish.tier))
                    barred = self._barred[position]
                    barred[key] = barred.get(key, 0) + count

    def allows(self, role: int, node: Node) -> bool:
        """Whether required wishes, its own and others', let one more pod of a role go to a node."""
        spec = self._job.shape.roles[role]
        for wish, places in zip(spec.affinities, self._counts[role], strict=True):
            if wish.is_required:
                count = places.get(place_of(node, wish.tier), 0)
                if wish.is_anti:
                    if count > 0:
                        return False
                elif count <= 0 and not self._is_first(wish, spec, places):
                    return False
        return not any(
            count > 0 and place_of(node, tier) == place
            for (tier, place), count in self._barred[role].items()
        )

    def _is_first(self, wish: Affinity, spec: Role, places: dict[Place, int]) -> bool:
        """Whether the pod wishes for its own kind, of which there is none yet."""
        is_own_kind = _looks_at(wish, self._job, spec, True)
        return is_own_kind and not any(count > 0 for count in places.values())

    def company(self, role: int, node: Node) -> tuple[int, int]:
        """Wishes of a role, required ones aside, that a node meets, less those that it goes
        against; and how many there are.
        """
        met = total = 0
        spec = self._job.shape.roles[role]
        for wish, places in zip(spec.affinities, self._counts[role], strict=True):
            if not wish.is_required:
                total += 1
                if places.get(place_of(node, wish.tier), 0) > 0:
                    met += -1 if wish.is_anti else 1
        return met, total


def place_of(node: Node, tier: int) -> Place:
    """The node itself for tier 0, else its domain of the tier."""
    return node.index if tier <= 0 else around(node.report.topology, tier)


def _looks_at(wish: Affinity, owner: Job, role: Role, is_own: bool) -> bool:
    """Whether a wish of the job is about pods of this role of a job, its own or another."""
    if wish.preemptable_only and Tri.NO in (role.preemptable, owner.request.preemptable):
        return False
    if is_own and role.name in wish.roles:
        return True
    return _bears(role, wish)


def _is_kept_away(wish: Affinity, mine: Role, is_own: bool) -> bool:
    """Whether the wish of a pod that stands is about pods of one of the job's own roles."""
    return (is_own and mine.name in wish.roles) or _bears(mine, wish)


def _bears(role: Role, wish: Affinity) -> bool:
    """Whether the role has all labels that the wish names, of which there is at least one."""
    return bool(wish.labels) and all(label in role.labels for label in wish.labels)

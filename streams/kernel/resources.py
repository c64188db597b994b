"""What pods ask, in the units the kernel counts: named ints for the resources all pods share, a
table of names for any other.

A *shape* is a request made ready for comparison, interned by value, so that look-alikes share one
object. A *job shape* is what placement needs to know of a whole job: its roles and minimums.
Shape objects hold no state of the cell but a count of the jobs that use them.
"""

from dataclasses import dataclass

from ganger.schemas.enums import IslandPolicy
from ganger.schemas.parts import Amount, PodRequest, Role

CARDS, CPU, MEMORY, PODS = 0, 1, 2, 3
NAMED = ("cards_milli", "cpu_milli", "memory_mib", "pods")
"""Resources with a fixed place in quantity vectors; others follow in order of first mention."""

SHARED = (CARDS, CPU, MEMORY)
"""Resources that shares are computed over."""

UNBOUND = 1 << 62
"""More than any quantity."""

CARD_MILLI = 1000
"""Thousandths of a whole card."""


Need = tuple[int, int, int]
"""Milli-cards, milli-cores, MiB."""


def names_defect(amounts: tuple[Amount, ...]) -> int:
    """How many amounts of a request or a report name a resource that has a field of its own, or
    one that another of them names too. 0: sound.
    """
    names = {amount.resource: True for amount in amounts if amount.resource not in NAMED}
    return len(amounts) - len(names)


class ResourceTable:
    """Names of the cell's resources and their places in quantity vectors. Only grows."""

    __slots__ = ("index", "names")

    def __init__(self, names: tuple[str, ...] = NAMED) -> None:
        self.names = list(names)
        self.index = {name: place for place, name in enumerate(names)}

    def place(self, name: str) -> int:
        """The place of a resource, given to it now if it has none."""
        place = self.index.get(name)
        if place is None:
            place = self.index[name] = len(self.names)
            self.names.append(name)
        return place

    def vector(self, amounts: tuple[Amount, ...]) -> dict[int, int]:
        """Amounts by place. The last of two amounts of one resource counts."""
        return {self.place(amount.resource): amount.count for amount in amounts}


class Shape:
    """One pod's request, ready for comparison. Interned: equal requests are one object."""

    __slots__ = (
        "card_memory",
        "card_milli",
        "cards",
        "cards_milli",
        "charges",
        "cpu",
        "extra",
        "is_empty",
        "is_plain",
        "memory",
        "request",
        "same_island",
        "users",
    )

    def __init__(self, request: PodRequest, table: ResourceTable) -> None:
        self.request = request
        self.cards = request.cards
        self.card_milli = request.card_milli if request.cards == 0 else 0
        self.card_memory = request.card_memory_mib if self.card_milli else 0
        self.cards_milli = request.cards * CARD_MILLI + self.card_milli
        self.cpu = request.cpu_milli
        self.memory = request.memory_mib
        self.same_island = request.island is IslandPolicy.SAME and request.cards > 1
        extra = {table.place(a.resource): a.count for a in request.resources if a.count > 0}
        self.extra = tuple(sorted(extra.items()))
        charges = [(CARDS, self.cards_milli), (CPU, self.cpu), (MEMORY, self.memory)]
        self.charges = tuple(
            (place, count) for place, count in (*charges, (PODS, 1), *self.extra) if count
        )
        self.is_empty = not (self.cards_milli or self.cpu or self.memory or self.extra)
        # plain: only cards, cpu and memory decide on a node of an eligible class
        self.is_plain = not (self.card_milli or self.same_island or self.extra or request.selectors)
        self.users = 0  # roles of job shapes that refer to it


@dataclass(slots=True, eq=False)
class JobShape:
    """Roles and minimums of a job. Interned: equal ones are one object."""

    key: tuple[tuple[Role, ...], int]  # what it is interned by
    roles: tuple[Role, ...]
    min_available: int  # pods of all roles that must run together
    shapes: tuple[Shape, ...]  # one per role
    min_charges: tuple[tuple[int, int], ...]  # demand of the minimum, by place
    pod_needs: tuple[Need, ...]  # what one pod of each role asks
    min_needs: tuple[Need, ...]  # what the smallest start asks in all: one entry
    all_empty: bool  # no pod asks for anything
    is_single: bool  # one role of one pod that asks for something
    has_empty: bool  # the pods of some role ask for nothing
    fresh_needs: tuple[int, ...]  # pods per role that a start must place, zero-request ones aside
    fresh_total: int  # pods that a start must place in all, these included
    users: int = 0  # jobs that refer to it


def minimum_counts(roles: tuple[Role, ...], min_available: int) -> tuple[int, ...]:
    """Pods per role that together are the smallest start: role minimums, then the smallest pods."""
    counts = [role.min_available for role in roles]
    short = min_available - sum(counts)
    for position in sorted(range(len(roles)), key=lambda position: _size(roles[position])):
        if short <= 0:
            break
        role = roles[position]
        more = min(short, role.replicas - counts[position])
        counts[position] += more
        short -= more
    return tuple(counts)


def _size(role: Role) -> Need:
    request = role.request
    cards = request.cards * CARD_MILLI + (0 if request.cards else request.card_milli)
    return cards, request.cpu_milli, request.memory_mib


class ShapeTable:
    """Interns shapes and job shapes by value. What no job uses any more is dropped."""

    __slots__ = ("jobs", "pods", "table")

    def __init__(self, table: ResourceTable) -> None:
        self.table = table
        self.pods: dict[PodRequest, Shape] = {}
        self.jobs: dict[tuple[tuple[Role, ...], int], JobShape] = {}

    def pod(self, request: PodRequest) -> Shape:
        """The shape of a request."""
        shape = self.pods.get(request)
        if shape is None:
            shape = self.pods[request] = Shape(request, self.table)
        return shape

    def knows(self, roles: tuple[Role, ...], min_available: int) -> bool:
        """Whether a job has this shape already."""
        return (roles, min_available) in self.jobs

    def take(self, roles: tuple[Role, ...], min_available: int) -> JobShape:
        """The shape of a job, counted as used once more."""
        key = (roles, min_available)
        job_shape = self.jobs.get(key)
        if job_shape is None:
            job_shape = self.jobs[key] = self._make(roles, min_available)
        job_shape.users += 1
        return job_shape

    def drop(self, job_shape: JobShape) -> None:
        """One job fewer uses the shape."""
        job_shape.users -= 1
        assert job_shape.users >= 0, job_shape
        if job_shape.users == 0:
            del self.jobs[job_shape.key]
            for shape in job_shape.shapes:
                shape.users -= 1
                if shape.users == 0:
                    del self.pods[shape.request]

    def _make(self, roles: tuple[Role, ...], min_available: int) -> JobShape:
        shapes = tuple([self.pod(role.request) for role in roles])
        for shape in shapes:
            shape.users += 1
        charges: dict[int, int] = {}
        for shape, count in zip(shapes, minimum_counts(roles, min_available), strict=True):
            for place, amount in shape.charges:
                charges[place] = charges.get(place, 0) + amount * count
        pairs = list(zip(shapes, roles, strict=True))
        needs = tuple(0 if shape.is_empty else role.min_available for shape, role in pairs)
        free = sum(role.replicas for shape, role in pairs if shape.is_empty)
        least = max(min_available, sum(role.min_available for role in roles))
        return JobShape(
            key=(roles, min_available),
            roles=roles,
            min_available=least,
            shapes=shapes,
            min_charges=tuple(sorted((p, n) for p, n in charges.items() if n)),
            pod_needs=tuple((s.cards_milli, s.cpu, s.memory) for s in shapes),
            min_needs=((charges.get(CARDS, 0), charges.get(CPU, 0), charges.get(MEMORY, 0)),),
            all_empty=all(shape.is_empty for shape in shapes),
            is_single=len(roles) == 1 and roles[0].replicas == 1 and not shapes[0].is_empty,
            has_empty=any(shape.is_empty for shape in shapes),
            fresh_needs=needs,
            fresh_total=max(sum(needs), least - free),
        )

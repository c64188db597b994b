"""What pods ask, in the units the kernel counts: named ints for the resources all pods share, a
table of names for any other.

A *shape* is a request made ready for comparison, interned by value, so that look-alikes share one
object. A *job shape* is what placement needs to know of a whole job: its roles and minimums.
Shape objects hold no state of the cell but a count of the jobs that use them.
"""

from dataclasses import dataclass

from ganger.schemas.enums import IslandPolicy
from ganger.schemas.parts import Amount, PodGroup, PodRequest, Role, Topology

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
        "is_bare",
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
        self.is_bare = not (self.cpu or self.memory or self.extra)  # it asks for nothing but cards
        self.is_empty = not (self.cards_milli or self.cpu or self.memory or self.extra)
        # plain: only cards, cpu and memory decide on a node of an eligible class
        self.is_plain = not (self.card_milli or self.same_island or self.extra or request.selectors)
        self.users = 0  # roles of job shapes that refer to it


def rest_of(shape: Shape) -> Shape:
    """What a pod of the shape still holds while it is suspended: memory of its host, and a slot."""
    memory = PodRequest(0, 0, 0, 0, (), IslandPolicy.ANY, 0, shape.memory, (), (), ())
    return Shape(memory, ResourceTable())


@dataclass(frozen=True, slots=True)
class Bonds:
    """What holds roles of a job together beside its minimums, and what it asks to be admitted where
    that is not its minimum.
    """

    groups: tuple[PodGroup, ...]
    topology: Topology | None
    asks: tuple[Amount, ...] | None = None


def bonds_of(
    groups: tuple[PodGroup, ...],
    topology: Topology | None,
    asks: tuple[Amount, ...] | None = None,
) -> Bonds | None:
    """The bonds of a submission; none where it has none of these."""
    if groups or topology is not None or asks is not None:
        return Bonds(groups, topology, asks)
    return None


@dataclass(frozen=True, slots=True)
class Unit:
    """Roles that start together in one place: a pod group, or the whole job, which comes last.

    Units inside another come before it.
    """

    name: str  # empty: the job
    roles: tuple[int, ...]  # positions of its own roles, those of units inside it aside
    members: tuple[int, ...]  # positions of all roles in it
    inner: tuple[int, ...]  # positions of the units directly inside it
    min_available: int
    topology: Topology | None


@dataclass(slots=True, eq=False)
class JobShape:
    """Roles and minimums of a job. Interned: equal ones are one object."""

    key: tuple[tuple[Role, ...], int]  # what it is interned by, with `bonds`
    roles: tuple[Role, ...]
    min_available: int  # pods of all roles that must run together
    shapes: tuple[Shape, ...]  # one per role
    min_charges: tuple[tuple[int, int], ...]  # demand of the minimum, by place
    pod_needs: tuple[Need, ...]  # what one pod of each role asks
    min_needs: tuple[Need, ...]  # what the smallest start asks in all: one entry
    all_empty: bool  # no pod asks for anything
    is_single: bool  # one role of one pod that asks for something, and is not guided
    has_empty: bool  # the pods of some role ask for nothing
    fresh_needs: tuple[int, ...]  # pods per role that a start must place, zero-request ones aside
    fresh_total: int  # pods that a start must place in all, these included
    bonds: Bonds | None = None
    units: tuple[Unit, ...] = ()  # its groups, inner ones first, and the job as the last
    is_guided: bool = False  # some pods must, or should, be near others or apart
    is_ordered: bool = False  # some roles start before others
    is_elastic: bool = False  # it may have more pods than its start must have
    is_labelled: bool = False  # other jobs' pods may have to keep away from its own
    users: int = 0  # jobs that refer to it


def units_of(roles: tuple[Role, ...], min_available: int, bonds: Bonds | None) -> tuple[Unit, ...]:
    """Groups of a job, inner ones first, and the job as the last. A role or group that names no
    group of the job belongs to the job itself.
    """
    groups = bonds.groups if bonds is not None else ()
    places = {group.name: place for place, group in enumerate(groups)}
    inner: list[list[int]] = [[] for _ in range(len(groups) + 1)]  # by group; the job is the last
    own: list[list[int]] = [[] for _ in range(len(groups) + 1)]
    for place, group in enumerate(groups):
        inner[places.get(group.parent, len(groups))].append(place)
    for position, role in enumerate(roles):
        own[places.get(role.group, len(groups))].append(position)
    units: list[Unit] = []

    def add(place: int) -> int:
        below = tuple([add(child) for child in inner[place]])
        members = own[place] + [member for child in below for member in units[child].members]
        if place < len(groups):
            name, least = groups[place].name, groups[place].min_available
            topology = groups[place].topology
        else:
            name, least = "", min_available
            topology = bonds.topology if bonds is not None else None
        units.append(Unit(name, tuple(own[place]), tuple(members), below, least, topology))
        return len(units) - 1

    add(len(groups))
    return tuple(units)


def minimum_counts(
    roles: tuple[Role, ...], min_available: int, units: tuple[Unit, ...] = ()
) -> tuple[int, ...]:
    """Pods per role that together are the smallest start: role minimums, then those of groups,
    inner ones first, then the job's; each is filled with the smallest pods.
    """
    counts = [role.min_available for role in roles]
    by_size = sorted(range(len(roles)), key=lambda position: _size(roles[position]))
    for unit in units[:-1]:
        _fill(counts, roles, [p for p in by_size if p in unit.members], unit.min_available)
    _fill(counts, roles, by_size, min_available)
    return tuple(counts)


def _fill(counts: list[int], roles: tuple[Role, ...], members: list[int], least: int) -> None:
    """Raise the counts of roles, in the order given, until they are `least` together."""
    short = least - sum(counts[position] for position in members)
    for position in members:
        if short <= 0:
            break
        more = min(short, roles[position].replicas - counts[position])
        counts[position] += more
        short -= more


def _size(role: Role) -> Need:
    request = role.request
    cards = request.cards * CARD_MILLI + (0 if request.cards else request.card_milli)
    return cards, request.cpu_milli, request.memory_mib


FORMER_MAX = 1024
"""Job shapes that are remembered after their last job: most come again, and cost as much to make
as a job to start.
"""


class ShapeTable:
    """Interns shapes and job shapes by value. What no job uses any more is dropped in the end."""

    __slots__ = ("_former", "averse_count", "guided_count", "jobs", "pods", "table")

    def __init__(self, table: ResourceTable) -> None:
        self.table = table
        self.pods: dict[PodRequest, Shape] = {}
        # those with bonds by what they are made of and these, others by it alone
        self.jobs: dict[tuple[object, ...], JobShape] = {}
        self._former: dict[tuple[object, ...], JobShape] = {}  # that no job uses now
        self.guided_count = 0  # job shapes that are guided
        self.averse_count = 0  # those with pods that keep others away by their labels

    def pod(self, request: PodRequest) -> Shape:
        """The shape of a request."""
        shape = self.pods.get(request)
        if shape is None:
            shape = self.pods[request] = Shape(request, self.table)
        return shape

    def knows(
        self, roles: tuple[Role, ...], min_available: int, bonds: Bonds | None = None
    ) -> bool:
        """Whether a job has this shape already, or had it not long ago."""
        key = _key_of((roles, min_available), bonds)
        return key in self.jobs or key in self._former

    def take(
        self, roles: tuple[Role, ...], min_available: int, bonds: Bonds | None = None
    ) -> JobShape:
        """The shape of a job, counted as used once more."""
        key = _key_of((roles, min_available), bonds)
        job_shape = self.jobs.get(key)
        if job_shape is None:
            job_shape = self._again(key) or self._make(roles, min_available, bonds)
            self.jobs[key] = job_shape
            self.guided_count += job_shape.is_guided
            self.averse_count += _is_averse(roles)
        job_shape.users += 1
        return job_shape

    def drop(self, job_shape: JobShape) -> None:
        """One job fewer uses the shape."""
        job_shape.users -= 1
        assert job_shape.users >= 0, job_shape
        if job_shape.users == 0:
            key = _key_of(job_shape.key, job_shape.bonds)
            if len(self._former) >= FORMER_MAX:
                self._former.clear()
            self._former[key] = self.jobs.pop(key)
            self.guided_count -= job_shape.is_guided
            self.averse_count -= _is_averse(job_shape.roles)
            for shape in job_shape.shapes:
                shape.users -= 1
                if shape.users == 0:
                    del self.pods[shape.request]

    def _again(self, key: tuple[object, ...]) -> JobShape | None:
        """The shape that jobs had before, if its pods' shapes are not others by now."""
        job_shape = self._former.pop(key, None)
        if job_shape is None:
            return None
        for shape in job_shape.shapes:
            if self.pods.get(shape.request, shape) is not shape:
                return None
        for shape in job_shape.shapes:
            self.pods[shape.request] = shape
            shape.users += 1
        return job_shape

    def _make(self, roles: tuple[Role, ...], min_available: int, bonds: Bonds | None) -> JobShape:
        shapes = tuple([self.pod(role.request) for role in roles])
        for shape in shapes:
            shape.users += 1
        charges: dict[int, int] = {}
        units = units_of(roles, min_available, bonds)
        counts = minimum_counts(roles, min_available, units)
        for shape, count in zip(shapes, counts, strict=True):
            for place, amount in shape.charges:
                charges[place] = charges.get(place, 0) + amount * count
        if bonds is not None and bonds.asks is not None:
            charges = self.table.vector(bonds.asks)
        pairs = list(zip(shapes, roles, strict=True))
        needs = tuple(0 if shape.is_empty else role.min_available for shape, role in pairs)
        free = sum(role.replicas for shape, role in pairs if shape.is_empty)
        least = max(min_available, sum(counts))
        is_bound = bonds is not None and (bonds.groups or bonds.topology is not None)
        is_guided = bool(is_bound) or any(role.affinities for role in roles)
        is_labelled = any(role.labels for role in roles)
        return JobShape(
            key=(roles, min_available),
            roles=roles,
            min_available=least,
            shapes=shapes,
            min_charges=tuple(sorted((p, n) for p, n in charges.items() if n)),
            pod_needs=tuple((s.cards_milli, s.cpu, s.memory) for s in shapes),
            min_needs=((charges.get(CARDS, 0), charges.get(CPU, 0), charges.get(MEMORY, 0)),),
            all_empty=all(shape.is_empty for shape in shapes),
            is_single=_is_one_pod(roles) and not (shapes[0].is_empty or is_guided or is_labelled),
            has_empty=any(shape.is_empty for shape in shapes),
            fresh_needs=needs,
            fresh_total=max(sum(needs), least - free),
            bonds=bonds,
            units=units,
            is_guided=is_guided,
            is_elastic=sum(role.replicas for role in roles) > least,
            is_ordered=any(role.order for role in roles),
            is_labelled=is_labelled,
        )


def _key_of(key: tuple[tuple[Role, ...], int], bonds: Bonds | None) -> tuple[object, ...]:
    return key if bonds is None else (*key, bonds)


def _is_one_pod(roles: tuple[Role, ...]) -> bool:
    return len(roles) == 1 and roles[0].replicas == 1


def _is_averse(roles: tuple[Role, ...]) -> bool:
    """Whether pods of the roles keep other jobs' pods away."""
    return any(
        wish.is_anti and wish.is_required and wish.labels
        for role in roles
        for wish in role.affinities
    )

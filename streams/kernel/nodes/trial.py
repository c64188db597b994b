"""One try at placing a job where rules look at nodes, or where its pods must be near each other or
apart.

Units start inside out: each group of roles in a domain of its own wish, if it has one, inside that
of the group around it. For a start the narrowest domains are tried first and, of equal tiers, the
one that the rules score best, then the one that has least room to spare; inside a domain pods are
gathered in as few of the domains within it as can be. What a job has already binds what it gets:
pods that follow go where those before them are, then outward as far as its wish allows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ganger.schemas.parts import Topology
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.jobs.gangs import is_leaving, placeable, standing
from ganger.streams.kernel.nodes import scoring
from ganger.streams.kernel.nodes.affinity import Census
from ganger.streams.kernel.nodes.domains import Domain, Path, Tree, common, tree_of
from ganger.streams.kernel.nodes.node_index import most_beside, pods_on, suits
from ganger.streams.kernel.nodes.windows import Bars
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import Shape, Unit
from ganger.streams.kernel.state import State

_MAY = Reason.UNKNOWN
_EVERY = 1 << 31

_COMPANY = 200_000_000
"""Millionths of a point for a node that meets all wishes of a role which are not required: 100
points with the weight that Volcano gives the affinity of pods.
"""


class Tentative(Protocol):
    """What is held for the job so far, and can be undone."""

    def held(self) -> dict[int, int]:
        """What its pods ask, by resource place."""

    def checkpoint(self) -> int:
        """A mark to roll back to."""

    def rollback(self, mark: int) -> None:
        """Undo what was done since the mark."""


Seat = Callable[[int, Shape, Node, int], int]
"""Holds up to so many pods of a role on a node, and returns how many."""

Mark = tuple[int, int]


class Trial:
    """Places the pods of one job. `limit`: what stopped it, if it was more than a lack of room."""

    __slots__ = (
        "_bars",
        "_census",
        "_fits",
        "_homes",
        "_is_batched",
        "_left",
        "_near",
        "_order",
        "_pods",
        "_seat",
        "_standing",
        "_statement",
        "_tree",
        "job",
        "limit",
        "state",
    )

    def __init__(
        self,
        state: State,
        statement: Tentative,
        job: Job,
        seat: Seat,
        order: Sequence[int],
        bars: Bars | None,
    ) -> None:
        """`order`: of roles; `bars`: what must be left alone."""
        shape = job.shape
        self.state = state
        self.job = job
        self.limit: Refusal | None = None
        self._statement = statement
        self._seat = seat
        self._order = order
        self._bars = bars
        self._standing = standing(job)
        self._left = [
            0 if one.is_empty else placeable(job, role) for role, one in enumerate(shape.shapes)
        ]
        policy = state.policy
        self._is_batched = not (
            policy.spread or policy.predicate or policy.predicate_now or policy.node_order
        )
        self._tree: Tree | None = None
        if any(_wishes(unit.topology) for unit in shape.units):
            self._tree = domains_of(state)
        self._census: Census | None = None
        if any(role.affinities for role in shape.roles) or (
            shape.is_labelled and state.shapes.averse_count
        ):
            self._census = Census(state, job)
            self._is_batched = False
        self._homes: dict[int, Domain | None] = {}  # where units start, by position
        self._fits: list[dict[int, int]] = [{} for _ in job.roles]  # pods that fit, by node
        self._near: dict[Path, int] = {}  # pods of the job by the domains that they are in
        # of those that leave nothing follows for where the others go
        self._pods = [pod for pod in (job.pods or {}).values() if not is_leaving(pod)]
        if self._tree is not None:
            for pod in self._pods:
                self._count_near(state.nodes[pod.node], 1)
        state.indexes.placing = []

    # ---- the start ----------------------------------------------------------------------------

    def start(self) -> bool:
        """Place what the job lacks for its minimums. False: it cannot be had now."""
        cell = None if self._tree is None else self._tree.cell
        return self._start(len(self.job.shape.units) - 1, cell)

    def placed(self) -> int:
        """Pods that have a place."""
        return sum(count for _, _, count in self.state.indexes.placing)

    def lacks(self) -> int:
        """Pods that the job lacks for its minimums, all units together."""
        return self._lacks(self.job.shape.units[-1])

    def needs(self) -> list[int]:
        """Pods that each role lacks for its own minimum."""
        return [self._need(role) for role in range(len(self.job.roles))]

    def _lacks(self, unit: Unit) -> int:
        """Pods that a unit lacks for its minimums and those of units inside it."""
        units = self.job.shape.units
        own = sum(self._need(role) for role in unit.roles)
        inner = sum(self._lacks(units[place]) for place in unit.inner)
        return max(own + inner, self._short_of(unit))

    def _need(self, role: int) -> int:
        """What a role lacks: a pod that leaves is missed, but cannot be placed yet."""
        short = self.job.shape.roles[role].min_available - self._standing[role]
        return max(0, min(short, self._left[role]))

    def _short_of(self, unit: Unit) -> int:
        """The same of a unit's own minimum."""
        short = unit.min_available - sum([self._standing[role] for role in unit.members])
        return max(0, min(short, sum([self._left[role] for role in unit.members])))

    def _start(self, place: int, region: Domain | None) -> bool:
        unit = self.job.shape.units[place]
        for domain in self._choices(unit, region):
            mark = self._mark()
            self._homes[place] = domain
            if self._fill(unit, domain):
                return True
            self._undo(mark)
        return False

    def _fill(self, unit: Unit, domain: Domain | None) -> bool:
        """Place what a unit lacks in one domain."""
        for place in unit.inner:
            if not self._start(place, domain):
                return False
        wants = {role: need for role in unit.roles if (need := self._need(role))}
        needed = sum(wants.values())
        if needed and self._gather(domain, wants, needed) < needed:
            return False
        short = self._short_of(unit)
        for owner, roles in self._by_owner(unit):
            if short <= 0:
                break
            short -= self._gather(_inner(self._reach(owner), domain), self._wants(roles), short)
        return short <= 0

    def _by_owner(self, unit: Unit) -> Iterator[tuple[int, list[int]]]:
        """The roles of a unit by the units, inner ones too, that they directly belong to."""
        owners: dict[int, list[int]] = {}
        for role in self._order:
            if role in unit.members:
                owners.setdefault(self._owner(role), []).append(role)
        yield from owners.items()

    def _owner(self, role: int) -> int:
        units = self.job.shape.units
        return next(place for place, unit in enumerate(units) if role in unit.roles)

    def _wants(self, roles: list[int]) -> dict[int, int]:
        return {role: self._left[role] for role in roles if self._left[role]}

    # ---- the rest -----------------------------------------------------------------------------

    def grow(self, at_most: int) -> int:
        """Place pods beyond the minimums. Returns how many."""
        placed = 0
        for owner, roles in self._by_owner(self.job.shape.units[-1]):
            if placed < at_most:
                wants = self._wants(roles)
                placed += self._gather(self._reach(owner), wants, at_most - placed)
        return placed

    def join(self, role: int, at_most: int) -> int:
        """Place pods of a role that asks for nothing, where the job is; nowhere before it is, if it
        must be near itself. Returns how many.
        """
        shape = self.job.shape
        if any(unit.topology and unit.topology.required_tier for unit in shape.units):
            if not self._pods and not shape.all_empty:
                return 0
        self._left[role] = at_most
        place: int | None = self._owner(role)
        chain = []
        while place is not None:
            chain.append(place)
            place = self._around(place)
        reach = None if self._tree is None else self._tree.cell
        for place in reversed(chain):
            choices = self._choices(shape.units[place], reach)
            if not choices:
                return 0
            self._homes[place] = choices[0]
            reach = self._reach(place)
        return self._gather(reach, {role: at_most}, at_most)

    def _around(self, place: int) -> int | None:
        """The unit around a unit; none around the job."""
        units = self.job.shape.units
        return next((p for p, unit in enumerate(units) if place in unit.inner), None)

    def _reach(self, place: int) -> Domain | None:
        """How far pods of a unit may be from those that it has."""
        if self._tree is None:
            return None
        units = self.job.shape.units
        around = self._around(place)
        reach = self._tree.cell if around is None else self._reach(around)
        home = self._homes.get(place)
        topology = units[place].topology
        if home is None or topology is None or not topology.required_tier:
            return reach
        assert reach is not None
        path = home.path
        while len(path) > len(reach.path):
            if self._tree.by_path[path[:-1]].tier > topology.required_tier:
                break
            path = path[:-1]
        return self._tree.by_path[path]

    # ---- domains ------------------------------------------------------------------------------

    def _choices(self, unit: Unit, region: Domain | None) -> list[Domain | None]:
        """Domains inside a region in which a unit may start, in the order of trying."""
        topology = unit.topology
        if region is None or topology is None or not _wishes(topology):
            return [region]
        tree = self._tree
        assert tree is not None
        tier = topology.required_tier or topology.preferred_tier
        has = [
            self.state.nodes[pod.node].report.topology
            for pod in self._pods
            if pod.index % len(self.job.roles) in unit.members
        ]
        lacks = self._lacks(unit)
        most = 0
        choices: list[Domain | None] = []
        if has:
            path = common(has)
            for length in range(len(path), len(region.path) - 1, -1):
                domain = tree.by_path[path[:length]]
                if domain.tier <= tier and _is_inside(domain, region):
                    choices.append(domain)
        else:
            wants = {role: self._left[role] for role in unit.members if self._left[role]}
            found = []
            for domain in tree.order:
                if domain.tier <= tier and _is_inside(domain, region):
                    room = self._room(domain, wants)
                    most = max(most, room)
                    if room >= lacks:
                        key = (domain.tier, -self._score(domain), room, domain.path)
                        found.append((key, domain))
            choices += [domain for _, domain in sorted(found, key=lambda one: one[0])]
        if not topology.required_tier:
            choices.append(region)
        elif not choices:
            self.limit = Refusal(Reason.TOPOLOGY_TIER, lacks, most, tier)
        return choices

    def _score(self, domain: Domain) -> int:
        hooks = self.state.policy.domain_order
        return sum(hook(self.state, self.job, domain.path) for hook in hooks)

    def _room(self, domain: Domain, wants: dict[int, int]) -> int:
        """A bound on the pods wanted that a domain holds, each role on its own."""
        total = 0
        for role, count in wants.items():
            fits = self._fits[role]
            suitable = scoring.suitable(self.state, self.job, role)
            room = 0
            for number in domain.nodes:
                if number not in suitable:
                    continue
                fit = fits.get(number)
                if fit is None:
                    fit = fits[number] = self._fit(role, number)
                room += fit
                if room >= count:
                    room = count
                    break
            total += room
        return total

    def _fit(self, role: int, number: int) -> int:
        """Pods of a role that fit on a node, as far as one allows to tell of the next."""
        if not self._passes(role, number):
            return 0
        node = self.state.nodes[number]
        shape = self.job.shape.shapes[role]
        assert node.kind is not None
        mask = self.state.indexes.nodes.cards_for(shape, node.kind)
        most = max(1, self._left[role])
        bar = None if self._bars is None else self._bars.get(number)
        if bar is not None:
            mask &= ~bar.mask
            most = most_beside(node, shape, bar, most)
        return pods_on(node, shape, mask, most)

    def _gather(self, domain: Domain | None, wants: dict[int, int], budget: int) -> int:
        """Place up to `budget` of the pods wanted, close together. Returns how many."""
        if domain is None or not domain.inner:
            return self._put_all(wants, None if domain is None else domain.nodes, budget)
        goals = {role: self._left[role] - count for role, count in wants.items()}
        placed = 0
        rest = list(domain.inner)
        while rest and placed < budget:
            child = self._next(rest, self._short(goals), budget - placed)
            if child is None:
                break
            rest.remove(child)
            placed += self._gather(child, self._short(goals), budget - placed)
        if placed < budget and domain.own:
            placed += self._put_all(self._short(goals), domain.own, budget - placed)
        return placed

    def _short(self, goals: dict[int, int]) -> dict[int, int]:
        """Pods still wanted per role; `goals`: how many are to be left to place then."""
        return {
            role: self._left[role] - goal for role, goal in goals.items() if self._left[role] > goal
        }

    def _next(self, rest: list[Domain], wants: dict[int, int], budget: int) -> Domain | None:
        """Of domains the one to go on in: where the job is already, that holds all that is left,
        by score, with least room to spare; where none holds all, with most room.
        """
        goal = min(budget, sum(wants.values()))
        top: tuple[tuple[bool, bool, int, int, Path], Domain] | None = None
        for domain in rest:
            room = self._room(domain, dict.fromkeys(wants, _EVERY))
            if room <= 0:
                continue
            holds = min(self._room(domain, wants), budget) >= goal
            near = self._near.get(domain.path, 0) > 0
            spare = room if holds else -room
            key = (not near, not holds, -self._score(domain), spare, domain.path)
            if top is None or key < top[0]:
                top = (key, domain)
        return None if top is None else top[1]

    # ---- pods ---------------------------------------------------------------------------------

    def _put_all(self, wants: dict[int, int], among: list[int] | None, budget: int) -> int:
        placed = 0
        for role in self._order:
            if wants.get(role, 0) > 0 and placed < budget:
                placed += self._put(role, min(wants[role], budget - placed), among)
        return placed

    def _put(self, role: int, wanted: int, among: list[int] | None) -> int:
        """Place up to so many pods of a role on some of the nodes. Returns how many."""
        count, refusal = self._allowed(role, wanted)
        if refusal is not None:
            self.limit = refusal
        shape = self.job.shape.shapes[role]
        left = count
        while left:
            node = self._node(role, among)
            if node is None:
                break
            done = self._seat(role, shape, node, left if self._is_batched else 1)
            self._note(role, node, done)
            left -= done
        return count - left

    def _allowed(self, role: int, wanted: int) -> tuple[int, Refusal | None]:
        """How many pods of a role the queue may have now, and what stops the next one."""
        state, job = self.state, self.job
        if not (state.queues[job.queue].is_capped or state.policy.allocatable):
            return wanted, None
        return quota.allowed(state, job, job.shape.shapes[role], wanted, self._statement.held())

    def _node(self, role: int, among: list[int] | None) -> Node | None:
        state, job = self.state, self.job
        bonus = None
        if any(not wish.is_required for wish in job.shape.roles[role].affinities):
            bonus = lambda number: self._company(role, number)  # noqa: E731 - a closure, no name
        check = None
        if (
            job.avoid
            or self._census is not None
            or self._bars is not None
            or state.policy.predicate_now
        ):
            check = lambda number: self._passes(role, number)  # noqa: E731 - a closure, no name
        node = scoring.best(state, job, role, among, check, bonus)
        if node is None and job.avoid:
            if not state.indexes.nodes.has_other(job.shape.shapes[role], job.avoid):
                check = lambda number: self._is_allowed(role, number)  # noqa: E731
                node = scoring.best(state, job, role, among, check, bonus)
        return node

    def _company(self, role: int, number: int) -> int:
        """What a node scores by the wishes of a role that are not required."""
        assert self._census is not None
        met, total = self._census.company(role, self.state.nodes[number])
        return _COMPANY * met // total

    def _passes(self, role: int, number: int) -> bool:
        return number not in self.job.avoid and self._is_allowed(role, number)

    def _is_allowed(self, role: int, number: int) -> bool:
        node = self.state.nodes[number]
        if self._census is not None and not self._census.allows(role, node):
            return False
        if self._bars is not None and number in self._bars:
            shape = self.job.shape.shapes[role]
            assert node.kind is not None
            mask = self.state.indexes.nodes.cards_for(shape, node.kind)
            if not suits(node, shape, mask, self._bars):
                return False
        return scoring.refused_now(self.state, self.job, role, node) is _MAY

    # ---- what is remembered of it -------------------------------------------------------------

    def _note(self, role: int, node: Node, count: int) -> None:
        """So many pods (negative: fewer again) have a place on a node."""
        self._left[role] -= count
        self._standing[role] += count
        for fits in self._fits:
            fits.pop(node.index, None)
        if self._census is not None:
            self._census.add(role, node, count)
        if self._tree is not None:
            self._count_near(node, count)
        if count > 0:
            self.state.indexes.placing.append((role, node, count))

    def _count_near(self, node: Node, count: int) -> None:
        path = node.report.topology
        for length in range(len(path) + 1):
            near = path[:length]
            self._near[near] = self._near.get(near, 0) + count

    def _mark(self) -> Mark:
        return self._statement.checkpoint(), len(self.state.indexes.placing)

    def _undo(self, mark: Mark) -> None:
        self._statement.rollback(mark[0])
        placing = self.state.indexes.placing
        while len(placing) > mark[1]:
            role, node, count = placing.pop()
            self._note(role, node, -count)


def domains_of(state: State) -> Tree:
    """The domains of the cell, made again when a node reports another path. O(nodes)."""
    paths = tuple([node.report.topology for node in state.nodes])
    tree = state.indexes.domains
    if tree is None or tree.paths != paths:
        tree = state.indexes.domains = tree_of(paths)
    return tree


def _wishes(topology: Topology | None) -> bool:
    return topology is not None and bool(topology.required_tier or topology.preferred_tier)


def _is_inside(domain: Domain, region: Domain) -> bool:
    return domain.path[: len(region.path)] == region.path


def _inner(first: Domain | None, second: Domain | None) -> Domain | None:
    """The smaller of two domains of which one holds the other."""
    if first is None or second is None:
        return first or second
    return first if len(first.path) >= len(second.path) else second

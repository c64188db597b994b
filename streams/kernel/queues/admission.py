"""Quota admission of one job: which flavors it gets, for how many of its pods, and who must leave.

Nothing here changes State. A `QuotaTree` is what one pass knows of the queues below one top-level
queue; what the pass gives away is counted in it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ganger.schemas.enums import Tri
from ganger.schemas.reasons import Reason
from ganger.schemas.records import FlavorChoice
from ganger.streams.kernel.entities import Job, Pod, Queue, Victim
from ganger.streams.kernel.entities import Taker as Asking
from ganger.streams.kernel.fairness import cohort_victims, fair_victims
from ganger.streams.kernel.fairness.cohort import (
    Amounts,
    Cohort,
    Key,
    available,
    borrow_level,
    fits,
    potential,
    unuse,
    use,
)
from ganger.streams.kernel.fairness.cohort_rules import Holder, Rule, Taker, Why
from ganger.streams.kernel.fairness.fair_victims import DEFAULT, Strategy
from ganger.streams.kernel.fairness.flavors import (
    Asker,
    Assignment,
    Grade,
    Lack,
    Mode,
    PodSet,
    assign,
    shrink,
)
from ganger.streams.kernel.jobs.progress import may_evict
from ganger.streams.kernel.queues import cohort_tree
from ganger.streams.kernel.refusals import NO_PLACE, Refusal
from ganger.streams.kernel.resources import PODS, Shape, minimum_counts
from ganger.streams.kernel.state import Policy, State

Targets = list[tuple[Holder, Why]]

FAIR: dict[str, tuple[Strategy, ...]] = {
    "off": (),
    "final": (Strategy.FINAL,),
    "initial": (Strategy.INITIAL,),
    "both": DEFAULT,
}
"""Rules of fair sharing by the word that stands for them in a policy."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How quota is given. `strategies`: of fair sharing; empty: without it. `shrinks`: jobs may be
    admitted with fewer pods, down to their minimums. `ignores`: resources that a queue has no quota
    of are not counted; else a job that asks for them gets no quota.
    """

    strategies: tuple[Strategy, ...] = ()
    shrinks: bool = True
    ignores: bool = False


def manner_of(policy: Policy) -> Manner:
    """How a policy that admits by quota gives it."""
    words = policy.words
    return Manner(
        FAIR[words["admit.fair"]],
        policy.numbers["admit.partial"] == 1,
        words["admit.uncovered"] == "ignore",
    )


@dataclass(slots=True, eq=False)
class QuotaTree:
    """The queues below a top-level queue during one pass. `nodes`: by queue id.

    `victims`: holders that the pass has told to leave; they hold their quota until they are gone.
    `promised`: what it has promised to those for whom they leave. `version` grows with whatever is
    given away.
    """

    state: State
    manner: Manner
    nodes: dict[int, Cohort]
    victims: dict[int, Holder] = field(default_factory=dict)
    promised: list[tuple[Cohort, Amounts]] = field(default_factory=list)
    newcomers: dict[int, bool] = field(default_factory=dict)  # of the pass: nobody's victims
    version: int = 0
    has_protected: bool = False  # a holder was left out only since it may not leave yet
    _held: dict[str, list[Holder]] | None = None
    _all_held: dict[str, list[Holder]] = field(default_factory=dict)

    @property
    def is_unbounded(self) -> bool:
        """Whether nobody in it has quota of anything: then nobody is asked for it."""
        return not any(node.quotas for node in self.nodes.values())

    def holders(self) -> dict[str, list[Holder]]:
        """Those who may have to leave, and those who leave already, by name of their queue."""
        if self._held is None:
            state = self.state
            self._held = {}
            for index, node in self.nodes.items():
                for seq in sorted(state.queues[index].holders):
                    job = state.jobs[seq]
                    if cohort_tree.is_leaving(job) or self._may_leave(job):
                        holder = cohort_tree.holder_of(state, job, node)
                        self._held.setdefault(node.name, []).append(holder)
        return self._held

    def hide_victims(self) -> None:
        """See the tree as if the victims of the pass had gone, until `show_victims`."""
        self._all_held = self.holders()
        self._held = {
            name: [one for one in some if one.order not in self.victims]
            for name, some in self._all_held.items()
        }
        for holder in self.victims.values():
            unuse(holder.queue, holder.usage)

    def show_victims(self) -> None:
        """Undo of `hide_victims`."""
        self._held = self._all_held
        for holder in self.victims.values():
            use(holder.queue, holder.usage)

    def _may_leave(self, job: Job) -> bool:
        state = self.state
        named = state.policy.classes.get(job.request.priority_class)
        if job.request.preemptable is Tri.NO or (named is not None and named.critical):
            return False
        if job.seq in state.claims:
            return False  # it is about to start on what others left for it
        if job.seq in self.newcomers:
            return False
        for pod in (job.pods or {}).values():
            if job.shape.roles[pod.index % len(job.roles)].preemptable is Tri.NO:
                return False
            # one that was placed in this very cycle has not had its start yet
            if pod.protected_until_ns > state.now_ns or pod.allocated_seq == state.cause:
                self.has_protected = True
                return False
        return True

    def candidates(self, job: Job) -> dict[str, list[Holder]]:
        """Those whom a job may have evicted, by name of their queue. One that may evict nobody
        counts on those that leave already.
        """
        held = self.holders()
        if not may_have_evicted(self.state, job):
            leaving = {name: [one for one in some if one.is_leaving] for name, some in held.items()}
            return {name: some for name, some in leaving.items() if some}
        policy = self.state.policy
        if policy.preemptable is None and policy.reclaimable is None:
            return held
        return self._let_go(job, held)

    def _let_go(self, job: Job, held: dict[str, list[Holder]]) -> dict[str, list[Holder]]:
        """Of the holders those that the policies let go, with all they have running."""
        state = self.state
        own = state.queues[job.queue].config.queue
        asking = Asking(job, _least_counts(job))
        kept: dict[str, list[Holder]] = {}
        for is_own, judge in ((True, state.policy.preemptable), (False, state.policy.reclaimable)):
            part = {name: some for name, some in held.items() if (name == own) is is_own}
            if judge is not None:
                everyone = [one for name in sorted(part) for one in part[name]]
                pods = [victim for one in everyone for victim in self._victims(one)]
                let = {(v.pod.job, v.pod.index): True for v in judge(state, asking, pods)}
                part = {
                    name: [one for one in some if self._all_in(one, let)]
                    for name, some in part.items()
                }
            kept.update(part)
        return kept

    def _victims(self, holder: Holder) -> list[Victim]:
        """Its attempts, as one bundle; none of those that leave already."""
        job = self.state.jobs[holder.order]
        pods = job.pods or {}
        if holder.is_leaving:
            return []
        return [Victim(job, pods[index], holder.order) for index in sorted(pods)]

    def _all_in(self, holder: Holder, let: dict[tuple[int, int], bool]) -> bool:
        return all((one.pod.job, one.pod.index) in let for one in self._victims(holder))

    def targets(self, job: Job, taker: Taker) -> Targets:
        """Who must leave so that a job gets what it asks for; empty: that does not help."""
        held = self.candidates(job)
        if self.manner.strategies:
            return fair_victims.find(taker, held, self.manner.strategies)
        return cohort_victims.find(taker, held)

    def fits_after(self, node: Cohort, request: Amounts, targets: Targets) -> bool:
        """Whether a node may use so much more once the targets and all victims so far are gone."""
        gone = {**self.victims, **{holder.order: holder for holder, _ in targets}}
        for holder in gone.values():
            unuse(holder.queue, holder.usage)
        result = fits(node, request, borrows=True)
        for holder in gone.values():
            use(holder.queue, holder.usage)
        return result

    def fits_now(self, node: Cohort, request: Amounts) -> bool:
        """Whether it may before anybody has left, those aside who wait for that."""
        for taker, amounts in self.promised:
            unuse(taker, amounts)
        result = fits(node, request, borrows=True)
        for taker, amounts in self.promised:
            use(taker, amounts)
        return result

    def give(self, one: "Nomination", waits: bool) -> None:
        """A job gets what it was nominated for, its targets having to leave. `waits`: until they
        have.
        """
        use(one.node, one.assignment.usage)
        self.newcomers[one.job.seq] = True
        if waits:
            self.promised.append((one.node, one.assignment.usage))
        for holder, _ in one.targets:
            self.victims[holder.order] = holder
        self.version += 1

    def keep(self, node: Cohort, amounts: Amounts) -> None:
        """Let nobody else have so much in this pass."""
        use(node, amounts)
        self.version += 1


def tree_of(state: State, root: Queue, manner: Manner) -> QuotaTree:
    """What is known of the queues below a top-level queue. O(queues below)."""
    return QuotaTree(state, manner, cohort_tree.grow(state, root))


def may_have_evicted(state: State, job: Job) -> bool:
    """Whether others may be evicted for a job: it has its right to it, and no word against it."""
    named = state.policy.classes.get(job.request.priority_class)
    if job.request.preempts is Tri.NO or (named is not None and not named.preempts):
        return False
    if any(role.preempts is Tri.NO for role in job.shape.roles):
        return False
    return may_evict(state, job)


# ---- what a job asks --------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Nomination:
    """What the first job of a queue could get at a moment of the pass.

    `counts`: pods per role. `targets`: who must leave for it. `version`: of the tree then.
    `counts_on_victims`: it also needs what all victims of the pass so far leave.
    """

    job: Job
    node: Cohort
    counts: tuple[int, ...]
    assignment: Assignment
    targets: Targets
    version: int
    counts_on_victims: bool = False

    @property
    def fits(self) -> bool:
        """Whether its quota is free."""
        return self.assignment.mode is Mode.FIT

    @property
    def can_be_had(self) -> bool:
        """Whether its quota is free, or will be when the targets have left."""
        return self.fits or bool(self.targets)

    def flavors(self) -> tuple[FlavorChoice, ...]:
        """The flavors chosen, by role and resource."""
        roles = self.job.shape.roles
        return tuple(
            [
                FlavorChoice(roles[place].name, resource, part[resource].flavor)
                for place, part in enumerate(self.assignment.chosen)
                for resource in sorted(part)
            ]
        )

    def admitted_counts(self) -> tuple[int, ...]:
        """Pods admitted per role; empty: all."""
        whole = all(
            count == role.replicas
            for count, role in zip(self.counts, self.job.shape.roles, strict=True)
        )
        return () if whole else self.counts


def nominate(tree: QuotaTree, job: Job, pinned: Nomination | None = None) -> Nomination:
    """What a job could get now: all its pods, else as many as can be had down to its minimums.

    `pinned`: what it was nominated for before: it sticks to those flavors, and the victims of the
    pass are seen as gone.
    """
    if tree.is_unbounded:
        counts = tuple([role.replicas - role.succeeded for role in job.roles])
        return Nomination(job, tree.nodes[job.queue], counts, Assignment(), [], tree.version)
    if pinned is None:
        return _best(tree, job, None)
    tree.hide_victims()
    found = _best(tree, job, pinned)
    tree.show_victims()
    return found


def _best(tree: QuotaTree, job: Job, pinned: Nomination | None) -> Nomination:
    counts = tuple([role.replicas - role.succeeded for role in job.roles])
    full = _with(tree, job, counts, pinned)
    if full.can_be_had or not tree.manner.shrinks:
        return full
    found: dict[tuple[int, ...], Nomination] = {}

    def does_fit(sizes: list[int]) -> bool:
        one = _with(tree, job, tuple(sizes), pinned)
        found[tuple(sizes)] = one
        return one.can_be_had

    sizes = shrink(counts, _least(job, counts), does_fit)
    return full if sizes is None else found[tuple(sizes)]


def _least(job: Job, counts: Sequence[int]) -> list[int]:
    """The fewest pods per role with which the job may start; at least one."""
    least = _least_counts(job)
    bounded = [min(few, count) for few, count in zip(least, counts, strict=True)]
    if not any(bounded):
        first = next(place for place, count in enumerate(counts) if count)
        bounded[first] = 1
    return bounded


def _least_counts(job: Job) -> tuple[int, ...]:
    shape = job.shape
    return minimum_counts(shape.roles, shape.min_available, shape.units)


def _with(
    tree: QuotaTree, job: Job, counts: tuple[int, ...], pinned: Nomination | None
) -> Nomination:
    """What the job could get with so many pods per role."""
    state = tree.state
    config = state.queues[job.queue].config
    node = tree.nodes[job.queue]
    rules = cohort_tree.rules_of(config)
    priority, queued_at = cohort_tree.priority_of(job), cohort_tree.queued_at(job)
    # by what was asked: a job that asks for one thing asks the same at the end as on the way
    known: dict[tuple[tuple[Key, int], ...], Targets] = {}

    def find(request: Amounts, contested: tuple[Key, ...]) -> Targets:
        asked = tuple(sorted(request.items()))
        if asked not in known:
            taker = Taker(node, request, contested, priority, queued_at, rules)
            known[asked] = tree.targets(job, taker)
        return known[asked]

    def oracle(key: Key, amount: int) -> Grade:
        targets = find({key: amount}, (key,))
        for holder, _ in targets:
            unuse(holder.queue, holder.usage)
        level = borrow_level(node, key, amount)[0]
        for holder, _ in targets:
            use(holder.queue, holder.usage)
        if not targets:
            return Grade(Mode.NO_CANDIDATES, level)
        takes_own = any(holder.queue is node for holder, _ in targets)
        return Grade(Mode.PREEMPT if takes_own else Mode.RECLAIM, level)

    is_fair = bool(tree.manner.strategies)
    asker = Asker(
        node,
        cohort_tree.groups_of(config),
        oracle,
        cohort_tree.search_of(config),
        rules.borrow or (is_fair and rules.reclaim is not Rule.NEVER),
    )
    assignment = assign(asker, _pod_sets(tree, job, counts, asker, pinned))
    targets: Targets = []
    if assignment.mode not in (Mode.FIT, Mode.NO_FIT):
        targets = find(assignment.usage, assignment.contested())
    return Nomination(job, node, counts, assignment, targets, tree.version, pinned is not None)


def _pod_sets(
    tree: QuotaTree,
    job: Job,
    counts: tuple[int, ...],
    asker: Asker,
    pinned: Nomination | None,
) -> list[PodSet]:
    state = tree.state
    covered = {name: True for group in asker.groups for name in group.resources}
    sets = []
    for place, role in enumerate(job.shape.roles):
        asked = asked_by(state, job.shape.shapes[place])
        if tree.manner.ignores:
            asked = {name: amount for name, amount in asked.items() if name in covered}
        bears = cohort_tree.borne(state.flavors, asker.groups, role.request)
        if pinned is not None and place < len(pinned.assignment.chosen):
            kept = {one.flavor: True for one in pinned.assignment.chosen[place].values()}
            bears = tuple([name for name in bears if name in kept])
        requests = {name: amount * counts[place] for name, amount in asked.items()}
        sets.append(PodSet(role.name, counts[place], requests, bears))
    return sets


def asked_by(state: State, shape: Shape) -> dict[str, int]:
    """What one pod asks, by name of the resource; pods themselves count where there is quota of
    them.
    """
    names = state.table.names
    return {names[place]: amount for place, amount in shape.charges if place != PODS}


def reserve_of(tree: QuotaTree, one: Nomination) -> Amounts:
    """What a job that nobody can make room for keeps others from: up to its queue's own quota or,
    if it would borrow, up to what the queue may borrow.
    """
    kept: Amounts = {}
    for key, amount in one.assignment.usage.items():
        quota = one.node.quotas.get(key)
        nominal = 0 if quota is None else quota.nominal
        used = one.node.usage.get(key, 0)
        if one.assignment.level == 0:
            kept[key] = max(0, min(amount, nominal - used))
        elif quota is None or quota.borrowing_limit is None:
            kept[key] = amount
        else:
            kept[key] = max(0, min(amount, nominal + quota.borrowing_limit - used))
    return kept


def leaving_pods(state: State, holders: Iterable[Holder]) -> list[tuple[Job, Pod]]:
    """Attempts of those who have to leave, in that order."""
    jobs = [state.jobs[holder.order] for holder in holders]
    return [(job, job.pods[index]) for job in jobs if job.pods for index in sorted(job.pods)]


# ---- why not ----------------------------------------------------------------------------------


def lacks(state: State, job: Job) -> Refusal | None:
    """Why a pending job gets no quota now, with numbers of the first resource that stops it; none:
    it could have it. For explanations; O(queues and holders of its tree).
    """
    tree = tree_of(state, state.queues[job.queue].chain[-1], manner_of(state.policy))
    one = nominate(tree, job)
    if one.can_be_had:
        return None
    node, queue = one.node, job.queue
    if one.assignment.lack is Lack.FLAVOR:
        groups = state.queues[queue].config.resource_groups
        return Refusal(Reason.NO_FLAVOR, limit=sum(len(g.flavors) for g in groups), queue=queue)
    for key, amount in sorted(_asked_at_best(tree, one).items()):
        free = max(0, available(node, key))
        if amount > free:
            place = state.table.index.get(key[1], NO_PLACE)
            quota = node.quotas.get(key)
            nominal = 0 if quota is None else quota.nominal
            if amount + node.usage.get(key, 0) <= nominal or potential(node, key) <= nominal:
                return Refusal(Reason.QUOTA_NOMINAL, amount, free, nominal, queue, place)
            bound = potential(node, key)
            return Refusal(Reason.QUOTA_BORROWING, amount, free, bound, queue, place)
    return Refusal(Reason.PARKED, queue=queue)


def bounds(state: State, queue: Queue, resource: str) -> tuple[int, int]:
    """Of a resource, in all flavors that a queue may use: its nominal quota, and the most that it
    could have if nobody else had any. Both -1: no quota bounds it. For explanations.
    """
    tree = tree_of(state, queue.chain[-1], manner_of(state.policy))
    groups = cohort_tree.groups_of(queue.config)
    keys = [(name, resource) for g in groups if resource in g.resources for name in g.flavors]
    if tree.is_unbounded or not keys:
        return -1, -1
    node = tree.nodes[queue.index]
    quotas = [node.quotas[key] for key in keys if key in node.quotas]
    return sum(quota.nominal for quota in quotas), sum(potential(node, key) for key in keys)


def _asked_at_best(tree: QuotaTree, one: Nomination) -> Amounts:
    """What it was nominated for or, if no flavor would do, what it asks of the first ones."""
    if one.assignment.usage:
        return one.assignment.usage
    groups = cohort_tree.groups_of(tree.state.queues[one.job.queue].config)
    first = {resource: group.flavors[0] for group in groups for resource in group.resources}
    asked: Amounts = {}
    for shape, count in zip(one.job.shape.shapes, one.counts, strict=True):
        for resource, amount in asked_by(tree.state, shape).items():
            if resource in first:
                key = (first[resource], resource)
                asked[key] = asked.get(key, 0) + amount * count
    return asked

"""Whom a job may have evicted for it: attempts in bundles that leave together, cheapest first.

What a job can spare beyond its minimums leaves one by one; the rest of it is one bundle, the whole
job, since a gang below its minimum is worth nothing. Order of bundles: work in gaps before work in
turn, lower priority first, spare pods before whole jobs, roles that rules place later, then those
that have not begun or have saved what they did, then the latest. None of it changes as time passes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, merge

from ganger.schemas.enums import Phase, Tier, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import ClaimEntry, Job, Pod, Queue, Taker, Victim
from ganger.streams.kernel.jobs.gangs import is_leaving, needed, surplus
from ganger.streams.kernel.resources import CARD_MILLI, CARDS
from ganger.streams.kernel.state import Judgement, Policy, State

# bound once: looking a member up on its Enum class costs more than what is done with it
_LIVE_VICTIM = (Phase.ALLOCATED, Phase.RUNNING)
_NO = Tri.NO
_SUSPENDED = Phase.SUSPENDED
_UNKNOWN = Phase.UNKNOWN

RANKS = {Tier.SPOT: 0, Tier.BACKFILL: 1}
"""Who yields before those placed in turn, who have rank 2."""

ROUNDS_MAX = 8
"""How often vetoes are asked again after bundles they let go only in part were taken out."""


@dataclass(slots=True, eq=False)
class Bundle:
    """Attempts of one job that leave together or not at all."""

    key: tuple[int, ...]  # least first; no two are equal
    job: Job
    pods: tuple[Pod, ...]
    is_whole: bool  # all that the job has; spare pods are also bundles of their own
    cards_milli: int

    def __lt__(self, other: "Bundle") -> bool:
        return self.key < other.key


@dataclass(slots=True)
class Hunt:
    """One run of an action that takes from others."""

    rule: str
    reason: Reason
    is_across: bool  # from other queues than the taker's
    judge: Judgement | None
    gives_back: bool = True  # what turns out not to be needed
    depth: int = 64  # jobs per queue that are tried in vain
    patience_ns: int = 0  # a job waits so long before it takes
    lost_max_ns: int = 0  # unsaved run time that a victim may lose; 0: any
    evictions_max: int = -1  # who was begun anew more often is nobody's victim; -1: any number
    by_priority: bool = True  # within a queue from lower priority alone, whatever vetoes say
    is_inside: bool = False  # a job's pods from its own of roles that come later


def hunt_of(policy: Policy, rule: str, reason: Reason, *, is_across: bool) -> Hunt:
    """How an action of the policy in force takes from others. `rule`: the action."""
    return Hunt(
        rule=rule,
        reason=reason,
        is_across=is_across,
        judge=policy.reclaimable if is_across else policy.preemptable,
        gives_back=policy.words[f"{rule}.give_back"] == "yes",
        by_priority=policy.words[f"{rule}.search"] == "cell",
        depth=policy.numbers[f"{rule}.depth"],
        patience_ns=policy.numbers[f"{rule}.patience_ns"],
        lost_max_ns=policy.numbers[f"{rule}.lost_max_ns"],
        evictions_max=policy.numbers[f"{rule}.evictions_max"],
    )


@dataclass(frozen=True, slots=True)
class Solution:
    """Where the pods of a job will start, and who has to leave for it."""

    entries: tuple[ClaimEntry, ...]
    victims: tuple[Victim, ...]  # in order of their cost; none: what leaves anyhow is enough
    considered: int  # candidates that were looked at


class Pool:
    """All candidates of an action. It is kept between cycles, and jobs are bundled anew when
    anything of theirs has changed (`catch_up`); what it holds follows from the state alone.
    """

    __slots__ = (
        "_epochs",
        "_fresh",
        "_heap",
        "_made",
        "_policy",
        "_sizes",
        "_state",
        "hunt",
        "leaving",
        "lists",
    )

    def __init__(self, state: State, hunt: Hunt) -> None:
        """O(attempts x log)."""
        self._state = state
        self.hunt = hunt
        self._policy = state.policy
        self._epochs = _epochs(state)
        self._heap: list[tuple[int, int]] = []  # when that of an attempt changes, seq of its job
        self._fresh: list[int] = []  # seqs of jobs that were placed in the cycle they were seen in
        # by seq of the job: queue, bundles, attempts that leave
        self._made: dict[int, tuple[int, list[Bundle], list[Pod]]] = {}
        self._sizes: dict[int, dict[int, int]] = {}  # bundles by queue and milli-cards
        self.leaving: list[Pod] = []  # attempts that leave anyhow
        self.lists: dict[int, list[Bundle]] = {}  # in order, by queue
        for seq in sorted(state.jobs):
            self._make(state.jobs[seq], append=True)
        for bundles in self.lists.values():
            bundles.sort()
        self._find_leaving()

    def is_of(self, state: State) -> bool:
        """Whether it may be kept: rules, nodes and queues are those it was made for."""
        return self._policy is state.policy and self._epochs == _epochs(state)

    def catch_up(self, moved: list[int]) -> None:
        """Bundle the jobs that something has happened to, and those no longer protected, anew.
        O(their attempts x log).
        """
        heap, clock_ns = self._heap, self._state.clock_ns
        moved += self._fresh
        self._fresh = []
        while heap and heap[0][0] <= clock_ns:
            moved.append(heappop(heap)[1])
        for seq in dict.fromkeys(moved):
            self._renew(seq)
        self._find_leaving()

    def facts(self) -> tuple[object, ...]:
        """All that it says, to be compared."""
        return (
            [(q, [(b.key, b.pods, b.is_whole) for b in own]) for q, own in self._ordered()],
            [(queue, self._sizes[queue]) for queue, _ in self._ordered()],
            self.leaving,
        )

    def _ordered(self) -> list[tuple[int, list[Bundle]]]:
        return sorted([entry for entry in self.lists.items() if entry[1]], key=lambda one: one[0])

    def offer(self, taker: Taker, hunt: Hunt) -> Iterator[Bundle]:
        """The candidates of a taker in order: of lower priority in its queue, or of others. Those
        are left out whose queues cannot lose so much.
        """
        job = taker.job
        if not hunt.is_across:
            for bundle in self.lists.get(job.queue, ()):
                if bundle.job.priority < job.priority or not hunt.by_priority:
                    yield bundle
            return
        bounds = self._bounds(taker)
        yield from merge(*[self._small(queue, most) for queue, most in bounds.items()])

    def may_help(self, taker: Taker, hunt: Hunt) -> bool:
        """Whether so many cards can come free that a search is worth its while. Never wrongly no.
        O(queues x sizes of bundles), then O(candidates).
        """
        if not hunt.is_across:
            return bool(self.lists.get(taker.job.queue))
        state, job = self._state, taker.job
        shapes = job.shape.shapes
        short = sum([s.cards_milli * n for s, n in zip(shapes, taker.counts, strict=True)])
        short -= max(0, state.total[CARDS] - state.used[CARDS])
        found = False
        for queue, most in self._bounds(taker).items():
            sizes = self._sizes[queue]
            fitting = [size * count for size, count in sizes.items() if most < 0 or size <= most]
            if fitting:
                found = True
                short -= sum(fitting) if most < 0 else min(most, sum(fitting))
        return found and short <= 0 and self._has_places(taker, hunt)

    def _has_places(self, taker: Taker, hunt: Hunt) -> bool:
        """Whether nodes could hold its largest pods, by the number of their cards alone, without
        all candidates. Never wrongly no. O(candidates until they are enough).
        """
        state = self._state
        shapes = taker.job.shape.shapes
        asked = [(s, n) for s, n in zip(shapes, taker.counts, strict=True) if n]
        shape, count = max(asked, key=lambda entry: entry[0].cards_milli)
        if not shape.cards:
            return True
        size = shape.cards_milli
        lacking = max(1, count - state.indexes.nodes.room(shape, count))
        freed: dict[int, int] = {}  # milli-cards by node
        for bundle in self.offer(taker, hunt):
            for pod in bundle.pods:
                before = freed.get(pod.node, -1)
                if before < 0:
                    node = state.nodes[pod.node]
                    before = (node.free_count + len(node.shared)) * CARD_MILLI
                else:
                    lacking += before // size
                freed[pod.node] = after = before + pod.shape.cards_milli
                lacking -= after // size
                if lacking <= 0:
                    return True
        return False

    def spares_any(self) -> bool:
        """Whether any queue may lose any bundle to others. Never wrongly no. O(queues x sizes)."""
        return any(
            most < 0 or min(self._sizes[queue]) <= most for queue, most in self._bounds().items()
        )

    def _bounds(self, taker: Taker | None = None) -> dict[int, int]:
        """Milli-cards that a taker, or any, may take at most of each other queue; -1: no bound."""
        state = self._state
        rules = state.policy.spare
        bounds = [bound for rule in rules if (bound := rule(state, taker)) is not None]
        own = -1 if taker is None else taker.job.queue
        found: dict[int, int] = {}
        for queue, bundles in self.lists.items():
            if queue != own and bundles:
                most = min([bound.get(queue, 0) for bound in bounds], default=-1)
                if most and _gives(state, state.queues[queue]):
                    found[queue] = most
        return found

    def _small(self, queue: int, most: int) -> Iterator[Bundle]:
        for bundle in self.lists[queue]:
            if most < 0 or bundle.cards_milli <= most:
                yield bundle

    def renew(self, job: Job) -> None:
        """Attempts of a job have been told to leave: bundle the rest of it anew. The caller adds
        them to those that leave.
        """
        self._renew(job.seq)

    def _renew(self, seq: int) -> None:
        queue, old, _ = self._made.pop(seq, (-1, [], []))
        for bundle in old:
            bundles = self.lists[queue]
            del bundles[bisect_left(bundles, bundle)]
            self._count(queue, bundle, -1)
        job = self._state.jobs.get(seq)
        if job is not None:
            self._make(job)

    def _make(self, job: Job, append: bool = False) -> None:
        """`append`: lists are put in order later."""
        live: list[Pod] = []
        leaving: list[Pod] = []
        for pod in (job.pods or {}).values():
            if pod.phase is _SUSPENDED or self._state.nodes[pod.node].is_lost:
                continue
            if is_leaving(pod):
                leaving.append(pod)
            elif pod.phase in _LIVE_VICTIM:
                live.append(pod)
        made = self._bundles(job, live) if live and job.ending is _UNKNOWN else []
        if not (made or leaving):
            return
        self._made[job.seq] = (job.queue, made, leaving)
        bundles = self.lists.setdefault(job.queue, [])
        for bundle in made:
            self._count(job.queue, bundle, 1)
            if append:
                bundles.append(bundle)
            else:
                insort(bundles, bundle)

    def _count(self, queue: int, bundle: Bundle, sign: int) -> None:
        sizes = self._sizes.setdefault(queue, {})
        count = sizes.get(bundle.cards_milli, 0) + sign
        if count:
            sizes[bundle.cards_milli] = count
        else:
            del sizes[bundle.cards_milli]

    def _find_leaving(self) -> None:
        state = self._state
        found = [pod for _, _, leaving in self._made.values() for pod in leaving]
        for pod in state.indexes.ghosts.values():
            if is_leaving(pod) and not state.nodes[pod.node].is_lost:
                found.append(pod)
        found.sort(key=_identity)
        self.leaving = found

    def _bundles(self, job: Job, pods: list[Pod]) -> list[Bundle]:
        free = [pod for pod in pods if self._may_leave(job, pod)]
        if job.shape.is_single and free:
            return [self._bundle(job, (free[0],), job.shape.min_available > 0)]
        free.sort(key=lambda pod: (*self._role_place(job, pod), -pod.started_ns, -pod.index))
        made = [self._bundle(job, (pod,), False) for pod in surplus(job, free)]
        live = [p for p in (job.pods or {}).values() if not is_leaving(p)]
        if len(free) == len(live) > len(made):
            made.append(self._bundle(job, tuple(free), True))
        return made

    def _may_leave(self, job: Job, pod: Pod) -> bool:
        if job.pods is None or job.pods.get(pod.index) is not pod:
            return False  # given up by its job: it leaves already
        if pod.allocated_seq == self._state.cause:
            self._fresh.append(job.seq)
            return False  # placed in this very cycle
        if job.request.preemptable is _NO:
            return False
        if job.shape.roles[pod.index % len(job.roles)].preemptable is _NO:
            return False
        if not may_lose(self.hunt, pod, self._state.clock_ns):
            return False
        until_ns = losable_until_ns(self.hunt, pod)
        if until_ns:
            heappush(self._heap, (until_ns + 1, job.seq))
        if pod.protected_until_ns > self._state.clock_ns:
            heappush(self._heap, (pod.protected_until_ns, job.seq))
            return False
        return True

    def _bundle(self, job: Job, pods: tuple[Pod, ...], is_whole: bool) -> Bundle:
        cards = sum([pod.shape.cards_milli for pod in pods])
        key = cost(job, pods, is_whole)
        if self._policy.task_order:
            place = max([self._role_place(job, pod) for pod in pods])
            key = (*key[:3], *place, *key[3:])
        return Bundle(key, job, pods, is_whole, cards)

    def _role_place(self, job: Job, pod: Pod) -> tuple[int, ...]:
        """Where rules that order roles place that of a pod: those that come last leave first."""
        place: tuple[int, ...] = ()
        for hook in self._policy.task_order:
            place += hook(self._state, job, pod.index % len(job.roles))
        return tuple([-part for part in place])


def pool_of(state: State, hunt: Hunt) -> Pool:
    """The candidates of an action as they are now."""
    state.note_moved()  # those of this cycle
    indexes = state.indexes
    moved, indexes.moved = indexes.moved, {}
    kept: dict[str, object] = {}
    for rule, pool in indexes.candidates.items():
        if isinstance(pool, Pool) and moved is not None and pool.is_of(state):
            pool.catch_up(list(moved))
            kept[rule] = pool
    indexes.candidates = kept
    found = kept.get(hunt.rule)
    if not isinstance(found, Pool):
        found = kept[hunt.rule] = Pool(state, hunt)
    return found


def cost(job: Job, pods: Sequence[Pod], is_whole: bool) -> tuple[int, ...]:
    """Place of attempts of a job that leave together in the order of candidates; least first."""
    rank = max([RANKS.get(pod.tier, 2) for pod in pods])
    unsaved = int(not all(_has_saved(pod) for pod in pods))
    started = max([pod.started_ns for pod in pods])
    return (rank, job.priority, int(is_whole), unsaved, -started, -job.seq, -pods[0].index)


def may_lose(hunt: Hunt, pod: Pod, clock_ns: int) -> bool:
    """Whether an attempt may be begun anew once more, and lose what it has done since it saved."""
    if 0 <= hunt.evictions_max < pod.attempt:
        return False
    until_ns = losable_until_ns(hunt, pod)
    return not until_ns or clock_ns <= until_ns


def losable_until_ns(hunt: Hunt, pod: Pod) -> int:
    """Until when an attempt loses no more than it may; 0: always. What it has not saved is taken to
    be a constant part of what it does, as it last said.
    """
    if not hunt.lost_max_ns or not pod.started_ns:
        return 0
    done, saved = _progress(pod)
    if saved >= done:
        return 0
    return pod.started_ns + hunt.lost_max_ns * done // (done - saved)


def lost_ns(pod: Pod, clock_ns: int) -> int:
    """How much of what an attempt has done would have to be done again, in the same terms."""
    done, saved = _progress(pod)
    ran_ns = clock_ns - pod.started_ns if pod.started_ns else 0
    return max(0, ran_ns * (done - saved) // done)


def _progress(pod: Pod) -> tuple[int, int]:
    """Of a whole: done and saved, as it last said; where it saved nothing any part will do."""
    saved = max(0, pod.checkpoint_milli)
    return (max(1, pod.progress_milli), saved) if saved else (1, 0)


def _epochs(state: State) -> tuple[int, int]:
    return state.indexes.capacity_epoch, state.indexes.queue_epoch


def _gives(state: State, queue: Queue) -> bool:
    """Whether a queue and those above it give back."""
    return all(level.config.reclaimable for level in queue.chain)


def _identity(pod: Pod) -> tuple[int, int, int]:
    return (pod.job, pod.index, pod.attempt)


def _has_saved(pod: Pod) -> bool:
    """Whether nothing that an attempt is known to have done would have to be done again."""
    return not pod.started_ns or pod.checkpoint_milli >= max(0, pod.progress_milli)


@dataclass(slots=True)
class View:
    """The candidates of one taker in order, read as far as they are needed."""

    source: Iterator[Bundle]
    seen: list[Bundle] = field(default_factory=list)
    is_done: bool = False

    def read(self, count: int, cards_milli: int) -> None:
        """Read until there are `count` more and so many milli-cards in all, or no more."""
        more = 0
        have = 0
        for bundle in self.seen:
            have += sum([pod.shape.cards_milli for pod in bundle.pods])
        while more < count or have < cards_milli:
            found = next(self.source, None)
            if found is None:
                self.is_done = True
                return
            self.seen.append(found)
            more += 1
            have += sum([pod.shape.cards_milli for pod in found.pods])


def flatten(bundles: list[Bundle]) -> list[Victim]:
    """The attempts of bundles in order, each once."""
    victims = []
    known: dict[tuple[int, int, int], bool] = {}
    for place, bundle in enumerate(bundles):
        for pod in bundle.pods:
            identity = _identity(pod)
            if identity not in known:
                known[identity] = True
                victims.append(Victim(bundle.job, pod, place))
    return victims


def judged(
    state: State, taker: Taker, bundles: list[Bundle], judge: Judgement | None
) -> list[Bundle]:
    """The bundles that all vetoes together let go, in order.

    Vetoes judge attempts, and count those they have let go. A bundle let go in part stays, so the
    others of its queue are judged again without it.
    """
    if judge is None or not bundles:
        return bundles
    left = bundles
    for _ in range(ROUNDS_MAX):
        victims = flatten(left)
        allowed = judge(state, taker, victims)
        if len(allowed) == len(victims):
            return left
        known = {_identity(victim.pod): True for victim in allowed}
        counts = [sum([_identity(pod) in known for pod in bundle.pods]) for bundle in left]
        kept: list[Bundle] = []
        queues: dict[int, bool] = {}  # in which one was taken out in this round
        for bundle, count in zip(left, counts, strict=True):
            if count == len(bundle.pods) or bundle.job.queue in queues:
                kept.append(bundle)
            elif count:
                queues[bundle.job.queue] = True
        if not queues:
            return kept
        left = kept
    return [b for b, count in zip(left, _whole(state, taker, left, judge), strict=True) if count]


def _whole(state: State, taker: Taker, bundles: list[Bundle], judge: Judgement) -> list[bool]:
    """Which bundles are let go whole."""
    known = {_identity(victim.pod): True for victim in judge(state, taker, flatten(bundles))}
    return [all(_identity(pod) in known for pod in bundle.pods) for bundle in bundles]


def is_starving(state: State, job: Job) -> bool:
    """Whether a job may ask for more: by the policy, else if it lacks its minimum."""
    test = state.policy.job_starving
    return any(needed(job)) if test is None else test(state, job)

"""Whom a job may have evicted for it: attempts in bundles that leave together, cheapest first.

What a job can spare beyond its minimums leaves one by one; the rest of it is one bundle, the whole
job, since a gang below its minimum is worth nothing. Order of bundles: work in gaps before work in
turn, lower priority first, spare pods before whole jobs, then those that have not begun or have
saved what they did, then the latest. None of it changes as time passes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from ganger.schemas.enums import Phase, Tier, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import ClaimEntry, Job, Pod, Taker, Victim
from ganger.streams.kernel.gangs import is_leaving, needed, surplus
from ganger.streams.kernel.state import Judgement, State

# bound once: looking a member up on its Enum class costs more than what is done with it
_LIVE_VICTIM = (Phase.ALLOCATED, Phase.RUNNING)
_NO = Tri.NO
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
    by_priority: bool = True  # within a queue from lower priority alone, whatever vetoes say


@dataclass(frozen=True, slots=True)
class Solution:
    """Where the pods of a job will start, and who has to leave for it."""

    entries: tuple[ClaimEntry, ...]
    victims: tuple[Victim, ...]  # in order of their cost; none: what leaves anyhow is enough
    considered: int  # candidates that were looked at


class Pool:
    """All candidates of a run."""

    __slots__ = ("_made", "_state", "leaving", "lists", "protects_until_ns")

    def __init__(self, state: State, hunt: Hunt) -> None:
        """O(attempts x log)."""
        self._state = state
        self.leaving: list[Pod] = []  # attempts that leave anyhow
        self.lists: dict[int, list[Bundle]] = {}  # by queue, or -1 for all
        self.protects_until_ns = 0  # earliest end of a protection that mattered; 0: none did
        self._made: dict[int, tuple[int, list[Bundle]]] = {}  # by seq of the job
        found: dict[int, list[Pod]] = {}
        for node in state.nodes:
            if node.is_lost:
                continue
            for pod in node.pods.values():
                if pod.phase in _LIVE_VICTIM and not pod.notice_until_ns:
                    found.setdefault(pod.job, []).append(pod)
                elif is_leaving(pod):
                    self.leaving.append(pod)
        self.leaving.sort(key=_identity)
        for seq in sorted(found):
            job = state.jobs[seq]
            if job.ending is _UNKNOWN and (not hunt.is_across or _gives(state, job)):
                place = -1 if hunt.is_across else job.queue
                made = self._bundles(job, found[seq])
                self._made[seq] = (place, made)
                self.lists.setdefault(place, []).extend(made)
        for bundles in self.lists.values():
            bundles.sort()

    def offer(self, state: State, taker: Taker, hunt: Hunt) -> Iterator[Bundle]:
        """The candidates of a taker in order: of lower priority in its queue, or of others."""
        job = taker.job
        if hunt.is_across:
            for bundle in self.lists.get(-1, ()):
                if bundle.job.queue != job.queue:
                    yield bundle
        else:
            for bundle in self.lists.get(job.queue, ()):
                if bundle.job.priority < job.priority or not hunt.by_priority:
                    yield bundle

    def renew(self, job: Job) -> None:
        """Attempts of a job have been told to leave: bundle the rest of it anew. The caller adds
        them to those that leave.
        """
        place, old = self._made.pop(job.seq, (-1, []))
        bundles = self.lists.get(place, [])
        for bundle in old:
            del bundles[bisect_left(bundles, bundle)]
        pods = [p for p in (job.pods or {}).values() if p.phase in _LIVE_VICTIM]
        made = self._bundles(job, [pod for pod in pods if not pod.notice_until_ns])
        for bundle in made:
            insort(bundles, bundle)
        self._made[job.seq] = (place, made)

    def _bundles(self, job: Job, pods: list[Pod]) -> list[Bundle]:
        free = [pod for pod in pods if self._may_leave(job, pod)]
        if job.shape.is_single and free:
            return [self._bundle(job, (free[0],), job.shape.min_available > 0)]
        free.sort(key=lambda pod: (-pod.started_ns, -pod.index))
        made = [self._bundle(job, (pod,), False) for pod in surplus(job, free)]
        live = [p for p in (job.pods or {}).values() if not is_leaving(p)]
        if len(free) == len(live) > len(made):
            made.append(self._bundle(job, tuple(free), True))
        return made

    def _may_leave(self, job: Job, pod: Pod) -> bool:
        if job.pods is None or job.pods.get(pod.index) is not pod:
            return False  # given up by its job: it leaves already
        if pod.allocated_seq == self._state.cause:
            return False  # placed in this very cycle
        if job.request.preemptable is _NO:
            return False
        if job.shape.roles[pod.index % len(job.roles)].preemptable is _NO:
            return False
        until = pod.protected_until_ns
        if until > self._state.clock_ns:
            if not self.protects_until_ns or until < self.protects_until_ns:
                self.protects_until_ns = until
            return False
        return True

    def _bundle(self, job: Job, pods: tuple[Pod, ...], is_whole: bool) -> Bundle:
        rank = max([RANKS.get(pod.tier, 2) for pod in pods])
        unsaved = int(not all(_has_saved(pod) for pod in pods))
        started = max([pod.started_ns for pod in pods])
        key = (rank, job.priority, int(is_whole), unsaved, -started, -job.seq, -pods[0].index)
        return Bundle(key, job, pods, is_whole)


def _gives(state: State, job: Job) -> bool:
    """Whether the queue of a job and those above it give back."""
    return all(level.config.reclaimable for level in state.queues[job.queue].chain)


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

"""drf: dominant resource fairness; as in Volcano.

The share of a job is the greatest part of any resource of the cell that its pods hold. Jobs with
less are first; a job may preempt another if, once it has what it asks for, its share is at most
what is left of the other's.

`hierarchy` compares queues down the tree too (HDRF): what queues have is scaled so that a branch
that has run ahead, because its siblings can use no more, does not count against what lies above it.
A queue that can use no more comes after those that can; then by share over weight. A queue may be
robbed if, after the exchange, the taker's still comes before it. The leaves of this tree are
queues; in Volcano they are jobs.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import ROOT, Job, Queue, Taker, Victim
from ganger.streams.kernel.fairness.dominant import ONE, Branch, dominant_share, settle
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.queues import quota_tree
from ganger.streams.kernel.queues.quota import allocated, is_departing
from ganger.streams.kernel.queues.quota_tree import Amounts
from ganger.streams.kernel.state import Shares, State

NAME = "drf"
HOOKS = ("job_order", "preemptable", "queue_order", "reclaimable")

TOLERANCE = 10**6
"""Shares that differ by no more than one part in so many count as equal: Volcano's."""


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`hierarchy`: yes or no (the default)."""
    reader = Arguments(arguments, where)
    is_tree = reader.yes("hierarchy", False)
    reader.close()
    return Hooks(
        job_order=_job_key,
        preemptable=_preemptable,
        queue_order=_queue_key if is_tree else None,
        reclaimable=_reclaimable if is_tree else None,
        follows_capacity=True,
    )


def _total(state: State) -> Amounts:
    return {place: state.total[place] for place in quota_tree.shared_places(state)}


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    if not job.pods:
        return (0,)
    return (dominant_share(quota_tree.holding(state, job), _total(state)),)


def _preemptable(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    """Those whose jobs keep at least the taker's share; each one counts as gone for those behind
    it, chosen or not.
    """
    total = _total(state)
    mine = quota_tree.holding(state, taker.job)
    placing = [0] * len(taker.counts)
    for role, _, count in state.indexes.placing:
        placing[role] += count
    beside = Taker(taker.job, tuple(placing))  # what has been found for it so far
    for asked in (quota_tree.wants(taker), quota_tree.wants(beside)):
        for place, amount in asked.items():
            mine[place] = mine.get(place, 0) + amount
    own = dominant_share(mine, total)
    left: dict[int, Amounts] = {}
    victims = []
    for victim in candidates:
        rest = left.get(victim.job.seq)
        if rest is None:
            rest = left[victim.job.seq] = _staying(state, victim.job)
        for place, amount in quota_tree.requested(victim.pod.shape.charges):
            rest[place] = rest.get(place, 0) - amount
        other = dominant_share(rest, total)
        if own < other or abs(own - other) * TOLERANCE <= ONE:
            victims.append(victim)
    return victims


def _staying(state: State, job: Job) -> Amounts:
    """What a job holds without those of its pods that are seen as gone already."""
    rest = quota_tree.holding(state, job)
    lifted = state.indexes.lifted
    for pod in (job.pods or {}).values() if lifted else ():
        if (pod.job, pod.index, pod.attempt) in lifted and not is_departing(pod):
            for place, amount in quota_tree.requested(pod.shape.charges):
                rest[place] = rest.get(place, 0) - amount
    return rest


def _queue_key(state: State, queue: Queue, admits: bool) -> tuple[int, ...]:
    kept = state.indexes.shares.get(NAME)
    epochs = quota_tree.epochs(state)
    if kept is None or kept.epochs != epochs or kept.sources != kept.vectors:
        branches = _settled(state, {})
        keys = {index: dict(enumerate(branch.key())) for index, branch in branches.items()}
        sources = [v for q in state.queues for v in (q.used, q.leaving, q.waiting)]
        kept = Shares(keys, epochs, sources=sources, vectors=[v.copy() for v in sources])
        state.indexes.shares[NAME] = kept
    key = kept.amounts[queue.index]
    return (key[0], key[1])


def _reclaimable(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    """Those of queues that, with the exchange made, the taker's still comes before."""
    mine = state.queues[taker.job.queue]
    asked = quota_tree.wants(taker)
    known: dict[tuple[int, quota_tree.Charges], bool] = {}
    victims = []
    for victim in candidates:
        queue = state.queues[victim.job.queue]
        about = (queue.index, quota_tree.requested(victim.pod.shape.charges))
        if about not in known:
            moved = {mine.index: dict(asked)}
            own = moved.setdefault(queue.index, {})
            for place, amount in about[1]:
                own[place] = own.get(place, 0) - amount
            known[about] = _is_before(_settled(state, moved), mine, queue)
        if known[about]:
            victims.append(victim)
    return victims


def _is_before(branches: dict[int, Branch], mine: Queue, other: Queue) -> bool:
    for left, right in zip(mine.chain[::-1], other.chain[::-1], strict=False):
        keys = (branches[left.index].key(), branches[right.index].key())
        if keys[0] != keys[1]:
            return keys[0] < keys[1]
    return False


def _settled(state: State, moved: dict[int, Amounts]) -> dict[int, Branch]:
    """The tree of queues with shares; `moved`: what leaves would have more or less, by queue."""
    places = quota_tree.shared_places(state)
    branches: dict[int, Branch] = {}
    tops = []
    for queue in state.queues:
        if queue.is_removed or not queue.jobs:
            continue
        branch = branches[queue.index] = Branch(queue.config.weight)
        if not queue.children:
            more = moved.get(queue.index, {})
            branch.allocated = {p: allocated(queue, p) + more.get(p, 0) for p in places}
            # what it has all of it asks for no more
            branch.request = {
                p: allocated(queue, p) + queue.waiting[p] for p in places if queue.waiting[p]
            }
    for queue in state.queues:
        if queue.index in branches:
            if queue.parent == ROOT:
                tops.append(branches[queue.index])
            else:
                branches[queue.parent].children.append(branches[queue.index])
    used = {p: sum(allocated(q, p) for q in state.queues if q.parent == ROOT) for p in places}
    for top in tops:
        settle(top, _total(state), used)
    return branches

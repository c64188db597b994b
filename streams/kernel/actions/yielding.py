"""Jobs in gaps make way for who is first in line, and those that were suspended go on.

Those who may be suspended come first: nodes on which they hold fewest cards, so that few are. Then
spot work, then others that run in gaps, where the wait is long enough, least lost work first. All
pods of a job leave together.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ganger.schemas.enums import Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import estimates, manners, tuning
from ganger.streams.kernel.backfill.futures import (
    IS_EVICTED,
    LEAVES,
    STOPS,
    Futures,
    HolderKey,
)
from ganger.streams.kernel.backfill.gaps import OpenNodes, gang_of, holdings
from ganger.streams.kernel.backfill.manners import SPOT
from ganger.streams.kernel.decide import Cause
from ganger.streams.kernel.entities import ClaimEntry, Job, Pod
from ganger.streams.kernel.foresight import windows
from ganger.streams.kernel.horizon.gather import Gang, fits
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.jobs import suspension
from ganger.streams.kernel.jobs.attempts import leave_rest, settle
from ganger.streams.kernel.jobs.lines import step_out
from ganger.streams.kernel.jobs.suspension import may_suspend
from ganger.streams.kernel.nodes.bars import bars_of
from ganger.streams.kernel.nodes.node_index import left_of
from ganger.streams.kernel.preemption.evictions import (
    leave_ns,
    notice_ns,
    tell_to_leave,
    warn,
)
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.resources import CARD_MILLI, CARDS
from ganger.streams.kernel.session import Host, Session
from ganger.streams.kernel.settings import Yielding
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards

# bound once: looking a member up on its Enum class costs more than what is done with it
_RUNNING = Phase.RUNNING
_SUSPENDED = Phase.SUSPENDED
_IN_GAPS = (Tier.BACKFILL, Tier.SPOT)
_NEEDS_CARDS = Reason.MAIN_NEEDS_CARDS
_RESUMED = Reason.RESUMED


class Lodger(NamedTuple):
    """A job in a gap that may be told to make way."""

    job: Job
    pods: tuple[Pod, ...]
    hardness: int
    lost_ns: int  # card-time that is lost

    @property
    def cards(self) -> int:
        """Cards that it would free."""
        return sum(pod.mask.bit_count() for pod in self.pods)


def lodgers(state: State, futures: Futures, yields: Yielding, head: Job) -> list[Lodger]:
    """Who may be told to make way for the first in line, by seq."""
    stopping, leaving, staying = futures.guests
    found = []
    for seq, attempts in stopping.items():
        pods = _all_of(state.jobs[seq], attempts)
        if pods and all(may_suspend(state.jobs[seq], pod) for pod in pods):
            found.append(Lodger(state.jobs[seq], pods, STOPS, 0))
    for seq, attempts in leaving.items():
        pods = _evictable(state, seq, attempts)
        if pods:
            lost_ns = max([_lost_ns(state, pod) for pod in pods])
            found.append(Lodger(state.jobs[seq], pods, LEAVES, lost_ns))
    if state.now_ns >= _patient_ns(yields, head):
        for seq, attempts in staying.items():
            lost_ns = max([_lost_ns(state, pod) for pod in attempts.values()])
            if lost_ns <= yields.lost_max_ns:
                pods = _evictable(state, seq, attempts)
                if pods:
                    found.append(Lodger(state.jobs[seq], pods, IS_EVICTED, lost_ns))
    found.sort(key=lambda one: one.job.seq)
    return found


def _all_of(job: Job, attempts: dict[HolderKey, Pod]) -> tuple[Pod, ...]:
    """The attempts of a job in a gap by pod; none unless all that it has are there."""
    if not job.pods or len(attempts) != len(job.pods):
        return ()
    pods = tuple([attempts[holder] for holder in sorted(attempts)])
    return pods if all(job.pods.get(pod.index) is pod for pod in pods) else ()


def _evictable(state: State, seq: int, attempts: dict[HolderKey, Pod]) -> tuple[Pod, ...]:
    """The same; none unless all may be evicted now."""
    pods = _all_of(state.jobs[seq], attempts)
    return pods if all(_may_evict(state, pod) for pod in pods) else ()


def _may_evict(state: State, pod: Pod) -> bool:
    """Whether a pod may be evicted now; one that has not begun to run may not, ever."""
    if pod.phase is not _RUNNING or not pod.started_ns or pod.notice_until_ns:
        return False
    return state.now_ns >= pod.protected_until_ns and not manners.is_protected(state, pod)


def _lost_ns(state: State, pod: Pod) -> int:
    return pod.ran_ns + windows.lost_ns(
        pod.started_ns, state.now_ns, pod.progress_milli, pod.checkpoint_milli
    )


def tell(state: State, head: Job, told: Sequence[Lodger], considered: int) -> int:
    """Tell jobs to make way. Returns the longest time in ns that one of them is given first."""
    asked = head.shape.min_needs[0][0]
    free = max(0, state.total[CARDS] - state.used[CARDS])
    order = longest_ns = 0
    for lodger in told:
        job = lodger.job
        step_out(state, job)
        for pod in lodger.pods:
            order += 1
            cause = Cause(
                _NEEDS_CARDS,
                asked,
                free,
                lodger.lost_ns,
                head.request.job,
                state.queues[head.queue].config.queue,
                "yielding",
                order,
                considered,
            )
            manners.fared(state, job, pod, is_preempted=True)
            longest_ns = max(longest_ns, leave_ns(state, job, pod))
            if lodger.hardness == STOPS:
                _suspend(state, job, pod, cause)
            else:
                job.lost_milli_ns += lodger.lost_ns * pod.mask.bit_count() * CARD_MILLI
                tell_to_leave(state, job, pod, cause)
        if lodger.hardness != STOPS:
            tuning.left_gap(state, has_completed=False)
            job.credit = windows.credit(job.credit, lodger.lost_ns * lodger.cards, 10**9)
        settle(state, job)
    return longest_ns


def _suspend(state: State, job: Job, pod: Pod, cause: Cause) -> None:
    """Have an attempt suspended, after its notice if it is to have one."""
    notice = notice_ns(state, job, pod)
    if notice:
        warn(state, job, pod, cause, state.now_ns + notice)
    else:
        suspension.tell(state, job, pod, cause)


def _patient_ns(yields: Yielding, head: Job) -> int:
    """When a job has waited long enough to have others evicted; who was in a gap never has."""
    return FOREVER if head.last_tier in _IN_GAPS else head.submitted_ns + yields.evict_after_ns


def until_ns(state: State, futures: Futures, yields: Yielding, head: Job) -> int:
    """When more may be told to make way for the first in line because time has passed; `FOREVER`:
    never.
    """
    patient_ns = _patient_ns(yields, head)
    if patient_ns > state.now_ns:
        return patient_ns
    soonest_ns = FOREVER
    for attempts in futures.guests[IS_EVICTED].values():
        for pod in attempts.values():
            if state.now_ns < pod.started_ns + pod.protect_ns < soonest_ns and pod.started_ns:
                soonest_ns = pod.started_ns + pod.protect_ns
    return soonest_ns


# ---- going on -----------------------------------------------------------------------------------


def resting(state: State, futures: Futures) -> list[Job]:
    """Jobs of which all attempts are suspended, in order of submission."""
    seqs = dict.fromkeys([holder[0] for holder in futures.resting])
    jobs = [state.jobs[seq] for seq in sorted(seqs) if seq in state.jobs]
    return [
        job for job in jobs if job.pods and all(p.phase is _SUSPENDED for p in job.pods.values())
    ]


def go_on(state: State, job: Job, host: Host) -> bool:
    """Let a suspended job go on if there are cards for it; whether there were."""
    assert job.pods is not None
    if job.held or job.ending is not Phase.UNKNOWN:
        return False
    pods = [job.pods[index] for index in sorted(job.pods)]
    masks = _own_cards(state, job, pods)
    if masks is not None:
        step_out(state, job)
        for pod, mask in zip(pods, masks, strict=True):
            slept_ns = state.now_ns - pod.suspended_ns
            suspension.resume(state, job, pod, mask, Cause(_RESUMED, slept_ns, rule="yielding"))
        settle(state, job)
        return True
    if not manners.takes_part(state, job) or not host.fits_again(job):
        return False
    _move(state, job, pods, host)
    return True


def _in_line_ns(state: State, job: Job, most_ns: int) -> int:
    """When a suspended job is to wait in line like others: at once if gaps are refused by now."""
    if not manners.takes_part(state, job):
        return state.now_ns
    since_ns = min(pod.suspended_ns for pod in (job.pods or {}).values())
    return since_ns + most_ns if most_ns else FOREVER


def _own_cards(state: State, job: Job, pods: Iterable[Pod]) -> list[int] | None:
    """Cards on which suspended pods may go on where they were; none: not all of them may."""
    taken: dict[int, int] = {}
    cpu: dict[int, int] = {}
    extra: dict[tuple[int, int], int] = {}
    masks = []
    queue = state.queues[job.queue]
    held: dict[int, int] = {}
    kept = state.indexes.windows
    for pod in pods:
        node = state.nodes[pod.node]
        shape = job.shape.shapes[pod.index % len(job.roles)]
        if not node.is_open or node.kind is None:
            return None
        mask = state.indexes.nodes.cards_for(shape, node.kind)
        if kept is not None:
            bars = bars_of(state, kept, job, state.now_ns, estimates.left_ns(pod))
            mask = left_of(node, mask, bars)
        free = node.free & mask & ~taken.get(pod.node, 0)
        spent = cpu.get(pod.node, 0) + shape.cpu
        if free.bit_count() < shape.cards or (shape.cpu and spent > node.free_cpu):
            return None
        if queue.is_capped and not quota.headroom(queue, shape, 1, held)[0]:
            return None
        chosen = choose_cards(free, shape.cards, node.kind.islands, shape.same_island)
        if not chosen:
            return None
        for place, amount in shape.extra:
            extra[pod.node, place] = asked = extra.get((pod.node, place), 0) + amount
            if asked > node.free_extra.get(place, 0):
                return None
        cpu[pod.node] = spent
        taken[pod.node] = taken.get(pod.node, 0) | chosen
        for place, amount in shape.charges:
            held[place] = held.get(place, 0) + amount
        masks.append(chosen)
    return masks


def _move(state: State, job: Job, pods: Sequence[Pod], host: Host) -> None:
    """Start suspended pods elsewhere, from what they saved."""
    futures = state.indexes.futures
    assert futures is not None
    before = {
        pod.index: (estimates.left_ns(pod), pod.earlier_ns + pod.ran_ns, pod.for_job)
        for pod in pods
    }
    slept_ns = state.now_ns - min(pod.suspended_ns for pod in pods)
    leave_rest(state, job, pods)
    host.start_again(job, slept_ns)
    for pod in (job.pods or {}).values():
        if pod.index not in before:  # it waited beside them
            continue
        run_ns, pod.earlier_ns, pod.for_job = before[pod.index]
        estimates.goes_on(state, futures, job, pod, run_ns)
        state.touch_pod(job, pod)


# ---- the action --------------------------------------------------------------------------------


def run(session: Session) -> None:
    """Let them, if allocate has left somebody first in line or anybody is suspended."""
    timing, futures = session.state.policy.timing, session.state.indexes.futures
    if timing is None or futures is None:
        return
    if session.make_way is None or session.host is None:
        if not session.state.indexes.is_place_wanted():  # else nothing has been looked at
            manners.look_again(session.state, 0)
        return
    assert timing.yields is not None
    making = Making(session, session.host, futures, timing.yields)
    session.make_way(making)
    manners.look_again(session.state, making.again_ns if making.again_ns < FOREVER else 0)


class Making:
    """Makes way in one cycle: see `session.Way`.

    Attributes:
        again_ns: when time alone may let more make way, or lets who rests wait in line.
    """

    __slots__ = ("_futures", "_host", "_session", "_state", "_yields", "again_ns")

    def __init__(self, session: Session, host: Host, futures: Futures, yields: Yielding) -> None:
        self._session = session
        self._state = session.state
        self._host = host
        self._futures = futures
        self._yields = yields
        self.again_ns = FOREVER

    def free_for(self, job: Job) -> bool:
        """Tell others to make way for a job, which claims their cards; whether that is enough."""
        state, futures, yields = self._state, self._futures, self._yields
        if not futures.lent or manners.manner(state, job) & SPOT:
            return False
        if self._tell_for(job):
            return True
        self.again_ns = min(self.again_ns, until_ns(state, futures, yields, job))
        return False

    def _tell_for(self, job: Job) -> bool:
        state = self._state
        found = lodgers(state, self._futures, self._yields, job)
        if not found:
            return False
        chosen = self._choose(job, found)
        if chosen is None:
            return False
        entries = self._host.make_room(job, [pod for one in chosen for pod in one.pods])
        if entries is None:
            return False
        told = [one for one in chosen if _stands_on(one, entries)]
        victims = tuple([(p.job, p.index, p.attempt) for one in told for p in one.pods])
        self._session.evicted += sum([len(o.pods) for o in told if o.hardness != STOPS])
        grace = tell(state, job, told, sum([len(one.pods) for one in found]))
        self._host.claim(job, entries, victims, grace)
        return True

    def _choose(self, job: Job, found: list[Lodger]) -> list[Lodger] | None:
        """Whose cards a job needs; none: all of them are not enough. Too many, where only placement
        can tell.
        """
        state = self._state
        gang = gang_of(job)
        suits = state.indexes.nodes.eligible(job.shape.shapes[0])
        if gang is None or not all(whole for _, _, whole in suits):
            return self._fewest(job, found)
        levels = OpenNodes(state.indexes.nodes, job.shape.shapes[0])
        return _nodes_of(gang, levels, self._back_now(levels), found)

    def _back_now(self, levels: OpenNodes) -> dict[int, int]:
        """Cards that nodes get back now: of those who are due, and of those who stop already."""
        state, futures = self._state, self._futures
        back: dict[int, int] = {}
        for holder in futures.due(state.now_ns):
            found = futures.expected(holder)
            for node, count in holdings(state, holder, 0 if found is None else found[1]):
                if levels.has(node):
                    back[node] = back.get(node, 0) + count
        return back

    def _fewest(self, job: Job, found: list[Lodger]) -> list[Lodger] | None:
        """The first of them, easiest first, that are enough. O(log) placements."""
        ordered = sorted(found, key=lambda one: (one.hardness, one.lost_ns, -one.job.seq))
        low, high = 1, len(ordered)
        if self._host.make_room(job, _pods(ordered)) is None:
            return None
        while low < high:
            middle = (low + high) // 2
            if self._host.make_room(job, _pods(ordered[:middle])) is None:
                low = middle + 1
            else:
                high = middle
        return ordered[:high]

    def go_on(self) -> list[Job]:
        """Let those who were suspended go on, first come first; who does."""
        if not self._futures.resting:
            return []
        state, gone = self._state, []
        for job in resting(state, self._futures):
            line_ns = _in_line_ns(state, job, self._yields.suspend_max_ns)
            if go_on(state, job, self._host):
                gone.append(job)
            elif line_ns <= state.now_ns:
                leave_rest(state, job, [pod for _, pod in sorted((job.pods or {}).items())])
                job.last_tier = Tier.UNKNOWN  # it waits for its turn as if it had not started yet
                settle(state, job)
            else:
                self.again_ns = min(self.again_ns, line_ns)
        return gone


def _pods(lodgers: Sequence[Lodger]) -> list[Pod]:
    return [pod for one in lodgers for pod in one.pods]


def _stands_on(lodger: Lodger, entries: tuple[ClaimEntry, ...]) -> bool:
    """Whether some card of it is one of those that are claimed."""
    return any(
        entry.node == pod.node and entry.mask & pod.mask for entry in entries for pod in lodger.pods
    )


def _nodes_of(
    gang: Gang, levels: OpenNodes, back: dict[int, int], lodgers: list[Lodger]
) -> list[Lodger] | None:
    """Lodgers of the nodes whose cards are enough: easiest first, then with least work lost, then
    with fewest cards.

    `back`: cards that nodes get back without them.
    """
    on_node: dict[int, list[tuple[Lodger, int]]] = {}
    for lodger in lodgers:
        for pod in lodger.pods:
            if levels.has(pod.node):
                on_node.setdefault(pod.node, []).append((lodger, pod.mask.bit_count()))
    counts = levels.counts()
    for node, cards in back.items():
        _shift(counts, levels.free(node), levels.free(node) + cards)
    least = min(cards for cards, _ in gang)
    keys = []
    for node, there in on_node.items():
        freed = sum(cards for _, cards in there)
        before = levels.free(node) + back.get(node, 0)
        if (before + freed) // least > before // least:
            lost_ns = sum(one.lost_ns * cards for one, cards in there)
            keys.append((max(one.hardness for one, _ in there), lost_ns, freed, node))
    chosen: list[int] = []
    for _, _, freed, node in sorted(keys):
        if fits(gang, counts):
            break
        before = levels.free(node) + back.get(node, 0)
        _shift(counts, before, before + freed)
        chosen.append(node)
    if not fits(gang, counts):
        return None
    for node in reversed(chosen[:-1]):  # the first ones may have been too small to be of use
        freed = sum(cards for _, cards in on_node[node])
        before = levels.free(node) + back.get(node, 0)
        _shift(counts, before + freed, before)
        if fits(gang, counts):
            chosen.remove(node)
        else:
            _shift(counts, before, before + freed)
    found = {one.job.seq: one for node in chosen for one, _ in on_node[node]}
    return [found[seq] for seq in sorted(found)]


def _shift(counts: dict[int, int], before: int, after: int) -> None:
    counts[before] -= 1
    counts[after] = counts.get(after, 0) + 1

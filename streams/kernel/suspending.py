"""Who makes way for the first in line, and how those who were suspended go on.

Those who may be suspended come first: nodes on which they hold fewest cards, so that few are. Then
spot work, then others that run in gaps, where the wait is long enough, least lost work first. All
pods of a job leave together.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ganger.schemas.enums import Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import estimates, manners, quota, suspension
from ganger.streams.kernel.attempts import detach, settle
from ganger.streams.kernel.entities import ClaimEntry, Job, Pod
from ganger.streams.kernel.evictions import Cause, evict_for, is_told
from ganger.streams.kernel.foresight import windows
from ganger.streams.kernel.futures import Futures, HolderKey
from ganger.streams.kernel.lines import step_out
from ganger.streams.kernel.manners import SPOT, SUSPENDABLE
from ganger.streams.kernel.resources import CARD_MILLI, CARDS
from ganger.streams.kernel.state import State, Yielding
from ganger.streams.kernel.suspension import is_stopping, may_suspend
from ganger.streams.kernel.topology import choose_cards

# bound once: looking a member up on its Enum class costs more than what is done with it
_RUNNING = Phase.RUNNING
_SUSPENDED = Phase.SUSPENDED
_NEEDS_CARDS = Reason.MAIN_NEEDS_CARDS
_RESUMED = Reason.RESUMED

STOPS, LEAVES, IS_EVICTED = 0, 1, 2
"""How hard it is for somebody to make way: suspended, spot work, evicted."""


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
    by_job: dict[int, list[Pod]] = {}
    for seq, index, attempt in futures.lent:
        job = state.jobs[seq]
        pod = job.pods.get(index) if job.pods else None
        if pod is not None and pod.attempt == attempt:
            by_job.setdefault(seq, []).append(pod)
    found = []
    may_evict = state.now_ns - head.submitted_ns >= yields.evict_after_ns
    for seq in sorted(by_job):
        job = state.jobs[seq]
        pods = sorted(by_job[seq], key=lambda pod: pod.index)
        if len(pods) != len(job.pods or ()):
            continue
        manner = manners.manner(state, job)
        if manner & SUSPENDABLE and all(may_suspend(job, pod) for pod in pods):
            found.append(Lodger(job, tuple(pods), STOPS, 0))
            continue
        if any(_is_protected(state, pod) for pod in pods):
            continue
        lost = max(_lost_ns(state, pod) for pod in pods)
        if manner & SPOT:
            found.append(Lodger(job, tuple(pods), LEAVES, lost))
        elif may_evict and lost <= yields.lost_max_ns and not manner & SUSPENDABLE:
            found.append(Lodger(job, tuple(pods), IS_EVICTED, lost))
    return found


def _is_protected(state: State, pod: Pod) -> bool:
    """Whether a pod must not be evicted now; one that has not begun to run is not, ever."""
    if pod.phase is not _RUNNING or not pod.started_ns or pod.notice_until_ns:
        return True
    until_ns = max(pod.protected_until_ns, pod.started_ns + pod.protect_ns)
    return state.now_ns < until_ns


def _lost_ns(state: State, pod: Pod) -> int:
    return pod.ran_ns + windows.lost_ns(
        pod.started_ns, state.now_ns, pod.progress_milli, pod.checkpoint_milli
    )


def is_yielding(state: State, holder: HolderKey) -> bool:
    """Whether cards of somebody in a gap are anybody's whose turn it is: it makes way at once."""
    job = state.jobs[holder[0]]
    pod = job.pods.get(holder[1]) if job.pods else None
    if pod is None or pod.attempt != holder[2] or is_told(pod):
        return False
    manner = manners.manner(state, job)
    return bool(manner & SUSPENDABLE or (manner & SPOT and pod.protected_until_ns <= state.now_ns))


def tell(state: State, head: Job, told: Sequence[Lodger], considered: int) -> int:
    """Tell jobs to make way. Returns how many attempts are to end."""
    asked = head.shape.min_needs[0][0]
    free = max(0, state.total[CARDS] - state.used[CARDS])
    order = evicted = 0
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
            if lodger.hardness == STOPS:
                suspension.tell(state, job, pod, cause)
            else:
                job.lost_milli_ns += lodger.lost_ns * pod.mask.bit_count() * CARD_MILLI
                evict_for(state, job, pod, cause)
                evicted += 1
        if lodger.hardness != STOPS:
            job.credit = windows.credit(job.credit, lodger.lost_ns * lodger.cards, 10**9)
        settle(state, job)
    return evicted


# ---- going on -----------------------------------------------------------------------------------


class Again(Protocol):
    """Starts pods anew whose attempts were given up."""

    def fits_again(self, job: Job) -> bool:
        """Whether all pods of a suspended job would find a place elsewhere."""
        ...

    def start_again(self, job: Job) -> None:
        """Place and start what is pending of the job, in a gap."""
        ...


def resting(state: State, futures: Futures) -> list[Job]:
    """Jobs of which all attempts are suspended, in order of submission."""
    seqs = dict.fromkeys([holder[0] for holder in futures.resting])
    jobs = [state.jobs[seq] for seq in sorted(seqs) if seq in state.jobs]
    return [
        job for job in jobs if job.pods and all(p.phase is _SUSPENDED for p in job.pods.values())
    ]


def go_on(state: State, job: Job, again: Again) -> bool:
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
    if not again.fits_again(job):
        return False
    _move(state, job, pods, again)
    return True


def _own_cards(state: State, job: Job, pods: Iterable[Pod]) -> list[int] | None:
    """Cards on which suspended pods may go on where they were; none: not all of them may."""
    taken: dict[int, int] = {}
    cpu: dict[int, int] = {}
    masks = []
    queue = state.queues[job.queue]
    held: dict[int, int] = {}
    for pod in pods:
        node = state.nodes[pod.node]
        shape = job.shape.shapes[pod.index % len(job.roles)]
        if not node.is_open or node.kind is None or shape.extra:
            return None
        mask = state.indexes.nodes.cards_for(shape, node.kind)
        free = node.free & mask & ~taken.get(pod.node, 0)
        spent = cpu.get(pod.node, 0) + shape.cpu
        if free.bit_count() < shape.cards or (shape.cpu and spent > node.free_cpu):
            return None
        if queue.is_capped and not quota.headroom(queue, shape, 1, held)[0]:
            return None
        chosen = choose_cards(free, shape.cards, node.kind.islands, shape.same_island)
        if not chosen:
            return None
        cpu[pod.node] = spent
        taken[pod.node] = taken.get(pod.node, 0) | chosen
        for place, amount in shape.charges:
            held[place] = held.get(place, 0) + amount
        masks.append(chosen)
    return masks


def _move(state: State, job: Job, pods: Sequence[Pod], again: Again) -> None:
    """Start suspended pods elsewhere, from what they saved."""
    futures = state.indexes.futures
    assert futures is not None
    before = {
        pod.index: (estimates.left_ns(pod), pod.earlier_ns + pod.ran_ns, pod.for_job)
        for pod in pods
    }
    give_up(state, job, pods)
    again.start_again(job)
    for pod in (job.pods or {}).values():
        run_ns, pod.earlier_ns, pod.for_job = before[pod.index]
        estimates.goes_on(state, futures, job, pod, run_ns)
        state.touch_pod(job, pod)


def give_up(state: State, job: Job, pods: Iterable[Pod]) -> None:
    """Suspended attempts end; their pods are to be placed again. The job then stands in no line."""
    futures = state.indexes.futures
    assert futures is not None
    step_out(state, job)
    for pod in pods:
        slept_ns = state.now_ns - pod.suspended_ns
        evict_for(state, job, pod, Cause(_RESUMED, slept_ns, rule="yielding"))
        futures.forget((pod.job, pod.index, pod.attempt))
        detach(state, job, pod)

"""How jobs in gaps behave, which idle cards they may have, and what they are told to expect."""

from collections.abc import Iterable, Iterator

from ganger.schemas.enums import BackfillPreference, Communication, IdleClass, Phase, Tier, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import memory, tuning
from ganger.streams.kernel.backfill.futures import Futures, HolderKey, stops
from ganger.streams.kernel.entities import Job, Node, Pod
from ganger.streams.kernel.foresight import risk, windows
from ganger.streams.kernel.foresight.risk import Terms
from ganger.streams.kernel.jobs.gangs import is_pending
from ganger.streams.kernel.resources import CARD_MILLI
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

SUSPENDABLE, SPOT, HEAVY = 1, 2, 4
"""Parts of a manner: can be suspended and resumed; is spot work; its pods talk much."""

_RELEASING = Phase.RELEASING
_SPOT = Tier.SPOT
_PRIORS = {Reason.SUSPENDABLE: 500, Reason.SPOT_FILL: 300}
"""Probability of having to make way, in thousandths, while nothing is known; of others `_PRIOR`."""

_PRIOR = 20

_AGAIN = "yielding/again"


def takes_part(state: State, job: Job) -> bool:
    """Whether gaps may be offered to the job: its owner and its queue agree to that."""
    return (
        job.request.backfill is not BackfillPreference.REFUSE
        and state.queues[job.queue].config.backfill is not Tri.NO
    )


def manner(state: State, job: Job) -> int:
    """How a job behaves in gaps; 0 where nobody there makes way."""
    timing = state.policy.timing
    if timing is None or timing.yields is None:
        return 0
    request = job.request
    found = 0
    if request.spot and "spot" in timing.routes and takes_part(state, job):
        found |= SPOT
    if stops(timing.routes, job):
        found |= SUSPENDABLE
    pods = sum(role.replicas for role in job.roles)
    if request.communication is Communication.HEAVY or (
        request.communication is Communication.UNKNOWN and pods > 1
    ):
        found |= HEAVY
    return found


def givers(state: State, futures: Futures) -> Iterator[HolderKey]:
    """Who makes way at once, so that its cards are anybody's whose turn it is; ascending."""
    now_ns = state.now_ns
    stopping, leaving, _ = futures.guests
    for seq in sorted([*stopping, *leaving]):
        job = state.jobs[seq]
        for holder, pod in sorted((stopping.get(seq) or leaving[seq]).items()):
            if not job.pods or job.pods.get(pod.index) is not pod:
                continue
            if pod.phase is _RELEASING and not pod.suspended_ns:
                continue  # told to end: its cards are promised to others, as a rule
            if seq in stopping or pod.protected_until_ns <= now_ns:
                yield holder


def is_protected(state: State, pod: Pod) -> bool:
    """Whether a pod is inside its protection window, which begins when its attempt first runs."""
    if not pod.protect_ns:
        return False
    return not pod.started_ns or state.now_ns < pod.started_ns + pod.protect_ns


# ---- when to look again -------------------------------------------------------------------------


def again_ns(state: State) -> int:
    """When others may make way, or who rests go on, for no more than that time has passed; 0: only
    when something happens.
    """
    timing = state.policy.timing
    if timing is None or timing.yields is None:
        return 0
    row = memory.get(state, _AGAIN)
    return row[0] if row else 0


def look_again(state: State, at_ns: int) -> None:
    """Have a cycle run then; 0: there is no need to."""
    if not at_ns:
        if _AGAIN in state.memory:
            memory.drop(state, _AGAIN)
    elif memory.get(state, _AGAIN) != (at_ns,):
        memory.put(state, _AGAIN, (at_ns,))
        watch(state)


def watch(state: State) -> None:
    """See that it does."""
    at_ns = again_ns(state)
    if at_ns > state.clock_ns:
        state.indexes.timers.at(at_ns, Wake.MAKE_WAY)


def idle_class(node: Node, taken: int, held: int, large_cards: int) -> IdleClass:
    """What kind of idle cards a pod was placed on.

    Args:
        node: as it is now, with the pod placed.
        taken: cards that were placed on it just now.
        held: cards of it that are held for a reservation.
        large_cards: a pod with so many is large.
    """
    before = node.free_count + taken
    if held > before - taken:
        return IdleClass.TIME
    if before >= 2 and (not node.pods or _has_large(node.pods.values(), large_cards)):
        return IdleClass.IN_NODE
    return IdleClass.FRAGMENT


def _has_large(pods: Iterable[Pod], large_cards: int) -> bool:
    return any(pod.mask.bit_count() >= large_cards for pod in pods)


def row_of(job: Job, reason: Reason) -> str:
    """Where it is known how such jobs fared in gaps that they came into for this reason."""
    cards = job.shape.min_needs[0][0] // CARD_MILLI
    route = "stays"
    if reason is Reason.SUSPENDABLE:
        route = "stops"
    elif reason is Reason.SPOT_FILL:
        route = "spot"
    return f"risk/{route}/{cards.bit_length()}"


def terms(
    state: State, job: Job, reason: Reason, estimate_ns: int, idle: IdleClass, head: Job | None
) -> Terms:
    """What a job that starts in a gap has to expect. `reason`: why it may; `head`: who is first."""
    timing = state.policy.timing
    assert timing is not None and timing.yields is not None
    row = memory.get(state, row_of(job, reason)) or risk.EMPTY
    protect_ns = 0
    if not manner(state, job) & (SUSPENDABLE | SPOT):  # else it is suspended, or leaves, at once
        share = tuning.knobs_of(state).protection_milli
        yields = timing.yields
        protect_ns = windows.protection_ns(estimate_ns, share, yields.floor_ns, yields.ceiling_ns)
    return Terms(
        protect_ns,
        risk.hold_ns(row, (), estimate_ns),
        risk.preemption_milli(row, _PRIORS.get(reason, _PRIOR)),
        idle,
        "" if head is None else head.request.job,
        -1 if head is None else head.seq,
    )


def is_too_risky(job: Job, expected: Terms) -> bool:
    """Whether the owner takes only less risk than that; of spot work none is asked."""
    request = job.request
    return (
        not request.spot
        and request.backfill is BackfillPreference.LOW_RISK_ONLY
        and expected.risk_milli > request.backfill_risk_milli
    )


def left(state: State, job: Job, pod: Pod) -> None:
    """An attempt in a gap has ended well."""
    timing = state.policy.timing
    if timing is not None and timing.yields is not None:
        fared(state, job, pod, is_preempted=False)
        if not job.pods and not is_pending(job):
            tuning.left_gap(state, has_completed=True)


def fared(state: State, job: Job, pod: Pod, is_preempted: bool) -> None:
    """An attempt in a gap has ended, or has to make way."""
    reason = Reason.SAFE_IN_GAP
    if pod.tier is _SPOT:
        reason = Reason.SPOT_FILL
    elif pod.for_job >= 0:
        reason = Reason.SUSPENDABLE
    name = row_of(job, reason)
    held_ns = state.now_ns - pod.allocated_ns
    memory.put(
        state, name, risk.learn(memory.get(state, name) or risk.EMPTY, held_ns, is_preempted)
    )

"""Why running pods are left alone although a job waits that could use their cards.

Asked when someone wants to know, never in a cycle: each rule of the policy judges all candidates by
itself, so the first that spares a pod is named. O(attempts x rules).
"""

from dataclasses import dataclass

import msgspec

from ganger.schemas.enums import Phase, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Claim, Job, Pod, Taker, Victim
from ganger.streams.kernel.jobs.gangs import is_leaving, needed, surplus
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.policies import min_runtime, pdb
from ganger.streams.kernel.policies.hooks import Hooks
from ganger.streams.kernel.policies.registry import rules_of
from ganger.streams.kernel.preemption.candidates import Hunt, cost, hunt_of, lost_ns, may_lose
from ganger.streams.kernel.preemption.taking import patient_until_ns
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.state import State

_PREEMPT, _RECLAIM = "preempt", "reclaim"

EXAMPLES = 3
"""Jobs named with each reason."""

OF_RULES = {
    "priority": Reason.NOT_LOWER_PRIORITY,
    "gang": Reason.GANG_MINIMUM,
    "pdb": Reason.BUDGET,
    "cooldown": Reason.COOLDOWN,
    "min_runtime": Reason.MIN_RUNTIME,
    "conformance": Reason.CRITICAL,
}
"""What it means that a rule spares a pod; of all others that the pod's queue has no more than its
due."""


class Spared(msgspec.Struct, frozen=True, gc=False):
    """Pods that stay for one reason. `jobs`: some of the `job_count` jobs that they are of."""

    reason: Reason
    rule: str  # of the policy, or argument of the action; empty: the kernel's own
    asked: int
    limit: int
    pods: int
    job_count: int
    jobs: tuple[str, ...]


class _Tally:
    """Spared pods by reason and rule."""

    def __init__(self) -> None:
        self.found: dict[tuple[Reason, str], list[tuple[Victim, int, int]]] = {}

    def add(self, victim: Victim, reason: Reason, rule: str, asked: int, limit: int) -> None:
        self.found.setdefault((reason, rule), []).append((victim, asked, limit))

    def result(self) -> tuple[Spared, ...]:
        told = []
        for (reason, rule), entries in sorted(self.found.items()):
            jobs = list(dict.fromkeys(victim.job.request.job for victim, _, _ in entries))
            told.append(
                Spared(
                    reason,
                    rule,
                    max(asked for _, asked, _ in entries),
                    max(limit for _, _, limit in entries),
                    len(entries),
                    len(jobs),
                    tuple(jobs[:EXAMPLES]),
                )
            )
        return tuple(told)


@dataclass(slots=True)
class _Look:
    """One look at whom an action would take from for a job."""

    state: State
    taker: Taker
    hunt: Hunt
    rules: list[tuple[str, Hooks]]
    tally: _Tally


def spared(state: State, job: Job) -> tuple[Spared, ...]:
    """Whom preempt and reclaim spare though the job waits, in the order of reasons. Of a job with a
    claim: whom they spared beside those that leave for it.
    """
    record = state.policy_record
    if record is None:
        return ()
    tally = _Tally()
    rules = rules_of(record)
    claim = state.claims.get(job.seq)
    leaving = [] if claim is None else _leaving(state, claim)
    for action, reason in ((_PREEMPT, Reason.PREEMPTED), (_RECLAIM, Reason.RECLAIMED)):
        if action not in state.policy.actions:
            continue
        hunt = hunt_of(state.policy, action, reason, is_across=action is _RECLAIM)
        look = _Look(state, Taker(job, needed(job)), hunt, rules, tally)
        own = [victim for victim in leaving if victim.pod.evict_reason is reason]
        if own or claim is None:
            left = _whole(look, _judged(look, _open(look)))
            if own:
                _compare(look, left, own)
            elif left and not _would_help(look, left):
                for victim in left:
                    tally.add(victim, Reason.GANG_BELOW_MINIMUM, "", sum(look.taker.counts), 0)
    return tally.result()


def patience(state: State, job: Job) -> tuple[str, int, int] | None:
    """The action that takes from nobody for a job until it has waited long enough, how long that is
    from now, and in all, in ns; none: no action waits for that.
    """
    for action in (_PREEMPT, _RECLAIM):
        if action in state.policy.actions:
            patience_ns = state.policy.numbers[f"{action}.patience_ns"]
            left_ns = patient_until_ns(job, patience_ns) - state.clock_ns
            if patience_ns and left_ns > 0:
                return action, left_ns, patience_ns
    return None


def _leaving(state: State, claim: Claim) -> list[Victim]:
    """The attempts that leave for a claim and have not left yet."""
    found: list[Victim] = []
    for seq, index, attempt in claim.victims:
        job = state.jobs.get(seq)
        pod = job.pods.get(index) if job is not None and job.pods else None
        if job is not None and pod is not None and pod.attempt == attempt:
            found.append(Victim(job, pod, len(found)))
    return found


def _open(look: _Look) -> list[Victim]:
    """Running pods of the job's queue, or of others, that no word of their own protects."""
    state, job = look.state, look.taker.job
    found: list[Victim] = []
    for node in state.nodes:
        for key in sorted(node.pods):
            pod = node.pods[key]
            other = state.jobs[pod.job]
            if other is job or is_leaving(pod) or pod.phase is Phase.SUSPENDED:
                continue
            if (other.queue != job.queue) is look.hunt.is_across:
                victim = Victim(other, pod, len(found))
                reason, rule, asked, limit = _own_word(look, other, pod)
                if reason is Reason.UNKNOWN:
                    found.append(victim)
                else:
                    look.tally.add(victim, reason, rule, asked, limit)
    return found


def _own_word(look: _Look, other: Job, pod: Pod) -> tuple[Reason, str, int, int]:
    """What spares a pod whoever asks, or however rules judge it together with others: reason, rule
    or argument, numbers; UNKNOWN: nothing.
    """
    state, hunt, job = look.state, look.hunt, look.taker.job
    if hunt.is_across:
        if not all(level.config.reclaimable for level in state.queues[other.queue].chain):
            return Reason.NOT_RECLAIMABLE, "", 0, 0
    elif hunt.by_priority and other.priority >= job.priority:
        return Reason.NOT_LOWER_PRIORITY, "", other.priority, job.priority
    role = other.shape.roles[pod.index % len(other.roles)]
    if Tri.NO in (role.preemptable, other.request.preemptable):
        return Reason.CRITICAL, "", 0, 0
    if 0 <= hunt.evictions_max < pod.attempt:
        rule = f"{hunt.rule}.evictions_max"
        return Reason.REQUEUE_LIMIT, rule, pod.attempt - 1, hunt.evictions_max
    if not may_lose(hunt, pod, state.clock_ns):
        lost = lost_ns(pod, state.clock_ns)
        return Reason.LOST_WORK_BOUND, f"{hunt.rule}.lost_max_ns", lost, hunt.lost_max_ns
    if pod.protected_until_ns > state.clock_ns:
        return _protection(look, other, pod)
    return Reason.UNKNOWN, "", 0, 0


def _protection(look: _Look, other: Job, pod: Pod) -> tuple[Reason, str, int, int]:
    """The rule that protects a pod, how long still and how long in all; its placement, if none."""
    left_ns = pod.protected_until_ns - look.state.clock_ns
    whole_ns = pod.protected_until_ns - pod.started_ns if pod.started_ns else 0
    for name, hooks in look.rules:
        if hooks.protected is not None:
            if pod.protected_until_ns in hooks.protected(look.state, other, pod):
                return OF_RULES.get(name, Reason.PROTECTED), name, left_ns, whole_ns
    return Reason.PROTECTED, "", left_ns, whole_ns


def _judged(look: _Look, candidates: list[Victim]) -> list[Victim]:
    """Let each rule judge the candidates; who is spared by one is not shown to the next. Whom none
    spares.
    """
    left = candidates
    for name, hooks in look.rules:
        veto = hooks.reclaimable if look.hunt.is_across else hooks.preemptable
        allowed = None if veto is None or not left else veto(look.state, look.taker, left)
        if allowed is None:
            continue
        kept = {_identity(victim.pod): True for victim in allowed}
        for victim in left:
            if _identity(victim.pod) not in kept:
                reason = OF_RULES.get(name, Reason.QUEUE_WITHIN_DUE)
                look.tally.add(victim, reason, name, *_numbers(look, reason, victim, hooks))
        left = [victim for victim in left if _identity(victim.pod) in kept]
    return left


def _numbers(look: _Look, reason: Reason, victim: Victim, hooks: Hooks) -> tuple[int, int]:
    """The numbers that a rule's reason states of a pod."""
    state, job, pod = look.state, victim.job, victim.pod
    if reason is Reason.GANG_MINIMUM:
        return 0, job.shape.min_available
    if reason is Reason.NOT_LOWER_PRIORITY:
        return job.priority, look.taker.job.priority
    if reason is Reason.BUDGET and job.request.budget is not None:
        live = sum(not is_leaving(one) for one in (job.pods or {}).values())
        least = live - pdb.allowed(job, job.request.budget)
        return least - 1, least
    if reason is Reason.QUEUE_WITHIN_DUE:
        rest = quota.allocated(state.queues[job.queue], CARDS) - _together(job, pod)
        return max(0, rest), quota.deserved(state)[job.queue][0]
    if reason is Reason.MIN_RUNTIME:
        least_ns = min_runtime.least_ns(state, job, look.hunt.is_across)
        return max(0, pod.started_ns + least_ns - state.clock_ns), least_ns
    if hooks.protected is not None:
        until = max(hooks.protected(state, job, pod), default=state.clock_ns)
        return max(0, until - state.clock_ns), max(0, until - pod.started_ns)
    return 0, 0


def _together(job: Job, pod: Pod) -> int:
    """Milli-cards that leave with a pod: its own if its job can spare it, else all of the job's."""
    live = [one for one in (job.pods or {}).values() if not is_leaving(one)]
    if surplus(job, [pod]):
        return pod.shape.cards_milli
    return sum(one.shape.cards_milli for one in live)


def _whole(look: _Look, left: list[Victim]) -> list[Victim]:
    """Those that may leave: what a job has beyond its minimums, and whole jobs of which nobody is
    spared.
    """
    pods: dict[int, list[Victim]] = {}
    for victim in left:
        pods.setdefault(victim.job.seq, []).append(victim)
    kept = []
    for found in pods.values():
        job = found[0].job
        live = [pod for pod in (job.pods or {}).values() if not is_leaving(pod)]
        spare = {_identity(pod): True for pod in surplus(job, [victim.pod for victim in found])}
        for victim in found:
            if len(found) == len(live) or _identity(victim.pod) in spare:
                kept.append(victim)
            else:
                look.tally.add(victim, Reason.GANG_MINIMUM, "", 0, job.shape.min_available)
    return kept


def _compare(look: _Look, left: list[Victim], leaving: list[Victim]) -> None:
    """Why those were not chosen who might have been: they cost more than the dearest that leaves,
    or are not needed.
    """
    costs = [(cost(victim.job, (victim.pod,), False), victim) for victim in leaving]
    dearest, last = max(costs, key=lambda entry: entry[0])
    for victim in left:
        own = cost(victim.job, (victim.pod,), False)
        if own[0] == dearest[0] and own[1] > dearest[1]:
            numbers = victim.job.priority, last.job.priority
            look.tally.add(victim, Reason.NOT_LOWER_PRIORITY, "", *numbers)
        else:
            look.tally.add(victim, Reason.NOT_NEEDED, "", 0, 0)


def _would_help(look: _Look, left: list[Victim]) -> bool:
    """Whether the job would find its places if all of them left."""
    lifts, statement = Statement(look.state), Statement(look.state)
    for victim in left:
        lifts.give_back(victim.pod)
    refusal = place_job(look.state, statement, look.taker.job, surplus=False)
    statement.discard()
    lifts.discard()
    return refusal is None


def _identity(pod: Pod) -> tuple[int, int, int]:
    return (pod.job, pod.index, pod.attempt)

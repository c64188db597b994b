"""Why running pods are left alone although a job waits that could use their cards.

Asked when someone wants to know, never in a cycle: each rule of the policy judges all candidates by
itself, so the first that spares a pod is named. O(attempts x rules).
"""

import msgspec

from ganger.schemas.enums import Phase, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Pod, Taker, Victim
from ganger.streams.kernel.jobs.gangs import is_leaving, needed
from ganger.streams.kernel.policies import pdb
from ganger.streams.kernel.policies.hooks import Hooks
from ganger.streams.kernel.policies.registry import rules_of
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.state import State

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
    rule: str  # of the policy; empty: the kernel's own
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


def spared(state: State, job: Job) -> tuple[Spared, ...]:
    """Whom preempt and reclaim spare though the job waits, in the order of reasons."""
    record = state.policy_record
    if record is None:
        return ()
    tally = _Tally()
    taker = Taker(job, needed(job))
    rules = rules_of(record)
    for action, is_across in (("preempt", False), ("reclaim", True)):
        if action in state.policy.actions:
            candidates = _open(state, job, is_across, tally)
            hook = "reclaimable" if is_across else "preemptable"
            _judge(state, taker, candidates, hook, rules, tally)
    return tally.result()


def _open(state: State, job: Job, is_across: bool, tally: _Tally) -> list[Victim]:
    """Running pods of the job's queue, or of others, that no word of their own protects."""
    found: list[Victim] = []
    for node in state.nodes:
        for key in sorted(node.pods):
            pod = node.pods[key]
            other = state.jobs[pod.job]
            if other is job or is_leaving(pod) or pod.phase is Phase.SUSPENDED:
                continue
            if (other.queue != job.queue) is is_across:
                victim = Victim(other, pod, len(found))
                reason, asked, limit = _own_word(state, job, other, pod, is_across)
                if reason is Reason.UNKNOWN:
                    found.append(victim)
                else:
                    tally.add(victim, reason, "", asked, limit)
    return found


def _own_word(
    state: State, job: Job, other: Job, pod: Pod, is_across: bool
) -> tuple[Reason, int, int]:
    """What spares a pod whatever the rules say, with its numbers; UNKNOWN: nothing."""
    if is_across:
        if not all(level.config.reclaimable for level in state.queues[other.queue].chain):
            return Reason.NOT_RECLAIMABLE, 0, 0
    elif other.priority >= job.priority:
        return Reason.NOT_LOWER_PRIORITY, other.priority, job.priority
    role = other.shape.roles[pod.index % len(other.roles)]
    if Tri.NO in (role.preemptable, other.request.preemptable):
        return Reason.CRITICAL, 0, 0
    if pod.protected_until_ns > state.clock_ns:
        return Reason.PROTECTED, pod.protected_until_ns - state.clock_ns, 0
    return Reason.UNKNOWN, 0, 0


def _judge(
    state: State,
    taker: Taker,
    candidates: list[Victim],
    hook: str,
    rules: list[tuple[str, Hooks]],
    tally: _Tally,
) -> None:
    """Let each rule judge the candidates; who is spared by one is not shown to the next."""
    left = candidates
    for name, hooks in rules:
        veto = getattr(hooks, hook)
        allowed = None if veto is None or not left else veto(state, taker, left)
        if allowed is None:
            continue
        kept = {_identity(victim.pod): True for victim in allowed}
        for victim in left:
            if _identity(victim.pod) not in kept:
                reason = OF_RULES.get(name, Reason.QUEUE_WITHIN_DUE)
                tally.add(victim, reason, name, *_numbers(state, reason, victim, hooks))
        left = [victim for victim in left if _identity(victim.pod) in kept]


def _numbers(state: State, reason: Reason, victim: Victim, hooks: Hooks) -> tuple[int, int]:
    """The numbers that a rule's reason states of a pod."""
    job, pod = victim.job, victim.pod
    if reason is Reason.GANG_MINIMUM:
        return 0, job.shape.min_available
    if reason is Reason.NOT_LOWER_PRIORITY:
        return job.priority, job.priority
    if reason is Reason.BUDGET and job.request.budget is not None:
        live = sum(not is_leaving(one) for one in (job.pods or {}).values())
        return live - 1, live - pdb.allowed(job, job.request.budget)
    if reason is Reason.QUEUE_WITHIN_DUE:
        queue = state.queues[job.queue]
        return quota.allocated(queue, CARDS), quota.deserved(state)[job.queue][0]
    if hooks.protected is not None:
        until = max(hooks.protected(state, job, pod), default=state.clock_ns)
        return max(0, until - state.clock_ns), max(0, until - pod.started_ns)
    return 0, 0


def _identity(pod: Pod) -> tuple[int, int, int]:
    return (pod.job, pod.index, pod.attempt)

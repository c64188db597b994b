"""gang: a job starts with its minimums or not at all, and victims do not break those of others.

Order: first jobs that began and have lost part of their minimum, then new ones, last those that
grow. That a gang starts whole or not at all is the kernel's own rule (module `placement`), policy
or no policy; and what a job has beyond its minimums is evicted pod by pod, the rest of it only as a
whole (module `candidates`).
"""

from collections.abc import Sequence

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Counts, Job, Pod, Taker, Victim
from ganger.streams.kernel.jobs.gangs import covers, has_begun, is_ready, standing, surplus
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.refusals import PERMIT, Refusal, Vote
from ganger.streams.kernel.state import State

NAME = "gang"
HOOKS = (
    "job_order",
    "job_valid",
    "job_ready",
    "job_pipelined",
    "job_starving",
    "preemptable",
    "reclaimable",
)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`whole`: `last` lets a job at its minimum be evicted whole, `never` does not (Volcano's).
    `lost_first`: whether jobs that lost part of their minimum go before new ones.
    """
    reader = Arguments(arguments, where)
    spares_whole = reader.choice("whole", "last", ("last", "never")) == "never"
    lost_first = reader.yes("lost_first", True)
    reader.close()
    return Hooks(
        job_order=_job_key if lost_first else _ready_last,
        job_valid=_is_valid,
        job_ready=_is_ready,
        job_pipelined=_pipelined,
        job_starving=_starves,
        preemptable=_spare if spares_whole else _no_opinion,
        reclaimable=_spare if spares_whole else _no_opinion,
    )


def _job_key(state: State, job: Job) -> tuple[int, ...]:
    if not has_begun(job):
        return (1,)
    return (2,) if is_ready(job) else (0,)


def _ready_last(state: State, job: Job) -> tuple[int, ...]:
    return (int(covers(job.shape, standing(job))),)


def _sum(*counts: Sequence[int]) -> list[int]:
    """Pods per role over several counts."""
    return [sum(column) for column in zip(*counts, strict=True)]


def _empties(job: Job, counts: Counts) -> list[int]:
    """Waiting pods per role that ask for nothing: they count as placed."""
    return [
        pending if shape.is_empty else 0
        for pending, shape in zip(counts.pending, job.shape.shapes, strict=True)
    ]


def _is_valid(state: State, job: Job, counts: Counts) -> bool:
    """Whether there are pods enough for the minimums, placed or not."""
    have = _sum(counts.live, counts.claimed, counts.placed, counts.pending, counts.succeeded)
    return covers(job.shape, have)


def _is_ready(state: State, job: Job, counts: Counts) -> bool:
    """Whether those that have cards are the minimums."""
    have = _sum(counts.live, counts.placed, counts.succeeded, _empties(job, counts))
    return covers(job.shape, have)


def _pipelined(state: State, job: Job, counts: Counts) -> Vote:
    """Whether those that have cards or wait for them are the minimums."""
    have = _sum(counts.live, counts.claimed, counts.placed, counts.succeeded, _empties(job, counts))
    if covers(job.shape, have):
        return PERMIT
    return Refusal(Reason.GANG_BELOW_MINIMUM, job.shape.min_available, sum(have))


def _starves(state: State, job: Job) -> bool:
    """Whether it lacks its minimum, with what it claims and what is being placed for it."""
    have = standing(job)
    claim = state.claims.get(job.seq)
    for entry in claim.entries if claim is not None else ():
        have[entry.role] += 1
    for role, _, count in state.indexes.placing:
        have[role] += count
    return not covers(job.shape, have)


def _spare(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
    """Of each job those that it has beyond its minimums, in their order."""
    pods: dict[int, list[Pod]] = {}
    jobs: dict[int, Job] = {}
    for victim in candidates:
        jobs[victim.job.seq] = victim.job
        pods.setdefault(victim.job.seq, []).append(victim.pod)
    spare = {
        (pod.job, pod.index): True
        for seq, of_job in pods.items()
        for pod in surplus(jobs[seq], of_job, state.indexes.lifted)
    }
    return [victim for victim in candidates if (victim.pod.job, victim.pod.index) in spare]


def _no_opinion(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim] | None:
    return None

"""What a gang still needs: minimums of roles, groups and the job, against what it has.

An attempt that has been told to leave, or that it will be told to, is not had any more.
"""

from collections.abc import Container, Iterable, Sequence

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Claim, Counts, Job, Pod
from ganger.streams.kernel.resources import JobShape

Identity = tuple[int, int, int]
"""An attempt: job, pod, attempt."""

# bound once: looking a member up on its Enum class costs more than what is done with it
_RELEASING = Phase.RELEASING


def missing(job: Job) -> tuple[list[int], int]:
    """Pods each role still needs for its minimum, and how many more of any role for the job's."""
    shape = job.shape
    needs = []
    have = 0
    for role, spec in enumerate(shape.roles):
        role_state = job.roles[role]
        held = role_state.live + role_state.succeeded
        if shape.shapes[role].is_empty:
            held += role_state.pending()
        needs.append(max(0, spec.min_available - held))
        have += held
    if job.pods:
        leaving = _leaving(job)
        have -= sum(leaving)
        needs = (
            [n + gone for n, gone in zip(needs, leaving, strict=True)] if any(leaving) else needs
        )
    return needs, max(0, shape.min_available - have - sum(needs))


def placeable(job: Job, position: int) -> int:
    """Pods of a role that are to be placed and may be now: no more live than were admitted."""
    role = job.roles[position]
    count = role.pending()
    if job.admitted_counts:
        count = min(count, max(0, job.admitted_counts[position] - role.live))
    return count


def is_leaving(pod: Pod) -> bool:
    """Whether a live attempt has been told to end, or that it will be told to."""
    return pod.phase is _RELEASING or pod.notice_until_ns > 0


def _leaving(job: Job, lifted: Container[Identity] = ()) -> list[int]:
    """Live attempts per role that leave, or that a statement sees as gone."""
    counts = [0] * len(job.roles)
    for pod in (job.pods or {}).values():
        if (
            pod.phase is _RELEASING
            or pod.notice_until_ns
            or (lifted and (pod.job, pod.index, pod.attempt) in lifted)
        ):
            counts[pod.index % len(counts)] += 1
    return counts


def counts_of(job: Job, claim: Claim | None = None, placed: Sequence[int] = ()) -> Counts:
    """How its pods stand. `claim`: its own, if it has one. `placed`: per role, in a statement."""
    size = len(job.roles)
    leaving = _leaving(job)
    claimed = [0] * size
    for entry in claim.entries if claim is not None else ():
        claimed[entry.role] += 1
    put = tuple(placed) or (0,) * size
    pending = [role.pending() for role in job.roles]
    return Counts(
        live=tuple([role.live - gone for role, gone in zip(job.roles, leaving, strict=True)]),
        leaving=tuple(leaving),
        claimed=tuple(claimed),
        placed=put,
        pending=tuple([p - c - q for p, c, q in zip(pending, claimed, put, strict=True)]),
        succeeded=tuple([role.succeeded for role in job.roles]),
    )


def covers(shape: JobShape, have: Sequence[int]) -> bool:
    """Whether so many pods per role are the minimums: of roles, groups and job."""
    for role, count in zip(shape.roles, have, strict=True):
        if count < role.min_available:
            return False
    for unit in shape.units[:-1]:
        if sum([have[member] for member in unit.members]) < unit.min_available:
            return False
    return sum(have) >= shape.min_available


def standing(job: Job, lifted: Container[Identity] = ()) -> list[int]:
    """Pods per role that count for the minimums now: live ones that stay, those that succeeded,
    and those that ask for nothing, which are never short of room.
    """
    have = []
    leaving = _leaving(job, lifted)
    for role, state in enumerate(job.roles):
        count = state.live - leaving[role] + state.succeeded
        have.append(count + state.pending() if job.shape.shapes[role].is_empty else count)
    return have


def needed(job: Job) -> tuple[int, ...]:
    """Pods per role that must start for its minimums to be there: the smallest first where the
    role does not matter. Nothing of a job that has them.
    """
    have = standing(job)
    pending = [
        0 if s.is_empty else r.pending() for r, s in zip(job.roles, job.shape.shapes, strict=True)
    ]
    counts = [0] * len(have)
    by_size = sorted(range(len(have)), key=lambda place: job.shape.pod_needs[place])

    def fill(members: Iterable[int], least: int) -> None:
        short = least - sum([have[place] + counts[place] for place in members])
        for place in by_size:
            if place in members and short > 0:
                more = min(short, pending[place] - counts[place])
                counts[place] += more
                short -= more

    for place, role in enumerate(job.shape.roles):
        fill((place,), role.min_available)
    for unit in job.shape.units[:-1]:
        fill(unit.members, unit.min_available)
    fill(range(len(have)), job.shape.min_available)
    return tuple(counts)


def surplus(job: Job, pods: Iterable[Pod], lifted: Container[Identity] = ()) -> list[Pod]:
    """Those of its live pods that may leave one by one, in this order, without its minimums being
    broken; none of a job that is below them already. `lifted`: attempts seen as gone.
    """
    have = standing(job, lifted)
    spare: list[Pod] = []
    if not covers(job.shape, have):
        return spare
    for pod in pods:
        role = pod.index % len(have)
        have[role] -= 1
        if covers(job.shape, have):
            spare.append(pod)
        else:
            have[role] += 1
    return spare


def has_begun(job: Job) -> bool:
    """Whether any pod of it holds cards or has succeeded."""
    if job.pods:
        return True
    for role in job.roles:  # noqa: SIM110 - a generator costs more than the loop
        if role.succeeded:
            return True
    return False


def is_pending(job: Job) -> bool:
    """Whether pods of it are to be placed."""
    for role in job.roles:  # noqa: SIM110 - a generator costs more than the loop
        if role.fresh < role.replicas or role.returned:
            return True
    return False


def is_ready(job: Job) -> bool:
    """Whether it has begun and has its minimums."""
    if not has_begun(job):
        return False
    needs, short = missing(job)
    return not short and not any(needs)

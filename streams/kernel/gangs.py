"""What a gang still needs: minimums of roles and of the job, against what it has."""

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Job

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


def _leaving(job: Job) -> list[int]:
    """Live attempts per role that are being released."""
    counts = [0] * len(job.roles)
    for pod in (job.pods or {}).values():
        if pod.phase is _RELEASING:
            counts[pod.index % len(counts)] += 1
    return counts


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

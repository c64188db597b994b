"""Who may submit how much: tenants of queues, and their limits on waiting jobs and submissions.

A limit of a queue counts what is below it too. `submissions_per_hour` counts the jobs accepted in
the last 60 minutes of the clock, this one included; `waiting_jobs` those that wait now.
"""

from ganger.schemas.enums import LimitScope, Tier
from ganger.schemas.parts import Limit
from ganger.schemas.reasons import Reason
from ganger.schemas.records import JobSubmitRequested
from ganger.streams.kernel.entities import Queue, Submissions
from ganger.streams.kernel.jobs.lifecycle import WAITING
from ganger.streams.kernel.state import State, Waiter

MINUTE_NS = 60 * 10**9
WINDOW_MINUTES = 60

PER_HOUR = "submissions_per_hour"

_REASONS = {
    LimitScope.QUEUE: Reason.LIMIT_EXCEEDED,
    LimitScope.USER: Reason.USER_LIMIT,
    LimitScope.TENANT: Reason.TENANT_QUOTA,
}


def refusal(
    state: State, queue: Queue, record: JobSubmitRequested
) -> tuple[Reason, int, int] | None:
    """Why a queue takes no further job of this user and tenant now: reason, asked, limit.

    O(users of the queue's subtree) for each limit of it and its ancestors on submissions.
    """
    for tenants in queue.tenants:
        if record.tenant not in tenants:
            return (Reason.TENANT_FORBIDDEN, 0, 0)
    for level, limit in queue.gates:
        if not _is_about(limit, record):
            continue
        if limit.resource == PER_HOUR:
            count = _submitted(state, level, limit, record)
        else:
            count = _waiting(state, level, limit, record)
        if count >= limit.count:
            asked = count + 1 if limit.scope is LimitScope.QUEUE else 1
            return (_REASONS[limit.scope], asked, limit.count)
    return None


def count(state: State, queue: Queue, record: JobSubmitRequested) -> None:
    """A job was accepted: remember it for an hour if a limit of its queue asks for that."""
    if not any(limit.resource == PER_HOUR for _, limit in queue.gates):
        return
    key = (queue.index, record.user, record.tenant)
    made = state.submissions.get(key)
    minute = state.now_ns // MINUTE_NS
    if made is None:
        _forget_old(state, minute)
        made = state.submissions[key] = Submissions(*key)
    _drop_before(made, minute)
    made.minutes[minute] = made.minutes.get(minute, 0) + 1
    state.touch(made)


def count_waiters(state: State) -> dict[Waiter, int] | None:
    """Waiting jobs by whose they are; none while no limit asks for them. O(jobs)."""
    gates = [limit for queue in state.queues for _, limit in queue.gates]
    if all(limit.resource == PER_HOUR for limit in gates):
        return None
    waiters: dict[Waiter, int] = {}
    for job in state.jobs.values():
        if job.phase in WAITING:
            key = (job.queue, job.request.user, job.request.tenant, job.request.spot)
            waiters[key] = waiters.get(key, 0) + 1
    return waiters


def _is_about(limit: Limit, record: JobSubmitRequested) -> bool:
    """Whether a limit counts what this user and tenant do, in this tier."""
    if limit.tier and (limit.tier is Tier.SPOT) is not record.spot:
        return False
    who = record.user if limit.scope is LimitScope.USER else record.tenant
    return not limit.subject or limit.subject == who


def _submitted(state: State, level: Queue, limit: Limit, record: JobSubmitRequested) -> int:
    """Jobs that the limit counts together with this one, of the last hour."""
    since = state.now_ns // MINUTE_NS - WINDOW_MINUTES
    return sum(
        jobs
        for made in state.submissions.values()
        if _counts(state, level, limit, record, made.queue, made.user, made.tenant)
        for minute, jobs in made.minutes.items()
        if minute > since
    )


def _waiting(state: State, level: Queue, limit: Limit, record: JobSubmitRequested) -> int:
    """Jobs that the limit counts together with this one and that wait now."""
    waiters = state.indexes.waiters or {}
    return sum(
        jobs
        for (queue, user, tenant, spot), jobs in waiters.items()
        if (not limit.tier or spot is record.spot)
        and _counts(state, level, limit, record, queue, user, tenant)
    )


def _counts(
    state: State,
    level: Queue,
    limit: Limit,
    record: JobSubmitRequested,
    queue: int,
    user: str,
    tenant: str,
) -> bool:
    if limit.scope is LimitScope.USER and user != record.user:
        return False
    if limit.scope is LimitScope.TENANT and tenant != record.tenant:
        return False
    return level in state.queues[queue].chain


def _forget_old(state: State, minute: int) -> None:
    """Drop what no limit will count again, so that users who are gone take no room."""
    for key in list(state.submissions):
        made = state.submissions[key]
        _drop_before(made, minute)
        if not made.minutes:
            del state.submissions[key]
            made.is_untold = True
        state.touch(made)


def _drop_before(made: Submissions, minute: int) -> None:
    old = [at for at in made.minutes if at <= minute - WINDOW_MINUTES]
    for at in old:
        del made.minutes[at]

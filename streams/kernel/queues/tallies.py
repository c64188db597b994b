"""What queues, users and tenants hold where limits of queues count it.

Kept only while some queue has a limit on jobs or resources; `Indexes.tallies` is none otherwise. A
limit counts what is below its queue too. Everything here is derived from the facts of single jobs:
whoever changes a job's pods, claims or phase puts it into `Indexes.uncounted`, and its part is made
anew when a limit is asked about.
"""

from collections.abc import Iterator

from ganger.schemas.enums import LimitScope, Phase, Tier
from ganger.schemas.parts import Limit
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import ENDED, Job, Queue, Tally
from ganger.streams.kernel.refusals import JOBS_PLACE, Refusal
from ganger.streams.kernel.state import State

JOBS = "jobs"
"""The resource of limits on jobs that have been admitted and have not ended."""

Charges = tuple[tuple[int, int], ...]

Owner = tuple[int, LimitScope, str, bool]
"""Queue, whose doings, name (empty for the queue itself), of spot jobs?"""

EVERYONE = (LimitScope.QUEUE, LimitScope.USER, LimitScope.TENANT)

_INQUEUE = Phase.INQUEUE
_PENDING = Phase.PENDING
_REASONS = {
    LimitScope.QUEUE: Reason.LIMIT_EXCEEDED,
    LimitScope.USER: Reason.USER_LIMIT,
    LimitScope.TENANT: Reason.TENANT_QUOTA,
}


def catch_up(state: State) -> None:
    """Count the jobs that have changed since the last call by their facts as they are now.

    O(roles x depth) for each.
    """
    uncounted = state.indexes.uncounted
    if uncounted:
        for job in uncounted.values():
            _recount(state, job)
        uncounted.clear()


def _recount(state: State, job: Job) -> None:
    tallies = state.indexes.tallies
    if tallies is None:
        return
    now, before = tally_of(state, job), job.tally
    if now == before:
        return
    job.tally = now
    for owner in _owners(state, job):
        whole = tallies.get(owner)
        if whole is None:
            whole = tallies[owner] = Tally()
        for part, sign in ((before, -1), (now, 1)):
            if part is not None:
                _add(whole, part, sign)
        if not (whole.jobs or any(whole.held.values()) or any(whole.admitted.values())):
            del tallies[owner]


def enlist(state: State, job: Job) -> None:
    """Say whose a job is, if limits of its queue may ask. Call before it is lined up."""
    job.owner = 0
    if state.queues[job.queue].bounds:
        request = job.request
        owners = state.indexes.owners
        who = (request.user, request.tenant, request.spot)
        job.owner = owners.setdefault(who, len(owners) + 1)


def recount_all(state: State) -> None:
    """Begin anew, after limits have changed. O(jobs)."""
    needed = any(queue.bounds for queue in state.queues)
    state.indexes.tallies = {} if needed else None
    state.indexes.uncounted = {} if needed else None
    for job in state.jobs.values():
        enlist(state, job)
        job.tally = None
        _recount(state, job)


def tally_of(state: State, job: Job) -> Tally | None:
    """What one job counts for; none where that is nothing."""
    if job.phase is _PENDING or job.phase in ENDED or not state.queues[job.queue].bounds:
        return None
    counts = [role.live for role in job.roles]
    claim = state.claims.get(job.seq)
    for entry in claim.entries if claim is not None else ():
        counts[entry.role] += 1
    tally = Tally(jobs=1)
    for shape, count in zip(job.shape.shapes, counts, strict=True):
        for place, amount in shape.charges if count else ():
            tally.held[place] = tally.held.get(place, 0) + amount * count
    if job.phase is _INQUEUE and claim is None:
        tally.admitted = dict(job.shape.min_charges)
    return tally


def refusal_to_admit(
    state: State, job: Job, scopes: tuple[LimitScope, ...] = EVERYONE
) -> Refusal | None:
    """Why a job must not be admitted: with its minimum a limit would be passed. None: it may."""
    catch_up(state)
    asked = dict(job.shape.min_charges)
    for level, limit in state.queues[job.queue].bounds:
        if limit.scope not in scopes or not _is_about(limit, job):
            continue
        if limit.resource == JOBS:
            place = JOBS_PLACE
            more, have = 1, sum(tally.jobs for tally in _counted(state, level, limit, job))
        else:
            place = state.table.index.get(limit.resource, -1)
            more = asked.get(place, 0)
            have = sum(
                tally.held.get(place, 0) + tally.admitted.get(place, 0)
                for tally in _counted(state, level, limit, job)
            )
        if more and have + more > limit.count:
            return _refusal(level, limit, place, more, have)
    return None


def allowed(
    state: State, job: Job, charges: Charges, wanted: int, held: dict[int, int]
) -> tuple[int, Refusal | None]:
    """Pods of a request, of `wanted`, that limits on resources allow; what stops the next one.

    `held`: what is placed for the job but not counted yet, by resource place.
    """
    catch_up(state)
    count = wanted
    refusal = None
    asked = dict(charges)
    for level, limit in state.queues[job.queue].bounds:
        place = state.table.index.get(limit.resource, -1)
        amount = asked.get(place, 0)
        if not amount or not _is_about(limit, job):
            continue
        have = sum(tally.held.get(place, 0) for tally in _counted(state, level, limit, job))
        have += held.get(place, 0)
        if have + amount * count > limit.count:
            count = max(0, (limit.count - have) // amount)
            refusal = _refusal(level, limit, place, amount * wanted, have)
    return count, refusal


def _refusal(level: Queue, limit: Limit, place: int, more: int, have: int) -> Refusal:
    asked = have + more if limit.scope is LimitScope.QUEUE else more
    free = max(0, limit.count - have)
    return Refusal(_REASONS[limit.scope], asked, free, limit.count, level.index, place)


def _is_about(limit: Limit, job: Job) -> bool:
    """Whether a limit counts what this job does."""
    request = job.request
    if limit.tier and (limit.tier is Tier.SPOT) is not request.spot:
        return False
    who = request.user if limit.scope is LimitScope.USER else request.tenant
    return not limit.subject or limit.subject == who


def _counted(state: State, level: Queue, limit: Limit, job: Job) -> Iterator[Tally]:
    """What a limit counts together with a job."""
    tallies = state.indexes.tallies or {}
    name = _name(limit.scope, job)
    for is_spot in (False, True):
        if not limit.tier or (limit.tier is Tier.SPOT) is is_spot:
            tally = tallies.get((level.index, limit.scope, name, is_spot))
            if tally is not None:
                yield tally


def _name(scope: LimitScope, job: Job) -> str:
    if scope is LimitScope.QUEUE:
        return ""
    return job.request.user if scope is LimitScope.USER else job.request.tenant


def _owners(state: State, job: Job) -> Iterator[Owner]:
    for level in state.queues[job.queue].chain:
        for scope in EVERYONE:
            yield level.index, scope, _name(scope, job), job.request.spot


def _add(whole: Tally, part: Tally, sign: int) -> None:
    whole.jobs += part.jobs * sign
    for mine, amounts in ((whole.held, part.held), (whole.admitted, part.admitted)):
        for place, amount in amounts.items():
            mine[place] = mine.get(place, 0) + amount * sign

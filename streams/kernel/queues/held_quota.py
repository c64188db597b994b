"""Quota that jobs hold under quota admission, by flavor and resource.

A job holds quota from its admission (`Job.flavors` says in which flavors) until it ends, or until
the last of its attempts has gone after it was told to give it back. It holds what its admitted pods
ask, whether they run or are to be placed again; pods that have succeeded hold nothing more. What
each job and each leaf queue hold is derived: `recount` makes it again from the facts of one job.
"""

from ganger.schemas.enums import Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import ENDED, Job, Pod
from ganger.streams.kernel.fairness.cohort import Amounts, Key
from ganger.streams.kernel.state import State

GIVES_BACK = (
    Reason.SAME_QUEUE,
    Reason.RECLAIM_IN_COHORT,
    Reason.RECLAIM_WHILE_BORROWING,
    Reason.FAIR_SHARE,
    Reason.PREEMPTED,
    Reason.RECLAIMED,
    Reason.QUEUE_EVICTED,
    Reason.START_TIMEOUT,
    Reason.GANG_STALE,
)
"""Reasons of an eviction after which the job has to ask for quota anew."""


def held_by(state: State, job: Job) -> Amounts:
    """What the job holds by its facts; nothing once it has ended."""
    amounts: Amounts = {}
    if job.phase in ENDED:
        return amounts
    places = state.table.index
    names = [role.name for role in job.shape.roles]
    for choice in job.flavors:
        position = names.index(choice.role)
        role = job.roles[position]
        count = role.replicas - role.succeeded
        if job.admitted_counts:
            count = min(count, job.admitted_counts[position])
        charges = dict(job.shape.shapes[position].charges)
        each = charges.get(places.get(choice.resource, -1), 0)
        if each * count:
            key = (choice.flavor, choice.resource)
            amounts[key] = amounts.get(key, 0) + each * count
    return amounts


def recount(state: State, job: Job) -> None:
    """Count what the job holds after its flavors, sizes or phase have changed."""
    now = held_by(state, job) or None
    before = job.held_quota
    if now == before:
        return
    queue = state.queues[job.queue]
    for amounts, sign in ((before, -1), (now, 1)):
        for key, amount in (amounts or {}).items():
            _add(queue.held, key, sign * amount)
    job.held_quota = now
    if now is None:
        queue.holders.pop(job.seq, None)
    else:
        queue.holders[job.seq] = None
    state.indexes.gate_grew = True


def _add(held: Amounts, key: Key, amount: int) -> None:
    left = held.get(key, 0) + amount
    if left:
        held[key] = left
    else:
        del held[key]


def give_back(state: State, job: Job) -> None:
    """The job holds no quota any more and has to ask anew."""
    job.flavors = ()
    job.admitted_counts = ()
    state.touch(job)
    recount(state, job)


def forget_all(state: State) -> None:
    """Nobody holds quota any more, nor is bound to the pods it was given: it is not asked for."""
    for job in state.jobs.values():
        if job.flavors:
            give_back(state, job)


def attempt_ended(state: State, job: Job, pod: Pod) -> None:
    """An attempt of a job that holds quota has ended: was it the last, it may have to give back."""
    if not job.pods and pod.evict_reason in GIVES_BACK:
        give_back(state, job)
    else:
        recount(state, job)


def is_giving_back(job: Job) -> bool:
    """Whether attempts of it leave so that it gives its quota back."""
    return any(
        pod.phase is Phase.RELEASING and pod.evict_reason in GIVES_BACK
        for pod in (job.pods or {}).values()
    )


def has_to_ask(state: State, job: Job) -> bool:
    """Whether an admitted job lacks quota for something that its queue has quota of."""
    if job.flavors or job.pods or job.phase is not Phase.INQUEUE:
        return False
    names = state.table.names
    asked = {names[place]: True for shape in job.shape.shapes for place, _ in shape.charges}
    groups = state.queues[job.queue].config.resource_groups
    return any(
        bound.resource in asked
        for group in groups
        for quota in group.flavors
        for bound in quota.bounds
    )

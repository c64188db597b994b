"""Which line a job stands in, by its facts: the gate, the line of admitted jobs, or none."""

from ganger.schemas.enums import Phase
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.jobs.gangs import has_begun, is_ready, placeable
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.waiting import FRESH, GROWING, UNIQUE, Waiting
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.nodes.marks import marked
from ganger.streams.kernel.queues import held_quota, quota
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

# bound once: looking a member up on its Enum class costs more than what is done with it
_INQUEUE = Phase.INQUEUE
_PENDING = Phase.PENDING
_UNKNOWN = Phase.UNKNOWN

_PLACEABLE = (Phase.INQUEUE, Phase.ALLOCATED, Phase.RUNNING)


def line_up(state: State, job: Job) -> None:
    """Put the job where it belongs now. It must stand in no line.

    The minimum of an admitted job counts as demand only while it may be placed: one that is held,
    backs off or whose queue drains keeps nobody out.
    """
    may = may_start(state, job)
    if job.phase is _INQUEUE:
        if state.policy.asks_quota and held_quota.has_to_ask(state, job):
            quota.disclaim(state, job)
            move_job(state, job, _PENDING)
        elif may:
            quota.claim(state, job)
        else:
            quota.disclaim(state, job)
    if not may:
        return
    if job.phase is _PENDING:
        look = marked(state, job, gate_look(state, job)) if state.policy.asks_quota else FRESH
        if state.indexes.overdue and job.seq in state.indexes.overdue:
            look = UNIQUE + job.seq  # it may be let in where its like may not
        state.indexes.gate.add(job, order_key(state, job), look)
    elif job.phase in _PLACEABLE:
        pending = empty = 0
        for role, shape in zip(job.roles, job.shape.shapes, strict=True):
            if shape.is_empty:
                empty += role.pending()
            else:
                pending += role.pending()
        if job.admitted_counts:
            pending, empty = _admitted(job)
        if pending:
            look = look_of(job)
            if state.indexes.windows is not None:
                look = marked(state, job, look)
            state.indexes.inqueue.add(job, order_key(state, job), look)
        if empty:
            state.indexes.zero[job.seq] = job
            state.indexes.zero_grew = True


def _admitted(job: Job) -> tuple[int, int]:
    """Pods to be placed of those admitted: that ask for something, that ask for nothing."""
    counts = [0, 0]
    for position, shape in enumerate(job.shape.shapes):
        counts[shape.is_empty] += placeable(job, position)
    return counts[0], counts[1]


def send_back(state: State, job: Job) -> None:
    """Let an admitted job that was never placed ask anew: what it was admitted on has shrunk."""
    if job.seq in state.claims:
        return  # the claim holds what it needs
    if job.phase is _INQUEUE and not any(role.fresh for role in job.roles):
        step_out(state, job)
        quota.disclaim(state, job)
        if job.flavors:
            held_quota.give_back(state, job)
        move_job(state, job, _PENDING)
        line_up(state, job)


def watch_admission(state: State, job: Job) -> None:
    """A job was admitted and not placed: look again when its admission is to be taken back."""
    expires_ns = state.policy.settings.inqueue_ns
    if expires_ns:
        job.admitted_ns = state.now_ns
        state.touch(job)
        state.indexes.timers.at(state.now_ns + expires_ns, Wake.INQUEUE, job.seq)


def step_out(state: State, job: Job) -> None:
    """Take the job out of the line it stands in, if any. Call before its facts change."""
    if job.key is not None:
        line_of(state, job).remove(job)
    if job.shape.has_empty:
        state.indexes.zero.pop(job.seq, None)


def realign(state: State, seqs: list[int]) -> None:
    """Let jobs that stand in a line take the place that their facts give them now."""
    for seq in seqs:
        job = state.jobs[seq]
        if job.key is not None and job.key != order_key(state, job):
            step_out(state, job)
            line_up(state, job)


def mark_anew(state: State) -> None:
    """What is reserved has changed: who looked alike may be kept from different cards now, and the
    other way round. O(jobs).
    """
    if state.policy.is_timed:
        return
    for job in state.jobs.values():
        if job.key is not None:
            step_out(state, job)
            line_up(state, job)


def line_of(state: State, job: Job) -> Waiting:
    """The lines of the stage that the job's phase belongs to."""
    return state.indexes.gate if job.phase is _PENDING else state.indexes.inqueue


def may_start(state: State, job: Job) -> bool:
    """Whether nothing but capacity and limits keeps its pods from being placed, and no claim has
    found them a place.
    """
    return (
        not job.held
        and not job.dependencies
        and job.ending is _UNKNOWN
        and job.not_before_ns <= state.clock_ns
        and not state.queues[job.queue].is_draining
        and job.seq not in state.claims
        and not (job.flavors and held_quota.is_giving_back(job))
        and not (job.restarts and is_restarting(job))
    )


def is_restarting(job: Job) -> bool:
    """Whether attempts still leave that were told to by the time of its last restart."""
    for pod in (job.pods or {}).values():  # noqa: SIM110 - a generator costs more than the loop
        if 0 <= pod.evict_seq <= job.restarted_seq:
            return True
    return False


def order_key(state: State, job: Job) -> tuple[int, ...]:
    """Its place among the jobs of its queue: what the policies say, then its seq."""
    key: tuple[int, ...] = ()
    for hook in state.policy.job_order:
        key += hook(state, job)
    return (*key, job.seq)


def gate_look(state: State, job: Job) -> int:
    """The same to quota admission: a job may do more the higher its priority, and less once it has
    used up its right to have others evicted.
    """
    if job.right:
        return UNIQUE + job.seq
    return job.priority + job.request.priority_boost - 4 * PRIORITY_MAX


def look_of(job: Job) -> int:
    """Which jobs of its shape it looks like to placement (see module `waiting`)."""
    if job.avoid:
        return UNIQUE + job.seq
    if not has_begun(job):
        return FRESH
    if len(job.roles) == 1 and not job.shape.is_guided and is_ready(job):
        return GROWING  # wherever its pods are
    return UNIQUE + job.seq

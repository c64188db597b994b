"""The eviction right: the guard that makes eviction cycles impossible, whatever the policy.

Each job has a right to have others evicted for it. It is spent when the job causes an eviction, and
when one of its own pods is evicted for another job. A job without it starts on idle or returned
cards only. It returns with progress: when a job of its queue, or of the queue of the job that spent
it, has ended; when a pod of its own has ended by itself; when an operator changed queues, policy or
the job, or a node added capacity.

So between two returns the number of rights falls with each eviction, and no placement comes twice:
the last job to take anything before a placement had not been evicted since, so it has more pods
there than it ever had before.

The facts are two counters that only grow, `State.progress` and `Queue.progress`, and in each job
that has spent its right what they were at that moment: `Job.right`, empty for a job that has it,
else (the cell's progress, that of its own queue, id of the other queue or -1, progress of that).
"""

from ganger.streams.kernel.entities import Job, Queue
from ganger.streams.kernel.state import State


def may_evict(state: State, job: Job) -> bool:
    """Whether others may be evicted for the job. O(1)."""
    right = job.right
    if not right:
        return True
    cell, own, other, others = right
    queues = state.queues
    return (
        state.progress > cell
        or queues[job.queue].progress > own
        or (other >= 0 and queues[other].progress > others)
    )


def spend(state: State, job: Job, by: Job) -> None:
    """The right is spent: `by` is the job that evictions serve, the same job or another."""
    other = by.queue if by.queue != job.queue else -1
    job.right = (
        state.progress,
        state.queues[job.queue].progress,
        other,
        state.queues[other].progress if other >= 0 else 0,
    )
    state.touch(job)


def restore(state: State, job: Job) -> None:
    """A pod of the job has ended by itself, or an operator changed the job: it has its right."""
    if job.right:
        job.right = ()
        state.touch(job)
        state.indexes.evict_epoch += 1


def ended_in(state: State, queue: Queue) -> None:
    """A job of the queue has ended: rights that wait for it return. O(1)."""
    queue.progress += 1
    state.digest += queue.stride
    state.indexes.evict_epoch += 1


def changed(state: State) -> None:
    """An operator changed queues or policy, or the cell got more capacity: all rights return."""
    state.progress += 1
    state.indexes.evict_epoch += 1

"""How a job comes into the cell, whether it was submitted or found running."""

from ganger.schemas.enums import Phase
from ganger.schemas.records import JobSubmitRequested
from ganger.streams.kernel.entities import Job, RoleState
from ganger.streams.kernel.jobs.lifecycle import WAITING, count_waiting
from ganger.streams.kernel.queues import priorities, quota, tallies
from ganger.streams.kernel.resources import bonds_of
from ganger.streams.kernel.state import State


def add_job(state: State, record: JobSubmitRequested, phase: Phase) -> Job:
    """Make the job of a valid request; it stands in no line yet."""
    bonds = bonds_of(record.groups, record.topology, record.start_request)
    shape = state.shapes.take(record.roles, record.min_available, bonds)
    if len(state.table.names) > len(state.total):
        state.widen()
    queue = state.queues[state.queue_by_name[record.queue]]
    named = state.policy.classes.get(record.priority_class)
    job = Job(
        state.cause,
        record,
        shape,
        queue.index,
        record.priority if named is None else named.priority,
        phase,
        record.held,
        state.now_ns,
        [RoleState(role.replicas) for role in record.roles],
    )
    if record.dependencies:
        job.dependencies = tuple(
            sorted({state.job_by_key[key]: None for key in record.dependencies})
        )
        for seq in job.dependencies:
            state.indexes.dependents.setdefault(seq, []).append(job.seq)
    state.jobs[state.cause] = job
    priorities.join(state.indexes.priorities, job)
    state.job_by_key[record.job] = state.cause
    if queue.bounds:
        tallies.enlist(state, job)
    for level in queue.chain:
        level.jobs += 1
    for position, pod_shape in enumerate(shape.shapes):
        quota.expect(queue, pod_shape.charges, job.roles[position].replicas)
    if phase in WAITING:
        count_waiting(state, job, 1)
    state.touch(job)
    return job

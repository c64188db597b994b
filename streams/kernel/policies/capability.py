"""capability: a job is admitted only while its queue's used and admitted demand leave room for it.

That pods never pass a capability is the kernel's own rule (module `placement`); this gate keeps
jobs that could not start from being admitted.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.state import State

NAME = "capability"
HOOKS = ("job_enqueue",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(job_enqueue=_admission)


def _admission(state: State, job: Job) -> Refusal | None:
    queue = state.queues[job.queue]
    if not queue.is_capped:
        return None
    for level in queue.chain:
        for place, asked in job.shape.min_charges:
            limit = level.capability.get(place)
            if limit is not None:
                free = limit - level.used[place] - level.admitted[place]
                if asked > free:
                    return Refusal(Reason.QUEUE_CAPABILITY, asked, free, limit, level.index, place)
    return None

"""overcommit: demand that is admitted but not placed, with what is used, stays within a factor of
capacity.

Default factor 1.2, Volcano's. Only the resources that a job asks for are looked at. A job that
alone asks more than the whole cell has is not admitted (`beyond_cell` admits it within the factor,
as Volcano does): it could not start, and would keep others out. A job that idle capacity could
hold, beside the admitted ones that it could hold, is admitted too (`into_idle`, on by default):
else one large job that waits would fill the limit and let the cell run dry beside jobs that fit, as
it does in Volcano. For the same reason such a refusal does not keep a job from taking from others:
it then has its room, and is admitted with it.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.queues.quota import idle, idle_left
from ganger.streams.kernel.refusals import PERMIT, Refusal, Vote
from ganger.streams.kernel.resources import CARDS, CPU, MEMORY, PODS, Need
from ganger.streams.kernel.state import State

NAME = "overcommit"
HOOKS = ("job_enqueue",)


KNOWN = {
    "factor_milli": (1200, 1000, 1_000_000),
    "into_idle": (1, 0, 1),
    "beyond_cell": (0, 0, 1),
}


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`factor_milli`: thousandths of capacity, from 1000. `into_idle`, `beyond_cell`: 1 or 0."""
    values = integers(arguments, where, KNOWN)
    factor, into_idle = values["factor_milli"], values["into_idle"]
    is_bound = not values["beyond_cell"]

    def budget(state: State, place: int) -> int:
        busy = state.used[place] + state.admitted[place]
        left = state.total[place] * factor // 1000 - busy
        return min(state.total[place], left) if is_bound else left

    def admission(state: State, job: Job) -> Vote:
        refusal = None
        for place, asked in job.shape.min_charges:
            if place != PODS and asked > (left := budget(state, place)):
                limit = state.total[place] * factor // 1000
                free, is_met = max(0, left), bool(into_idle)
                refusal = Refusal(Reason.OVERCOMMIT, asked, free, limit, -1, place, is_met)
                break
        if refusal is None or (into_idle and _fits_idle(state, job)):
            return PERMIT
        return refusal

    def bound(state: State, place: int) -> int:
        return max(budget(state, place), idle(state, place) if into_idle else 0)

    def headroom(state: State) -> Need:
        return bound(state, CARDS), bound(state, CPU), bound(state, MEMORY)

    return Hooks(job_enqueue=admission, headroom=headroom)


def _fits_idle(state: State, job: Job) -> bool:
    """Whether idle capacity could hold the job beside all admitted ones that it could hold."""
    left = idle_left(state)
    for place, asked in job.shape.min_charges:
        if place < len(left):
            if asked > left[place]:
                return False
        elif place != PODS and asked > idle(state, place):
            return False
    return True

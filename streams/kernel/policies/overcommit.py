"""overcommit: demand that is admitted but not placed, with what is used, stays within a factor of
capacity.

Default factor 1.2, Volcano's. Only the resources that a job asks for are looked at. A job that
alone asks more than the whole cell has is not admitted: it could not start, and would keep others
out.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.resources import CARDS, CPU, MEMORY, PODS, Need
from ganger.streams.kernel.state import Refusal, State

NAME = "overcommit"
HOOKS = ("admission",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`factor_milli`: thousandths of capacity, 1000 to 1000000, default 1200."""
    factor = integers(arguments, where, {"factor_milli": (1200, 1000, 1_000_000)})["factor_milli"]

    def free(state: State, place: int) -> int:
        busy = state.used[place] + state.admitted[place]
        return min(state.total[place], state.total[place] * factor // 1000 - busy)

    def admission(state: State, job: Job) -> Refusal | None:
        for place, asked in job.shape.min_charges:
            if place != PODS:
                left = free(state, place)
                if asked > left:
                    limit = state.total[place] * factor // 1000
                    return Refusal(Reason.OVERCOMMIT, asked, max(0, left), limit)
        return None

    def headroom(state: State) -> Need:
        return free(state, CARDS), free(state, CPU), free(state, MEMORY)

    return Hooks(admission=admission, headroom=headroom)

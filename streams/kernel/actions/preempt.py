"""preempt: a job takes from jobs of lower priority in its own queue."""

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.preemption import node_walk, victims
from ganger.streams.kernel.preemption.candidates import hunt_of
from ganger.streams.kernel.preemption.taking import run_hunt
from ganger.streams.kernel.session import Session


def run(session: Session) -> None:
    """Let waiting jobs take until none is left that finds victims."""
    if not session.is_anybody_waiting():
        return
    hunt = hunt_of(session.state.policy, "preempt", Reason.PREEMPTED, is_across=False)
    solve = victims.solve if hunt.by_priority else node_walk.solve
    run_hunt(session, hunt, solve, place_job)

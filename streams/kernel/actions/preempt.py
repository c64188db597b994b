"""preempt: a job takes from jobs of lower priority in its own queue.

Where victims are sought node by node, as Volcano does, there is a second phase: jobs that still
starve take from their own pods of roles that come later (module `node_walk`).
"""

from dataclasses import replace

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
    if hunt.by_priority:
        run_hunt(session, hunt, victims.solve, place_job)
        return
    run_hunt(session, hunt, node_walk.solve, place_job)
    if session.state.policy.task_order:  # else no role comes before another
        run_hunt(session, replace(hunt, is_inside=True), node_walk.solve, place_job)

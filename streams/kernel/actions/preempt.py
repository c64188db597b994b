"""preempt: a job takes from jobs of lower priority in its own queue."""

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.preemption import node_walk, victims
from ganger.streams.kernel.preemption.candidates import Hunt
from ganger.streams.kernel.preemption.taking import run_hunt
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State

NAME = "preempt"


def hunt_of(state: State) -> Hunt:
    """How the policy in force does it."""
    policy = state.policy
    return Hunt(
        rule=NAME,
        reason=Reason.PREEMPTED,
        is_across=False,
        judge=policy.preemptable,
        gives_back=policy.words["preempt.give_back"] == "yes",
        by_priority=policy.words["preempt.search"] == "cell",
        depth=policy.numbers["preempt.depth"],
        patience_ns=policy.numbers["preempt.patience_ns"],
        lost_max_ns=policy.numbers["preempt.lost_max_ns"],
        evictions_max=policy.numbers["preempt.evictions_max"],
    )


def run(session: Session) -> None:
    """Let waiting jobs take until none is left that finds victims."""
    hunt = hunt_of(session.state)
    solve = victims.solve if hunt.by_priority else node_walk.solve
    run_hunt(session, hunt, solve, place_job)

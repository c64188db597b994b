"""reclaim: a queue that lacks its due takes back from queues that have more than theirs."""

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.preemption import node_walk, victims
from ganger.streams.kernel.preemption.candidates import Hunt
from ganger.streams.kernel.preemption.taking import run_hunt
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State

NAME = "reclaim"


def hunt_of(state: State) -> Hunt:
    """How the policy in force does it."""
    policy = state.policy
    return Hunt(
        rule=NAME,
        reason=Reason.RECLAIMED,
        is_across=True,
        judge=policy.reclaimable,
        gives_back=policy.words["reclaim.give_back"] == "yes",
        by_priority=policy.words["reclaim.search"] == "cell",
        depth=policy.numbers["reclaim.depth"],
        patience_ns=policy.numbers["reclaim.patience_ns"],
        lost_max_ns=policy.numbers["reclaim.lost_max_ns"],
        evictions_max=policy.numbers["reclaim.evictions_max"],
    )


def run(session: Session) -> None:
    """Let waiting jobs take until none is left that finds victims."""
    hunt = hunt_of(session.state)
    solve = victims.solve if hunt.by_priority else node_walk.solve
    run_hunt(session, hunt, solve, place_job)

"""One cycle: the actions of the policy, in order, then the closing decision."""

from collections.abc import Callable

from ganger.streams.kernel.actions import allocate, backfill, enqueue
from ganger.streams.kernel.decide import say_cycle_closed
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State

ACTIONS: dict[str, Callable[[Session], None]] = {
    "enqueue": lambda session: enqueue.run(session, asks=True),
    "allocate": allocate.run,
    "backfill": backfill.run,
}


def run_cycle(state: State) -> None:
    """Run the policy's actions and close. Without enqueue every pending job is admitted."""
    if state.indexes.is_idle():  # no action would find anything to do
        say_cycle_closed(state, 0, 0, seal(state))
        return
    session = Session(state)
    actions = state.policy.actions
    if actions and "enqueue" not in actions:
        enqueue.run(session, asks=False)
    for action in actions:
        ACTIONS[action](session)
    session.line_lone()
    enqueue.say_admitted(session)
    say_cycle_closed(state, session.started, session.evicted, seal(state))

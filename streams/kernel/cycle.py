"""One cycle: the actions of the policy, in order, then the closing decision."""

from collections.abc import Callable
from functools import cache, partial

from ganger.streams.kernel.actions import (
    admit,
    allocate,
    backfill,
    enqueue,
    preempt,
    reclaim,
    reserve,
    shuffle,
    stale,
    timed,
    tune,
    yielding,
)
from ganger.streams.kernel.backfill.conservative import Conservative
from ganger.streams.kernel.backfill.hybrid import Hybrid
from ganger.streams.kernel.backfill.lent import Lent
from ganger.streams.kernel.backfill.seats import NodeSeats
from ganger.streams.kernel.backfill.several import Several, Take
from ganger.streams.kernel.decide import say_cycle_closed
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.jobs.starts import start_claims
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.settings import RESERVE_ALL, Timing
from ganger.streams.kernel.state import State

Action = Callable[[Session], None]

ACTIONS: dict[str, Action] = {
    "enqueue": partial(enqueue.run, asks=True),
    "allocate": allocate.run,
    "backfill": backfill.run,
    "admit": admit.run,
    "preempt": preempt.run,
    "reclaim": reclaim.run,
    "reserve": reserve.run,
    "shuffle": shuffle.run,
    "stale": stale.run,
}

HUNTS = ("preempt", "reclaim", "shuffle")
"""Actions that have others evicted. They are left out while nothing has changed since they last
found nobody, so that many who wait cost nothing. What they find does not depend on the time but
through protections that end, which are told to `evict_epoch`, and orders that follow the clock.
"""


def _backfill_timed(session: Session) -> None:
    backfill.run(session)
    timed.scan(session)


def _books(state: State, timing: Timing, statement: Statement, take: Take) -> Several:
    """Who plans where several jobs are booked on nodes."""
    futures = state.indexes.futures
    assert futures is not None
    seats = NodeSeats(state, futures, statement, take)
    kind = Conservative if timing.reserve >= RESERVE_ALL else Hybrid
    return kind(state, futures, timing, seats)


TIMED_ACTIONS = {
    **ACTIONS,
    "allocate": lambda session: timed.allocate(session, Lent, _books),
    "backfill": _backfill_timed,
    "tune": tune.run,
    "yielding": yielding.run,
}
"""The same under policies that plan with run times."""


def run_cycle(state: State) -> None:
    """Run the policy's actions and close. Without enqueue or admit all who wait are admitted."""
    policy = state.policy
    for refresh in policy.refresh:
        refresh(state)
    if _is_idle(state):
        say_cycle_closed(state, 0, 0, seal(state))
        return
    session = Session(state)
    program = _program(policy.actions, policy.timing is not None, _is_quiet(state))
    if state.claims:
        start_claims(session)
    if policy.admits_all:
        enqueue.run(session, asks=False)
    for run in program:
        run(session)
    if session.lone is not None:
        session.line_lone()
    if session.admitted:
        enqueue.say_admitted(session)
    say_cycle_closed(state, session.started, session.evicted, seal(state))
    # who was placed in this cycle was nobody's victim in it, and may be in the next
    if policy.evicts and not (session.has_taken or session.started):
        state.indexes.evict_seen = (state.digest, state.indexes.evict_epoch)


@cache
def _program(names: tuple[str, ...], is_timed: bool, is_quiet: bool) -> tuple[Action, ...]:
    """What a policy's actions do. A cell has few policies, so few are ever asked for."""
    table = TIMED_ACTIONS if is_timed else ACTIONS
    return tuple([table[name] for name in names if not (is_quiet and name in HUNTS)])


def _is_idle(state: State) -> bool:
    """Whether no action would find anything to do."""
    indexes = state.indexes
    if state.claims or indexes.stale:
        return False
    if state.policy.is_timed:  # whether actions that measure time run must follow from facts
        waits = indexes.gate.count or indexes.zero or indexes.is_place_wanted()
        return not (waits or state.policy.victim)
    if not indexes.is_idle():
        return False
    is_vain = not (indexes.inqueue.limited or indexes.gate.limited or state.policy.victim)
    return is_vain or _is_quiet(state)


def _is_quiet(state: State) -> bool:
    """Whether those who take from others would find nobody, as in the last cycle."""
    policy = state.policy
    if not policy.evicts:
        return True
    if state.dirty or policy.follows_clock:
        return False
    return state.indexes.evict_seen == (state.digest, state.indexes.evict_epoch)

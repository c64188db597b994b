"""The controller of gaps has its turn: see module `tuning`."""

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import tuning
from ganger.streams.kernel.decide import of_job, say
from ganger.streams.kernel.foresight import controller
from ganger.streams.kernel.foresight.controller import Move
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State

_REASONS = {
    controller.Cause.MAIN_WAIT: Reason.TUNE_MAIN_WAIT,
    controller.Cause.COMPLETION: Reason.TUNE_COMPLETION,
    controller.Cause.USE: Reason.TUNE_USE,
}
_RULES = {
    controller.Knob.RUNTIME_MAX: "tune.runtime_max",
    controller.Knob.PROTECTION: "tune.protection",
}


def run(session: Session) -> None:
    """Measure, and move what is to be moved; each move is said."""
    state = session.state
    is_waiting = state.indexes.is_place_wanted() or session.lone is not None
    for move in tuning.run(state, is_waiting):
        _say(state, move)


def _say(state: State, move: Move) -> None:
    numbers = move.old, move.measured_milli, move.new
    decision = of_job(state, DecisionKind.TUNE, "", _REASONS[move.cause], *numbers)
    decision.rule = _RULES[move.knob]
    say(state, decision)

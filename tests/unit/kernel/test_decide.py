"""Encoders that know some fields of a decision make the bytes that the general one makes."""

from ganger.schemas.encoding import decision_body
from ganger.schemas.enums import DecisionKind
from support.builders import Cell, node, role


def test_bodies_equal_those_of_the_general_encoder() -> None:
    cell = Cell().start(node("n"))
    cell.submit("runs", role(cards=2))
    cell.submit("waits", role(cards=7))
    cell.submit("stranger", queue="nowhere")
    cell.tick()
    cell.started("runs")
    cell.cancel("runs")
    cell.released("runs")
    cell.tick()
    kinds = {decision.kind for decision in cell.decisions}
    assert kinds == {
        DecisionKind.ADMIT,
        DecisionKind.ALLOCATE,
        DecisionKind.EVICT,
        DecisionKind.FINISH,
        DecisionKind.REJECT,
        DecisionKind.CYCLE_CLOSED,
    }
    for decision in cell.decisions:
        assert decision.body == decision_body(decision), decision

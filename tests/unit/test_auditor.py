"""The auditor has teeth: what the kernel must never do is told, promise by promise."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from msgspec import structs

from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_body
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.schemas.records import CardSpan
from support.auditor import Auditor
from support.builders import Cell, node, queue, role
from support.promises import PromiseBroken

Change = Callable[[list[Decision]], list[Decision]]


def judged(change: Change, *, chained: bool = True) -> str:
    """What the auditor says of the last cycle of a small cell once its decisions are changed."""
    cell = Cell("cell")
    cell.start(queue("q", capability={"cards_milli": 7000}), node("a", 4), node("b", 4, model="B"))
    cell.submit("gang", role(replicas=2, cards=2, models=("A",)))
    cell.submit("twin", role(cards=1))
    cell.submit("late", role(cards=1))
    cell.tick()
    auditor = Auditor("cell", sha256(b"cell").digest())
    by_cause: dict[int, list[Decision]] = {}
    for decision in cell.decisions:
        by_cause.setdefault(decision.cause_seq, []).append(decision)
    last = len(cell.records) - 1
    for seq, record in enumerate(cell.records):
        decisions = by_cause.get(seq, [])
        if seq == last:
            decisions = change(decisions)
            if chained:
                _chain_anew(auditor.chain, decisions)
        try:
            auditor.watch(record, decisions)
        except PromiseBroken as broken:
            assert seq == last
            return broken.what
    return ""


def _chain_anew(chain: bytes, decisions: list[Decision]) -> None:
    for index, decision in enumerate(decisions):
        decision.index = index
        decision.body = decision_body(decision)
        chain = decision.chain = sha256(chain + decision.body).digest()


def with_field(place: int, **fields: object) -> Change:
    def change(decisions: list[Decision]) -> list[Decision]:
        for name, value in fields.items():
            setattr(decisions[place], name, value)
        return decisions

    return change


def without(place: int) -> Change:
    def change(decisions: list[Decision]) -> list[Decision]:
        del decisions[place]
        return decisions

    return change


def with_more(**fields: object) -> Change:
    """One decision more before the closing one: the first again with other fields."""

    def change(decisions: list[Decision]) -> list[Decision]:
        return [*decisions[:-1], structs.replace(decisions[0], **fields), decisions[-1]]

    return change


def test_the_true_decisions_pass() -> None:
    seen: list[Decision] = []

    def look(decisions: list[Decision]) -> list[Decision]:
        seen.extend(decisions)
        return decisions

    assert judged(look) == ""
    placed = [(d.job, d.node) for d in seen[:-1]]
    assert placed == [("gang", "a"), ("gang", "a"), ("twin", "b"), ("late", "b")]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (with_field(1, cards=(CardSpan(0, 2),)), "a whole card has one holder"),
        (with_field(1, cards=(CardSpan(3, 2),)), "cards exist"),
        (with_field(1, cards=(CardSpan(2, 1),)), "a pod gets the cards it asks for"),
        (with_field(1, node="b"), "cards are healthy and of the kind asked for"),
        (with_field(1, node="nowhere"), "nodes of placements are known"),
        (with_field(2, attempt=2), "attempts are numbered 1, 2, 3"),
        (with_field(1, pod=0), "only a pod that is to be placed is"),
        (with_field(2, role="other"), "role and pod number agree"),
        (with_more(job="nobody"), "decisions are about accepted jobs"),
        (with_more(kind=DecisionKind.EVICT), "a cycle itself evicts nobody"),
        (with_more(kind=DecisionKind.SUSPEND), "decisions are of a known kind"),
        (with_field(2, time_ns=1), "a cycle has the time of its Tick"),
        (with_field(-1, started_count=9), "a cycle counts what it started"),
        (with_field(-1, waiting_count=1), "a cycle counts who waits"),
        (without(-1), "a cycle closes once, at its end"),
    ],
)
def test_a_forged_cycle_is_told(change: Change, what: str) -> None:
    assert judged(change) == what


def test_half_a_gang_is_told() -> None:
    def change(decisions: list[Decision]) -> list[Decision]:
        decisions[-1].started_count = 3
        return without(1)(decisions)

    assert judged(change) == "a gang starts whole"


def test_idle_room_is_told() -> None:
    """The last job is admitted but left waiting."""

    def change(decisions: list[Decision]) -> list[Decision]:
        late, close = decisions[-2], decisions[-1]
        late.kind, late.reason = DecisionKind.ADMIT, Reason.WITHIN_LIMITS
        close.started_count, close.waiting_count = 3, 1
        return decisions

    assert judged(change) == "no room stays idle beside a job that fits"


def test_an_order_turned_round_is_told() -> None:
    def change(decisions: list[Decision]) -> list[Decision]:
        decisions[2].job, decisions[3].job = "late", "twin"
        return decisions

    assert judged(change) == "look-alikes of a queue go in order"


def test_a_broken_chain_and_a_gap_are_told() -> None:
    assert judged(with_field(1, asked=7), chained=False) == "each decision extends the chain"
    what = "decisions are (cell, cause, index), dense from 0"
    assert judged(without(1), chained=False) == what

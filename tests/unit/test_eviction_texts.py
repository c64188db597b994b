"""Evictions and claims in words: the taker, the rule, the victim's place, the numbers."""

from msgspec.structs import replace

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.services.cli.events import chosen_texts, decision_text, placed_text
from ganger.services.cli.units import reason_text
from ganger.services.cli.why import _likeness
from support.builders import Cell, node, policy, role

K = DecisionKind


def decided() -> dict[DecisionKind, list[Decision]]:
    """A job of higher priority takes two cards of one that has three."""
    actions = ("enqueue", "allocate", "backfill", "preempt")
    cell = Cell().start(node("n", 3), rules=policy("priority", "gang", "pack", actions=actions))
    cell.submit("low", role(replicas=3, minimum=0, cards=1))
    cell.tick()
    for pod in range(3):
        cell.started("low", pod)
    cell.submit("urgent", role(replicas=2, cards=1), priority=9)
    made: dict[DecisionKind, list[Decision]] = {}
    for decision in cell.tick():
        made.setdefault(decision.kind, []).append(decision)
    return made


def test_an_eviction_names_taker_rule_and_place() -> None:
    evictions = decided()[K.EVICT]
    texts = [decision_text(one) for one in evictions]
    considered = evictions[0].considered
    assert considered >= 2
    for place, (text, one) in enumerate(zip(texts, evictions, strict=True), 1):
        assert text.startswith(f"low, pod {one.pod} attempt 1 on n, card ")
        assert f"for urgent, victim {place} of {considered} candidates, by rule preempt" in text
        assert text.endswith(
            "gives way to a job of its queue that goes first: asks 2 cards, 0 free"
        )


def test_evictions_together_share_a_line() -> None:
    evictions = decided()[K.EVICT]
    assert "victims 1-2 of" in chosen_texts(evictions)[1]


def test_a_claim_is_of_a_role() -> None:
    claims = decided()[K.CLAIM]
    assert placed_text(claims).startswith("2 pods of role worker on n, cards ")
    assert "no longer for 2 pods" in decision_text(claims[0])


def test_claims_of_several_roles_share_no_line() -> None:
    first, second = decided()[K.CLAIM]
    assert _likeness(first) == _likeness(second)
    assert _likeness(first) != _likeness(replace(second, role="other"))


def test_a_claim_waits_for_one_or_for_many() -> None:
    for count, pods in ((1, "1 pod"), (2, "2 pods")):
        text = reason_text(Reason.CLAIM_MADE, count, 0, 0)
        assert text == f"starts as soon as it waits no longer for {pods} to leave"

"""How the votes of several rules combine, all ways that policy data can choose."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from ganger.schemas.reasons import Reason
from ganger.schemas.records import PolicyTier
from ganger.streams.kernel.entities import Job, Pod, Taker, Victim
from ganger.streams.kernel.policies import registry
from ganger.streams.kernel.policies.hooks import Hooks
from ganger.streams.kernel.policies.votes import (
    all_starve,
    first_refusal,
    first_tier_starves,
    flat,
    intersection,
    tier_vetoes,
    tier_vote,
)
from ganger.streams.kernel.refusals import PERMIT, Refusal, Vote
from ganger.streams.kernel.state import JobTest, State, Veto
from support.builders import Cell, node, policy, role
from support.decision_lines import job_of

NO = Refusal(Reason.OVERCOMMIT, 1, 2, 3)
OTHER = Refusal(Reason.QUEUE_CAPABILITY)
STATE = State("cell", bytes(32))


def somebody() -> Job:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(cards=1))
    return job_of(cell, "j")


ANYBODY = somebody()


def says(vote: Vote) -> Callable[..., Vote]:
    return lambda state, *about: vote


def voters(*tiers: tuple[Vote, ...]) -> tuple[tuple[Callable[..., Vote], ...], ...]:
    return tuple(tuple(says(vote) for vote in tier) for tier in tiers)


@pytest.mark.parametrize(
    ("tiers", "by_all", "by_tiers"),
    [
        ((), None, None),
        (((None, None),), None, None),
        (((PERMIT, NO),), NO, NO),
        (((NO, PERMIT),), NO, NO),
        (((None,), (NO,)), NO, NO),
        (((PERMIT,), (NO,)), NO, PERMIT),
        (((None, PERMIT), (None,)), None, PERMIT),
        (((NO,), (OTHER,)), NO, NO),
        (((None,), (OTHER, PERMIT)), OTHER, OTHER),
    ],
)
def test_a_permit_of_an_upper_tier_counts_by_tiers_only(
    tiers: tuple[tuple[Vote, ...], ...], by_all: Vote, by_tiers: Vote
) -> None:
    asked = voters(*tiers)
    assert first_refusal(flat(asked), STATE, ANYBODY) is by_all
    assert tier_vote(asked)(STATE, ANYBODY) is by_tiers


def starving(*tiers: tuple[bool, ...]) -> tuple[tuple[JobTest, ...], ...]:
    def test(value: bool) -> JobTest:
        return lambda state, job: value

    return tuple(tuple(test(value) for value in tier) for tier in tiers)


@pytest.mark.parametrize(
    ("tiers", "by_all", "by_tiers"),
    [
        ((), None, False),
        (((True, True), (False,)), False, True),
        (((True, False), (True,)), False, False),
        (((True,), (True,)), True, True),
    ],
)
def test_who_starves(tiers: Any, by_all: bool | None, by_tiers: bool) -> None:
    rule = all_starve(starving(*tiers))
    assert (None if rule is None else rule(STATE, ANYBODY)) is by_all
    assert first_tier_starves(starving(*tiers))(STATE, ANYBODY) is by_tiers


def candidates(count: int) -> list[Victim]:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=count, cards=1))
    cell.tick()
    job = job_of(cell, "j")
    return [Victim(job, cast(Pod, (job.pods or {})[index]), 0) for index in range(count)]


ALL = candidates(4)
TAKER = Taker(ALL[0].job, (1,))


def lets(allowed: str | None) -> Veto:
    """A veto that lets go those of the candidates whose numbers are named; None abstains."""

    def veto(state: State, taker: Taker, asked: list[Victim]) -> list[Victim] | None:
        if allowed is None:
            return None
        return [victim for victim in asked if str(victim.pod.index) in allowed]

    return veto


def vetoes(*tiers: tuple[str | None, ...]) -> tuple[tuple[Veto, ...], ...]:
    return tuple(tuple(lets(one) for one in tier) for tier in tiers)


@pytest.mark.parametrize(
    ("tiers", "by_all", "by_tiers"),
    [
        ((("012", "123"),), "12", "12"),
        ((("012", None),), "012", "012"),
        (((None,),), "0123", ""),
        # a permissive rule alone in an upper tier ends the vote
        ((("0123",), ("1",)), "1", "0123"),
        # who lets nobody go leaves it to the next tier
        ((("01", ""), ("23",)), "", "23"),
        ((("01", "", "2"), (None,)), "", ""),
        # an empty intersection is forgotten, so the next rule of the tier begins afresh
        ((("01", "23", "3"),), "", "3"),
        ((("01", "23"), ("0",)), "", "0"),
    ],
)
def test_who_may_go(tiers: Any, by_all: str, by_tiers: str) -> None:
    rule = intersection(vetoes(*tiers))
    assert rule is not None
    for judge, expected in ((rule, by_all), (tier_vetoes(vetoes(*tiers)), by_tiers)):
        found = judge(STATE, TAKER, list(ALL))
        assert "".join(str(victim.pod.index) for victim in found) == expected


def test_a_veto_sees_what_those_before_it_have_left() -> None:
    seen: list[int] = []

    def counts(state: State, taker: Taker, asked: list[Victim]) -> list[Victim]:
        seen.append(len(asked))
        return asked[1:]

    rule = intersection(((counts,), (counts, lets(None), counts)))
    assert rule is not None
    assert [victim.pod.index for victim in rule(STATE, TAKER, list(ALL))] == [3]
    assert seen == [4, 3, 2]


def test_without_vetoes_the_kernel_asks_nobody() -> None:
    assert intersection(()) is None


class _Yes:
    """A rule that lets every job in."""

    NAME = "yes"
    HOOKS = ("job_enqueue",)

    @staticmethod
    def build(arguments: Any, where: str) -> Hooks:
        return Hooks(job_enqueue=lambda state, job: PERMIT)


def test_the_policy_chooses_how_admission_is_voted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.POLICIES, "yes", cast(registry.Rule, _Yes))
    waiting = {}
    for votes in ("all", "tiers"):
        rules = policy("yes", ("overcommit", {"into_idle": "0"}), settings={"votes": votes})
        tiers = tuple(PolicyTier((rule,)) for rule in rules.tiers[0].policies)
        cell = Cell().start(node("n1", 4), rules=replace(rules, tiers=tiers))
        for name in ("a", "b"):
            cell.submit(name, role(cards=3))
        cell.tick()
        waiting[votes] = job_of(cell, "b").phase.name
    assert waiting == {"all": "PENDING", "tiers": "INQUEUE"}

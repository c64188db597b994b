"""How what several policies contribute combines: one named rule per way, chosen by policy data.

Contributions come by tier, as the policy record has them. Hooks that are not named here combine
in one way only: keys of orders are concatenated, the first refusal of `overused`, `preemptive` and
`predicate` stands, `job_valid` and `job_ready` must hold for all, the least count of `allocatable`
and the latest time of `protected` counts, scores are added, `victim` lists are joined, and of
`victim_order` and `spread` the first, respectively the last, decides.
"""

from typing import Any, Protocol, TypeVar

from ganger.streams.kernel.entities import Job, Taker, Victim
from ganger.streams.kernel.refusals import Permit, Refusal, Vote
from ganger.streams.kernel.state import JobTest, Judgement, State, Veto

_T = TypeVar("_T")

Tiers = tuple[tuple[_T, ...], ...]
"""Contributions to one hook by tier; tiers without any left out."""


class Voter(Protocol):
    """A rule that votes, on whatever it is asked about."""

    def __call__(self, state: State, *about: Any) -> Vote: ...


def flat(tiers: Tiers[_T]) -> tuple[_T, ...]:
    """All contributions in configured order."""
    return tuple([one for tier in tiers for one in tier])


def first_refusal(voters: tuple[Voter, ...], state: State, *about: Any) -> Refusal | None:
    """Votes of "all": whoever says no decides, whatever others say; the first reason stands."""
    for voter in voters:
        vote = voter(state, *about)
        if isinstance(vote, Refusal):
            return vote
    return None


def tier_vote(tiers: Tiers[Voter]) -> Voter:
    """Votes by "tiers", as Volcano counts them: in a tier a no ends the vote with no, and a yes
    without a no ends it with yes; a tier that abstains leaves it to the next. All abstain: yes.
    """

    def vote(state: State, *about: Any) -> Vote:
        for tier in tiers:
            is_permitted = False
            for voter in tier:
                answer = voter(state, *about)
                if isinstance(answer, Refusal):
                    return answer
                is_permitted = is_permitted or answer is Permit.PERMIT
            if is_permitted:
                return Permit.PERMIT
        return None

    return vote


def all_starve(tiers: Tiers[JobTest]) -> JobTest | None:
    """Starving by "all": a job starves if every rule says so; without rules the kernel decides."""
    tests = flat(tiers)
    if not tests:
        return None

    def starves(state: State, job: Job) -> bool:
        return all(test(state, job) for test in tests)

    return starves


def first_tier_starves(tiers: Tiers[JobTest]) -> JobTest:
    """Starving by "tiers": every rule of the first tier that has one must say so; none: nobody."""
    tests = tiers[0] if tiers else ()

    def starves(state: State, job: Job) -> bool:
        return bool(tests) and all(test(state, job) for test in tests)

    return starves


def intersection(tiers: Tiers[Veto]) -> Judgement | None:
    """Vetoes by "intersection": only those go whom every rule lets go, one rule after the other.

    Each rule judges what the rules before it have left, in the order of the candidates.
    """
    vetoes = flat(tiers)
    if not vetoes:
        return None

    def judge(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
        left = candidates
        for veto in vetoes:
            allowed = veto(state, taker, left)
            left = left if allowed is None else allowed
            if not left:
                break
        return left

    return judge


def tier_vetoes(tiers: Tiers[Veto]) -> Judgement:
    """Vetoes by "tiers", as Volcano counts them; with all their traps.

    Every rule judges all candidates. Inside a tier the answers are intersected; who abstains does
    not count; a rule that lets nobody go ends its tier without an answer. An intersection that is
    empty is forgotten, so that the next rule of the tier begins the answer afresh. The first tier
    with an answer decides; without any nobody goes.
    """

    def judge(state: State, taker: Taker, candidates: list[Victim]) -> list[Victim]:
        for tier in tiers:
            answer: list[Victim] | None = None
            for veto in tier:
                allowed = veto(state, taker, candidates)
                if allowed is None:
                    continue
                if not allowed:
                    answer = None
                    break
                answer = allowed if answer is None else _both(answer, allowed)
            if answer:
                return answer
        return []

    return judge


def _both(answer: list[Victim], allowed: list[Victim]) -> list[Victim] | None:
    """Those in both lists, in the order of the first; none where there are none."""
    keys = {(victim.job.seq, victim.pod.index, victim.pod.attempt): True for victim in allowed}
    both = [v for v in answer if (v.job.seq, v.pod.index, v.pod.attempt) in keys]
    return both or None

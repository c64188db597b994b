"""Candidates that are kept, and the quick no for takers in vain, change no decision."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.preemption.candidates import Pool
from support.builders import Cell, node, policy, queue, role
from support.world import World


class Obedient(World):
    """It does what it is told and judges nothing: gangs leave whole, also from cards that nobody
    claims.
    """

    def _check(self, said: list[Decision]) -> None:
        assert all(decision.for_job for decision in said if decision.kind is DecisionKind.EVICT)


TAKING = ("enqueue", "allocate", "backfill", "reclaim", "preempt")
RULES = ("priority", "gang", "fair_share", "capability", "pack")

Arrival = tuple[str, int, int, int, int, bool]


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Queue, priority, pods, least pods and cards of each job, and whether one ends before it."""
    jobs: list[Arrival] = []
    for _ in range(draw(st.integers(2, 10))):
        count = draw(st.integers(1, 3))
        jobs.append(
            (
                draw(st.sampled_from("abc")),
                draw(st.integers(0, 1)),
                count,
                draw(st.integers(0, count)),
                draw(st.integers(1, 3)),
                draw(st.booleans()),
            )
        )
    return jobs


def lived(jobs: list[Arrival]) -> Cell:
    """A cell in which these arrive one after the other and some end."""
    rules = policy(*RULES, actions=TAKING)
    queues = [queue(name) for name in "abc"]
    cell = Cell().start(node("x", 4), node("y", 3), *queues, rules=rules)
    world = Obedient(cell)
    for number, (name, priority, count, least, cards, ends) in enumerate(jobs):
        running = world.running()
        if ends and running:
            first = cell.state.jobs[cell.state.job_by_key[running[0]]]
            for index, pod in sorted((first.pods or {}).items()):
                cell.succeeded(running[0], index, pod.attempt)
        made = role(replicas=count, minimum=least, cards=cards)
        cell.submit(f"j{number}", made, queue=name, priority=priority)
        world.rest(2 * len(jobs) + 6)
    return cell


@settings(max_examples=40, deadline=None, derandomize=True)
@given(jobs=arrivals())
def test_the_quick_no_is_never_wrong(jobs: list[Arrival]) -> None:
    quick = lived(jobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "may_help", lambda *_: True)
        patch.setattr(Pool, "spares_any", lambda *_: True)
        slow = lived(jobs)
    assert quick.decisions == slow.decisions


@settings(max_examples=40, deadline=None, derandomize=True)
@given(jobs=arrivals())
def test_it_does_not_show_whether_candidates_were_kept(jobs: list[Arrival]) -> None:
    kept = lived(jobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "is_of", lambda *_: False)
        anew = lived(jobs)
    assert kept.decisions == anew.decisions
    assert kept.digest == anew.digest


def test_a_taker_of_little_looks_at_few_candidates() -> None:
    rules = policy(*RULES, actions=TAKING)
    nodes = [node(f"n{number}", 4) for number in range(16)]
    cell = Cell().start(queue("rich"), queue("poor"), *nodes, rules=rules)
    for number in range(64):
        cell.submit(f"r{number}", queue="rich")
    cell.tick()
    for number in range(8):
        cell.submit(f"p{number}", queue="poor")
    seen: list[object] = []
    whole = Pool.offer

    def counted(pool: Pool, *asked: Any) -> Iterator[Any]:
        for bundle in whole(pool, *asked):
            seen.append(bundle)
            yield bundle

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "offer", counted)
        kinds = [decision.kind for decision in cell.tick()]
    assert kinds.count(DecisionKind.EVICT) == 8
    assert len(seen) < 8 * 16, "each taker looked at more than a quarter of the candidates"

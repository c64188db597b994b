"""One lookahead for many moments against one of its own for each, and none leaves a trace."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ganger.streams.kernel.backfill.lookahead import Moments
from ganger.streams.kernel.digest import recompute
from ganger.streams.kernel.invariants import check
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.presets.loader import load_policy
from support.builders import SECOND, Cell, node, role, submission

JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2000), st.integers(0, 50)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(JOBS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 11)), max_size=12))
def test_moments_can_be_asked_in_any_order(
    jobs: list[tuple[int, int, int, int]], asked: list[tuple[int, int]]
) -> None:
    rules = replace(load_policy("hpc-easy"), event_id="rules")
    cell = Cell().start(node("a", 4), node("b", 4), node("c", 2), rules=rules)
    for number, (cards, replicas, cpu, seconds) in enumerate(jobs):
        gang = role(replicas=replicas, cards=cards, cpu=cpu)
        job = submission(f"j{number}", gang, time_ns=cell.now_ns)
        cell.put(replace(job, runtime_estimate_ns=seconds * SECOND))
        cell.tick(1)
    state = cell.state
    futures = state.indexes.futures
    assert futures is not None
    waiting = [job for job in state.jobs.values() if not job.pods and job.key is not None]
    before = recompute(state)
    with Moments(state, futures, (), place_job) as moments:
        found = [
            moments.held(waiting[which % len(waiting)], cell.now_ns + seconds * SECOND)
            for seconds, which in asked
            if waiting
        ]
    alone = []
    for seconds, which in asked if waiting else ():
        with Moments(state, futures, (), place_job) as moments:
            at_ns = cell.now_ns + seconds * SECOND
            alone.append(moments.held(waiting[which % len(waiting)], at_ns))
    assert found == alone
    assert recompute(state) == before
    check(state)

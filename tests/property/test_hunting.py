"""Random cells in which jobs take from each other: whatever happens, nobody leaves in vain.

`Hunting` judges each cycle: whoever must leave makes room, or gives quota, for a claim made in the
same cycle; none of them could have been given back; no placement comes again unless something got
on; claims are nobody else's; words of jobs, protections, budgets and minimums are kept; and a state
that was stored and read again decides the same.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.hunting import Hunting

PROFILE = settings(max_examples=40, deadline=None, derandomize=True)
FOUND = (
    (36, "", False, "the gate's room was that of a hunt in which others were seen as gone"),
    (80, "", False, "queues stood in the order of whom nobody had tried in vain yet"),
    (2105, "cell", True, "who was placed in a cycle was no victim in the next one either"),
    (2125, "cell", True, "the gate's room was that of before a node took pods again"),
    (3180, "node", True, "the same of a node that took none any more"),
)
"""Seeds in which faults were found, how they searched, whether with mishaps, and what was wrong."""


@pytest.mark.parametrize(("seed", "search", "faults", "what"), FOUND)
def test_what_was_found_is_gone(seed: int, search: str, faults: bool, what: str) -> None:
    assert Hunting(seed, faults=faults, search=search).run(60).broken == [], what


@PROFILE
@given(seed=st.integers(0, 1 << 20), search=st.sampled_from(("cell", "node")))
def test_nobody_leaves_in_vain(seed: int, search: str) -> None:
    assert Hunting(seed, faults=False, search=search).run(50).broken == []


@PROFILE
@given(seed=st.integers(0, 1 << 20), search=st.sampled_from(("cell", "node")))
def test_nobody_leaves_in_vain_though_nodes_and_attempts_fail(seed: int, search: str) -> None:
    assert Hunting(seed, search=search).run(50).broken == []


def test_the_cells_are_such_that_jobs_take_from_each_other() -> None:
    counts = [Hunting(seed, faults=False).run(60).evicted for seed in range(12)]
    assert sum(counts) > 12

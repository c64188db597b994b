"""A snapshot may be taken anywhere: who goes on from it decides the same, byte for byte."""

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.streams.kernel import derive, invariants, snapshot
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support.chaos import CHAIN, Chaos, run_seed

SEEDS = tuple(range(200, 206))
STEPS = 30


@cache
def lived(seed: int) -> Chaos:
    """A cell under faults, watched once."""
    return run_seed(seed, STEPS, check_every=100)


def go_on(state: State, records: list[r.Record], seq: int) -> list[Decision]:
    """Decisions of the records from `seq` on, the state changed by them."""
    return [d for at, record in enumerate(records[seq:], seq) for d in step(state, at, record)]


def new_state() -> State:
    return State("chaos", CHAIN)


def state_before(records: list[r.Record], seq: int) -> State:
    state = new_state()
    go_on(state, records[:seq], 0)
    return state


def shuffled(state: State, chance: random.Random) -> State:
    """The state, every dict of primary facts in another order and all that is derived made anew.

    Request ids are left as they are: their order is when they came, which is a fact.
    """
    tables: list[dict[Any, Any]] = [
        state.jobs,
        state.job_by_key,
        state.node_by_name,
        state.queue_by_name,
        state.reservations,
        state.sources,
        state.flavors,
        state.zones,
        state.claims,
        state.usage,
        state.submissions,
        state.memory,
        *[node.pods for node in state.nodes],
    ]
    for job in state.jobs.values():
        tables += [table for table in (job.pods, job.attempts, job.failures) if table]
    for table in tables:
        items = list(table.items())
        chance.shuffle(items)
        table.clear()
        table.update(items)
    derive.rebuild(state)
    return state


@pytest.mark.parametrize("seed", SEEDS)
def test_every_place_can_be_gone_on_from(seed: int) -> None:
    """One state lives on, another is put to bytes and back before every record."""
    records = lived(seed).cell.records
    kept, restored = new_state(), new_state()
    for seq, record in enumerate(records):
        data = snapshot.encode(restored)
        assert data == snapshot.encode(kept), f"seed {seed}: bytes differ before record {seq}"
        restored = snapshot.decode(data)
        want, got = step(kept, seq, record), step(restored, seq, record)
        assert got == want, f"seed {seed}: decisions differ at record {seq}"
        assert seal(restored) == seal(kept), f"seed {seed}: digests differ after record {seq}"
    assert restored.chain == lived(seed).cell.state.chain


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.sampled_from(SEEDS), cut=st.integers(0, 1000), order=st.integers(0, 9))
def test_order_in_dicts_decides_nothing(seed: int, cut: int, order: int) -> None:
    records = lived(seed).cell.records
    seq = len(records) * cut // 1000
    state = state_before(records, seq)
    other = shuffled(snapshot.fork(state), random.Random(order))
    invariants.check(other)
    assert snapshot.encode(other) == snapshot.encode(state)
    assert go_on(other, records, seq) == go_on(state, records, seq)
    assert snapshot.encode(other) == snapshot.encode(state)
    invariants.check(other)

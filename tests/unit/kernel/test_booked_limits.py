"""Under conservative backfill nobody is booked whom a limit of its queue keeps out: the moment of
such a booking would come, and come again, and nobody would start.
"""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.step import next_wake
from support import builders as b
from support.timed_cells import ask, go, timed_policy


@pytest.mark.parametrize("nodes", [1, 2])
def test_who_is_over_its_queues_limit_is_booked_when_it_no_longer_is(nodes: int) -> None:
    limit = (r.Amount("cards_milli", 2000),)
    cell = b.Cell().start(
        *(b.node(f"n{place}", 8) for place in range(nodes)),
        replace(b.queue("q"), capability=limit),
        rules=timed_policy("hpc-conservative"),
    )
    for job, cards, run_s in (("a", 3, 1), ("b", 5, 60), ("c", 3, 7)):
        ask(cell, job, cards, run_s)
    for _ in range(5):
        made = go(cell)
        assert not any(one.kind is DecisionKind.RESERVE for one in made)
    assert not cell.state.bookings
    assert next_wake(cell.state) is None
    ask(cell, "fits", 2, 5)
    assert [one.job for one in go(cell) if one.node] == ["fits"]
    cell.put(replace(b.queue("q"), capability=(), time_ns=cell.now_ns))
    started = [
        one.job for one in go(cell) if one.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
    ]
    assert started == (["a"] if nodes == 1 else ["a", "b", "c"])

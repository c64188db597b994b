"""A cell is asked for when the first who is booked is to start, whatever became of the booking."""

import pytest

from ganger.streams.kernel.step import next_wake
from support import builders as b
from support.timed_cells import ask, go, timed_policy


@pytest.mark.parametrize("nodes", [1, 2])
def test_who_was_held_and_is_booked_for_the_same_moment_is_woken_for_it(nodes: int) -> None:
    cell = b.Cell().start(
        *(b.node(f"n{place}", 4) for place in range(nodes)), rules=timed_policy("hpc-conservative")
    )
    for place in range(nodes):
        ask(cell, f"runs-{place}", 4, 100)
    go(cell)
    ask(cell, "never-fits", 9, 10)  # cycles look at bookings while anybody stands in line
    ask(cell, "next", 4, 10)
    go(cell)
    wake_ns = next_wake(cell.state)
    assert wake_ns == next(iter(cell.state.bookings.values())).start_ns
    cell.update("next", held=True)
    cell.tick()
    assert not cell.state.bookings
    assert next_wake(cell.state) != wake_ns
    cell.update("next", held=False)
    cell.tick()
    assert next(iter(cell.state.bookings.values())).start_ns == wake_ns
    assert next_wake(cell.state) == wake_ns

"""A window of the controller ends at its own time while anybody waits."""

from msgspec.structs import replace

from ganger.streams.kernel.backfill import tuning
from ganger.streams.kernel.handlers.time import next_wake
from support import builders as b
from support.timed_cells import timed_policy

HOUR = 3600 * b.SECOND


def test_a_window_ends_at_its_time_while_anybody_waits() -> None:
    cell = b.Cell().start(b.node("n"), rules=timed_policy("xirang"))
    for job in ("runs", "waits"):
        made = b.submission(job, b.role(cards=8), time_ns=cell.now_ns)
        cell.put(replace(made, runtime_estimate_ns=20 * HOUR))
    cell.tick(0)
    cell.started("runs")
    begun = tuning.window_of(cell.state).begin_ns
    for count in range(1, 4):
        due = begun + count * HOUR
        while tuning.window_of(cell.state).begin_ns < due:
            wake_ns = next_wake(cell.state)
            assert wake_ns is not None and wake_ns <= due
            cell.now_ns = wake_ns
            cell.tick(0)
        assert tuning.window_of(cell.state).begin_ns == due

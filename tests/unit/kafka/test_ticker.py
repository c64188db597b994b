"""When an owner lets time pass."""

import pytest

from ganger.schemas.records import Tick
from ganger.streams.kafka.worker.ticker import TICK_MAX_NS, TICK_MIN_NS, Ticker
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support.builders import GENESIS, SECOND, policy

MONO = 5 * SECOND


class Cell:
    """A state whose ledger holds what the ticker sends."""

    def __init__(self) -> None:
        self.state = State("lab", b"")
        self.state.epoch = 4
        self.state.next_seq = 10
        self.ticker = Ticker(self.state)

    def tick(self, now_ns: int, mono_ns: int) -> Tick:
        tick = self.ticker.tick(now_ns, mono_ns)
        self.ticker.delivered(self.state.next_seq)
        return tick

    def took(self, *, has_input: bool | None) -> None:
        self.state.next_seq += 1
        self.ticker.took(has_input)


def test_the_first_tick_is_due_at_once_and_runs_a_cycle() -> None:
    cell = Cell()
    assert cell.ticker.wait_ns(GENESIS, MONO) == 0
    assert cell.tick(GENESIS, MONO) == Tick(GENESIS, "", None, 4, True)


def test_none_is_sent_while_one_is_on_its_way() -> None:
    cell = Cell()
    cell.ticker.tick(GENESIS, MONO)
    cell.took(has_input=True)
    assert cell.ticker.wait_ns(GENESIS + SECOND, MONO + 9 * SECOND) is None
    cell.ticker.delivered(11)
    assert cell.ticker.wait_ns(GENESIS + SECOND, MONO + 9 * SECOND) is None
    cell.took(has_input=False)
    assert cell.ticker.wait_ns(GENESIS + SECOND, MONO + 9 * SECOND) == 0


def test_a_tick_that_was_met_before_it_was_acknowledged_is_over() -> None:
    cell = Cell()
    cell.ticker.tick(GENESIS, MONO)
    cell.took(has_input=False)
    cell.ticker.delivered(10)
    assert cell.ticker.wait_ns(GENESIS, MONO) == TICK_MAX_NS


@pytest.mark.parametrize(
    ("has_input", "wait_ns", "runs_cycle"),
    [(True, TICK_MIN_NS, True), (False, TICK_MAX_NS, False)],
)
def test_after_input_soon_and_else_rarely(has_input: bool, wait_ns: int, runs_cycle: bool) -> None:
    cell = Cell()
    cell.tick(GENESIS, MONO)
    cell.took(has_input=has_input)
    assert cell.ticker.wait_ns(GENESIS, MONO) == wait_ns
    assert cell.ticker.wait_ns(GENESIS, MONO + wait_ns) == 0
    assert cell.tick(GENESIS + wait_ns, MONO + wait_ns).cycle is runs_cycle


def test_the_policy_may_say_otherwise() -> None:

    cell = Cell()
    step(cell.state, 10, policy(settings={"tick_min_ns": "50000000"}))
    cell.ticker.took(True)
    cell.tick(GENESIS, MONO)
    cell.took(has_input=True)
    assert cell.ticker.wait_ns(GENESIS, MONO) == 50_000_000


def test_its_time_is_never_before_the_kernels() -> None:
    cell = Cell()
    cell.state.clock_ns = GENESIS + SECOND
    assert cell.tick(GENESIS, MONO).time_ns == GENESIS + SECOND


def test_input_that_a_tick_on_its_way_already_serves_asks_for_no_other() -> None:
    cell = Cell()
    cell.tick(GENESIS, MONO)
    cell.took(has_input=True)  # it stands before the Tick in the ledger
    cell.took(has_input=False)
    assert cell.ticker.wait_ns(GENESIS, MONO) == TICK_MAX_NS

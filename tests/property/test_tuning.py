"""The controller of gaps, on logs: which way it moves, how far, and that it does so again."""

from hashlib import sha256

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import tuning
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support import builders as b
from support.lent_cells import LentHistory, lent_policy
from support.timed_cells import Work, carry_out

CARDS = 8
WINDOW = {"window_ns": "240s"}


def moves(decisions: list[Decision]) -> list[Decision]:
    return [d for d in decisions if d.kind is DecisionKind.TUNE]


def work_of(later_run_s: int) -> list[Work]:
    """A job as wide as the cell every twenty seconds; from the forty-first on they run so long."""
    return [Work(str(n), 20 * n, 15 if n <= 40 else later_run_s, CARDS, 100) for n in range(1, 161)]


def test_where_main_wait_rises_the_window_gets_shorter() -> None:
    made = moves(carry_out(lent_policy(tune=WINDOW), work_of(30), CARDS))
    assert made
    shares = [150]
    for move in made:
        assert (move.reason, move.rule) == (Reason.TUNE_MAIN_WAIT, "tune.protection")
        assert move.free >= 1100, "thousandths of what main jobs waited before"
        assert move.asked == shares[-1] > move.limit >= 100
        shares.append(move.limit)


def test_where_it_does_not_nothing_is_moved() -> None:
    assert not moves(carry_out(lent_policy(tune=WINDOW), work_of(15), CARDS))


def test_where_completion_falls_gaps_are_given_for_shorter_runs() -> None:
    """Evictions after a short wait make it fall; what is moved stays within its bounds."""
    found = 0
    for seed in range(8):
        policy = lent_policy(
            yielding={"evict_after_ns": "2s", "floor_ns": "1s"},
            tune={"window_ns": "30s", "runtime_max_ns": "60s", "runtime_least_ns": "30s"},
        )
        history = LentHistory(policy, seed)
        for _ in range(250):
            history.step()
            knobs = tuning.knobs_of(history.cell.state)
            assert 30 * b.SECOND <= knobs.runtime_max_ns <= 60 * b.SECOND
            assert 100 <= knobs.protection_milli <= 200
        made = moves(history.cell.decisions)
        for move in made:
            if move.reason is Reason.TUNE_COMPLETION and move.rule == "tune.runtime_max":
                found += 1
                assert move.limit == max(30 * b.SECOND, move.asked * 3 // 4) < move.asked
                assert move.free < 950
        other = State("cell", sha256(b"cell").digest())
        for record in history.cell.records:
            step(other, other.next_seq, record)
        assert (other.chain, other.knobs) == (history.cell.state.chain, history.cell.state.knobs)
    assert found

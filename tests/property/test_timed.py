"""Planning with run times in the kernel: what holds in every history, against plainer programs."""

import pytest

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Estimates
from ganger.schemas.reasons import Reason
from support import builders as b
from support.archive import Job, Machine
from support.planners import PLANNERS, Predicting
from support.timed_cells import (
    STARTS,
    TimedHistory,
    Work,
    carry_out,
    fills_break_no_promise,
    follow_restored,
    random_work,
    timed_policy,
    waits_s,
)

PRESETS = ("hpc-fcfs", "hpc-easy", "hpc-sjbf-clairvoyant", "hpc-conservative", "hpc-predict")
CARDS = 8
STEPS = 70


@pytest.mark.parametrize("nodes", [(CARDS,), (4, 4, 2)], ids=["pool", "nodes"])
@pytest.mark.parametrize("overruns", [False, True], ids=["in-time", "overrun"])
@pytest.mark.parametrize("preset", PRESETS)
def test_who_goes_on_from_a_snapshot_decides_the_same(
    preset: str, overruns: bool, nodes: tuple[int, ...]
) -> None:
    """The invariants hold after every record, and a snapshot may be taken after any."""
    history = TimedHistory(timed_policy(preset), 7, nodes, overruns=overruns)
    follow_restored(history, steps=STEPS, seed=3)
    assert any(d.kind in STARTS for d in history.cell.decisions)


@pytest.mark.parametrize("nodes", [(CARDS,), (4, 4, 2)], ids=["pool", "nodes"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("hpc-conservative", {"estimates": "predicted"}),
        ("hpc-conservative", {"estimates": "predicted", "expect": "estimate"}),
        ("hpc-predict", {"margin": "learnt"}),
    ],
    ids=["booked", "expected", "margins"],
)
def test_who_goes_on_from_a_snapshot_knows_what_was_learnt(
    preset: str, settings: dict[str, str], seed: int, nodes: tuple[int, ...]
) -> None:
    """Bookings and margins stand as they were made, and are made anew when they would be."""
    history = TimedHistory(timed_policy(preset, **settings), seed, nodes, overruns=True)
    follow_restored(history, steps=STEPS, seed=3)
    assert any(d.estimate_source is Estimates.PREDICTED for d in history.cell.decisions)


@pytest.mark.parametrize(
    ("preset", "settings", "seed", "nodes"),
    [
        ("hpc-easy", {}, 1, (CARDS,)),
        ("hpc-predict", {"expect": "estimate"}, 7, (CARDS,)),
        ("hpc-conservative", {}, 2, (CARDS,)),
        ("hpc-conservative", {}, 11, (4, 4, 2)),
        ("xirang", {"expect": "estimate"}, 29, (CARDS,)),
    ],
    ids=["easy", "predict", "conservative", "on nodes", "xirang"],
)
def test_who_outlives_its_estimate_makes_nobody_else_break_a_promise(
    preset: str, settings: dict[str, str], seed: int, nodes: tuple[int, ...]
) -> None:
    """By the fold that `verify` does: jobs that claimed start late, bookings move behind them."""
    history = TimedHistory(timed_policy(preset, **settings), seed, nodes, overruns=True)
    for _ in range(320 if preset == "xirang" else 160):
        history.step()
    fills_break_no_promise(history.cell)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("preset", "planner"),
    [
        ("hpc-fcfs", "fcfs"),
        ("hpc-easy", "easy"),
        ("hpc-conservative", "conservative"),
        ("hpc-predict", "predict"),
    ],
)
def test_starts_are_those_of_the_planners(preset: str, planner: str, seed: int) -> None:
    work = random_work(seed, 120, CARDS)
    waits = waits_s(carry_out(timed_policy(preset), work, CARDS), work)
    jobs = [  # in ns, since means of run times are not whole seconds
        Job(
            int(w.job),
            w.submit_s * b.SECOND,
            w.run_s * b.SECOND,
            w.cards,
            w.limit_s * b.SECOND,
            w.user,
        )
        for w in work
    ]
    if planner == "predict":
        machine = Machine(CARDS, Predicting(CARDS, guard_s=3 * 86_400 * b.SECOND))
    else:
        machine = Machine(CARDS, PLANNERS[planner](CARDS))
    expected_ns = machine.run(jobs)
    assert waits == {number: wait_ns // b.SECOND for number, wait_ns in expected_ns.items()}


class Reservations:
    """Folds decisions of one node: who holds cards until when, as was said, and who is booked."""

    def __init__(self) -> None:
        self.holders: dict[str, tuple[int, int]] = {}  # admitted end, cards
        self.booked: dict[str, tuple[int, int]] = {}  # start, cards

    def see(self, decision: Decision) -> None:
        job, kind = decision.job, decision.kind
        cards = sum(span.count for span in decision.cards)
        if kind in STARTS:
            self.booked.pop(job, None)
            until_ns = decision.time_ns + decision.estimate_ns + decision.margin_ns
            self.holders[job] = (until_ns, cards)
        elif kind is DecisionKind.CLAIM:
            self.booked.pop(job, None)  # what it counts with is said when it starts
        elif kind is DecisionKind.FINISH:
            self.holders.pop(job, None)
        elif kind is DecisionKind.RESERVE:
            self.booked[job] = (decision.start_ns, decision.asked // 1000)
        elif kind is DecisionKind.UNRESERVE:
            del self.booked[job]

    def check(self) -> None:
        """Every reservation has its cards when it begins."""
        for job, (start_ns, cards) in self.booked.items():
            held = sum(count for until_ns, count in self.holders.values() if until_ns > start_ns)
            others = sum(
                count
                for other, (from_ns, count) in self.booked.items()
                if other != job and from_ns <= start_ns
            )
            assert held + cards <= CARDS or others, (job, start_ns, held)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("preset", ["hpc-easy", "hpc-predict", "hpc-sjbf-clairvoyant"])
def test_no_start_in_a_gap_moves_the_reservation_made_before_it(preset: str, seed: int) -> None:
    """Under the estimates that admitted them, the head has its cards when it is to start."""
    work = random_work(seed, 150, CARDS)
    told = Reservations()
    filled = 0
    for decision in carry_out(timed_policy(preset), work, CARDS):
        told.see(decision)
        if decision.kind is DecisionKind.BACKFILL:
            filled += 1
            told.check()
    assert filled


@pytest.mark.parametrize("seed", range(4))
def test_conservative_a_later_arrival_moves_nobody_later(seed: int) -> None:
    work = random_work(seed, 150, CARDS)
    starts_ns: dict[str, int] = {}
    moved = 0
    for decision in carry_out(timed_policy("hpc-conservative"), work, CARDS):
        if decision.kind is DecisionKind.RESERVE:
            before_ns = starts_ns.get(decision.job)
            assert before_ns is None or decision.start_ns < before_ns
            moved += before_ns is not None
            starts_ns[decision.job] = decision.start_ns
        elif decision.kind in STARTS and decision.job in starts_ns:
            assert decision.time_ns <= starts_ns[decision.job]
    assert moved


def test_a_running_jobs_run_time_is_not_known_before_it_ends() -> None:
    """Two workloads that differ in it alone lead to equal decisions until the first of the ends."""
    for seed in range(6):
        work = random_work(seed, 80, CARDS)
        place = max(range(20, 60), key=lambda at: work[at].limit_s)
        chosen = work[place]
        longer = [*work]
        longer[place] = chosen._replace(run_s=chosen.limit_s)
        shorter = [*work]
        shorter[place] = chosen._replace(run_s=1)
        one = carry_out(timed_policy("hpc-predict"), shorter, CARDS)
        other = carry_out(timed_policy("hpc-predict"), longer, CARDS)
        start_ns = next(d.time_ns for d in one if d.kind in STARTS and d.job == chosen.job)
        until_ns = start_ns + b.SECOND
        same = [d.body for d in one if d.time_ns < until_ns]
        assert same == [d.body for d in other if d.time_ns < until_ns]
        assert len(same) > 50
        assert any(d.time_ns >= until_ns for d in other)


def test_predictions_are_said_with_what_they_allowed() -> None:
    """A job is let into a gap by the mean of its user's last runs, and its decision says so."""
    decisions = carry_out(timed_policy("hpc-predict"), random_work(1, 200, CARDS), CARDS)
    filled = [d for d in decisions if d.kind is DecisionKind.BACKFILL]
    predicted = [d for d in filled if d.estimate_source is Estimates.PREDICTED]
    assert predicted
    for decision in filled:
        assert decision.reason in (Reason.SAFE_IN_GAP, Reason.BESIDE_RESERVATION)
        if decision.reason is Reason.SAFE_IN_GAP:
            assert decision.asked == decision.estimate_ns <= decision.limit
            assert not decision.start_ns or decision.start_ns == decision.time_ns + decision.limit
        else:
            assert 0 < decision.asked <= decision.free


def test_a_job_without_an_estimate_is_never_safe() -> None:
    """It starts beside the reservation or in turn, however long the gap is."""
    work = [
        Work("1", 0, 10, 6, 10),
        Work("2", 1, 5, 8, 5),  # the head: starts at 10
        Work("3", 2, 1, 2, 0),  # says nothing
        Work("4", 3, 1, 2, 1),
    ]
    decisions = carry_out(timed_policy("hpc-easy"), work, CARDS)
    kinds = {d.job: (d.kind, d.time_ns) for d in decisions if d.kind in STARTS}
    assert kinds["4"] == (DecisionKind.BACKFILL, b.GENESIS + 3 * b.SECOND)
    assert kinds["2"] == (DecisionKind.ALLOCATE, b.GENESIS + 10 * b.SECOND)
    assert kinds["3"][1] > kinds["2"][1]

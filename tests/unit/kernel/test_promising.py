"""Promises of starts: what is told, what is learnt, and that all of it survives a snapshot."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import BackfillPreference, DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.backfill import memory, promised
from ganger.streams.kernel.backfill.outlooks import Missed, Outlook, missed, outlook
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.foresight.promises import FACTOR_ONE, LATE_MILLI, MEDIAN_MILLI, correct
from ganger.streams.kernel.foresight.standing import Promised, Told
from ganger.streams.kernel.state import State
from ganger.streams.presets.loader import load_policy
from support.builders import SECOND, Cell, node, policy, role, submission

ADMIT = DecisionKind.ADMIT


def promising_cell(preset: str = "hpc-predict", cards: int = 4) -> Cell:
    return Cell().start(node("n", cards), rules=load_policy(preset))


def submit(cell: Cell, job: str, cards: int, estimate_s: int, **facts: object) -> list[Decision]:
    """Submit a job of one pod, and let a cycle run at once."""
    request = submission(job, role(cards=cards), time_ns=cell.now_ns)
    fields = {"runtime_estimate_ns": estimate_s * SECOND} | facts
    cell.put(replace(request, **fields))
    return cell.tick(0)


def told(cell: Cell, decisions: list[Decision]) -> tuple[int, int] | None:
    """Waits in seconds of the promise among decisions."""
    for decision in decisions:
        if decision.kind is ADMIT and decision.start_ns:
            waits = (decision.start_ns - cell.now_ns, decision.start_late_ns - cell.now_ns)
            return waits[0] // SECOND, waits[1] // SECOND
    return None


def job_of(cell: Cell, name: str) -> Job:
    return cell.state.jobs[cell.state.job_by_key[name]]


def copy_of(state: State) -> State:
    """The state as a snapshot gives it back."""
    return snapshot.decode(snapshot.encode(state))


def test_who_starts_in_its_first_cycle_is_promised_nothing() -> None:
    cell = promising_cell()
    assert told(cell, submit(cell, "a", 4, 100)) is None
    assert not job_of(cell, "a").promise


def test_a_promise_counts_the_work_ahead() -> None:
    cell = promising_cell()
    submit(cell, "a", 4, 100)
    # of four cards: 400 card-seconds run, nobody waits; then 4 x 60 wait, too
    assert told(cell, submit(cell, "b", 4, 60)) == (100, 300)
    assert told(cell, submit(cell, "c", 1, 1)) == (160, 480)
    assert cell.state.indexes.promised is not None
    assert cell.state.indexes.promised.work == (4 * 60 + 1) * SECOND
    kept = Told(*job_of(cell, "b").promise)
    assert (kept.at_ns, kept.ahead, kept.cards_milli) == (cell.now_ns, 0, 4000)


def test_other_policies_promise_nothing() -> None:
    for rules in (policy(), load_policy("hpc-easy")):
        cell = Cell().start(node("n", 4), rules=rules)
        submit(cell, "a", 4, 100)
        assert told(cell, submit(cell, "b", 4, 60)) is None
        assert cell.state.indexes.promised is None


def test_a_start_teaches_and_ends_the_promise() -> None:
    cell = promising_cell()
    submit(cell, "a", 4, 100)
    cell.started("a")
    submit(cell, "b", 4, 60)
    cell.now_ns += 50 * SECOND
    cell.succeeded("a")
    cell.tick(0)
    assert not job_of(cell, "b").promise
    half = 1 << 19  # it waited half of the work ahead
    for name in ("eta/3/0", "eta/3", "eta/all"):
        assert memory.get(cell.state, name) == (half,)
    factors = promised.factors(cell.state)
    assert factors.median == correct(FACTOR_ONE, MEDIAN_MILLI, is_broken=False)
    assert factors.late == correct(FACTOR_ONE, LATE_MILLI, is_broken=False)


def test_a_broken_promise_is_counted_once_when_its_time_is_over() -> None:
    cell = promising_cell()
    submit(cell, "a", 4, 100)
    submit(cell, "b", 4, 60)
    cell.tick(100)  # its very time is not over
    assert promised.factors(cell.state).median == FACTOR_ONE
    cell.tick(1, cycle=False)
    broken = correct(FACTOR_ONE, MEDIAN_MILLI, is_broken=True)
    assert promised.factors(cell.state) == (broken, FACTOR_ONE)
    cell.tick(50)
    assert promised.factors(cell.state) == (broken, FACTOR_ONE)
    cell.succeeded("a")
    cell.tick(0)
    kept = correct(FACTOR_ONE, LATE_MILLI, is_broken=False)
    assert promised.factors(cell.state) == (broken, kept)


def test_who_ends_without_having_started_teaches_nothing() -> None:
    cell = promising_cell()
    submit(cell, "a", 4, 100)
    submit(cell, "b", 4, 60)
    cell.cancel("b")
    assert cell.state.indexes.promised is not None
    assert cell.state.indexes.promised.work == 0
    assert memory.get(cell.state, "eta/all") == ()
    cell.tick(1000)
    assert promised.factors(cell.state) == (FACTOR_ONE, FACTOR_ONE)


def test_a_snapshot_between_two_times_counts_neither_twice() -> None:
    cell = promising_cell()
    submit(cell, "a", 4, 100)
    submit(cell, "b", 4, 60)
    cell.tick(101)
    other = copy_of(cell.state)
    assert other.indexes.promised is not None
    assert other.indexes.promised.work == 4 * 60 * SECOND
    assert seal(other) == seal(cell.state)
    cell.tick(1000)
    twin = Cell()
    twin.state, twin.now_ns = other, cell.now_ns - 1000 * SECOND
    twin.tick(1000)
    assert promised.factors(twin.state) == promised.factors(cell.state)
    assert twin.digest == cell.digest


def test_promises_end_with_the_policy_that_made_them() -> None:
    cell = promising_cell()
    submit(cell, "a", 4, 100)
    submit(cell, "b", 4, 60)
    cell.put(replace(load_policy("hpc-easy"), time_ns=cell.now_ns))
    assert cell.state.indexes.promised is None
    cell.succeeded("a")
    cell.tick(1)
    assert not job_of(cell, "b").promise
    assert memory.get(cell.state, "eta/all") == ()


def test_times_are_taken_in_order_and_never_before_they_are_over() -> None:
    standing = Promised()
    standing.add(7, Told(100, 10, 30, 1, 0, 1000, 5), 0)
    standing.add(8, Told(100, 20, 25, 1, 0, 2000, 5), 121)
    assert standing.work == 15
    assert standing.passed(110) is None
    assert [standing.passed(500) for _ in range(4)] == [(110, 7, 0), (125, 8, 1), (130, 7, 1), None]


# --- what is said when asked ----------------------------------------------------------------------


def expected(cell: Cell, job: str) -> Outlook:
    found = outlook(cell.state, job_of(cell, job))
    assert found is not None
    return found


def test_the_outlook_of_who_has_a_reservation() -> None:
    cell = promising_cell()
    submit(cell, "a", 3, 100)
    submit(cell, "b", 4, 60)
    submit(cell, "c", 1, 50)
    found = expected(cell, "b")
    assert found.start_ns == cell.now_ns + 100 * SECOND
    assert (found.is_reserved, found.ends, found.lent) == (True, ("c", "a"), ("c",))
    assert (found.told_ns, found.told_late_ns) == (
        cell.now_ns + 75 * SECOND,
        cell.now_ns + 225 * SECOND,
    )
    assert found.late_ns >= found.start_ns


def test_the_outlook_of_others_is_a_plan_of_all_before_them() -> None:
    cell = promising_cell("hpc-easy")
    submit(cell, "a", 4, 100)
    submit(cell, "b", 3, 60)
    submit(cell, "c", 4, 10)
    submit(cell, "d", 1, 30)
    submit(cell, "e", 2, 5)
    starts = {
        name: (found.start_ns - cell.now_ns) // SECOND
        for name in "bcde"
        if (found := outlook(cell.state, job_of(cell, name))) is not None
    }
    assert starts == {"b": 100, "c": 160, "d": 100, "e": 170}
    third = expected(cell, "c")
    assert (third.is_reserved, third.late_ns, third.told_ns, third.lent) == (False, 0, 0, ())


def test_nothing_is_said_of_who_runs_or_of_what_nobody_knows() -> None:
    cell = promising_cell("hpc-easy")
    submit(cell, "a", 4, 0)
    submit(cell, "b", 4, 60)
    assert outlook(cell.state, job_of(cell, "a")) is None
    found = expected(cell, "b")
    assert found.start_ns == 0
    plain = Cell().start(node("n", 4))
    submit(plain, "a", 4, 100)
    submit(plain, "b", 4, 60)
    assert outlook(plain.state, job_of(plain, "b")) is None


def test_why_a_gap_is_not_given() -> None:
    cell = promising_cell("hpc-easy")
    submit(cell, "a", 3, 100)
    submit(cell, "head", 4, 60)
    submit(cell, "long", 1, 300)
    submit(cell, "unknown", 1, 0)
    submit(cell, "refuses", 1, 5, backfill=BackfillPreference.REFUSE)
    submit(cell, "wide", 2, 5)
    found = {name: missed(cell.state, job_of(cell, name)) for name in NAMES}
    assert found == {
        "head": None,
        "long": Missed(Reason.GAP_TOO_SHORT, 300 * SECOND, 100 * SECOND),
        "unknown": Missed(Reason.NO_ESTIMATE),
        "refuses": Missed(Reason.BACKFILL_REFUSED),
        "wide": None,
    }


NAMES = ("head", "long", "unknown", "refuses", "wide")


def test_in_strict_order_nobody_passes() -> None:
    cell = promising_cell("hpc-fcfs")
    submit(cell, "a", 3, 100)
    submit(cell, "head", 4, 60)
    submit(cell, "b", 1, 5)
    assert missed(cell.state, job_of(cell, "head")) is None
    assert missed(cell.state, job_of(cell, "b")) == Missed(Reason.BLOCKED_HEAD)
    assert isinstance(cell.records[-1], r.Tick)


def test_who_waits_before_a_job_is_among_those_whose_end_it_waits_for() -> None:
    cell = promising_cell()
    submit(cell, "a", 3, 100)
    submit(cell, "b", 4, 60)
    submit(cell, "d", 2, 500)
    found = expected(cell, "d")
    assert found.start_ns == cell.now_ns + 160 * SECOND
    assert (found.is_reserved, found.ends) == (False, ("a", "b"))


def test_nothing_is_expected_of_who_can_never_start() -> None:
    cell = promising_cell("hpc-easy")
    submit(cell, "a", 3, 100)
    submit(cell, "huge", 5, 60)
    submit(cell, "b", 4, 60)
    assert outlook(cell.state, job_of(cell, "huge")) is None
    found = expected(cell, "b")
    assert (found.start_ns, found.ends) == (cell.now_ns + 100 * SECOND, ("a",))

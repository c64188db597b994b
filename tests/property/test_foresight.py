"""What is learnt from the past: run times, margins, promises, risk, windows, and the controller."""

from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.foresight import (
    controller,
    margins,
    promises,
    quantiles,
    risk,
    runs,
    windows,
)
from ganger.streams.kernel.foresight.controller import (
    Bounds,
    Cause,
    Health,
    Knob,
    Knobs,
    Streaks,
)

MANY = settings(max_examples=150, deadline=None, derandomize=True)
SECOND = 10**9

durations = st.integers(0, 10**15)
shares = st.integers(1, 999)

# ---- quantiles --------------------------------------------------------------------------------


@MANY
@given(values=st.lists(st.integers(0, 50), min_size=1), share=st.integers(1, 1000))
def test_nearest_rank_is_the_least_that_covers_the_share(values: list[int], share: int) -> None:
    found = quantiles.nearest_rank(sorted(values), share)
    enough = Fraction(share * len(values), 1000)
    assert sum(value <= found for value in values) >= enough
    assert sum(value < found for value in values) < enough


@MANY
@given(values=st.lists(st.integers(0, 50), min_size=1, max_size=30), share=shares)
def test_without_censoring_survival_gives_the_nearest_rank(values: list[int], share: int) -> None:
    found = quantiles.censored(values, (), share)
    rank = ceil(Fraction(share * len(values), 1000))
    assert found is not None
    # fixed point may take one value more where the share falls exactly on a rank
    assert found in sorted(values)[rank - 1 : rank + 1]


@MANY
@given(
    ended=st.lists(st.integers(0, 50), max_size=20),
    lasting=st.lists(st.integers(0, 50), max_size=20),
    share=shares,
)
def test_what_still_lasts_never_makes_a_quantile_shorter(
    ended: list[int], lasting: list[int], share: int
) -> None:
    found = quantiles.censored(ended, lasting, share)
    if found is not None:
        assert found in ended
        assert found >= (quantiles.censored([*ended, *lasting], (), share) or 0)
    elif not lasting:
        assert not ended


# ---- run times and margins --------------------------------------------------------------------


@MANY
@given(past=st.lists(durations, max_size=12), limit=st.integers(1, 10**15))
def test_a_prediction_is_the_mean_of_the_last_runs_within_the_limit(
    past: list[int], limit: int
) -> None:
    row: tuple[int, ...] = ()
    for run in past:
        row = runs.learn(row, run)
    last = past[-runs.RUNS_MAX :]
    assert row == tuple(last)
    want = min(limit, max(1, sum(last) // len(last))) if last else limit
    assert runs.predict(row, limit) == want
    assert runs.first_known([(), row, (1, 2, 3)]) == (row or (1, 2, 3))


@MANY
@given(started=durations, ran=st.integers(1, 10**15), limit=durations)
def test_a_pod_that_outlives_its_estimate_is_expected_to_end_later(
    started: int, ran: int, limit: int
) -> None:
    now = started + ran
    end = runs.outlive(started, now, limit)
    assert end > now
    assert end == (started + limit if limit > ran else now + max(60 * SECOND, ran))


@MANY
@given(
    past=st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**7)), max_size=50),
    estimate=st.integers(1, 10**6),
    share=st.integers(1, 1000),
)
def test_a_margin_covers_its_share_of_the_runs_known(
    past: list[tuple[int, int]], estimate: int, share: int
) -> None:
    row: tuple[int, ...] = ()
    for expected, run in past:
        row = margins.learn(row, expected, run)
    assert len(row) == min(len(past), margins.RATIOS_MAX)
    margin = margins.margin_ns(row, estimate, share, 250)
    if len(row) < margins.RATIOS_LEAST:
        assert margin == estimate * 250 // 1000
        return
    assert margin >= 0
    covered = sum(estimate * (ratio - 1000) // 1000 <= margin for ratio in row)
    assert covered * 1000 >= share * len(row)


# ---- promises ---------------------------------------------------------------------------------


@MANY
@given(
    waits=st.lists(durations, min_size=promises.WAITS_LEAST, max_size=90),
    unit=st.integers(promises.UNIT_NS_LEAST, 10**13),
)
def test_a_promise_is_a_quantile_of_the_last_waits(waits: list[int], unit: int) -> None:
    row: tuple[int, ...] = ()
    for wait in waits:
        row = promises.learn(row, wait, unit)
    one = promises.Factors(promises.FACTOR_ONE, promises.FACTOR_ONE)
    promise = promises.promise([(1, 2), row, ()], unit, one)
    last = sorted(waits[-promises.WAITS_MAX :])
    rounding = (unit >> promises.QUOTIENT_SHIFT) + 1
    for found, share in zip(promise, (promises.MEDIAN_MILLI, promises.LATE_MILLI), strict=True):
        want = quantiles.nearest_rank(last, share)
        assert want - rounding <= found <= want
    assert promise.median_ns <= promise.late_ns


@MANY
@given(pattern=st.lists(st.booleans(), max_size=400), share=shares)
def test_factors_stay_within_their_bounds(pattern: list[bool], share: int) -> None:
    factor = promises.FACTOR_ONE
    for is_broken in pattern:
        before = factor
        factor = promises.correct(factor, share, is_broken)
        assert promises.FACTOR_MIN <= factor <= promises.FACTOR_MAX
        assert factor >= before if is_broken else factor <= before


def test_factors_rest_where_the_share_kept_is_the_one_aimed_at() -> None:
    factor = promises.FACTOR_ONE
    for number in range(10_000):
        factor = promises.correct(factor, 900, number % 10 == 0)
    assert abs(factor - promises.FACTOR_ONE) < promises.FACTOR_ONE // 20


@MANY
@given(cards=st.integers(1, 1000), ahead=st.integers(0, 10**6))
def test_classes_end_in_the_one_of_everybody(cards: int, ahead: int) -> None:
    classes = promises.classes(cards, ahead)
    assert classes[-1] == ()
    assert [len(one) for one in classes] == [2, 1, 0]
    assert classes[0][:1] == classes[1]


# ---- risk and windows -------------------------------------------------------------------------


@MANY
@given(
    past=st.lists(st.tuples(durations, st.booleans()), max_size=100),
    prior=st.integers(0, 1000),
    estimate=durations,
)
def test_risk_lies_between_what_was_thought_and_what_was_seen(
    past: list[tuple[int, bool]], prior: int, estimate: int
) -> None:
    record: tuple[int, ...] = risk.EMPTY
    for hold, is_preempted in past:
        record = risk.learn(record, hold, is_preempted)
    seen = sum(is_preempted for _, is_preempted in past)
    milli = risk.preemption_milli(record, prior)
    if past:
        rate = seen * 1000 // len(past)
        assert min(prior, rate) <= milli <= max(prior, rate + 1)
    else:
        assert milli == prior
    assert len(record) <= 2 + risk.HOLDS_MAX
    held = risk.hold_ns(record, (), estimate)
    if not past:
        assert held == estimate
    elif estimate:
        assert held <= estimate


def test_what_is_long_ago_fades() -> None:
    record: tuple[int, ...] = risk.EMPTY
    for _ in range(1000):
        record = risk.learn(record, 1, is_preempted=True)
    for _ in range(2000):
        record = risk.learn(record, 1, is_preempted=False)
    assert risk.preemption_milli(record, 0) < 20
    assert record[0] <= risk.MEMORY_MAX


@MANY
@given(estimate=durations, share=st.integers(100, 200))
def test_protection_is_a_share_of_the_estimate_within_bounds(estimate: int, share: int) -> None:
    length = windows.protection_ns(estimate, share, 60 * SECOND, 7200 * SECOND)
    assert 60 * SECOND <= length <= 7200 * SECOND
    if 60 * SECOND < length < 7200 * SECOND:
        assert length == estimate * share // 1000


@MANY
@given(
    started=st.integers(1, 10**15),
    ran=st.integers(0, 10**15),
    progress=st.integers(0, 1000),
    checkpoint=st.integers(-1, 1000),
)
def test_lost_work_is_at_most_what_ran(
    started: int, ran: int, progress: int, checkpoint: int
) -> None:
    lost = windows.lost_ns(started, started + ran, progress, checkpoint)
    assert 0 <= lost <= ran
    if checkpoint < 0:
        assert lost == ran
    elif checkpoint >= progress > 0:
        assert lost == 0
    assert windows.lost_ns(0, started, progress, checkpoint) == 0


@MANY
@given(lost=st.lists(st.integers(0, 10**18), max_size=20))
def test_credit_adds_up_and_is_bounded(lost: list[int]) -> None:
    credit = 0
    for one in lost:
        before = credit
        credit = windows.credit(credit, one, 3600 * SECOND)
        assert before <= credit <= windows.CREDIT_MAX


# ---- controller -------------------------------------------------------------------------------

BOUNDS = Bounds(Knobs(600 * SECOND, 100), Knobs(86_400 * SECOND, 200))
figures = st.integers(-1, 1500)
healths = st.builds(Health, figures, figures, st.integers(-1, 3000))
GOOD = Health(1000, 900, 900)


@MANY
@given(
    series=st.lists(healths, max_size=40),
    runtime=st.integers(600 * SECOND, 86_400 * SECOND),
    protection=st.integers(100, 200),
)
def test_the_controller_stays_in_bounds_and_main_jobs_win(
    series: list[Health], runtime: int, protection: int
) -> None:
    knobs, streaks = Knobs(runtime, protection), Streaks()
    for health in series:
        outcome = controller.step(knobs, streaks, health, BOUNDS)
        for place in (0, 1):
            assert BOUNDS.least[place] <= outcome.knobs[place] <= BOUNDS.greatest[place]
        if health.main_wait_milli >= controller.MAIN_WAIT_HIGH_MILLI:
            assert outcome.knobs.protection_milli <= knobs.protection_milli
            assert outcome.knobs.runtime_max_ns <= knobs.runtime_max_ns
        for move in outcome.moves:
            assert move.old == knobs[move.knob - 1]
            assert move.new == outcome.knobs[move.knob - 1] != move.old
        moved = [move.knob for move in outcome.moves]
        assert len(moved) == len(set(moved))
        unmoved = [place for place in (0, 1) if place + 1 not in moved]
        assert all(outcome.knobs[place] == knobs[place] for place in unmoved)
        knobs, streaks = outcome.knobs, outcome.streaks


def test_one_bad_window_moves_nothing_and_two_do() -> None:
    knobs = Knobs(7200 * SECOND, 150)
    bad = Health(1000, 900, 1300)
    first = controller.step(knobs, Streaks(), bad, BOUNDS)
    assert not first.moves
    assert not controller.step(first.knobs, first.streaks, GOOD, BOUNDS).moves
    second = controller.step(first.knobs, first.streaks, bad, BOUNDS)
    assert [(m.knob, m.cause) for m in second.moves] == [(Knob.PROTECTION, Cause.MAIN_WAIT)]
    assert second.knobs.protection_milli < 150
    assert not controller.step(second.knobs, second.streaks, bad, BOUNDS).moves, "starts anew"


def test_low_completion_shortens_what_is_let_in_and_protects_it_longer() -> None:
    bad = Health(800, 900, 900)
    outcome = controller.step(Knobs(7200 * SECOND, 120), Streaks(completion=1), bad, BOUNDS)
    assert outcome.knobs == Knobs(5400 * SECOND, 135)
    both = Health(800, 900, 1300)
    outcome = controller.step(Knobs(7200 * SECOND, 120), Streaks(completion=1), both, BOUNDS)
    assert outcome.knobs == Knobs(5400 * SECOND, 120)


def test_little_use_lets_longer_jobs_in_only_while_all_else_is_well() -> None:
    idle = Health(1000, 300, 900)
    outcome = controller.step(Knobs(7200 * SECOND, 120), Streaks(use=1), idle, BOUNDS)
    assert outcome.knobs == Knobs(9000 * SECOND, 120)
    for other in (Health(960, 300, 900), Health(1000, 300, 1050)):
        assert not controller.step(Knobs(7200 * SECOND, 120), Streaks(use=1), other, BOUNDS).moves

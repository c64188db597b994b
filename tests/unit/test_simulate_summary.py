"""Numbers of a run: waits, slowdown, utilisation over time."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.replay.cluster import parse_nodes
from ganger.replay.gauges import BINS_MAX, Gauge
from ganger.replay.simulate import run
from ganger.replay.summary import Meter, Start, named_counts, waits_of
from ganger.schemas.encoding import encode_record
from ganger.schemas.enums import Tier
from ganger.schemas.records import PodStarted, Tick
from ganger.streams.presets.loader import load_policy
from support.small_runs import SECOND, trace, trace_job


def starts(*waits_s: int) -> list[Start]:
    return [Start(str(i), wait_s * SECOND, Tier.MAIN) for i, wait_s in enumerate(waits_s)]


@pytest.mark.parametrize(
    ("waits_s", "expected"),
    [
        ((), (0, 0, 0)),
        ((7,), (7, 7, 7)),
        ((4, 0), (2, 2, 4)),
        (range(101), (50, 50, 99)),
        (range(100, 0, -1), (50.5, 50.5, 99)),
    ],
)
def test_waits(waits_s: Iterable[int], expected: tuple[float, float, float]) -> None:
    assert waits_of(starts(*waits_s)) == expected


def test_slowdown_is_bounded_from_both_sides() -> None:
    jobs = [
        trace_job("short", 0, 1),  # (19 + 1) / 10
        trace_job("at once", 0, 1),  # 1
        trace_job("long", 0, 100),  # (50 + 100) / 100
        trace_job("stays", 0, -1),
        trace_job("waits", 0, 1),
    ]
    found = [
        Start(name, wait_s * SECOND, Tier.MAIN)
        for name, wait_s in (("short", 19), ("at once", 0), ("long", 50), ("stays", 9))
    ]
    assert Meter(jobs).slowdowns(found) == [2.0, 1.0, 1.5]


def test_a_meter_counts_records_by_their_type() -> None:
    meter = Meter([trace_job("a", 0, 1)])
    ticks = [encode_record(Tick(SECOND, "", None, 0, True))] * 2
    started = encode_record(PodStarted(SECOND, "", None, "a", 0, 1, "n", SECOND))
    meter.observe([*ticks, started], [])
    meter.observe(ticks[:1], [])
    assert meter.record_counts == {"Tick": 3, "PodStarted": 1}
    assert meter.ended_count == 0


def test_counts_come_greatest_first() -> None:
    assert list(named_counts({"b": 1, "none": 0, "c": 2, "a": 1})) == ["c", "a", "b"]


# --- the gauge ------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 500 * SECOND), st.integers(0, 9)), max_size=60),
    st.integers(0, 10**6),
)
def test_bins_hold_what_the_plain_integral_over_them_holds(
    steps: list[tuple[int, int]], start_s: int
) -> None:
    start_ns = start_s * SECOND
    gauge = Gauge(start_ns)
    now_ns, value = start_ns, 0
    spans = []
    for step_ns, count in steps:
        spans.append((now_ns, now_ns + step_ns, value))
        now_ns, value = now_ns + step_ns, count
        gauge.set(now_ns, value)
    assert gauge.integral == sum((end - begin) * held for begin, end, held in spans)
    assert len(gauge.bins) <= BINS_MAX
    for index, found in enumerate(gauge.bins):
        low = start_ns + index * gauge.bin_ns
        high = low + gauge.bin_ns
        assert found == sum(
            max(0, min(end, high) - max(begin, low)) * held for begin, end, held in spans
        )


def test_time_that_stands_still_adds_nothing() -> None:
    gauge = Gauge(0)
    gauge.set(0, 5)
    gauge.set(0, 7)
    gauge.set(SECOND, 0)
    assert (gauge.integral, gauge.bins) == (7 * SECOND, [7 * SECOND])


# --- whole runs -----------------------------------------------------------------------------------


def test_a_run_by_hand() -> None:
    """Two cards: a and b at once; c, which needs both, when b has ended; then d."""
    jobs = (
        trace_job("a", 100, 10),
        trace_job("b", 100, 20),
        trace_job("c", 105, 30, (1, 2)),
        trace_job("d", 125, 5),
    )
    summary = run(trace(*jobs), parse_nodes("1x2"), load_policy())
    assert summary.starts == tuple(
        Start(job, wait_s * SECOND, Tier.MAIN)
        for job, wait_s in (("a", 0), ("b", 0), ("c", 15), ("d", 25))
    )
    assert (summary.wait_mean_s, summary.wait_p50_s, summary.wait_p99_s) == (10, 7.5, 25)
    assert summary.bounded_slowdown_mean == pytest.approx((1 + 1 + 45 / 30 + 30 / 10) / 4)
    assert (summary.first_ns, summary.last_ns) == (100 * SECOND, 155 * SECOND)
    assert summary.utilisation == pytest.approx((10 + 20 + 2 * 30 + 5) / (2 * 55))
    assert summary.bin_ns == SECOND
    assert len(summary.series) == 55
    assert summary.series[:10] == (1.0,) * 10
    assert summary.series[10:20] == (0.5,) * 10
    assert summary.series[20:50] == (1.0,) * 30
    assert summary.series[50:] == (0.5,) * 5
    assert sum(summary.record_counts.values()) == summary.records
    assert sum(summary.decision_counts.values()) == summary.decisions
    assert summary.decision_counts["ALLOCATE"] == 4
    assert (summary.waiting, summary.waiting_job) == (0, "")


def test_a_job_starts_when_its_last_needed_pod_does() -> None:
    jobs = (trace_job("a", 0, 10), trace_job("gang", 1, 5, (2, 1), (1, 0)))
    summary = run(trace(*jobs), parse_nodes("1x2"), load_policy())
    assert summary.starts[1] == Start("gang", 9 * SECOND, summary.starts[1].tier)


def test_nothing_ever_ran() -> None:
    summary = run(trace(trace_job("huge", 5, 1, (1, 9))), parse_nodes("1x2"), load_policy())
    assert (summary.jobs, summary.started, summary.starts) == (1, 0, ())
    assert (summary.waiting, summary.waiting_job) == (1, "huge")
    assert (summary.utilisation, summary.series) == (0.0, ())
    assert (summary.wait_mean_s, summary.bounded_slowdown_mean) == (0.0, 0.0)

"""The series that a worker exposes: names, values, bounds on labels, and the endpoint."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.metrics import CARD_STATES, OTHER, QUEUES_MAX, EndpointTaken, Metrics

CLOSED_OR_REFUSED = (ConnectionError, urllib.error.URLError)


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics("1.2.3", error_classes=["bad_structure"])
    yield made
    made.close()


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def lines(metrics: Metrics, name: str) -> list[str]:
    """The sample lines of one series, as Prometheus reads them."""
    return [
        line for line in text(metrics).splitlines() if line.startswith((name + "{", name + " "))
    ]


def decision(kind: DecisionKind, reason: Reason) -> Decision:
    tail = (kind, "j", "r", 0, 1, "n", (), 0, 0, Tier.MAIN, 0, "", reason, 0, 0, 0, b"", 0, 0, 0)
    return Decision("cell", 1, 0, 0, *tail, b"")


def test_counts_add_up_and_gauges_replace(metrics: Metrics) -> None:
    for _ in range(2):
        metrics.applied("c1", 30)
        metrics.ledger_behind("c1", 7)
        metrics.received("ganger.jobs", 5)
        metrics.input_behind("ganger.jobs", 9)
        metrics.published_rows(11)
        metrics.owns(4)
        metrics.restored("c1", 1.5)
        metrics.tables_behind("c1", 0.25)
        metrics.snapshotted("c1", 99, 2048)
    assert lines(metrics, "ganger_records_applied_total") == [
        'ganger_records_applied_total{cell="c1"} 60.0'
    ]
    assert lines(metrics, "ganger_ledger_lag_records") == [
        'ganger_ledger_lag_records{cell="c1"} 7.0'
    ]
    assert lines(metrics, "ganger_inputs_total") == [
        'ganger_inputs_total{topic="ganger.jobs"} 10.0'
    ]
    assert lines(metrics, "ganger_input_lag_records") == [
        'ganger_input_lag_records{topic="ganger.jobs"} 9.0'
    ]
    assert lines(metrics, "ganger_rows_published_total") == ["ganger_rows_published_total 22.0"]
    assert lines(metrics, "ganger_owned_cells") == ["ganger_owned_cells 4.0"]
    assert lines(metrics, "ganger_restore_seconds") == ['ganger_restore_seconds{cell="c1"} 1.5']
    assert lines(metrics, "ganger_table_lag_seconds") == [
        'ganger_table_lag_seconds{cell="c1"} 0.25'
    ]
    assert lines(metrics, "ganger_snapshot_seq") == ['ganger_snapshot_seq{cell="c1"} 99.0']
    assert lines(metrics, "ganger_snapshot_bytes") == ['ganger_snapshot_bytes{cell="c1"} 2048.0']


def test_times_are_histograms(metrics: Metrics) -> None:
    metrics.cycled("c1", 0.004)
    metrics.cycled("c1", 0.2)
    metrics.appended(0.0015)
    shown = lines(metrics, "ganger_cycle_seconds_bucket")
    assert 'ganger_cycle_seconds_bucket{cell="c1",le="0.0025"} 0.0' in shown
    assert 'ganger_cycle_seconds_bucket{cell="c1",le="0.005"} 1.0' in shown
    assert 'ganger_cycle_seconds_bucket{cell="c1",le="+Inf"} 2.0' in shown
    assert 'ganger_ledger_append_seconds_bucket{le="0.002"} 1.0' in lines(
        metrics, "ganger_ledger_append_seconds_bucket"
    )
    assert lines(metrics, "ganger_ledger_append_seconds_count") == [
        "ganger_ledger_append_seconds_count 1.0"
    ]


def test_decisions_are_counted_by_kind_and_reason(metrics: Metrics) -> None:
    placed = decision(DecisionKind.ALLOCATE, Reason.PLACED_IN_TURN)
    closed = decision(DecisionKind.CYCLE_CLOSED, Reason.CYCLE_DONE)
    metrics.decided("c1", [placed, placed, closed])
    metrics.decided("c1", [placed])
    name = "ganger_decisions_total"
    assert lines(metrics, name) == [
        f'{name}{{cell="c1",kind="ALLOCATE",reason="PLACED_IN_TURN"}} 3.0',
        f'{name}{{cell="c1",kind="CYCLE_CLOSED",reason="CYCLE_DONE"}} 1.0',
    ]


def test_queues_beyond_the_bound_are_summed(metrics: Metrics) -> None:
    metrics.waiting("c1", {f"q{n}": 1 + n for n in range(QUEUES_MAX + 20)})
    shown = lines(metrics, "ganger_jobs_pending")
    assert len(shown) == QUEUES_MAX + 1
    smallest = sum(1 + n for n in range(20))
    assert f'ganger_jobs_pending{{cell="c1",queue="{OTHER}"}} {smallest}.0' in shown
    assert f'ganger_jobs_pending{{cell="c1",queue="q{QUEUES_MAX}"}} {QUEUES_MAX + 1}.0' in shown


def test_a_queue_keeps_its_series_while_it_has_jobs(metrics: Metrics) -> None:
    metrics.waiting("c1", {f"q{n}": 1 for n in range(QUEUES_MAX)})
    metrics.waiting("c1", {f"q{n}": 1 for n in range(QUEUES_MAX)} | {"big": 1000})
    shown = lines(metrics, "ganger_jobs_pending")
    assert f'ganger_jobs_pending{{cell="c1",queue="{OTHER}"}} 1000.0' in shown
    metrics.waiting("c1", {"q1": 2, "big": 1000})
    assert lines(metrics, "ganger_jobs_pending") == [
        'ganger_jobs_pending{cell="c1",queue="q1"} 2.0',
        'ganger_jobs_pending{cell="c1",queue="big"} 1000.0',
    ]


def test_a_queue_may_be_named_like_the_rest(metrics: Metrics) -> None:
    metrics.waiting("c1", {f"q{n:03}": 5 for n in range(QUEUES_MAX)} | {OTHER: 3, "z": 4})
    shown = lines(metrics, "ganger_jobs_pending")
    assert f'ganger_jobs_pending{{cell="c1",queue="{OTHER}"}} 7.0' in shown
    metrics.waiting("c1", {OTHER: 3})
    metrics.waiting("c1", {})
    assert lines(metrics, "ganger_jobs_pending") == []


def test_every_state_of_cards_is_shown(metrics: Metrics) -> None:
    metrics.cards("c1", {"free": 3, "used": 5, "melted": 1, "stolen": 1})
    shown = lines(metrics, "ganger_cards")
    assert len(shown) == len(CARD_STATES) + 1
    assert 'ganger_cards{cell="c1",state="failed"} 0.0' in shown
    assert f'ganger_cards{{cell="c1",state="{OTHER}"}} 2.0' in shown
    metrics.cards("c1", {"free": 10})
    shown = lines(metrics, "ganger_cards")
    assert 'ganger_cards{cell="c1",state="used"} 0.0' in shown
    assert len(shown) == len(CARD_STATES)


def test_classes_of_dead_letters_are_bounded(metrics: Metrics) -> None:
    for error_class in ("truncated", "bad_structure", "x" * 100, "y"):
        metrics.refused("ganger.jobs", error_class)
    metrics.refused("ganger.jobs", "truncated", 4)
    name = "ganger_dead_letters_total"
    assert lines(metrics, name) == [
        f'{name}{{error_class="truncated",topic="ganger.jobs"}} 5.0',
        f'{name}{{error_class="bad_structure",topic="ganger.jobs"}} 1.0',
        f'{name}{{error_class="{OTHER}",topic="ganger.jobs"}} 2.0',
    ]


def test_a_lost_cell_leaves_no_series(metrics: Metrics) -> None:
    for cell in ("c1", "c2"):
        metrics.applied(cell, 1)
        metrics.cycled(cell, 1.0)
        metrics.decided(cell, [decision(DecisionKind.ADMIT, Reason.WITHIN_LIMITS)])
        metrics.waiting(cell, {"q": 1})
        metrics.cards(cell, {"free": 1})
        metrics.snapshotted(cell, 1, 1)
    metrics.lost("c1")
    metrics.lost("never-had")
    assert '"c1"' not in text(metrics)
    assert lines(metrics, "ganger_jobs_pending") == ['ganger_jobs_pending{cell="c2",queue="q"} 1.0']
    metrics.applied("c1", 5)
    assert 'ganger_records_applied_total{cell="c1"} 5.0' in text(metrics)


def test_the_process_tells_its_version_and_no_creation_times(metrics: Metrics) -> None:
    metrics.applied("c1", 1)
    assert lines(metrics, "ganger_build_info") == ['ganger_build_info{version="1.2.3"} 1.0']
    assert "process_resident_memory_bytes" in text(metrics)
    assert "_created" not in text(metrics)


def test_two_processes_worth_of_metrics_live_side_by_side(metrics: Metrics) -> None:
    other = Metrics("9")
    other.owns(3)
    assert lines(metrics, "ganger_owned_cells") == ["ganger_owned_cells 0.0"]


def test_it_is_served_and_closed(metrics: Metrics) -> None:
    metrics.owns(2)
    port = metrics.serve(0)
    with pytest.raises(RuntimeError, match="already"):
        metrics.serve(0)
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.status == 200
        assert b"ganger_owned_cells 2.0" in answer.read()
    metrics.close()
    metrics.close()
    with pytest.raises(CLOSED_OR_REFUSED):
        urllib.request.urlopen(url, timeout=30)
    assert metrics.serve(port) == port


def test_a_port_that_is_taken_is_named(metrics: Metrics) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(EndpointTaken, match=rf"127\.0\.0\.1:{port} .*choose another port"):
            metrics.serve(port)
    with pytest.raises(EndpointTaken, match=r"192\.0\.2\.1:0"):
        metrics.serve(0, "192.0.2.1")


def test_health_of_gaps_is_shown_where_it_is_known(metrics: Metrics) -> None:
    metrics.gaps("c1", {"completion": 990, "use": 500, "main_wait": -1})
    shown = lines(metrics, "ganger_gaps_ratio")
    assert 'ganger_gaps_ratio{cell="c1",figure="completion"} 0.99' in shown
    assert not [line for line in shown if "main_wait" in line]
    metrics.gaps("c1", {})
    assert not [line for line in lines(metrics, "ganger_gaps_ratio") if not line.startswith("#")]

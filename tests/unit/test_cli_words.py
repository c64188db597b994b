"""Quantities, times, tables and plots as people read them."""

from typing import Any

import pytest

from ganger.replay.history import AtOffset
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import MEANING, UNITS, Reason
from ganger.services.cli import render
from ganger.services.cli.arguments import parse_point
from ganger.services.cli.events import decision_text, foreseen_texts, numbers_text
from ganger.services.cli.outcome import PLOT_COLUMNS, PLOT_LINES, plot
from ganger.services.cli.render import echo_columns, folded, progress
from ganger.services.cli.units import (
    Clock,
    amount_text,
    clock_of,
    count_text,
    duration_text,
    exact_text,
    limit_text,
    reason_text,
)

SECOND = 10**9
START_NS = 1_700_000_000 * SECOND


# ---- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "<1ms"),
        (250 * 10**6, "250ms"),
        (10 * SECOND, "10s"),
        (10 * SECOND + 1, "10s"),
        (1_500_000_000, "1.5s"),
        (65 * SECOND, "1m 5s"),
        (300 * SECOND, "5m"),
        (3900 * SECOND, "1h 5m"),
        (3600 * SECOND, "1h"),
        (200_000 * SECOND, "2d 7h"),
    ],
)
def test_durations(duration_ns: int, text: str) -> None:
    assert duration_text(duration_ns) == text


@pytest.mark.parametrize(
    ("count", "resource", "text"),
    [
        (94_000, "cards_milli", "94 cards"),
        (1000, "cards_milli", "1 card"),
        (400, "cards_milli", "0.4 cards"),
        (0, "cards_milli", "0 cards"),
        (1_234_500, "cards_milli", "1,234.5 cards"),
        (1000, "cpu_milli", "1 core"),
        (96_500, "cpu_milli", "96.5 cores"),
        (512, "memory_mib", "512 MiB"),
        (1024, "memory_mib", "1 GiB"),
        (1536, "memory_mib", "1.5 GiB"),
        (1 << 30, "memory_mib", "1,048,576 GiB"),
        (5 * SECOND, "ns", "5s"),
        (1, "pods", "1 pod"),
        (2, "pod", "2 pods"),
        (3, "nic", "3 nic"),
        (7000, "", "7,000"),
    ],
)
def test_amounts(count: int, resource: str, text: str) -> None:
    assert amount_text(count, resource) == text


def test_counts_and_limits() -> None:
    assert [count_text(n, "retry") for n in (0, 1, 2)] == ["0 retries", "1 retry", "2 retries"]
    assert [limit_text(n) for n in (-1, 0, 2500)] == ["-", "0", "2.5"]
    assert numbers_text("pod", [3]) == "pod 3"
    assert numbers_text("pod", [0, 1, 2, 3, 7]) == "pods 0-3, 7"


def test_times() -> None:
    assert Clock().text(START_NS + 1_234_567_890) == "2023-11-14T22:13:21.234Z"
    assert Clock().text(0) == "1970-01-01T00:00:00.000Z"
    assert Clock().text(-5) == "-5 ns"
    assert clock_of(START_NS) == Clock()


@pytest.mark.parametrize("zero_ns", [0, 100 * SECOND])
def test_ledgers_with_a_zero_of_their_own_show_times_since_their_first_record(zero_ns: int) -> None:
    clock = clock_of(zero_ns)
    assert clock.text(zero_ns) == "+0s"
    assert clock.text(zero_ns + 90 * SECOND) == "+1m30s"
    assert clock.text(zero_ns - SECOND) == "-1s"


@pytest.mark.parametrize("seconds", [0, 0.004, 59.5, 60, 3600, 86_400, 90_061.25, 10**6])
def test_relative_times_can_be_typed_again(seconds: float) -> None:
    duration_ns = int(seconds * SECOND)
    assert parse_point("+" + exact_text(duration_ns)) == AtOffset(duration_ns)


# ---- reasons -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "numbers", "resource", "text"),
    [
        (
            Reason.WITHIN_LIMITS,
            (94_000, 79_000, 100_000),
            "",
            "admitted: asks 94 cards, 79 of 100 cards free at that moment",
        ),
        (
            Reason.OVERCOMMIT,
            (64_000, 0, 9_600),
            "cpu_milli",
            "asks 64 cores; 0 left of the 9.6 cores that may be used or admitted; "
            "that is above the limit, so it can never start",
        ),
        (
            Reason.QUEUE_CAPABILITY,
            (4096, 512, 8192),
            "memory_mib",
            "asks 4 GiB; its queue has 512 MiB left of a capability of 8 GiB",
        ),
        (Reason.QUEUE_CAPABILITY, (1, 0, 1), "pods", "asks 1 pod; its queue has 0 left of a"),
        (Reason.ALL_PODS_SUCCEEDED, (1, 0, 0), "", "1 pod succeeded"),
        (Reason.BEHIND_OTHERS, (1, 0, 0), "", "behind 1 job of its queue"),
        (Reason.BEHIND_OTHERS, (2, 0, 0), "", "behind 2 jobs of its queue"),
        (Reason.BACKING_OFF, (12 * SECOND, 0, 0), "", "waits 12s more after a failed attempt"),
        (Reason.BACKING_OFF, (0, 0, 0), "", "its wait after a failed attempt is over"),
        (Reason.CARDS_TOO_FEW, (1, 0, 0), "", "asked 1 card, 0 free"),
        (Reason.CARD_SHARE_TOO_SMALL, (400, 100, 0), "", "asked 0.4 cards on one card, 0.1 free"),
        (Reason.CPU_TOO_LITTLE, (4000, 500, 0), "", "asked 4 cores, 0.5 free"),
        (Reason.MEMORY_TOO_LITTLE, (2048, 512, 0), "", "asked 2 GiB of memory, 512 MiB free"),
        (Reason.RESOURCE_TOO_LITTLE, (2, 1, 0), "nic", "asked 2 nic, 1 free"),
        (Reason.CARDS_TAKEN, (2, 0, 1), "", "asked 2 of the node, 1 free"),
        (
            Reason.START_TIMEOUT,
            (600 * SECOND, 0, 600 * SECOND),
            "",
            "not reported running 10m after it was placed; it had 10m",
        ),
        (Reason.SCALED_DOWN, (0, 0, 1), "", "its role was scaled down to 1 pod"),
        (
            Reason.RECLAIMED,
            (1000, 0, 59_000),
            "",
            "asks 1 card, 0 free; the one that gives is due 59 cards",
        ),
        (Reason.RETRY_LIMIT, (2, 0, 1), "", "failed 2 times; it may be tried again at most 1 time"),
    ],
)
def test_reasons_with_units(
    reason: Reason, numbers: tuple[int, int, int], resource: str, text: str
) -> None:
    assert text in reason_text(reason, *numbers, resource)


def test_units_are_those_of_numbers_that_are_said() -> None:
    for reason in UNITS:
        assert "{" in MEANING[reason], reason


# ---- lines and tables ----------------------------------------------------------------------------


def test_long_lines_are_folded_where_there_is_a_width() -> None:
    line = "  because one two three four five six seven eight nine ten"
    assert folded(line, None, 6) == line
    assert folded(line, 80, 6) == line
    parts = folded(line, 30, 6).splitlines()
    assert len(parts) == 3
    assert all(len(part) <= 30 for part in parts)
    assert parts[0].startswith("  because")
    assert all(part.startswith("      ") and part[6] != " " for part in parts[1:])
    assert " ".join(parts).split() == line.split()


HEADER = ["job", "user", "cards", "reason"]
ROWS = [["a-job-with-a-long-name", "ann", "0.4", "-"], ["b", "bob", "12", "-"]]


def test_tables_keep_their_full_width_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    echo_columns(HEADER, ROWS, ["user"])
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "job                     user  cards  reason",
        "a-job-with-a-long-name  ann     0.4       -",
        "b                       bob      12       -",
    ]
    assert err == ""


def test_tables_fit_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    echo_columns(HEADER, ROWS, ["user", "reason"], columns=38)
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "job                     cards  reason"
    assert "no room for user;" in err
    echo_columns(HEADER, ROWS, ["user", "reason"], columns=20)
    out, err = capsys.readouterr()
    assert out.splitlines()[1] == "a-job-with-a…    0.4"
    assert "no room for user, reason;" in err
    assert all(len(line) <= 20 for line in out.splitlines())


# ---- progress ------------------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("working", 10) as advance:
        advance(5)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("working", 10, 1) as advance:
        advance(5)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "working" in shown.err
    assert "of 10" in shown.err


def test_plain_progress_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([100.0, 104.0, 110.0, 111.0, 120.0])
    monkeypatch.setattr(render.time, "monotonic", lambda: next(now))
    with progress("simulating jobs", 4000, is_plain=True) as advance:
        for _ in range(4):
            advance(1000)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "simulating jobs: 2,000 of 4,000, 200 per second",
        "simulating jobs: 4,000 of 4,000, 200 per second",
    ]


# ---- the plot ------------------------------------------------------------------------------------


def test_plots() -> None:
    assert plot([]) == plot([0.0, 0.0]) == []
    title, *full = plot([1.0] * 300)
    assert title == "Cards in use over time, in % of all; full height is 100%"
    assert len(full) == PLOT_LINES
    assert full[0] == "  100% " + "█" * PLOT_COLUMNS
    _, *half = plot([0.0, 0.5, 1.0])
    assert half[0] == "  100%   █"
    assert half[-1] == "    0%  ██"


def test_a_plot_of_little_use_is_scaled_up() -> None:
    title, *lines = plot([0.016, 0.032])
    assert title.endswith("full height is 3.20%")
    assert lines[0] == " 3.20%  █"
    assert lines[-1] == "    0% ██"


def _decision(kind: DecisionKind, reason: Reason = Reason.UNKNOWN, **others: Any) -> Decision:
    empty: tuple[Any, ...] = ("j", "", -1, 0, "", (), 0, 0, Tier.MAIN, 0, "")
    counts = (others.pop("asked", 0), 0, others.pop("limit", 0), b"", 0, 0, 0, b"")
    return Decision("lab", 1, 0, START_NS, kind, *empty, reason, *counts, **others)


def test_a_claim_that_is_given_up_names_no_pod_role_or_node() -> None:
    given_up = _decision(
        DecisionKind.UNCLAIM, Reason.CLAIM_EXPIRED, limit=300 * SECOND, queue="q", rule="reclaim"
    )
    assert decision_text(given_up) == (
        "j, all that it claimed, by rule reclaim, queue q: its claim was not met within 5m"
    )


def test_the_risk_of_a_gap_is_a_percentage() -> None:
    lent = _decision(DecisionKind.BACKFILL, hold_ns=SECOND, risk_milli=125)
    assert foreseen_texts(lent) == [
        "keeps its cards for 1s, loses them with a probability of 12.5%"
    ]

"""The verbs' calls, texts and JSON, in this process."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from ganger.replay.history import AtOffset, AtSeq, AtTime, Point
from ganger.replay.traces.source import InputError
from ganger.services.cli import main
from ganger.services.cli.arguments import parse_point
from ganger.services.cli.render import (
    PLOT_COLUMNS,
    PLOT_LINES,
    cards_text,
    duration_text,
    plot,
    progress,
    time_text,
)
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.tables.store import STORE_FOLDER, Store
from support.small_ledger import START_NS, build

VERIFY_KEYS = [
    "records",
    "decisions",
    "mismatches",
    "first_mismatch",
    "digest",
    "chain",
    "records_per_cpu_second",
]
SIMULATE_KEYS = [
    "jobs",
    "decisions",
    "records",
    "cpu_seconds",
    "wall_seconds",
    "utilisation",
    "wait_mean_s",
    "wait_p50_s",
    "wait_p99_s",
    "bounded_slowdown_mean",
    "digest",
    "chain",
]
TRACE = Path(__file__).parents[2] / "replay" / "samples" / "philly-2000.csv.gz"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    build(tmp_path / "ledger")
    return tmp_path / "ledger"


def call(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def call_json(*words: object, code: int = 0) -> Any:
    return json.loads(call(*words, "--json", code=code).stdout)


def lines(*words: object) -> list[str]:
    return call(*words).stdout.splitlines()


# ---- verify --------------------------------------------------------------------------------------


def test_verify_says_that_all_is_equal(ledger: Path) -> None:
    found = call_json("verify", ledger)
    assert list(found) == VERIFY_KEYS
    assert (found["records"], found["mismatches"], found["first_mismatch"]) == (25, 0, None)
    assert re.fullmatch("[0-9a-f]{32}", found["digest"])
    assert re.fullmatch("[0-9a-f]{64}", found["chain"])
    assert found["records_per_cpu_second"] > 0
    assert "all equal" in call("verify", ledger).stdout
    assert not (ledger / STORE_FOLDER).exists()


def test_verify_shows_the_first_difference(ledger: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    readers = LedgerDirectory.open_reader(ledger)
    records = [p for _, group in readers.ledger.read_groups() for p in group]
    decisions = [p for _, group in readers.decisions.read_groups() for p in group]
    place = next(n for n, p in enumerate(decisions) if b"node-b" in p)
    decisions[place] = decisions[place].replace(b"node-b", b"node-x")
    identity = readers.ledger
    with LedgerDirectory.create(other, identity.cell, fingerprint=identity.fingerprint) as made:
        made.ledger.append(records)
        made.decisions.append(decisions)
    found = call_json("verify", other, code=1)
    assert found["mismatches"] == 1
    first = found["first_mismatch"]
    assert (first["seq"], first["recorded"]["node"], first["computed"]["node"]) == (
        13,
        "node-x",
        "node-b",
    )
    text = call("verify", other, code=1).stdout
    assert "seq 13" in text
    assert "'node-x' was recorded, 'node-b' computed" in text


def test_verify_refuses_a_damaged_ledger(ledger: Path) -> None:
    (segment,) = (ledger / "ledger").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    result = call("verify", ledger, code=1)
    assert "seq " in result.stderr
    assert segment.name in result.stderr


# ---- log -----------------------------------------------------------------------------------------


def test_log_lists_everything(ledger: Path) -> None:
    assert len(lines("log", ledger)) == 25
    found = lines("log", ledger, "--decisions", "--from", 18, "--to", 18)
    assert len(found) == 2
    assert "PodSucceeded job=small" in found[0]
    assert "-> FINISH small" in found[1]


def test_log_as_json(ledger: Path) -> None:
    found = [json.loads(line) for line in lines("log", ledger, "--decisions", "--json")]
    assert {entry["stream"] for entry in found} == {"ledger", "decisions"}
    node = next(entry for entry in found if entry["kind"] == "NodeChanged")
    assert node["report"]["cards"][0]["health"] == "HEALTHY"
    closed = [entry for entry in found if entry["kind"] == "CYCLE_CLOSED"]
    assert all(re.fullmatch("[0-9a-f]{32}", entry["digest"]) for entry in closed)
    assert [entry["seq"] for entry in found] == sorted(entry["seq"] for entry in found)
    assert not any("body" in entry for entry in found)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--job", "twin"], 3),
        (["--job", "small", "--kind", "FINISH"], 1),
        (["--node", "node-b"], 4),
        (["--job", "twin", "--node", "node-b", "--decisions"], 3),
        (["--kind", "tick"], 4),
        (["--kind", "EVICT"], 1),
        (["--kind", "Evict", "--job", "twin"], 1),
        (["--job", "twin", "--from", "12", "--to", "16"], 1),
        (["--from", "25"], 0),
    ],
)
def test_log_filters(ledger: Path, words: list[str], count: int) -> None:
    assert len(lines("log", ledger, *words)) == count


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--job", "gagn"], ["--job", "'gagn'", "gang"]),
        (["--node", "node-c"], ["--node", "'node-c'", "node-b"]),
        (["--kind", "Tock"], ["--kind", "'Tock'", "Tick", "EVICT"]),
        (["--from", "-1"], ["--from", "-1"]),
    ],
)
def test_log_refuses(ledger: Path, words: list[str], parts: list[str]) -> None:
    stderr = call("log", ledger, *words, code=2).stderr
    assert all(part in stderr for part in parts), stderr


# ---- state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "count"), [("cards", 12), ("nodes", 2), ("queues", 2), ("jobs", 6)]
)
def test_state_tables(ledger: Path, table: str, count: int) -> None:
    found = lines("state", ledger, table)
    assert found[0].startswith("cell lab after seq 24")
    assert len(found) == count + 2
    made = call_json("state", ledger, table)
    assert list(made) == ["cell", "seq", "time_ns", table]
    assert len(made[table]) == count
    kept = call_json("state", ledger, table)
    assert kept == made


def test_state_overview_and_all_tables(ledger: Path) -> None:
    text = call("state", ledger).stdout
    assert "nodes   2: 1 open, 1 lost" in text
    assert "cards   12: 9 with work, 0 not healthy" in text
    found = call_json("state", ledger)
    assert list(found) == ["cell", "seq", "time_ns", "cards", "nodes", "queues", "jobs"]


@pytest.mark.parametrize(
    ("point", "seq"), [("17", 17), ("+20s", 13), ("2023-11-14T22:13:40Z", 13), (f"{START_NS}", 6)]
)
def test_state_of_the_past(ledger: Path, point: str, seq: int) -> None:
    assert call_json("state", ledger, "jobs", "--at", point)["seq"] == seq


def test_state_does_not_need_its_store(ledger: Path) -> None:
    wanted = call_json("state", ledger)
    with Store(ledger / STORE_FOLDER, LedgerDirectory.open_reader(ledger).ledger):
        busy = call("state", ledger, "--json")
    assert json.loads(busy.stdout) == wanted
    assert "another process has the store open" in busy.stderr
    for path in (ledger / STORE_FOLDER).glob("sealed-*/CURRENT"):
        path.write_bytes(b"rubbish")
    damaged = call("state", ledger, "--json")
    assert json.loads(damaged.stdout) == wanted
    assert "built anew" in damaged.stderr


def test_state_where_no_store_can_be_made(ledger: Path) -> None:
    (ledger / STORE_FOLDER).write_bytes(b"a file in its place")
    result = call("state", ledger, "--json")
    assert len(json.loads(result.stdout)["jobs"]) == 6
    assert "without it" in result.stderr
    assert len(lines("log", ledger, "--job", "twin")) == 3
    assert "twin is inqueue" in call("why", ledger, "twin").stdout


# ---- why -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "parts"),
    [
        ("small", ["has succeeded", "submitted by record 7", "1 pods succeeded", "record 18"]),
        ("gang", ["is running in queue batch", "node-a", "node had 8000 free", "record 13 Tick"]),
        ("huge", ["was cancelled", "cancelled on request"]),
        ("twin", ["number 1 in line", "node-b", "lost", "EVICT", "exists already"]),
        ("late", ["is pending", "asked 2 cards, 0 free"]),
    ],
)
def test_why_in_words(ledger: Path, job: str, parts: list[str]) -> None:
    text = call("why", ledger, job).stdout
    assert all(part in text for part in parts), text


def test_why_as_json(ledger: Path) -> None:
    found = call_json("why", ledger, "late")
    assert (found["job"], found["phase"], found["seq"]) == ("late", "PENDING", 24)
    reason = next(r for r in found["reasons"] if r["reason"] == "CARDS_TOO_FEW")
    assert (reason["asked"], reason["free"], reason["nodes"]) == (2, 0, ["node-a"])
    placed = call_json("why", ledger, "gang", "--at", "13")["decisions"][-1]
    assert (placed["kind"], placed["node"], placed["cause"]) == ("ALLOCATE", "node-a", "Tick")


def test_why_of_nobody(ledger: Path) -> None:
    stderr = call("why", ledger, "smal", code=2).stderr
    assert "JOB: 'smal'" in stderr
    assert "small" in stderr
    assert "'late'" in call("why", ledger, "late", "--at", "5", code=2).stderr


# ---- simulate ------------------------------------------------------------------------------------


def test_simulate_as_json(tmp_path: Path) -> None:
    starts = tmp_path / "starts.csv"
    words = ("simulate", TRACE, "--nodes", "16x8", "--limit", 50, "--starts", starts)
    found = call_json(*words, "--ledger", tmp_path / "run")
    assert list(found) == SIMULATE_KEYS
    assert found["jobs"] == 50
    header, *rows = starts.read_text().splitlines()
    assert header == "job,wait,tier"
    assert len(rows) == 50
    assert all(re.fullmatch(r"[^,]+,\d+,(main|backfill)", row) for row in rows)
    proof = call_json("verify", tmp_path / "run")
    assert [proof[key] for key in ("records", "decisions", "digest", "chain")] == [
        found[key] for key in ("records", "decisions", "digest", "chain")
    ]
    again = call_json(*words)
    timed = {"cpu_seconds", "wall_seconds"}
    assert {k: v for k, v in again.items() if k not in timed} == {
        k: v for k, v in found.items() if k not in timed
    }
    assert "finished" in call(*words, "--ledger", tmp_path / "run", code=2).stderr


def test_simulate_in_words() -> None:
    text = call("simulate", TRACE, "--limit", 50).stdout
    assert "50 submitted, 50 started" in text
    assert "utilisation" in text
    assert "█" in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--nodes", "8"], "8"),
        (["--nodes", "1x8", "--cluster", "x.toml"], "--cluster"),
        (["--cluster", "missing.toml"], "missing.toml"),
        (["--policy", "missing"], "missing"),
        (["--faults", "missing.toml"], "missing.toml"),
        (["--limit", "0"], "--limit"),
        (["--starts", "no/such/folder/x.csv"], "--starts"),
    ],
)
def test_simulate_refuses(words: list[str], part: str) -> None:
    assert part in call("simulate", TRACE, *words, code=2).stderr


def test_simulate_needs_a_trace(tmp_path: Path) -> None:
    assert "none.csv" in call("simulate", tmp_path / "none.csv", code=2).stderr


# ---- all verbs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [["verify"], ["log"], ["state"], ["why", "small"]])
def test_a_folder_that_holds_no_ledger(tmp_path: Path, verb: list[str]) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        stderr = call(verb[0], folder, *verb[1:], code=2).stderr
        assert str(folder) in stderr


@pytest.mark.parametrize("verb", [["state"], ["why", "small"]])
@pytest.mark.parametrize("point", ["25", "+x", "yesterday", "2000-01-01T00:00:00Z"])
def test_points_that_are_none(ledger: Path, verb: list[str], point: str) -> None:
    call(verb[0], ledger, *verb[1:], "--at", point, code=2)


def test_every_verb_has_help() -> None:
    assert isinstance(main, click.Group)
    assert sorted(main.commands) == ["log", "simulate", "state", "verify", "why"]
    for verb in main.commands:
        assert call(verb, "--help").stdout.startswith("Usage: main")


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("0", AtSeq(0)),
        ("4711", AtSeq(4711)),
        ("1700000000000000000", AtTime(1_700_000_000 * 10**9)),
        ("1970-01-01T00:00:01Z", AtTime(10**9)),
        ("1970-01-01T01:00:00.5+01:00", AtTime(5 * 10**8)),
        ("1970-01-02", AtTime(86_400 * 10**9)),
        ("+90s", AtOffset(90 * 10**9)),
        ("+1h30m", AtOffset(5400 * 10**9)),
        ("+1.5s", AtOffset(1_500_000_000)),
        ("+2d250ms", AtOffset(2 * 86_400 * 10**9 + 250 * 10**6)),
    ],
)
def test_points(text: str, point: Point) -> None:
    assert parse_point(text) == point


@pytest.mark.parametrize("text", ["", "-1", "x", "+", "+5", "+5y", "1.5", "٣", "12:00"])
def test_no_points(text: str) -> None:
    with pytest.raises(InputError, match="--at"):
        parse_point(text)


def test_texts() -> None:
    assert time_text(0) == "-"
    assert time_text(START_NS + 1_234_567_890) == "2023-11-14T22:13:21.234Z"
    assert time_text(-5) == "-5 ns"
    assert [duration_text(seconds * 10**9) for seconds in (5, 65, 3700, 200_000)] == [
        "5.0s",
        "1m05s",
        "1h01m",
        "2d07h",
    ]
    assert [cards_text(milli) for milli in (-1, 0, 1000, 1_234_000, 2500)] == [
        "-",
        "0",
        "1",
        "1,234",
        "2.5",
    ]


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


def test_plots() -> None:
    assert plot([]) == []
    full = plot([1.0] * 300)
    assert len(full) == PLOT_LINES
    assert full[0] == "100% " + "█" * PLOT_COLUMNS
    half = plot([0.0, 0.5, 1.0])
    assert half[0] == "100%   █"
    assert half[-1] == "  0%  ██"

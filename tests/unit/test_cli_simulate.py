"""`ganger simulate`: its calls, texts and JSON, in this process."""

import re
from pathlib import Path

import pytest

from support.verbs import call, call_json, lines

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
    "backfill_started",
    "backfill_completed",
    "backfill_evicted",
    "backfill_suspended",
    "idle_card_seconds",
    "idle_card_seconds_used",
    "main_wait_mean_s",
    "evicted_card_seconds_lost",
    "eta_p50_coverage",
    "eta_p90_coverage",
]
TRACE = Path(__file__).parents[2] / "replay" / "samples" / "philly-2000.csv.gz"


def test_a_refused_simulation_leaves_no_files(tmp_path: Path) -> None:
    words = ("simulate", TRACE, "--nodes", "16x8", "--limit", 20, "--ledger", tmp_path / "run")
    call(*words)
    starts, chart, kept = tmp_path / "starts.csv", tmp_path / "run.svg", tmp_path / "kept.csv"
    kept.write_text("mine")
    call(*words, "--starts", starts, "--gantt", chart, code=2)  # it is finished
    call(*words, "--starts", kept, code=2)
    assert not starts.exists()
    assert not chart.exists()
    assert kept.read_text() == "mine"


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
    assert "50 submitted, 50 started, 50 ended (50 all_pods_succeeded), 0 still waiting" in text
    assert "of the 50 jobs that started" in text
    assert "ganger why" not in text
    assert "utilisation" in text
    assert "█" in text


QUEUES = """
[[nodes]]
count = 1
cards = 4
[[queues]]
name = "red"
"""
JOBS = """# ganger trace 1
job,submit_s,run_s,queue,cards
a,0,60,red,1
it's big,0,60,blue,99
late,0,60,default,99
"""


def test_simulate_says_who_waits_and_which_queues_it_made(tmp_path: Path) -> None:
    trace, cluster, ledger = (tmp_path / name for name in ("t.csv", "c.toml", "led ger"))
    trace.write_text(JOBS)
    cluster.write_text(QUEUES)
    result = call("simulate", trace, "--cluster", cluster, "--ledger", ledger)
    text = result.stdout
    assert "3 submitted, 1 started, 1 ended (1 all_pods_succeeded), 2 still waiting" in text
    assert "of the 1 job that started" in text
    assert "25.0% of the cards over 1m" in text
    assert "full height is 25%" in text
    assert f"`ganger why '{ledger}' 'it'\"'\"'s big'`, for one of them" in text
    assert result.stderr.count("the trace names queues blue, default, which the cluster") == 1
    assert "so it can never start" in call("why", ledger, "it's big").stdout
    found = lines("log", ledger, "--kind", "QueueConfigured")
    assert [line.split("queue=")[1].split()[0] for line in found] == ["red", "blue", "default"]
    assert "+0s" in found[0]


def test_simulate_without_queues_in_the_file_warns_of_none(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(JOBS)
    assert call("simulate", trace, "--nodes", "1x4").stderr == ""


def test_simulate_says_what_it_leaves_out_and_that_the_machine_is_another(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    row = "{} 0 -1 {} 4 -1 -1 4 20 -1 {} 1 1 1 1 -1 -1 -1\n"
    log.write_text("; MaxProcs: 100\n" + row.format(1, 9, 1) + row.format(2, 0, 5))
    said = call("simulate", log, "--nodes", "1x8").stderr
    assert "left out: 1 cancelled before they started" in said
    assert "100 processors (MaxProcs), the cluster has 8 cards" in said
    assert "MaxProcs" not in call("simulate", log, "--nodes", "1x100").stderr


def test_simulate_of_jobs_that_never_end(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("# ganger trace 1\njob,submit_s,cards\na,5,1\nb,5,9\n")
    text = call("simulate", trace, "--nodes", "1x4").stdout
    assert "2 submitted, 1 started, 0 ended, 1 still waiting, 1 still running" in text
    assert "utilisation  n/a: nothing ended" in text
    assert "simulate with --ledger DIR, then `ganger why DIR b`" in text


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job,submit_s\na,0\n", ["t.csv:1: ", "put the line '# ganger trace 1' above it"]),
        ("# ganger trace 2\njob,submit_s\na,0\n", ["whose first line is '# ganger trace 1'"]),
        (
            "# ganger trace 1\njob,submit,cards\na,0,1\n",
            [
                "t.csv:2: the header has no column submit_s: it is 'job,submit,cards'",
                "names the columns submit_s, and those of job,run_s,",
            ],
        ),
    ],
)
def test_simulate_says_what_is_wrong_with_a_header(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(text)
    stderr = call("simulate", trace, code=2).stderr
    assert all(word in stderr for word in words), stderr


def test_simulate_needs_a_trace(tmp_path: Path) -> None:
    assert "none.csv" in call("simulate", tmp_path / "none.csv", code=2).stderr


def test_a_run_beyond_the_kernels_clock_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "late.csv"
    trace.write_text(
        "# ganger trace 1\njob,submit_s,run_s,cards\na,1700000000,9000000000,1\n", encoding="utf-8"
    )
    found = call("simulate", trace, "--nodes", "1x8", code=2)
    assert "goes on beyond" in found.stderr and "end sooner" in found.stderr

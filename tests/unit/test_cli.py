"""The verbs' calls, texts and JSON, in this process."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from ganger.replay.history import AtOffset, AtSeq, AtTime, Point
from ganger.replay.traces.source import InputError
from ganger.services import cli
from ganger.services.cli import VERBS, stories
from ganger.services.cli.arguments import parse_point
from ganger.streams.engine import Engine
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.tables.store import STORE_FOLDER, Store
from support.small_ledger import START_NS, build, queue
from support.verbs import call, call_json, lines

VERIFY_KEYS = [
    "records",
    "decisions",
    "mismatches",
    "first_mismatch",
    "digest",
    "chain",
    "record_hash",
    "records_per_cpu_second",
    "violations",
    "first_violation",
]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    build(tmp_path / "ledger")
    return tmp_path / "ledger"


# ---- verify --------------------------------------------------------------------------------------


def test_verify_says_that_all_is_equal(ledger: Path) -> None:
    found = call_json("verify", ledger)
    assert list(found) == VERIFY_KEYS
    assert (found["records"], found["mismatches"], found["first_mismatch"]) == (25, 0, None)
    assert re.fullmatch("[0-9a-f]{32}", found["digest"])
    assert re.fullmatch("[0-9a-f]{64}", found["chain"])
    assert found["records_per_cpu_second"] > 0
    text = call("verify", ledger).stdout
    assert "all equal" in text
    record_hash = LedgerDirectory.open_reader(ledger).ledger.chain().hex()
    assert found["record_hash"] == record_hash
    assert all(found[key] in text for key in ("digest", "chain", "record_hash"))
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
    assert found == [
        "        18  2023-11-14T22:13:50.000Z  PodSucceeded job=small pod=0 attempt=1",
        "        18  2023-11-14T22:13:50.000Z  -> FINISH small: 1 pod succeeded"
        " (by PodSucceeded small)",
    ]


def test_every_decision_has_the_seq_and_the_time_of_its_cause(ledger: Path) -> None:
    found = lines("log", ledger, "--job", "gang", "--decisions")
    placed = [line for line in found if "-> ALLOCATE" in line]
    assert len(placed) == 2
    assert all(line.startswith("        13  2023-11-14T22:13:40.000Z  -> ") for line in placed)
    assert all(line.endswith(" (by Tick)") for line in placed)
    (evicted,) = lines("log", ledger, "--kind", "EVICT")
    assert evicted == (
        "        20  2023-11-14T22:14:00.000Z  -> EVICT twin, pod 0 attempt 1 on node-b, card 2: "
        "its node was lost (by NodeLost node-b)"
    )


def test_a_refused_queue_is_named_with_its_parent(ledger: Path) -> None:
    with LedgerDirectory.open(ledger) as directory:
        engine = Engine.recover(directory.ledger, directory.decisions)
        engine.apply([replace(queue("child", at_s=60), parent="nowhere")])
    (line,) = [line for line in lines("log", ledger, "--kind", "REJECT") if " 25 " in line]
    assert line.endswith(
        "-> REJECT its parent is not configured; configure the parent first "
        "(parent: nowhere) (by QueueConfigured child)"
    )


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
        (["--from", "5", "--to", "4"], ["--from: 5 is after --to 4"]),
    ],
)
def test_log_refuses(ledger: Path, words: list[str], parts: list[str]) -> None:
    stderr = call("log", ledger, *words, code=2).stderr
    assert all(part in stderr for part in parts), stderr


def test_log_says_where_the_ledger_ends(ledger: Path) -> None:
    result = call("log", ledger, "--from", 25)
    assert (result.stdout, "the ledger ends with seq 24" in result.stderr) == ("", True)
    assert "ledger ends" not in call("log", ledger, "--from", 24).stderr


def test_log_names_units(ledger: Path) -> None:
    text = call("log", ledger).stdout
    assert "roles=[2xmain(cards=4 cpu=1_core memory=1_GiB)]" in text
    assert "capability=[4_cards]" in text
    assert "silent=30s" in text
    assert "settings=[event_id=10m,start_timeout=10m,tick_min=0s,ttl=1h]" in text
    assert "000000000" not in text


def test_files_that_cannot_be_read_are_named(ledger: Path) -> None:
    mark = ledger / "ledger" / "mark"
    mark.unlink()
    mark.mkdir()
    for verb in ("verify", "state", "log"):
        stderr = call(verb, ledger, code=1).stderr
        assert f"{mark}: Is a directory. See to it and call again." in stderr


def test_a_file_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert "this is no directory" in call("verify", path, code=2).stderr


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
        (
            "small",
            [
                "small has succeeded\n",
                "  submitted 2023-11-14T22:13:30.000Z by record 7\n",
                "  started   2023-11-14T22:13:41.000Z after waiting 11s\n",
                "  ended     2023-11-14T22:13:50.000Z after running 9s\n",
                "record 18 PodSucceeded: 1 pod succeeded",
            ],
        ),
        (
            "gang",
            [
                "gang is running in queue batch",
                "pods 0-1 attempt 1 are running on node-a, 4 cards each",
                "record 13 Tick: pods 0-1 attempt 1 on node-a, cards 0-7: placed in turn: "
                "asked 4 cards, the node had 8 free (each; free before the first)",
            ],
        ),
        ("huge", ["was cancelled", "  started   never\n", "cancelled on request"]),
        (
            "twin",
            [
                "number 1 of the jobs of its queue that are admitted\n",
                "  evicted once, last at 2023-11-14T22:14:00.000Z: pod 0 attempt 1 on node-b, card",
                "lost",
                "exists already",
            ],
        ),
        (
            "late",
            [
                "late is pending",
                "number 1 of the jobs of its queue that are waiting for admission\n",
                "1 node (node-a): asked 2 cards, 0 free",
            ],
        ),
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


def test_why_before_the_submission(ledger: Path) -> None:
    stderr = call("why", ledger, "late", "--at", "5", code=2).stderr
    assert "'late' was not yet submitted at 2023-11-14T22:13:20.000Z" in stderr
    assert "it comes with record 23 at 2023-11-14T22:14:10.000Z" in stderr


def test_points_beyond_the_end_are_said_to_be(ledger: Path) -> None:
    for verb in (["why", ledger, "late"], ["state", ledger]):
        result = call(*verb, "--at", "+2h")
        assert result.stdout == call(*verb).stdout
        assert "the ledger ends at 2023-11-14T22:14:11.000Z with record 24" in result.stderr
        assert "the ledger ends" not in call(*verb, "--at", "+51s").stderr


# ---- times from a zero of their own --------------------------------------------------------------


def test_a_ledger_that_begins_at_zero_shows_times_since_then(tmp_path: Path) -> None:
    trace, ledger = tmp_path / "t.csv", tmp_path / "ledger"
    trace.write_text("# ganger trace 1\njob,submit_s,run_s,cards\na,0,90,1\nb,3660,60,1\n")
    call("simulate", trace, "--nodes", "1x4", "--ledger", ledger)
    text = call("why", ledger, "a").stdout
    assert "submitted +0s by" in text
    assert "started   +0s after waiting 0s" in text
    assert "ended     +1m30s after running 1m 30s" in text
    running = call("state", ledger, "jobs", "--at", "+80s").stdout.splitlines()[-1].split()
    assert running[9:12] == ["+0s", "+0s", "-"]
    early = call("why", ledger, "b", "--at", "+1h", code=2).stderr
    assert "'b' was not yet submitted at +1h" in early
    assert "at +1h1m" in early
    assert call_json("why", ledger, "b", "--at", "+1h1m")["phase"] == "RUNNING"


def test_state_says_that_jobs_are_forgotten(ledger: Path) -> None:
    assert "--at" in call("state", ledger, "jobs").stderr
    assert call("state", ledger, "nodes").stderr == ""
    assert call("state", ledger, "jobs", "--json").stderr == ""


def test_the_index_is_said_to_be_built_once(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "STRETCH_COUNT_MAX", 10)
    first = call("why", ledger, "small")
    assert "indexing 25 records and" in first.stderr
    assert first.stderr.count("Note:") == 1
    again = call("why", ledger, "small")
    assert (again.stdout, again.stderr) == (first.stdout, "")


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
    modules = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    listed = call("--help").stdout
    for verb, line in VERBS.items():
        assert verb in modules and line in listed
        assert call(verb, "--help").stdout.startswith(f"Usage: main {verb}")
    call("nothing", code=2)


def test_verbs_of_ledgers_load_nothing_of_faust_or_a_schema_registry(ledger: Path) -> None:
    program = (
        "import sys; from ganger.services.cli import main\n"
        f"main(['verify', {str(ledger)!r}], standalone_mode=False)\n"
        "assert not {'faust', 'aiohttp', 'httpx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


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


LONG = "9" * 5000  # digits, more than Python turns into a number


@pytest.mark.parametrize(
    "text", ["", "-1", "x", "+", "+5", "+5y", "1.5", "٣", "12:00", LONG, f"+{LONG}s"]
)
def test_no_points(text: str) -> None:
    with pytest.raises(InputError, match="--at"):
        parse_point(text)

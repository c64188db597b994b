"""Ledgers copied between folders and Kafka, and the verbs on both: the same answers to the byte."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.schemas.records import Record
from ganger.streams.engine import Engine
from ganger.streams.kafka.cluster.cells import find_cell, place_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import DECISIONS, LEDGER
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.presets.loader import load_policy
from support.kafka_cells import KafkaCell
from support.small_ledger import tick
from support.small_runs import ledger_of, random_trace
from support.verbs import call

JOBS = 120
MARK, ARGUMENTS = b"f" * 32, b'{"seed":7}'


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    path = tmp_path_factory.mktemp("run") / "ledger"
    run(random_trace(JOBS, seed=3), parse_nodes("3x4"), load_policy(), path)
    return ledger_of(path)


@pytest.fixture
def name(unique_name: Callable[[str], str]) -> str:
    return unique_name("copied")


@pytest.fixture
def source(tmp_path: Path, records: list[Record], name: str) -> Path:
    """A ledger in a folder, of a cell that is not placed yet."""
    path = tmp_path / "source"
    with LedgerDirectory.create(path, name, arguments=ARGUMENTS, fingerprint=MARK) as directory:
        engine = Engine.create(directory.ledger, directory.decisions)
        for begin in range(0, len(records), 30):
            engine.apply(records[begin : begin + 30])
    return path


@pytest.fixture
def url(settings: KafkaSettings, name: str) -> str:
    return f"kafka://{settings.bootstrap}/{name}"


def verified(ledger: object) -> dict[str, object]:
    found = json.loads(call("verify", ledger, "--json").stdout)
    del found["records_per_cpu_second"]
    return found


def target_cell(settings: KafkaSettings, name: str) -> KafkaCell:
    return KafkaCell(settings, find_cell(settings, name))


def test_a_copy_there_and_back_is_the_same_ledger(
    source: Path, url: str, tmp_path: Path, settings: KafkaSettings, name: str
) -> None:
    there = call("copy", source, url, "--json").stdout
    placed = find_cell(settings, name)
    assert (placed.fingerprint, placed.arguments) == (MARK, ARGUMENTS)
    back = call("copy", url, tmp_path / "back", "--json").stdout
    beside = call("copy", source, tmp_path / "beside", "--json").stdout
    assert there == back == beside
    wanted = verified(source)
    assert wanted["mismatches"] == 0
    assert json.loads(there)["record_hash"] == wanted["record_hash"]
    assert verified(url) == verified(tmp_path / "back") == verified(tmp_path / "beside") == wanted


def test_the_verbs_say_the_same_of_both(source: Path, url: str) -> None:
    assert "read again and equal" in call("copy", source, url).stdout
    log = call("log", source, "--json").stdout.splitlines()
    job = next(json.loads(line)["job"] for line in log if '"JobSubmitRequested"' in line)
    node = next(json.loads(line)["node"] for line in log if '"PodStarted"' in line)
    middle = len(log) // 2
    for words in (
        ("log", "--json"),
        ("log", "--json", "--decisions", "--from", 5, "--to", middle),
        ("log", "--kind", "ALLOCATE"),
        ("log", "--json", "--job", job, "--decisions"),
        ("log", "--json", "--node", node, "--decisions", "--from", middle),
        ("state", "--json"),
        ("state", "jobs", "--at", middle),
        ("state", "cards", "--json", "--at", "+5m"),
        ("why", job, "--json"),
        ("why", job, "--at", middle),
    ):
        verb, *rest = words
        if verb == "why":
            rest = [*rest[1:]]
            of_folder = call(verb, source, job, *rest).stdout
            for _ in range(2):  # the second time with the store that the first one left
                assert call(verb, url, job, *rest).stdout == of_folder
        else:
            of_folder = call(verb, source, *rest).stdout
            for _ in range(2):
                assert call(verb, url, *rest).stdout == of_folder
        assert of_folder


def test_a_live_cell_is_copied_without_what_comes_later(
    cell: KafkaCell, records: list[Record], tmp_path: Path
) -> None:
    """Decisions of records that the copy does not have are left out."""
    cell.feed(records[:200])
    log = cell.decision_log()
    engine = Engine.recover(cell.ledger_log(), log, None)
    cell.write(DECISIONS, [p for _, g in log.read_groups() for p in g][-20:])  # copies
    path = tmp_path / "copy"
    call("copy", f"kafka://{cell.settings.bootstrap}/{cell.placement.cell}", path)
    found = verified(path)
    assert (found["records"], found["mismatches"]) == (200, 0)
    assert found["decisions"] == engine.decision_count


def test_an_owner_that_is_behind_leaves_nothing_unproved(
    cell: KafkaCell, records: list[Record], tmp_path: Path
) -> None:
    """Others write the ledger: what later records cause is not published yet, and no mismatch."""
    many = [*records, *[tick(10**6 + number) for number in range(2500)]]
    cell.feed(many[:300])
    Engine.recover(cell.ledger_log(), cell.decision_log(), None)
    cell.feed(many[300:])
    url = f"kafka://{cell.settings.bootstrap}/{cell.placement.cell}"
    call("copy", url, tmp_path / "copy")
    for ledger in (url, tmp_path / "copy"):
        result = call("verify", ledger, "--json")
        assert "decisions of the last records are not published yet" in result.stderr
        assert json.loads(result.stdout)["mismatches"] == 0
    Engine.recover(cell.ledger_log(), cell.decision_log(), None)
    result = call("verify", url, "--json")
    assert result.stderr == ""
    assert json.loads(result.stdout)["records"] == len(many)


def test_a_copy_that_was_cut_off_is_said_and_can_go_on(
    source: Path, url: str, settings: KafkaSettings, name: str
) -> None:
    readers = LedgerDirectory.open_reader(source)
    payloads = [payload for _, group in readers.ledger.read_groups() for payload in group]
    place_cell(settings, name, fingerprint=MARK, arguments=ARGUMENTS)
    target = target_cell(settings, name)
    target.write(LEDGER, payloads[:77])
    refused = call("copy", source, url, code=2).output
    assert "it is not empty: it holds 77 records" in refused
    assert "--resume" in refused
    call("copy", source, url, "--resume")
    assert verified(url) == verified(source)
    call("copy", source, url, "--resume")  # nothing is left to do, and nothing is done
    assert target.ledger().end() == len(payloads)


def test_what_is_there_and_differs_is_never_gone_on_with(
    source: Path, url: str, settings: KafkaSettings, name: str
) -> None:
    place_cell(settings, name, fingerprint=MARK, arguments=ARGUMENTS)
    target_cell(settings, name).write(LEDGER, [b"other"])
    assert (
        "differs from the source at ledger 0"
        in call("copy", source, url, "--resume", code=2).output
    )
    assert target_cell(settings, name).ledger().end() == 1


def test_a_cell_of_another_ledger_is_refused(
    source: Path, url: str, settings: KafkaSettings, name: str
) -> None:
    place_cell(settings, name)
    assert "another fingerprint" in call("copy", source, url, code=2).output


def test_a_ledger_that_was_cut_is_refused(
    source: Path, url: str, settings: KafkaSettings, name: str, tmp_path: Path
) -> None:
    call("copy", source, url)
    place = TopicPartition(LEDGER, find_cell(settings, name).partition, 50)
    admin = AdminClient(settings.client())  # must outlive what it promises
    for done in admin.delete_records([place]).values():
        done.result(30)
    for words in (("copy", url, tmp_path / "back"), ("verify", url), ("state", url)):
        assert "begins at seq 50" in call(*words, code=1).output
    assert not (tmp_path / "back").exists()
    assert "it is not empty" in call("copy", source, url, code=2).output


def test_wrong_calls_are_said(source: Path, url: str, tmp_path: Path, name: str) -> None:
    assert "exists already" in call("copy", source, source, code=2).output
    assert "--resume" in call("copy", source, tmp_path / "x", "--resume", code=2).output
    assert "a copy keeps its name" in call("copy", source, url + "x", code=2).output
    assert "is not placed" in call("verify", url, code=2).output
    assert "names no cell" in call("verify", url.removesuffix(name), code=2).output
    assert "names no cell" in call("log", url + "/more", code=2).output
    assert "no such directory" in call("verify", tmp_path / "none", code=2).output

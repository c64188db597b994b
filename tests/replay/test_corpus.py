"""Recorded ledgers lead to the decisions recorded with them, whatever the hash seed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ganger.schemas.codec import decode_decision
from ganger.schemas.enums import DecisionKind
from support.corpus import SUFFIX, Entry, load, replay
from support.scenarios import PRESETS, SCENARIOS

FOLDER = Path(__file__).with_name("corpus")
TOOL = Path(__file__).resolve().parents[1] / "tools" / "record_corpus.py"
PATHS = sorted(FOLDER.glob(f"*{SUFFIX}"))
FAITHFUL = [path for path in PATHS if not path.name.startswith("divergent")]


def test_every_scenario_is_recorded() -> None:
    names = {path.name.removesuffix(SUFFIX) for path in FAITHFUL}
    assert set(SCENARIOS) <= names, "run: python tests/tools/record_corpus.py"


@pytest.mark.parametrize("path", FAITHFUL, ids=lambda path: path.name)
def test_replay_is_equal(path: Path) -> None:
    entry = load(path)
    assert len(entry.decisions) > 5, path.name
    difference = replay(entry)
    assert difference is None, f"{path.name}: {difference}"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_ledger_of_each_preset_has_evictions_for_others(preset: str) -> None:
    decisions = load(FOLDER / f"contest-{preset}{SUFFIX}").decisions
    kinds = [(d.kind, bool(d.for_job)) for d in map(decode_decision, decisions)]
    assert (DecisionKind.EVICT, True) in kinds
    assert any(kind is DecisionKind.CLAIM for kind, _ in kinds)


def test_the_divergent_entry_is_reported_with_its_seq() -> None:
    entry = load(FOLDER / f"divergent{SUFFIX}")
    altered = [
        decode_decision(payload).cause_seq
        for payload in entry.decisions
        if decode_decision(payload).node.endswith("-elsewhere")
    ]
    difference = replay(entry)
    assert difference is not None
    assert [difference.seq] == altered
    assert "-elsewhere" in str(difference)


def _first() -> Entry:
    return load(FAITHFUL[0])


def test_missing_and_surplus_decisions_are_reported() -> None:
    entry = _first()
    last = decode_decision(entry.decisions[-1])
    shorter = msgspec.structs.replace(entry, decisions=entry.decisions[:-1])
    longer = msgspec.structs.replace(entry, decisions=[*entry.decisions, entry.decisions[-1]])
    for changed in (shorter, longer):
        difference = replay(changed)
        assert difference is not None
        assert difference.seq == last.cause_seq
    other_end = replay(msgspec.structs.replace(entry, digest=bytes(16)))
    assert other_end is not None
    assert other_end.seq == -1


def test_two_hash_seeds_agree() -> None:
    printed = []
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, str(TOOL), "--check"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert len(re.findall(r" equal$", printed[0], re.MULTILINE)) == len(FAITHFUL)

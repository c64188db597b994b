"""Ledgers whose hashes are right and whose content is not: told by seq, with exit code 1."""

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner
from integration.flip_loop import loop

from ganger.schemas import records as r
from ganger.schemas.encoding import encode_record
from ganger.services.cli import main
from ganger.streams.engine import Engine
from ganger.streams.log.directory import LedgerDirectory, LedgerReaders
from ganger.streams.payloads import DecisionUnreadable, RecordUnreadable
from support.small_ledger import build

PLACE = 12
HEARTBEAT = encode_record(r.NodeHeartbeat(5, "", None, ()))
FORGERIES = {
    "an input that stands in no ledger": HEARTBEAT,
    "a schema that nobody knows": struct.pack(">bI", 0, 0x7FFFFFFF) + b"abc",
    "other framing": b"\7" + HEARTBEAT[1:],
    "nothing": b"",
    "cut short": HEARTBEAT[:-1],
    "too long": HEARTBEAT + b"x",
    "noise": b"\xff" * 40,
    "noise behind a good header": HEARTBEAT[:5] + b"\xff" * 20,
}


def payloads(path: Path) -> tuple[list[bytes], list[bytes], LedgerReaders]:
    readers = LedgerDirectory.open_reader(path)
    ledger, decisions = (
        [payload for _, group in log.read_groups() for payload in group]
        for log in (readers.ledger, readers.decisions)
    )
    return ledger, decisions, readers


def forge(tmp_path: Path, payload: bytes, *, in_decisions: bool = False) -> Path:
    """A ledger with one payload exchanged, written anew so that every hash is right."""
    build(tmp_path / "true")
    ledger, decisions, readers = payloads(tmp_path / "true")
    stream = decisions if in_decisions else ledger
    place = 3 if in_decisions else PLACE
    stream[place] = payload
    with LedgerDirectory.create(
        tmp_path / "forged",
        readers.ledger.cell,
        arguments=readers.ledger.arguments,
        fingerprint=readers.ledger.fingerprint,
    ) as directory:
        directory.ledger.append(ledger)
        directory.decisions.append(decisions)
    return tmp_path / "forged"


def call(*words: object) -> tuple[int, str]:
    """Exit code and what was said of it; nothing but a clean exit is let through."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


@pytest.mark.parametrize("payload", FORGERIES.values(), ids=FORGERIES)
def test_records_that_are_none(tmp_path: Path, payload: bytes) -> None:
    path = forge(tmp_path, payload)
    for words in (
        ("verify", path),
        ("state", path),
        ("log", path),
        ("log", path, "--decisions", "--json"),
        ("log", path, "--job", "gang"),
        ("why", path, "gang"),
    ):
        code, said = call(*words)
        assert code == 1, (words, said)
        assert f"seq {PLACE}: " in said, words
    assert call("state", path, "--at", PLACE - 1)[0] == 0
    assert call("log", path, "--to", PLACE - 1)[0] == 0
    with LedgerDirectory.open(path) as directory, pytest.raises(RecordUnreadable):
        Engine.recover(directory.ledger, directory.decisions)


@pytest.mark.parametrize("payload", FORGERIES.values(), ids=FORGERIES)
def test_decisions_that_are_none(tmp_path: Path, payload: bytes) -> None:
    path = forge(tmp_path, payload, in_decisions=True)
    for words in (
        ("log", path, "--decisions"),
        ("log", path, "--job", "gang"),
        ("why", path, "gang"),
    ):
        code, said = call(*words)
        assert code == 1, (words, said)
        assert "decision at seq 3: " in said, words
    assert call("verify", path)[0] == 1
    found = CliRunner().invoke(main, ["verify", str(path), "--json"])
    assert json.loads(found.stdout)["mismatches"] == 1


def test_a_surplus_decision_that_is_none(tmp_path: Path) -> None:
    build(tmp_path)
    with LedgerDirectory.open(tmp_path) as directory:
        directory.decisions.append([b"noise"])
        with pytest.raises(DecisionUnreadable, match=f"seq {directory.decisions.end() - 1}"):
            Engine.recover(directory.ledger, directory.decisions)


def test_flipped_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    """The loop that is run for long on large ledgers, a short while on a small one."""
    build(tmp_path)
    numbers, is_well = loop(tmp_path, flips=120, seed=3, whole_every=4)
    assert is_well, numbers
    assert numbers["refused"] > 60

"""The proof: equal streams pass, every kind of difference is found where it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from ganger.replay.reader import LedgerCut
from ganger.replay.verify import verify
from ganger.schemas.codec import decode_decision, decode_record
from ganger.schemas.encoding import decision_payload, encode_record
from ganger.schemas.records import JobSubmitRequested
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import LogCorrupt
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.log.protocol import LogReader
from ganger.streams.payloads import RecordUnreadable
from support.small_ledger import build

RECORD_COUNT = 25
LAST_GROUP = 2
FLIP_STEP = 7


@dataclass
class Pair:
    ledger: LogReader
    decisions: LogReader


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], list[bytes], bytes]:
    path = tmp_path_factory.mktemp("ledger")
    build(path)
    readers = LedgerDirectory.open_reader(path)
    ledger, decisions = (
        [payload for _, group in log.read_groups() for payload in group]
        for log in (readers.ledger, readers.decisions)
    )
    assert len(ledger) == RECORD_COUNT
    assert len(decisions) > 8
    return ledger, decisions, readers.ledger.fingerprint


def pair(
    ledger: Sequence[bytes], decisions: Sequence[bytes], fingerprint: bytes, group: int = 4
) -> Pair:
    logs = []
    for stream, payloads in ((Stream.LEDGER, ledger), (Stream.DECISIONS, decisions)):
        log = MemoryLog(LogIdentity(stream, "lab", fingerprint))
        for begin in range(0, len(payloads), group):
            log.append(payloads[begin : begin + group])
        logs.append(log)
    return Pair(*logs)


def chain_of(ledger: Sequence[bytes], fingerprint: bytes) -> bytes:
    """The records' hash chain, as the page on the format has it."""
    sizes = b"".join(size.to_bytes(4, "little") for size in (1, 1, 3, len(fingerprint), 0))
    chain = sha256(b"GANGERSG" + sizes + b"lab" + fingerprint).digest()
    for payload in ledger:
        chain = sha256(chain + payload).digest()
    return chain


@pytest.mark.parametrize("group", [1, 4, 100])
def test_equal_streams(payloads: tuple[list[bytes], list[bytes], bytes], group: int) -> None:
    told: list[int] = []
    found = verify(pair(*payloads, group), told.append)
    assert found.is_equal
    assert (found.records, found.decisions) == (RECORD_COUNT, len(payloads[1]))
    assert (found.mismatches, found.first_mismatch, found.unpublished) == (0, None, 0)
    assert sum(told) == RECORD_COUNT
    last = decode_decision(payloads[1][-1])
    assert (found.chain, found.digest) == (last.chain, last.digest)
    assert found.record_hash == chain_of(payloads[0], payloads[2])


def test_an_empty_ledger_is_equal() -> None:
    found = verify(pair([], [], b""))
    assert (found.records, found.decisions, found.is_equal) == (0, 0, True)


def test_a_changed_decision(payloads: tuple[list[bytes], list[bytes], bytes]) -> None:
    ledger, decisions, fingerprint = payloads
    for place, payload in enumerate(decisions):
        right = decode_decision(payload)
        wrong = decision_payload(replace(right, asked=right.asked + 1, body=b""))
        changed = [*decisions[:place], wrong, *decisions[place + 1 :]]
        found = verify(pair(ledger, changed, fingerprint))
        assert not found.is_equal
        assert found.mismatches == 1
        first = found.first_mismatch
        assert first is not None
        assert (first.seq, first.index) == (right.cause_seq, right.index)
        assert (first.recorded, first.computed) == (wrong, payload)


def test_a_changed_record_changes_what_is_computed(
    payloads: tuple[list[bytes], list[bytes], bytes],
) -> None:
    ledger, decisions, fingerprint = payloads
    job = decode_record(ledger[9])
    assert isinstance(job, JobSubmitRequested)
    roles = (replace(job.roles[0], request=replace(job.roles[0].request, cards=1)),)
    changed = [*ledger[:9], encode_record(replace(job, roles=roles)), *ledger[10:]]
    found = verify(pair(changed, decisions, fingerprint))
    assert found.first_mismatch is not None
    assert found.first_mismatch.seq == 13


def test_a_missing_decision_in_the_middle(
    payloads: tuple[list[bytes], list[bytes], bytes],
) -> None:
    ledger, decisions, fingerprint = payloads
    missing = decode_decision(decisions[5])
    found = verify(pair(ledger, decisions[:5] + decisions[6:], fingerprint))
    assert not found.is_equal
    assert found.first_mismatch is not None
    assert (found.first_mismatch.seq, found.first_mismatch.index) == (
        missing.cause_seq,
        missing.index,
    )


def test_decisions_of_the_last_group_may_be_unpublished(
    payloads: tuple[list[bytes], list[bytes], bytes],
) -> None:
    ledger, decisions, fingerprint = payloads
    # The ledger in groups of 23 and 2: the last two records caused one decision.
    found = verify(pair(ledger, decisions[:-1], fingerprint, RECORD_COUNT - LAST_GROUP))
    assert found.is_equal
    assert (found.unpublished, found.decisions) == (1, len(decisions))
    found = verify(pair(ledger, decisions[:-2], fingerprint, RECORD_COUNT - LAST_GROUP))
    assert not found.is_equal
    first = found.first_mismatch
    assert first is not None
    assert (first.recorded, first.computed) == (b"", decisions[-2])


def test_decisions_beyond_the_last_computed(
    payloads: tuple[list[bytes], list[bytes], bytes],
) -> None:
    ledger, decisions, fingerprint = payloads
    stranger = decision_payload(replace(decode_decision(decisions[-1]), cause_seq=99, body=b""))
    for surplus in (decisions[-1], stranger, b"rubbish"):
        found = verify(pair(ledger, [*decisions, surplus], fingerprint))
        assert found.mismatches == 1
        assert found.first_mismatch is not None
        assert found.first_mismatch.recorded == surplus
        assert found.first_mismatch.computed == b""


class Growing(MemoryLog):
    """A log whose writer adds a record whenever somebody asks where it ends."""

    def end(self) -> int:
        end = super().end()
        self.append([b""])
        return end


def test_what_a_live_writer_adds_is_left_out(
    payloads: tuple[list[bytes], list[bytes], bytes],
) -> None:
    ledger, decisions, fingerprint = payloads
    live = Growing(LogIdentity(Stream.LEDGER, "lab", fingerprint))
    live.append(ledger)
    added = decision_payload(
        replace(decode_decision(decisions[-1]), cause_seq=RECORD_COUNT, body=b"")
    )
    found = verify(Pair(live, pair([], [*decisions, added], fingerprint).decisions))
    assert found.is_equal
    assert found.records == RECORD_COUNT


def test_other_run_arguments_are_another_chain(
    payloads: tuple[list[bytes], list[bytes], bytes],
) -> None:
    ledger, decisions, _ = payloads
    found = verify(pair(ledger, decisions, b"other"))
    assert found.mismatches == len(decisions)


def test_a_record_that_does_not_decode(
    payloads: tuple[list[bytes], list[bytes], bytes],
) -> None:
    ledger, decisions, fingerprint = payloads
    for wrong in (ledger[9][:-1], b"\0\0\0\xff\xff", b""):
        with pytest.raises(RecordUnreadable, match="seq 9: ") as caught:
            verify(pair([*ledger[:9], wrong, *ledger[10:]], decisions, fingerprint))
        assert caught.value.seq == 9


def test_a_cut_ledger_is_refused(payloads: tuple[list[bytes], list[bytes], bytes]) -> None:
    class Cut(MemoryLog):
        first_seq = 7  # type: ignore[assignment]

    with pytest.raises(LedgerCut, match="seq 7"):
        verify(Pair(Cut(LogIdentity(Stream.LEDGER, "lab")), pair([], [], b"").decisions))


def test_no_flipped_byte_goes_unnoticed(tmp_path: Path) -> None:
    build(tmp_path)
    wanted = replace(verify(LedgerDirectory.open_reader(tmp_path)), cpu_seconds=0.0)
    paths = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.name != "LOCK")
    assert len(paths) == 4
    refused: list[Path] = []
    for path in paths:
        data = path.read_bytes()
        for place in range(0, len(data), FLIP_STEP):
            path.write_bytes(data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :])
            try:
                found = verify(LedgerDirectory.open_reader(tmp_path))
            except LogCorrupt as error:
                refused.append(error.file)
            else:
                assert replace(found, cpu_seconds=0.0) == wanted, (path, place)
        path.write_bytes(data)
    assert len(refused) > 100
    assert all(file.is_relative_to(tmp_path) for file in refused)

"""Every fate of a job is explained, from its story and from the state."""

from pathlib import Path

import pytest

from ganger.replay.reader import Streams
from ganger.replay.story import story
from ganger.replay.why import Answer, why
from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.schemas.records import JobCancelRequested, Tick
from ganger.streams.engine import Engine
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.tables.story import IdKind
from support.small_ledger import START_NS, build, job


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Streams:
    path: Path = tmp_path_factory.mktemp("ledger")
    build(path)
    return LedgerDirectory.open_reader(path)


def asked(ledger: Streams, name: str, next_seq: int = 25) -> Answer:
    found = story(ledger, IdKind.JOB, name, next_seq)
    assert found
    return why(ledger, name, found, next_seq)


def reasons(answer: Answer) -> list[Reason]:
    assert answer.explanation is not None
    return [finding.reason for finding in answer.explanation.reasons]


@pytest.mark.parametrize(
    ("name", "phase", "submit_seq", "kinds"),
    [
        ("small", Phase.SUCCEEDED, 7, ["ADMIT", "ALLOCATE", "FINISH"]),
        ("gang", Phase.RUNNING, 8, ["ADMIT", "ALLOCATE", "ALLOCATE"]),
        ("huge", Phase.CANCELLED, 9, ["FINISH"]),
        ("capped", Phase.INQUEUE, 10, ["ADMIT"]),
        ("twin", Phase.INQUEUE, 11, ["REJECT", "ADMIT", "ALLOCATE", "EVICT"]),
        ("late", Phase.PENDING, 23, []),
    ],
)
def test_each_fate(
    ledger: Streams, name: str, phase: Phase, submit_seq: int, kinds: list[str]
) -> None:
    answer = asked(ledger, name)
    assert answer.phase is phase
    assert answer.submission is not None
    assert answer.submission.seq == submit_seq
    told = [d.kind.name for d in answer.decisions if d.kind is not DecisionKind.ADMIT]
    assert told == [kind for kind in kinds if kind != "ADMIT"]
    assert (answer.explanation is None) == (phase in (Phase.SUCCEEDED, Phase.CANCELLED))


def test_numbers_and_causes(ledger: Streams) -> None:
    answer = asked(ledger, "gang")
    first = answer.decisions[-2]
    assert (first.node, first.asked, first.free) == ("node-a", 4000, 8000)
    assert answer.causes[first.cause_seq] == "Tick"
    evicted = asked(ledger, "twin").decisions[-1]
    assert (evicted.kind, evicted.reason) == (DecisionKind.EVICT, Reason.NODE_LOST)
    refused = asked(ledger, "twin").decisions[0]
    assert (refused.cause_seq, refused.reason) == (12, Reason.JOB_EXISTS)


def test_what_a_waiting_job_waits_for(ledger: Streams) -> None:
    assert Reason.CARDS_TOO_FEW in reasons(asked(ledger, "twin"))
    assert Reason.NODE_UNREACHABLE in reasons(asked(ledger, "twin"))
    assert Reason.NEVER_FITS in reasons(asked(ledger, "huge", 20))
    assert Reason.QUEUE_CAPABILITY in reasons(asked(ledger, "capped", 15))


def test_a_point_before_the_end_of_a_job(ledger: Streams) -> None:
    answer = asked(ledger, "small", 15)
    assert answer.phase is Phase.RUNNING
    assert answer.seq == 14
    assert asked(ledger, "small", 8).phase is Phase.PENDING


class Pair:
    """A cell in memory, one record a group."""

    def __init__(self) -> None:
        self.ledger = MemoryLog(LogIdentity(Stream.LEDGER, "lab"))
        self.decisions = MemoryLog(LogIdentity(Stream.DECISIONS, "lab"))
        self.engine = Engine.create(self.ledger, self.decisions)


def test_a_job_that_was_only_ever_refused() -> None:
    cell = Pair()
    cell.engine.apply([job("lost", "nowhere", 1, 1, 0)])
    answer = asked(cell, "lost", 1)
    assert (answer.submission, answer.phase, answer.explanation) == (None, Phase.UNKNOWN, None)
    assert [d.reason for d in answer.decisions] == [Reason.QUEUE_UNKNOWN]


def test_a_cancel_of_a_job_that_never_was() -> None:
    cell = Pair()
    cell.engine.apply([JobCancelRequested(START_NS, "", None, "ghost", "ada")])
    answer = asked(cell, "ghost", 1)
    assert (answer.submission, answer.phase) == (None, Phase.UNKNOWN)
    assert [d.reason for d in answer.decisions] == [Reason.JOB_UNKNOWN]


def test_a_forgotten_job_is_told_from_its_story(tmp_path: Path) -> None:
    build(tmp_path)
    with LedgerDirectory.open(tmp_path) as directory:
        engine = Engine.recover(directory.ledger, directory.decisions)
        engine.apply([Tick(START_NS + 10**14, "", None, 1, True)])
        assert "small" not in engine.state.job_by_key
        answer = asked(directory, "small", 26)
    assert answer.phase is Phase.SUCCEEDED
    assert answer.decisions[-1].reason is Reason.ALL_PODS_SUCCEEDED


def test_a_key_used_again_tells_of_the_latest_job(tmp_path: Path) -> None:
    build(tmp_path)
    with LedgerDirectory.open(tmp_path) as directory:
        engine = Engine.recover(directory.ledger, directory.decisions)
        engine.apply([Tick(START_NS + 10**14, "", None, 1, True)])
        engine.apply([job("small", "research", 1, 1, 200_000, "a second small")])
        answer = asked(directory, "small", 27)
        before = asked(directory, "small", 26)
    assert answer.submission is not None
    assert (answer.submission.seq, answer.phase) == (26, Phase.PENDING)
    assert before.submission is not None
    assert (before.submission.seq, before.phase) == (7, Phase.SUCCEEDED)

"""Every fate of a job is explained, from its story and from the state."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ganger.replay.history import AtSeq, Place, locate
from ganger.replay.reader import Streams
from ganger.replay.story import story
from ganger.replay.why import Answer, why
from ganger.schemas.enums import DecisionKind, FailureKind, JobAction, Phase, PodEvent
from ganger.schemas.parts import EventAction
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    IntakeClaimed,
    JobCancelRequested,
    NodeDrained,
    NodeLost,
    OwnerClaimed,
    PodFailed,
    PodReleased,
    PodStarted,
    PodSucceeded,
    Record,
    Tick,
)
from ganger.services.cli.events import decision_text
from ganger.streams.engine import Engine
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.tables.story import IdKind
from support import builders as b
from support.small_ledger import START_NS, build, job

SECOND = 10**9


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Streams:
    path: Path = tmp_path_factory.mktemp("ledger")
    build(path)
    return LedgerDirectory.open_reader(path)


def asked(ledger: Streams, name: str, next_seq: int = 25) -> Answer:
    place = locate(ledger.ledger, AtSeq(next_seq - 1))
    found = story(ledger, IdKind.JOB, name, next_seq)
    assert found
    return why(ledger, name, found, place)


def resources(answer: Answer) -> dict[Reason, str]:
    assert answer.explanation is not None
    return {finding.reason: finding.resource for finding in answer.explanation.reasons}


def reasons(answer: Answer) -> list[Reason]:
    assert answer.explanation is not None
    return [finding.reason for finding in answer.explanation.reasons]


@pytest.mark.parametrize(
    ("name", "phase", "submit_seq", "kinds"),
    [
        ("small", Phase.SUCCEEDED, 7, ["ADMIT", "ALLOCATE", "FINISH"]),
        ("gang", Phase.RUNNING, 8, ["ADMIT", "ALLOCATE", "ALLOCATE"]),
        ("huge", Phase.CANCELLED, 9, ["FINISH"]),
        ("capped", Phase.PENDING, 10, []),
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
    assert type(answer.causes[first.cause_seq]) is Tick
    evicted = asked(ledger, "twin").decisions[-1]
    assert (evicted.kind, evicted.reason) == (DecisionKind.EVICT, Reason.NODE_LOST)
    refused = asked(ledger, "twin").decisions[0]
    assert (refused.cause_seq, refused.reason) == (12, Reason.JOB_EXISTS)


def test_when_a_job_started_and_ended(ledger: Streams) -> None:
    small = asked(ledger, "small")
    assert (small.started_ns, small.ended_ns) == (START_NS + 21 * SECOND, START_NS + 30 * SECOND)
    gang = asked(ledger, "gang")
    assert (gang.started_ns, gang.ended_ns) == (START_NS + 21 * SECOND, None)
    huge = asked(ledger, "huge")
    assert (huge.started_ns, huge.ended_ns) == (None, START_NS + 42 * SECOND)


def test_the_resource_of_a_limit_is_named(ledger: Streams) -> None:
    answer = asked(ledger, "capped", 15)
    named = resources(answer)
    assert named[Reason.QUEUE_CAPABILITY] == "cards_milli"
    assert named.get(Reason.CARDS_TOO_FEW, "") == ""


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
    assert decision_text(answer.decisions[0], answer.causes[0]) == (
        "lost: no such queue; configure it first (queue: nowhere)"
    )


@pytest.mark.parametrize(
    ("asks", "named"),
    [
        ({"priority_class": "vip"}, "(priority_class: vip)"),
        ({"dependencies": ("first", "second")}, "(dependencies: first, second)"),
    ],
)
def test_a_refusal_names_what_of_the_request_is_refused(asks: dict[str, Any], named: str) -> None:
    cell = Pair()
    cell.engine.apply([b.queue("q"), replace(job("j", "q", 1, 1, 0), **asks)])
    answer = asked(cell, "j", 2)
    assert decision_text(answer.decisions[0], answer.causes[1]).endswith(named)


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


# ---- failures ------------------------------------------------------------------------------------


class Cluster(Pair):
    """A cell with one node of four cards, in time that stands still unless it is moved."""

    def __init__(self, *queues: Record) -> None:
        super().__init__()
        self.now_ns = b.GENESIS
        claims = [OwnerClaimed(b.GENESIS, "", None, "o"), IntakeClaimed(b.GENESIS, "", None, "i")]
        self.put(*claims, b.policy(), *(queues or [b.queue("q")]), b.node("n", 4))

    def put(self, *records: Record) -> None:
        for record in records:
            self.engine.apply([record])

    def tick(self, after_s: int) -> None:
        self.now_ns += after_s * SECOND
        self.put(Tick(self.now_ns, "", None, self.engine.state.epoch, True))

    def failed(self, attempt: int, pod: int = 0, failure: FailureKind = FailureKind.ERROR) -> None:
        self.put(
            PodFailed(
                self.now_ns, "", None, "j", pod, attempt, failure, 137, "lost it", self.now_ns
            )
        )

    def ask(self, at_ns: int = 0, job: str = "j") -> Answer:
        end = self.ledger.end()
        found = story(self, IdKind.JOB, job, end)
        return why(self, job, found, Place(end, at_ns or self.now_ns, self.now_ns))


def test_failures_are_told_with_node_exit_code_and_what_is_left() -> None:
    cell = Cluster()
    cell.put(b.submission("j", b.role(replicas=2, cards=1), retries=2))
    cell.tick(1)
    cell.failed(1)
    cell.failed(1)  # once more: it changes nothing
    cell.tick(1)
    cell.failed(2, failure=FailureKind.OUT_OF_MEMORY)
    cell.failed(1, pod=1)
    told = [
        (f.pod, f.attempt, f.node, f.failure, f.exit_code, f.message, f.retries_left)
        for f in cell.ask().failures
    ]
    assert told == [
        (0, 1, "n", FailureKind.ERROR, 137, "lost it", 1),
        (0, 2, "n", FailureKind.OUT_OF_MEMORY, 137, "lost it", 0),
        (1, 1, "n", FailureKind.ERROR, 137, "lost it", 1),
    ]
    job_seq = cell.engine.state.job_by_key["j"]
    assert cell.engine.state.jobs[job_seq].failures == {0: 2, 1: 1}


def test_the_end_of_an_attempt_that_was_told_to_end_is_no_failure() -> None:
    cell = Cluster()
    cell.put(b.submission("j", b.role(replicas=2, cards=1), retries=1))
    cell.tick(1)
    cell.put(NodeDrained(cell.now_ns, "drain", None, "n", "me", 0))
    cell.failed(1)
    cell.put(PodReleased(cell.now_ns, "", None, "j", 1, 1, cell.now_ns))
    answer = cell.ask()
    assert answer.failures == ()
    assert [d.reason for d in answer.decisions if d.kind is DecisionKind.EVICT] == [
        Reason.NODE_DRAINED
    ] * 2


def test_backing_off_is_counted_from_the_time_asked_for() -> None:
    cell = Cluster()
    cell.put(b.submission("j", retries=3, backoff_ns=60 * SECOND))
    cell.tick(1)
    cell.failed(1)

    def left_s(after_s: int) -> int:
        explanation = cell.ask(cell.now_ns + after_s * SECOND).explanation
        assert explanation is not None
        (finding,) = [f for f in explanation.reasons if f.reason is Reason.BACKING_OFF]
        return finding.asked // SECOND

    assert [left_s(after_s) for after_s in (0, 25, 60, 90)] == [60, 35, 0, 0]


def test_a_second_copy_of_a_submission_begins_no_new_life() -> None:
    cell = Cluster()
    request = b.submission("j", retries=3, event_id="submit")
    cell.put(request)
    cell.tick(1)
    cell.put(PodStarted(cell.now_ns, "", None, "j", 0, 1, "n", cell.now_ns))
    cell.failed(1)
    cell.put(request)
    answer = cell.ask()
    assert answer.submission is not None
    assert answer.submission.seq == 5
    assert (len(answer.failures), answer.started_ns) == (1, cell.now_ns)


@pytest.mark.parametrize(
    ("asks", "resource"),
    [
        ({"cpu": 900_000, "cards": 1}, "cpu_milli"),
        ({"memory": 1 << 40}, "memory_mib"),
        ({"cards": 64, "cpu": 64_000}, "cards_milli"),
    ],
)
def test_what_is_above_the_limit_of_admission_is_named(asks: dict[str, int], resource: str) -> None:
    cell = Cluster()
    cell.put(b.submission("j", b.role(**asks)))
    cell.tick(1)
    answer = cell.ask()
    assert resources(answer)[Reason.OVERCOMMIT] == resource


def test_what_a_queue_may_not_have_is_named_whatever_it_is() -> None:
    cell = Cluster(b.queue("q", capability={"pods": 1, "cards_milli": 4000}))
    cell.put(b.submission("j", b.role(replicas=2, cards=1)))
    cell.tick(1)
    answer = cell.ask()
    named = resources(answer)
    assert named[Reason.QUEUE_CAPABILITY] == "pods"


ENDS = [
    ({"min_success": 1}, Phase.SUCCEEDED),
    (
        {"actions": (EventAction(PodEvent.FAILED, (), "", JobAction.COMPLETE_JOB, 0),)},
        Phase.SUCCEEDED,
    ),
    (
        {"actions": (EventAction(PodEvent.FAILED, (), "", JobAction.TERMINATE_JOB, 0),)},
        Phase.FAILED,
    ),
]


@pytest.mark.parametrize(("wants", "phase"), ENDS)
def test_the_phase_of_the_end_is_the_kernels(wants: dict[str, Any], phase: Phase) -> None:
    cell = Cluster()
    cell.put(replace(b.submission("j", b.role(replicas=2, cards=1)), **wants))
    cell.tick(1)
    cell.put(PodStarted(cell.now_ns, "", None, "j", 0, 1, "n", cell.now_ns))
    if "actions" in wants:
        cell.failed(1)
    else:
        cell.put(PodSucceeded(cell.now_ns, "", None, "j", 0, 1, cell.now_ns))
    cell.put(PodReleased(cell.now_ns, "", None, "j", 1, 1, cell.now_ns))
    state = cell.engine.state
    assert state.jobs[state.job_by_key["j"]].phase is phase
    answer = cell.ask()
    assert (answer.phase, answer.ended_ns) == (phase, cell.now_ns)


def test_a_named_resource_that_is_short_is_named() -> None:
    cell = Cluster()
    cell.put(b.submission("j", b.role(cards=1, resources=[("nic", 2)])))
    cell.tick(1)
    answer = cell.ask()
    named = resources(answer)
    assert named[Reason.RESOURCE_TOO_LITTLE] == "nic"


def test_attempts_on_a_lost_node_count_as_evicted() -> None:
    cell = Cluster()
    cell.put(b.submission("j", retries=1))
    cell.tick(1)
    cell.put(NodeLost(cell.now_ns, "", None, "n", 1, 30 * SECOND))
    cell.failed(1)
    answer = cell.ask()
    assert answer.failures == ()
    assert answer.decisions[-1].reason is Reason.NODE_LOST


def test_why_a_job_was_evicted_names_the_taker_and_who_stayed() -> None:
    cell = Cluster()
    actions = ("enqueue", "allocate", "preempt")
    cell.put(b.policy("priority", "gang", "pack", actions=actions))
    big = b.role(cards=2)
    cell.put(b.submission("low", big, priority=1), b.submission("lower", big))
    cell.tick(2)
    cell.put(b.submission("urgent", priority=9))
    cell.tick(1)
    cell.put(PodReleased(cell.now_ns, "", None, "lower", 0, 1, cell.now_ns))
    cell.tick(1)
    answer = cell.ask(job="lower")
    (told,) = [d for d in answer.decisions if d.kind is DecisionKind.EVICT]
    assert (told.for_job, told.order, told.considered) == ("urgent", 1, 2)
    (stayed,) = answer.others  # though the taker runs by now
    assert (stayed.reason, stayed.jobs) == (Reason.NOT_LOWER_PRIORITY, ("low",))
    assert (stayed.asked, stayed.limit) == (1, 0)
    assert cell.ask(job="low").others == ()

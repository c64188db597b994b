"""Inputs that come twice, late or out of order; the windows that remember them."""

import msgspec
import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import Phase
from ganger.streams.kernel.handlers import time as passing
from ganger.streams.kernel.step import OutOfOrder, step
from support.builders import SECOND, Cell, node, placed, policy, queue, role, submission
from support.decision_lines import job_of, lose, node_of, phase_of, places, said


def two_attempts() -> Cell:
    """Job `j`: attempt 1 was on the lost node n1, attempt 2 is on n2."""
    cell = Cell().start(node("n1", 1), node("n2", 1))
    cell.submit("j", retries=5)
    cell.tick()
    lose(cell, "n1")
    assert placed(cell.tick()) == [("j", 0, 2, "n2")]
    return cell


@pytest.mark.parametrize("fact", ["started", "succeeded", "failed", "released"])
def test_every_fact_may_come_twice(fact: str) -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=2, cards=1), retries=3)
    cell.tick()
    getattr(cell, fact)("j", 0)
    job = job_of(cell, "j")
    facts = (job.phase, dict(job.failures or {}), job.roles[0].succeeded, job.roles[0].live)
    free = node_of(cell, "n1").free_count
    assert getattr(cell, fact)("j", 0) == []
    after = (job.phase, dict(job.failures or {}), job.roles[0].succeeded, job.roles[0].live)
    assert (after, node_of(cell, "n1").free_count) == (facts, free)


@pytest.mark.parametrize("fact", ["started", "succeeded", "failed", "released"])
def test_a_fact_of_a_former_attempt_says_nothing_of_the_next(fact: str) -> None:
    cell = two_attempts()
    assert getattr(cell, fact)("j", 0, 1) == []
    assert phase_of(cell, "j") is Phase.ALLOCATED
    assert job_of(cell, "j").failures is None
    assert said(cell.succeeded("j", 0, 2)) == ["FINISH j ALL_PODS_SUCCEEDED"]


@pytest.mark.parametrize(
    ("job", "pod", "attempt"), [("none", 0, 1), ("j", 1, 2), ("j", 0, 3), ("j", -1, 2)]
)
def test_facts_of_strangers_change_nothing(job: str, pod: int, attempt: int) -> None:
    cell = two_attempts()
    for fact in (cell.started, cell.succeeded, cell.failed, cell.released):
        assert fact(job, pod, attempt) == []
    assert phase_of(cell, "j") is Phase.ALLOCATED


def test_a_success_before_its_start_counts_and_the_late_start_does_not() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j")
    cell.tick()
    assert said(cell.succeeded("j")) == ["FINISH j ALL_PODS_SUCCEEDED"]
    assert cell.started("j") == []
    assert phase_of(cell, "j") is Phase.SUCCEEDED


def test_a_failure_after_the_eviction_is_its_release() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=2, minimum=1, cards=1))
    cell.tick()
    cell.update("j", scale=[("worker", 1, 1)])
    assert said(cell.failed("j", 1)) == []
    assert phase_of(cell, "j") is Phase.ALLOCATED
    assert node_of(cell, "n1").free_count == 1


def test_a_release_after_a_failure_does_not_free_twice() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", retries=1)
    cell.tick()
    cell.failed("j")
    assert placed(cell.tick()) == [("j", 0, 2, "n1")]
    cell.released("j", 0, 1)
    assert node_of(cell, "n1").free_count == 0


def test_progress_and_checkpoints_never_go_back() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j")
    cell.tick()
    for progress in (300, 200, 300, 1001):
        cell.put(r.PodProgressed(cell.now_ns, "", None, "j", 0, 1, progress, 0))
        cell.put(r.PodCheckpointed(cell.now_ns, "", None, "j", 0, 1, progress - 100, 0))
    pod = (job_of(cell, "j").pods or {})[0]
    assert (pod.progress_milli, pod.checkpoint_milli) == (300, 901)


def test_an_adoption_told_again_after_its_end_does_not_revive_the_pod() -> None:
    cell = Cell().start(node("n1", 8))
    spans = [(r.CardSpan(pod, 1),) for pod in range(2)]
    told = [
        r.PodAdopted(
            cell.now_ns, "", None, "a", "w", "q", "u", "", 0, pod, 1, "n1", spans[pod],
            0, 0, 0, 0, cell.now_ns - SECOND, 0,
        )
        for pod in range(2)
    ]  # fmt: skip
    cell.put(*told)
    cell.succeeded("a", 0)
    assert said(cell.put(told[0])) == ["REJECT a POD_EXISTS"]
    assert node_of(cell, "n1").free_count == 7


# ---- positions on Kafka -------------------------------------------------------------------------


def sent(record: r.Record, offset: int, index: int = 0, partition: int = 0) -> r.Record:
    """The record as it came from a place of a topic."""
    source = r.Source("topic", partition, offset, index)
    return msgspec.structs.replace(record, source=source)


def test_an_input_appended_twice_is_taken_once() -> None:
    cell = Cell().start(node("n1", 1))
    cell.put(sent(submission("a"), 5), sent(submission("b"), 5, 1))
    made = cell.put(sent(submission("a"), 5), sent(submission("b"), 5, 1), sent(submission("c"), 4))
    assert made == []  # not even a rejection
    assert sorted(cell.state.job_by_key) == ["a", "b"]
    cell.put(sent(submission("d"), 0, partition=1), sent(submission("e"), 6))
    assert sorted(cell.state.job_by_key) == ["a", "b", "d", "e"]
    assert cell.state.sources == {("topic", 0): (6, 0), ("topic", 1): (0, 0)}


# ---- event ids ----------------------------------------------------------------------------------


def test_a_request_repeated_within_the_window_is_no_request() -> None:
    cell = Cell().start(node("n1", 8), rules=policy(settings={"event_id_ns": str(10 * SECOND)}))
    cell.tick()
    cell.submit("a", event_id="e1")
    assert cell.submit("other", event_id="e1") == []
    assert "other" not in cell.state.job_by_key
    cell.tick(9)
    assert cell.submit("a", event_id="e1") == []
    cell.tick(1)
    assert said(cell.submit("a", event_id="e1")) == ["REJECT a JOB_EXISTS"]


def test_a_refused_request_repeated_is_not_refused_twice() -> None:
    cell = Cell().start(node("n1"))
    assert said(cell.submit("a", queue="none", event_id="e")) == ["REJECT a QUEUE_UNKNOWN"]
    cell.put(queue("none"))
    assert cell.submit("a", queue="none", event_id="e") == []


def test_requests_without_an_id_are_all_taken() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("a")
    assert said(cell.submit("a")) == ["REJECT a JOB_EXISTS"]


def test_only_so_many_ids_are_remembered_the_oldest_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passing, "EVENT_IDS_MAX", 3)
    cell = Cell().start(node("n1"))
    for number in range(5):
        cell.submit(f"j{number}", event_id=f"e{number}")
    cell.tick()
    assert list(cell.state.event_ids) == ["e2", "e3", "e4"]
    assert said(cell.submit("j0", event_id="e0")) == ["REJECT j0 JOB_EXISTS"]
    assert cell.submit("j4", event_id="e4") == []


# ---- order --------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 1])
def test_a_record_out_of_its_turn_is_refused_and_changes_nothing(offset: int) -> None:
    cell = Cell().start(node("n1"))
    due = cell.state.next_seq
    digest = cell.digest
    with pytest.raises(OutOfOrder, match=f"record {due} is due"):
        step(cell.state, due + offset, submission("j"))
    assert cell.digest == digest


def test_a_heartbeat_is_no_record_of_a_ledger() -> None:
    cell = Cell().start(node("n1"))
    digest = cell.digest
    with pytest.raises(KeyError):
        step(cell.state, cell.state.next_seq, r.NodeHeartbeat(0, "", None, ()))
    assert cell.digest == digest
    assert places(cell.tick()) == []

"""Attempts that stop and go on: what they hold at each step, and what may come between."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import Phase
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.decide import Cause
from ganger.streams.kernel.digest import recompute
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.jobs import suspension
from ganger.streams.kernel.jobs.attempts import detach, settle
from ganger.streams.kernel.jobs.lines import step_out
from ganger.streams.kernel.preemption.evictions import evict
from ganger.streams.presets.loader import load_policy
from support.builders import GENESIS, SECOND, Cell, node, placed, policy, role, submission
from support.decision_lines import drain, give_back, job_of, lose, node_of, phase_of, queue_of, said

FOR_HEAD = Cause(Reason.MAIN_NEEDS_CARDS, 2000, 0, for_job="head")
FULL = {"cards": 2, "cpu": 1000, "memory": 64, "resources": [("nic", 1)]}


def told(cell: Cell, decide: object) -> list[Decision]:
    """What an operation of a cycle said; the state is checked after it."""
    assert callable(decide)
    decide()
    made, cell.state.outbox = cell.state.outbox, []
    invariants.check(cell.state)
    assert recompute(cell.state) == cell.digest
    return made


def pod_of(cell: Cell, pod: int = 0) -> tuple[Job, Pod]:
    """Job `j` and a live attempt of it."""
    job = job_of(cell, "j")
    assert job.pods is not None
    return job, job.pods[pod]


def stop(cell: Cell, pod: int = 0) -> list[str]:
    """Tell a pod of `j` to suspend."""

    def decide() -> None:
        job, attempt = pod_of(cell, pod)
        step_out(cell.state, job)
        suspension.tell(cell.state, job, attempt, FOR_HEAD)
        settle(cell.state, job)

    return [d.kind.name for d in told(cell, decide)]


def go_on(cell: Cell, mask: int = 3, pod: int = 0) -> list[Decision]:
    """Tell a pod of `j` to resume on these cards."""

    def decide() -> None:
        job, attempt = pod_of(cell, pod)
        step_out(cell.state, job)
        suspension.resume(cell.state, job, attempt, mask, Cause(Reason.RESUMED, 5))
        settle(cell.state, job)

    return told(cell, decide)


def has_stopped(cell: Cell, pod: int = 0, progress: int = 250) -> list[str]:
    """An attempt says that it has stopped."""
    return said(cell.put(r.PodSuspended(cell.now_ns, "", None, "j", pod, 1, progress, 0)))


def runs_again(cell: Cell, pod: int = 0) -> list[str]:
    """An attempt says that it goes on."""
    return said(cell.put(r.PodResumed(cell.now_ns, "", None, "j", pod, 1, 0)))


def running(replicas: int = 1, **asks: object) -> Cell:
    """Job `j`, which may be suspended, runs on n1."""
    rules = replace(
        load_policy("xirang"), settings=(r.Argument("start_timeout_ns", str(60 * SECOND)),)
    )
    cell = Cell().start(node("n1", 4, resources=[("nic", 4)]), rules=rules)
    request = submission("j", role(replicas=replicas, **(asks or FULL)))
    cell.put(replace(request, accepts_suspend=True, can_checkpoint=True))
    cell.tick()
    for pod in range(replicas):
        cell.started("j", pod)
    return cell


def held(cell: Cell) -> tuple[int, int, int, int, int]:
    """What n1 has left: cards, cpu, memory, slots, nics; and nobody counts otherwise."""
    n1 = node_of(cell, "n1")
    used = queue_of(cell, "q").used
    assert used[0] == 1000 * (4 - n1.free_count)
    assert used[2] == (1 << 20) - n1.free_memory
    nic = cell.state.table.index["nic"]
    return n1.free_count, n1.free_cpu, n1.free_memory, n1.free_slots, n1.free_extra[nic]


RUNS = (2, 63_000, (1 << 20) - 64, 109, 3)
RESTS = (4, 64_000, (1 << 20) - 64, 109, 4)


def test_a_suspended_attempt_keeps_its_host_memory_and_slot_alone() -> None:
    cell = running()
    assert held(cell) == RUNS
    cell.tick(9)
    assert stop(cell) == ["SUSPEND"]
    assert held(cell) == RUNS  # until it says so
    assert (phase_of(cell, "j"), pod_of(cell)[1].phase) == (Phase.RUNNING, Phase.RELEASING)
    cell.tick(1)
    assert has_stopped(cell) == []
    assert held(cell) == RESTS
    assert (phase_of(cell, "j"), pod_of(cell)[1].phase) == (Phase.SUSPENDED, Phase.SUSPENDED)
    pod = pod_of(cell)[1]
    assert (pod.ran_ns, pod.checkpoint_milli, pod.mask) == (10 * SECOND, 250, 0)
    cell.tick(100, cycle=False)
    (order,) = go_on(cell, 0b1100)
    assert [(s.first, s.count) for s in order.cards] == [(2, 2)]
    assert (order.kind.name, order.reason.name, order.asked) == ("RESUME", "RESUMED", 5)
    assert held(cell) == RUNS
    assert (phase_of(cell, "j"), pod_of(cell)[1].phase) == (Phase.ALLOCATED, Phase.ALLOCATED)
    cell.started("j")  # told twice, late: of its first start
    assert phase_of(cell, "j") is Phase.ALLOCATED
    assert runs_again(cell) == []
    assert (phase_of(cell, "j"), pod_of(cell)[1].started_ns) == (Phase.RUNNING, cell.now_ns)
    assert said(cell.succeeded("j")) == ["FINISH j ALL_PODS_SUCCEEDED"]
    assert held(cell) == (4, 64_000, 1 << 20, 110, 4)


@pytest.mark.parametrize("step", ["told", "stopped", "going on"])
def test_a_snapshot_at_every_step(step: str) -> None:
    cell = running()
    stop(cell)
    if step != "told":
        has_stopped(cell)
    if step == "going on":
        go_on(cell)
    before = cell.digest
    cell.state = snapshot.fork(cell.state)
    assert cell.digest == before
    assert held(cell) == (RESTS if step == "stopped" else RUNS)
    if step == "told":
        has_stopped(cell)
    if step != "going on":
        go_on(cell)
    runs_again(cell)
    assert phase_of(cell, "j") is Phase.RUNNING
    assert said(cell.tick(1000)) == []


def test_what_comes_twice_or_untold_changes_nothing() -> None:
    cell = running()
    assert has_stopped(cell) == [] == runs_again(cell)
    assert pod_of(cell)[1].phase is Phase.RUNNING
    stop(cell)
    assert runs_again(cell) == []
    has_stopped(cell)
    ran = pod_of(cell)[1].ran_ns
    cell.tick(5, cycle=False)
    assert has_stopped(cell) == [] == runs_again(cell)
    assert (pod_of(cell)[1].phase, pod_of(cell)[1].ran_ns) == (Phase.SUSPENDED, ran)


def test_a_share_of_a_card_comes_and_goes() -> None:
    cell = running(milli=300)
    assert node_of(cell, "n1").shared == {0: (700, 81_920)}
    stop(cell)
    has_stopped(cell)
    assert node_of(cell, "n1").shared == {}
    go_on(cell, 0b10)
    assert node_of(cell, "n1").shared == {1: (700, 81_920)}
    runs_again(cell)
    cell.cancel("j")
    cell.released("j")
    assert node_of(cell, "n1").free_count == 4


def test_a_job_is_suspended_when_the_last_of_its_pods_is() -> None:
    cell = running(2, cards=1)
    stop(cell, 0)
    has_stopped(cell, 0)
    assert phase_of(cell, "j") is Phase.RUNNING
    stop(cell, 1)
    has_stopped(cell, 1)
    assert phase_of(cell, "j") is Phase.SUSPENDED
    go_on(cell, 1, 1)
    assert phase_of(cell, "j") is Phase.ALLOCATED
    runs_again(cell, 1)
    assert phase_of(cell, "j") is Phase.RUNNING


@pytest.mark.parametrize("step", ["told", "stopped"])
def test_a_job_that_is_cancelled_ends_its_suspended_pods(step: str) -> None:
    cell = running()
    stop(cell)
    if step == "stopped":
        has_stopped(cell)
    assert said(cell.cancel("j")) == ["EVICT j/0#1@n1 CANCEL_REQUESTED"]
    assert has_stopped(cell) == []  # too late
    assert said(cell.released("j")) == ["FINISH j CANCEL_REQUESTED"]
    assert held(cell) == (4, 64_000, 1 << 20, 110, 4)


@pytest.mark.parametrize("step", ["told", "stopped"])
def test_a_drained_and_a_lost_node(step: str) -> None:
    cell = running()
    stop(cell)
    if step == "stopped":
        has_stopped(cell)
    assert said(drain(cell, "n1")) == ["EVICT j/0#1@n1 NODE_DRAINED"]
    cell = running()
    stop(cell)
    if step == "stopped":
        has_stopped(cell)
    assert said(lose(cell, "n1")) == ["EVICT j/0#1@n1 NODE_LOST"]
    assert phase_of(cell, "j") is Phase.INQUEUE
    cell.put(node("n2", 4, resources=[("nic", 4)]))
    assert placed(cell.tick()) == [("j", 0, 2, "n2")]
    give_back(cell, "n1", 4, resources=[("nic", 4)], handled=cell.state.next_seq - 1)
    assert node_of(cell, "n1").free_slots == 110


def test_a_suspended_pod_goes_on_elsewhere_at_once() -> None:
    cell = running()
    stop(cell)
    has_stopped(cell)
    cell.put(node("n2", 4, resources=[("nic", 4)]))

    def move() -> None:
        job, pod = pod_of(cell)
        step_out(cell.state, job)
        evict(cell.state, job, pod, Reason.MOVED)
        detach(cell.state, job, pod)
        settle(cell.state, job)

    assert said(told(cell, move)) == ["EVICT j/0#1@n1 MOVED"]
    assert [where for *_, where in placed(cell.tick())] in (["n1"], ["n2"])
    assert pod_of(cell)[1].attempt == 2
    cell.released("j", 0, 1)
    assert sum(node_of(cell, name).free_slots for name in ("n1", "n2")) == 219


def test_a_suspended_attempt_may_fail_and_is_tried_again() -> None:
    cell = running()
    stop(cell)
    has_stopped(cell)
    assert said(cell.failed("j")) == ["FINISH j RETRY_LIMIT"]
    assert held(cell) == (4, 64_000, 1 << 20, 110, 4)


def test_an_attempt_that_does_not_go_on_in_time_is_evicted() -> None:
    cell = running()
    stop(cell)
    has_stopped(cell)
    cell.tick(500, cycle=False)
    go_on(cell)
    assert said(cell.tick(59)) == []
    assert said(cell.tick(1)) == ["EVICT j/0#1@n1 START_TIMEOUT"]


@pytest.mark.parametrize("step", ["told", "stopped"])
def test_under_a_policy_that_lets_nobody_go_on_its_pod_is_placed_anew(step: str) -> None:
    """Else it would rest for ever."""
    cell = running()
    stop(cell)
    if step == "stopped":
        has_stopped(cell)
    made = cell.put(policy(time_ns=GENESIS))
    if step == "told":
        assert not made
        made = cell.put(r.PodSuspended(cell.now_ns, "", None, "j", 0, 1, 250, 0))
    assert said(made) == ["EVICT j/0#1@n1 RESUMED"]
    assert placed(cell.tick()) == [("j", 0, 2, "n1")]
    cell.released("j")
    cell.started("j", 0, 2)
    assert (phase_of(cell, "j"), held(cell)) == (Phase.RUNNING, RUNS)


def test_who_may_be_suspended() -> None:
    cell = running()
    job, pod = pod_of(cell)
    assert suspension.may_suspend(job, pod)
    job.request = replace(job.request, can_checkpoint=False)
    assert not suspension.may_suspend(job, pod)

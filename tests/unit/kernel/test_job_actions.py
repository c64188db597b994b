"""What jobs say is to follow from events of their pods; pods a job can do without."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import FailureKind, JobAction, Phase, PodEvent
from ganger.streams.kernel import snapshot
from support.builders import SECOND, Cell, node, placed, policy, role, submission
from support.decision_lines import drain, give_back, job_of, lose, phase_of, said

E = PodEvent
A = JobAction


def on(
    event: PodEvent, action: JobAction, *codes: int, of: str = "", after_s: int = 0
) -> r.EventAction:
    """When `event` meets a pod (of a role, with one of these exit codes), `action` follows."""
    return r.EventAction(event, codes, of, action, after_s * SECOND)


def submit(cell: Cell, *actions: r.EventAction, **facts: object) -> list[Decision]:
    """Job `j`: a leader, pod 0, and two workers, pods 1 and 3, each with one card."""
    request = submission(
        "j",
        role("leader", cards=1),
        role("worker", replicas=2, cards=1),
        time_ns=cell.now_ns,
    )
    return cell.put(replace(request, actions=actions, **facts))  # type: ignore[arg-type]


def running(*actions: r.EventAction, **facts: object) -> Cell:
    """The three pods of `j` run on n1."""
    cell = Cell().start(node("n1", 8))
    submit(cell, *actions, **facts)
    cell.tick()
    for pod in (0, 1, 3):
        cell.started("j", pod)
    return cell


def fail(cell: Cell, pod: int, code: int = 1, attempt: int = 1) -> list[str]:
    """An attempt fails with an exit code."""
    record = r.PodFailed(
        cell.now_ns, "", None, "j", pod, attempt, FailureKind.ERROR, code, "", cell.now_ns
    )
    return said(cell.put(record))


@pytest.mark.parametrize(
    ("actions", "pod", "code", "answer"),
    [
        ((), 1, 1, ["FINISH j RETRY_LIMIT"]),
        ([on(E.FAILED, A.RESTART_POD)], 1, 1, ["FINISH j RETRY_LIMIT"]),  # retries are none
        ([on(E.FAILED, A.RESTART_JOB)], 1, 1, ["j/0", "j/3"]),
        ([on(E.FAILED, A.RESTART_ROLE)], 1, 1, ["j/3"]),
        ([on(E.FAILED, A.RESTART_ROLE)], 0, 1, []),
        ([on(E.FAILED, A.RESTART_GROUP)], 1, 1, ["j/3"]),  # of no group: the role
        ([on(E.FAILED, A.RESTART_JOB, 137)], 1, 1, ["FINISH j RETRY_LIMIT"]),
        ([on(E.FAILED, A.RESTART_JOB, 137, 143)], 1, 143, ["j/0", "j/3"]),
        ([on(E.FAILED, A.RESTART_JOB, of="leader")], 1, 1, ["FINISH j RETRY_LIMIT"]),
        # the role's before the job's, though it stands later
        ([on(E.FAILED, A.RESTART_JOB), on(E.FAILED, A.RESTART_ROLE, of="worker")], 1, 1, ["j/3"]),
        ([on(E.FAILED, A.RESTART_JOB, 1), on(E.FAILED, A.RESTART_ROLE)], 1, 2, ["j/3"]),
        ([on(E.EVICTED, A.RESTART_JOB)], 1, 1, ["FINISH j RETRY_LIMIT"]),
    ],
)
def test_which_action_follows_a_failure(
    actions: list[r.EventAction], pod: int, code: int, answer: list[str]
) -> None:
    cell = running(*actions)
    lines = fail(cell, pod, code)
    told = [f"{line.split()[1].split('#')[0]}" for line in lines if line.startswith("EVICT")]
    if answer and answer[0].startswith("FINISH"):
        for other in (0, 1, 3):
            lines += said(cell.released("j", other))
        assert lines[-1:] == answer
        return
    assert told == answer
    assert all(line.endswith("JOB_RESTARTED") for line in lines)
    assert job_of(cell, "j").restarts == 1
    assert job_of(cell, "j").failures is None


def test_pods_start_anew_together_once_the_last_has_left() -> None:
    cell = running(on(E.FAILED, A.RESTART_JOB), roles=(role(replicas=3, minimum=1, cards=1),))
    cell.tick()
    job = job_of(cell, "j")
    cell.succeeded("j", 0)
    fail(cell, 1)
    assert placed(cell.tick()) == []  # pod 2 has not left
    assert [(role.fresh, role.returned, role.succeeded) for role in job.roles] == [(3, [0, 1], 0)]
    cell.released("j", 2)
    assert sorted(placed(cell.tick())) == [(("j"), pod, 2, "n1") for pod in (0, 1, 2)]


def test_a_group_restarts_without_the_others() -> None:
    roles = tuple(
        replace(role(name, cards=1), group=group)
        for name, group in (("a", "g"), ("b", "g"), ("c", ""))
    )
    cell = running(on(E.FAILED, A.RESTART_GROUP), roles=roles, groups=(r.PodGroup("g"),))
    assert fail(cell, 0) == ["EVICT j/1#1@n1 JOB_RESTARTED"]


def test_restarts_are_bounded_and_wait_longer_each_time() -> None:
    retry = r.RetryPolicy(0, 10 * SECOND, 15 * SECOND)
    cell = Cell().start(node("n1"))
    request = submission("j")
    restart = (on(E.FAILED, A.RESTART_JOB),)
    cell.put(replace(request, actions=restart, restarts_max=2, retry=retry))
    cell.tick()
    for attempt, wait in ((1, 10), (2, 15)):
        assert fail(cell, 0, attempt=attempt) == []
        assert placed(cell.tick(wait - 1)) == []
        assert placed(cell.tick(1)) == [("j", 0, attempt + 1, "n1")]
    (end,) = [d for d in cell.failed("j", 0, 3) if d.job == "j"]
    assert (end.reason.name, end.asked, end.limit) == ("RETRY_LIMIT", 3, 2)
    assert phase_of(cell, "j") is Phase.FAILED


@pytest.mark.parametrize(
    ("action", "reason", "phase"),
    [(A.TERMINATE_JOB, "ACTION_OF_JOB", Phase.FAILED),
     (A.COMPLETE_JOB, "ACTION_OF_JOB", Phase.SUCCEEDED)],
)  # fmt: skip
def test_a_role_that_has_succeeded_ends_the_job(
    action: JobAction, reason: str, phase: Phase
) -> None:
    cell = running(on(E.SUCCEEDED, action, of="worker"))
    assert said(cell.succeeded("j", 1)) == []  # pod 3 still runs
    assert said(cell.succeeded("j", 3)) == [f"EVICT j/0#1@n1 {reason}"]
    assert said(cell.released("j", 0)) == [f"FINISH j {reason}"]
    assert phase_of(cell, "j") is phase


def test_an_aborted_job_waits_until_it_is_released() -> None:
    cell = running(on(E.FAILED, A.ABORT_JOB))
    assert len(fail(cell, 0)) == 2
    for pod in (1, 3):
        cell.released("j", pod)
    assert placed(cell.tick(1000)) == []
    assert phase_of(cell, "j") is Phase.INQUEUE
    cell.update("j", held=False)
    assert len(placed(cell.tick())) == 3


def test_an_aborted_job_resumes_by_itself_after_a_while() -> None:
    actions = (on(E.FAILED, A.ABORT_JOB), on(E.JOB_PENDING, A.RESUME_JOB, after_s=100))
    cell = running(*actions)
    fail(cell, 0)
    cell.tick(50)
    for pod in (1, 3):
        cell.released("j", pod)  # only now does it wait
    assert placed(cell.tick(99)) == []
    cell.state = snapshot.fork(cell.state)
    assert len(placed(cell.tick(1))) == 3
    assert said(cell.tick(500)) == []


@pytest.mark.parametrize("held", [False, True])
def test_a_job_that_waits_too_long_ends_unless_it_is_held(held: bool) -> None:
    cell = Cell().start(node("n1", 1))
    submit(cell, on(E.JOB_PENDING, A.TERMINATE_JOB, after_s=60), held=held)
    assert said(cell.tick(59)) == []
    cell.state = snapshot.fork(cell.state)
    assert said(cell.tick(1)) == ([] if held else ["FINISH j ACTION_OF_JOB"])
    if held:
        cell.update("j", held=False)
        assert said(cell.tick(59)) == []
        assert said(cell.tick(1)) == ["FINISH j ACTION_OF_JOB"]


def test_a_job_that_was_placed_waits_no_more() -> None:
    cell = Cell().start(node("n1", 8))
    submit(cell, on(E.JOB_PENDING, A.TERMINATE_JOB, after_s=60))
    cell.tick()
    assert said(cell.tick(100)) == []


def test_a_lost_node_is_out_of_sync_and_a_drained_one_evicts() -> None:
    cell = running(on(E.OUT_OF_SYNC, A.TERMINATE_JOB))
    assert said(lose(cell, "n1"))[-1] == "FINISH j ACTION_OF_JOB"
    give_back(cell, "n1", 8)
    cell = running(on(E.EVICTED, A.RESTART_JOB), on(E.OUT_OF_SYNC, A.TERMINATE_JOB))
    assert len(said(drain(cell, "n1"))) == 3
    assert said(cell.released("j", 0)) == []  # the others have been told to end
    assert job_of(cell, "j").restarts == 1


def test_pods_evicted_together_restart_the_job_once_and_are_all_waited_for() -> None:
    cell = running(on(E.EVICTED, A.RESTART_JOB), roles=(role(replicas=3, minimum=1, cards=1),))
    cell.tick()
    drain(cell, "n1")
    cell.put(node("n2", 8))
    for pod in (2, 0):
        assert said(cell.released("j", pod)) == []
        assert placed(cell.tick()) == []
    cell.state = snapshot.fork(cell.state)
    assert said(cell.released("j", 1)) == []
    assert job_of(cell, "j").restarts == 1
    assert len(placed(cell.tick())) == 3


def test_an_attempt_that_is_not_reported_running_in_time() -> None:
    rules = policy(settings={"start_timeout_ns": str(60 * SECOND)})
    cell = Cell().start(node("n1", 8), rules=rules)
    submit(cell, on(E.TIMED_OUT, A.RESTART_JOB))
    cell.tick()
    cell.started("j", 0)
    cell.started("j", 1)
    assert said(cell.tick(60)) == [
        "EVICT j/3#1@n1 START_TIMEOUT",
        "EVICT j/0#1@n1 JOB_RESTARTED",
        "EVICT j/1#1@n1 JOB_RESTARTED",
    ]


# ---- deactivation -------------------------------------------------------------------------------


def change(cell: Cell, **facts: object) -> list[str]:
    """Ask for a change of `j`."""
    record = r.JobUpdateRequested(cell.now_ns, "", None, "j", "me", None, None, ())
    return said(cell.put(replace(record, **facts)))  # type: ignore[arg-type]


def test_a_deactivated_job_is_evicted_and_waits_until_it_is_active_again() -> None:
    cell = running()
    assert change(cell, deactivated=True) == [f"EVICT j/{pod}#1@n1 HELD" for pod in (0, 1, 3)]
    for pod in (0, 1, 3):
        cell.released("j", pod)
    assert placed(cell.tick(100)) == []
    assert change(cell, deactivated=False) == []
    assert len(placed(cell.tick())) == 3


def test_activation_does_not_release_a_job_that_its_owner_holds() -> None:
    cell = Cell().start(node("n1", 8))
    submit(cell, held=True)
    assert change(cell, deactivated=False) == []
    assert placed(cell.tick()) == []


def test_wishes_change_and_survive_a_snapshot() -> None:
    cell = running()
    assert change(cell, runtime_estimate_ns=5, time_limit_ns=-1) == ["REJECT j VALUE_OUT_OF_RANGE"]
    assert job_of(cell, "j").wishes == ()
    assert change(cell, runtime_estimate_ns=5) == []
    assert change(cell, time_limit_ns=7) == []
    job = job_of(cell, "j")
    assert (job.request.runtime_estimate_ns, job.request.time_limit_ns) == (5, 7)
    again = snapshot.fork(cell.state).jobs[job.seq]
    assert (again.wishes, again.request) == (job.wishes, job.request)


# ---- enough successes ---------------------------------------------------------------------------


def enough(least: int, minimum: int = 0, retries: int = 0) -> Cell:
    """Job `j`: four pods run, `least` must succeed and `minimum` run together."""
    cell = Cell().start(node("n1", 8))
    request = submission("j", role(replicas=4, minimum=minimum, cards=1), retries=retries)
    cell.put(replace(request, min_success=least))
    cell.tick()
    return cell


def test_a_job_succeeds_with_enough_of_its_pods() -> None:
    cell = enough(2)
    assert said(cell.succeeded("j", 3)) == []
    assert said(cell.succeeded("j", 1)) == [
        "EVICT j/0#1@n1 MIN_SUCCESS", "EVICT j/2#1@n1 MIN_SUCCESS",
    ]  # fmt: skip
    cell.released("j", 0)
    assert said(cell.succeeded("j", 2)) == ["FINISH j MIN_SUCCESS"]
    assert phase_of(cell, "j") is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("least", "minimum", "failures"),
    [(2, 0, 2), (1, 0, 3), (4, 0, 0), (1, 3, 1), (0, 0, 0)],
)
def test_how_many_pods_a_job_can_do_without(least: int, minimum: int, failures: int) -> None:
    cell = enough(least, minimum)
    for pod in range(failures):
        assert said(cell.failed("j", pod)) == []
        assert placed(cell.tick()) == []  # not tried again
    told = said(cell.failed("j", failures))
    for pod in range(failures + 1, 4):
        told += said(cell.released("j", pod))
    assert told[-1] == "FINISH j RETRY_LIMIT"


def test_a_pod_is_given_up_only_after_its_retries() -> None:
    cell = enough(3, retries=1)
    assert said(cell.failed("j", 0)) == []
    assert placed(cell.tick()) == [("j", 0, 2, "n1")]
    assert said(cell.failed("j", 0, 2)) == []
    assert placed(cell.tick()) == []
    cell.update("j", scale=[("worker", 4, 0)])
    for pod in (1, 2):
        cell.succeeded("j", pod)
    assert said(cell.succeeded("j", 3)) == ["FINISH j MIN_SUCCESS"]

"""Pods that ran before ganger came: of jobs that were submitted, bound or leaving, with flavors."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import Phase, Tier
from ganger.streams.kernel import snapshot
from support.builders import SECOND, Cell, node, placed, policy, role
from support.decision_lines import job_of, node_of, phase_of, queue_of, said

BOUND = policy(settings={"start_timeout_ns": str(60 * SECOND)})


def told(cell: Cell, job: str = "a", pod: int = 0, **facts: object) -> r.PodAdopted:
    """An adoption of one card of n1, the first by default, running since a second."""
    record = r.PodAdopted(
        cell.now_ns, "", None, job, "worker", "q", "u", "", 0, pod, 1, "n1", (r.CardSpan(pod, 1),),
        0, 0, 0, 0, cell.now_ns - SECOND, 0,
    )  # fmt: skip
    return replace(record, **facts)  # type: ignore[arg-type]


def gang(cell: Cell) -> None:
    """Job `a`: one leader with two cards, three workers with one; none placed."""
    leader = role("leader", replicas=1, cards=2, cpu=1000)
    cell.submit("a", leader, role("worker", replicas=3, cards=1, resources=[("nic", 1)]))


@pytest.mark.parametrize(
    ("pod", "facts", "answer"),
    [
        (0, {"role": "leader", "cards": (r.CardSpan(0, 2),), "cpu_milli": 1000}, []),
        (1, {"resources": (r.Amount("nic", 1),)}, []),
        (5, {"resources": (r.Amount("nic", 1),)}, []),
        (1, {}, ["REJECT a ROLE_UNKNOWN"]),  # a worker has a nic
        (0, {"resources": (r.Amount("nic", 1),)}, ["REJECT a ROLE_UNKNOWN"]),  # pod 0 is the leader
        (1, {"role": "leader", "cards": (r.CardSpan(0, 2),), "cpu_milli": 1000},
         ["REJECT a ROLE_UNKNOWN"]),
        (7, {"resources": (r.Amount("nic", 1),)}, ["REJECT a VALUE_OUT_OF_RANGE"]),
        (1, {"resources": (r.Amount("nic", 1),), "labels": (r.Label("a", ""), r.Label("a", ""))},
         ["REJECT a NAMES_REPEATED"]),
        (1, {"resources": (r.Amount("nic", 1), r.Amount("nic", 1))},
         ["REJECT a VALUE_OUT_OF_RANGE"]),
        (1, {"resources": (r.Amount("nic", 1),), "time_limit_ns": -1},
         ["REJECT a VALUE_OUT_OF_RANGE"]),
        (1, {"resources": (r.Amount("nic", 1),), "flavors": (r.FlavorChoice("worker", "x", "f"),)},
         ["REJECT a FLAVOR_UNKNOWN"]),
        (1, {"resources": (r.Amount("nic", 1),), "flavors": (r.FlavorChoice("leader", "x", "f"),)},
         ["REJECT a ROLE_UNKNOWN"]),
    ],
)  # fmt: skip
def test_a_pod_of_a_job_that_was_submitted(
    pod: int, facts: dict[str, object], answer: list[str]
) -> None:
    cell = Cell().start(node("n1", 8, resources=[("nic", 8)]))
    gang(cell)
    digest = job_of(cell, "a").phase, node_of(cell, "n1").free_count
    assert said(cell.put(told(cell, pod=pod, **facts))) == answer
    if answer:
        assert (job_of(cell, "a").phase, node_of(cell, "n1").free_count) == digest
    else:
        assert phase_of(cell, "a") is Phase.RUNNING
        assert list(job_of(cell, "a").pods or {}) == [pod]


def test_the_rest_of_a_submitted_job_is_placed_beside_its_adopted_pods() -> None:
    cell = Cell().start(node("n1", 8, resources=[("nic", 8)]))
    gang(cell)
    nic = (r.Amount("nic", 1),)
    cell.put(told(cell, pod=3, resources=nic))
    assert [(r.replicas, r.fresh, r.returned) for r in job_of(cell, "a").roles] == [
        (1, 0, None),
        (3, 2, [0]),
    ]
    assert sorted(placed(cell.tick())) == [
        ("a", 0, 1, "n1"), ("a", 1, 1, "n1"), ("a", 5, 1, "n1"),
    ]  # fmt: skip
    for pod in (0, 1, 3, 5):
        cell.succeeded("a", pod)
    assert phase_of(cell, "a") is Phase.SUCCEEDED


def test_a_bound_pod_is_allocated_until_it_is_reported_running() -> None:
    cell = Cell().start(node("n1"), rules=BOUND)
    cell.put(told(cell, started_ns=0))
    assert phase_of(cell, "a") is Phase.ALLOCATED
    cell.put(told(cell, pod=1, started_ns=0))
    cell.started("a", 0)
    assert phase_of(cell, "a") is Phase.RUNNING
    assert said(cell.tick(60)) == ["EVICT a/1#1@n1 START_TIMEOUT"]


def test_a_running_pod_takes_a_bound_job_along() -> None:
    cell = Cell().start(node("n1"))
    cell.put(told(cell, started_ns=0), told(cell, pod=1), told(cell, pod=2, started_ns=0))
    assert phase_of(cell, "a") is Phase.RUNNING
    assert [p.phase for p in (job_of(cell, "a").pods or {}).values()] == [
        Phase.ALLOCATED, Phase.RUNNING, Phase.ALLOCATED,
    ]  # fmt: skip


def test_a_bound_pod_that_ended_is_not_adopted_again() -> None:
    cell = Cell().start(node("n1"))
    record = told(cell, started_ns=0)
    cell.put(record, told(cell, pod=1, started_ns=0))
    cell.succeeded("a", 0)
    assert said(cell.put(record)) == ["REJECT a POD_EXISTS"]


def test_a_leaving_pod_holds_its_cards_until_it_is_released() -> None:
    cell = Cell().start(node("n1", 2))
    cell.put(told(cell, is_leaving=True))
    assert (job_of(cell, "a").pods or {})[0].phase is Phase.RELEASING
    cell.submit("b", role(cards=2))
    assert placed(cell.tick()) == []
    cell.cancel("a")
    cell.released("a")
    assert phase_of(cell, "a") is Phase.CANCELLED
    assert placed(cell.tick()) == [("b", 0, 1, "n1")]


def test_a_leaving_pod_is_placed_again_elsewhere_once_it_has_gone() -> None:
    cell = Cell().start(node("n1", 1))
    cell.put(told(cell, is_leaving=True))
    cell.released("a")
    assert phase_of(cell, "a") is Phase.INQUEUE
    assert placed(cell.tick()) == [("a", 0, 2, "n1")]


def test_tier_limit_labels_and_flavors_are_kept() -> None:
    cell = Cell().start(node("n1"))
    cell.put(r.FlavorConfigured(cell.now_ns, "", None, "f", (), (), (), False))
    cell.put(r.FlavorConfigured(cell.now_ns, "", None, "g", (), (), (), False))
    choice = r.FlavorChoice("worker", "cards_milli", "f")
    label = r.Label("app", "x")
    cell.put(
        told(
            cell,
            tier=Tier.BACKFILL,
            labels=(label,),
            flavors=(choice,),
            time_limit_ns=SECOND,
            accepts_suspend=True,
            can_checkpoint=True,
        )
    )
    cell.put(told(cell, pod=1, flavors=(r.FlavorChoice("worker", "cards_milli", "g"),)))
    job = job_of(cell, "a")
    assert job.flavors == (choice,)  # settled by the first
    assert [pod.tier for pod in (job.pods or {}).values()] == [Tier.BACKFILL, Tier.MAIN]
    assert job.shape.roles[0].labels == (label,)
    asked = job.request
    assert (asked.time_limit_ns, asked.accepts_suspend, asked.can_checkpoint) == (SECOND, 1, 1)
    again = snapshot.fork(cell.state)
    assert again.jobs[job.seq].flavors == (choice,)
    assert queue_of(cell, "q").used[0] == 2000

"""Jobs that wait for admission may take from others: they bring their own room."""

from ganger.schemas.enums import DecisionKind, Phase
from support.builders import Cell, node, policy, queue, role

K = DecisionKind
TAKING = ("enqueue", "allocate", "backfill", "reclaim", "preempt")
RULES = ("priority", "gang", "fair_share", "capability")


def full(*gate: tuple[str, dict[str, str]], limit: dict[str, int] | None = None) -> Cell:
    """Four cards, all held by queue `q`, and more of the same waiting at the gate."""
    rules = policy(*RULES, *(gate or ("overcommit",)), "pack", actions=TAKING)
    cell = Cell().start(queue("q"), queue("other", capability=limit), node("n", 4), rules=rules)
    for number in range(6):
        cell.submit(f"low-{number}")
    cell.tick()
    for number in range(4):
        cell.started(f"low-{number}")
    return cell


def kinds(cell: Cell, after_s: int = 1) -> list[tuple[DecisionKind, str]]:
    return [(one.kind, one.job) for one in cell.tick(after_s)]


def test_an_urgent_job_is_admitted_with_the_room_it_takes() -> None:
    cell = full()
    cell.submit("urgent", role(replicas=2, cards=1), priority=9)
    said = kinds(cell)
    assert said == [
        (K.EVICT, "low-3"),
        (K.EVICT, "low-2"),
        (K.CLAIM, "urgent"),
        (K.CLAIM, "urgent"),
        (K.ADMIT, "urgent"),
    ]
    for number in (2, 3):
        cell.released(f"low-{number}")
    assert (K.ALLOCATE, "urgent") in kinds(cell)


def test_a_queue_below_its_due_takes_it_back_from_behind_the_gate() -> None:
    cell = full()
    cell.submit("mine", role(replicas=2, cards=1), queue="other")
    said = kinds(cell)
    assert said.count((K.EVICT, "low-3")) == 1
    assert said[-1] == (K.ADMIT, "mine")


def test_equals_stay_where_they_are() -> None:
    cell = full()
    cell.submit("equal")
    assert kinds(cell) == []
    seq = cell.state.job_by_key["equal"]
    assert cell.state.jobs[seq].phase is Phase.PENDING


def test_a_limit_of_the_queue_keeps_a_job_at_the_gate() -> None:
    cell = full(limit={"cards_milli": 1000})
    cell.submit("mine", role(replicas=2, cards=1), queue="other")
    assert kinds(cell) == []


def test_a_gate_as_volcano_has_it_lets_nobody_take() -> None:
    cell = full(("overcommit", {"factor_milli": "1200", "into_idle": "0"}))
    cell.submit("urgent", role(replicas=2, cards=1), priority=9)
    assert kinds(cell) == []

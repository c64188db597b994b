"""Facts that few cells have: each shows in the digest, goes through snapshots and is checked."""

from collections.abc import Callable

import pytest

from ganger.schemas.reasons import Reason
from ganger.schemas.records import FlavorChoice
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.digest import recompute, seal
from ganger.streams.kernel.entities import ClaimEntry, Row, Submissions, Usage
from ganger.streams.kernel.invariants import InvariantViolation
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.state import State
from support.builders import Cell, node, role
from support.decision_lines import job_of

Change = Callable[[Cell], None]


def claim(cell: Cell) -> None:
    """Job `w` claims the cards of node n1 that `j` holds."""
    job = job_of(cell, "w")
    step_out(cell.state, job)
    claims_book.make(
        cell.state,
        job,
        (ClaimEntry(0, 0, 0b11), ClaimEntry(0, 0, 1 << 200), ClaimEntry(0, 0, 0b100, 300, 512)),
        ((job_of(cell, "j").seq, 0, 1),),
        reason=Reason.PREEMPTED,
    )


def of_job(**values: object) -> Change:
    def change(cell: Cell) -> None:
        job = job_of(cell, "j")
        for name, value in values.items():
            setattr(job, name, value)
        cell.state.touch(job)

    return change


def of_pod(name: str, value: int) -> Change:
    def change(cell: Cell) -> None:
        job = job_of(cell, "j")
        pod = (job.pods or {})[0]
        setattr(pod, name, value)
        cell.state.touch_pod(job, pod)

    return change


def of_table(name: str, key: object, make: Callable[[], Usage | Submissions | Row]) -> Change:
    def change(cell: Cell) -> None:
        entity = make()
        getattr(cell.state, name)[key] = entity
        cell.state.touch(entity)

    return change


CHANGES: dict[str, Change] = {
    "nothing": lambda cell: None,
    "right": of_job(right=(0, 0, -1, 0)),
    "flavors": of_job(flavors=(FlavorChoice("worker", "cards_milli", "a"),)),
    "counts": of_job(admitted_counts=(1,)),
    "requeues": of_job(requeues=2),
    "restarts": of_job(restarts=2),
    "stale": of_job(stale_since_ns=2),
    "protected": of_pod("protected_until_ns", 2),
    "notice": of_pod("notice_until_ns", 2),
    "claim": claim,
    "usage": of_table("usage", (0, "u"), lambda: Usage(0, "u", {7: 90, 3: 1})),
    "submissions": of_table(
        "submissions", (0, "u", "t"), lambda: Submissions(0, "u", "t", {7: 90})
    ),
    "memory": of_table("memory", "runs", lambda: Row("runs", (1, -2, 1 << 60))),
}


def cell_of(change: str, replicas: int = 1) -> Cell:
    cell = Cell().start(node("n1", 8))
    cell.submit("j", role(replicas=replicas, cards=8 // replicas))
    cell.tick()
    cell.submit("w", role(cards=2))
    CHANGES[change](cell)
    return cell


@pytest.mark.parametrize("replicas", [1, 2])
def test_every_fact_shows_in_the_digest(replicas: int) -> None:
    digests = [cell_of(change, replicas).digest for change in CHANGES]
    assert len(set(digests)) == len(CHANGES)


@pytest.mark.parametrize("change", CHANGES)
def test_every_fact_goes_through_a_snapshot(change: str) -> None:
    state = cell_of(change).state
    copy = snapshot.fork(state)
    assert snapshot.encode(copy) == snapshot.encode(state)
    assert seal(copy) == seal(state) == recompute(state)
    invariants.check(copy)
    for table in ("claims", "usage", "submissions", "memory"):
        assert len(getattr(copy, table)) == (1 if table.rstrip("s") == change else 0) or (
            table == change and len(getattr(copy, table)) == 1
        )


@pytest.mark.parametrize("change", ["usage", "submissions"])
def test_the_order_of_counts_does_not_show(change: str) -> None:
    state = cell_of(change).state
    data = snapshot.encode(state)
    for table in (state.usage, state.submissions):
        for key, entity in table.items():  # type: ignore[attr-defined]
            counts = entity.hours if isinstance(entity, Usage) else entity.minutes
            ordered = dict(reversed(counts.items()))
            counts.clear()
            counts.update(ordered)
            state.touch(entity)
            assert key
    assert snapshot.encode(state) == data


@pytest.mark.parametrize("change", ["claim", "usage", "submissions", "memory"])
def test_what_is_forgotten_leaves_no_trace(change: str) -> None:
    cell = cell_of(change)
    before = cell_of("nothing").digest
    assert cell.digest != before
    for seq in list(cell.state.claims):
        claims_book.take(cell.state, cell.state.jobs[seq])
        line_up(cell.state, cell.state.jobs[seq])
    for table in (cell.state.usage, cell.state.submissions, cell.state.memory):
        for entity in table.values():  # type: ignore[attr-defined]
            entity.is_untold = True
            cell.state.touch(entity)
        table.clear()  # type: ignore[attr-defined]
    assert cell.digest == before
    invariants.check(cell.state)


def entries(cell: Cell, *made: ClaimEntry) -> None:
    claim(cell)
    (kept,) = cell.state.claims.values()
    kept.entries = made


def drop_job(state: State) -> None:
    (kept,) = state.claims.values()
    state.claims = {999: kept}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda cell: (claim(cell), drop_job(cell.state)), "claim of 999"),
        (
            lambda cell: entries(cell, ClaimEntry(0, 0, 0b11), ClaimEntry(0, 0, 0b10)),
            "cards claimed twice of w",
        ),
        (
            lambda cell: entries(cell, ClaimEntry(0, 0, 0b1, 600), ClaimEntry(0, 0, 0b1, 500)),
            "claimed share of card of n1/0",
        ),
        (
            lambda cell: entries(cell, ClaimEntry(0, 0, 0b1, 600), ClaimEntry(0, 0, 0b1)),
            "claimed share of card of n1/0",
        ),
        (lambda cell: entries(cell, ClaimEntry(3, 0, 0b1)), "role of a claim of w"),
        (
            lambda cell: (claim(cell), setattr(cell.state.nodes[0], "claimed", 0)),
            "claimed cards of n1",
        ),
        (of_job(admitted_counts=(1, 2)), "admitted counts of j"),
        (of_table("usage", (1, "u"), lambda: Usage(0, "u")), "usage of"),
        (of_table("usage", (0, "u"), lambda: Usage(0, "u", {1: -1})), "least usage of"),
        (
            of_table("submissions", (0, "u", "t"), lambda: Submissions(0, "u", "x")),
            "submissions of",
        ),
        (of_table("memory", "a", lambda: Row("b", ())), "memory of a"),
    ],
)
def test_what_cannot_be_is_found(damage: Change, said: str) -> None:
    cell = cell_of("nothing")
    damage(cell)
    with pytest.raises(InvariantViolation, match=said):
        invariants.check(cell.state)

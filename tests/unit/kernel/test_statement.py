"""The transaction of a cycle: undo leaves no trace, commit makes all of it."""

from random import Random

import pytest

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.entities import Job, RoleState
from ganger.streams.kernel.nodes.node_index import pick_shared
from ganger.streams.kernel.nodes.statement import Statement, next_local
from support.builders import Cell, node, role
from support.decision_lines import job_of, node_of, phase_of


def waiting_cell() -> tuple[Cell, Job]:
    """Two nodes, one partly used; a job of three roles that waits."""
    cell = Cell().start(node("n1", 8, island=4, resources=[("nic", 9)]), node("n2", 4))
    cell.submit("busy", role("a", 1, cards=2), role("b", 1, milli=400))
    cell.tick()
    cell.submit(
        "j",
        role("whole", 5, 0, cards=1, cpu=100, resources=[("nic", 1)]),
        role("share", 5, 0, milli=200, card_memory=10),
        role("never", 1, cards=9),
        minimum=0,
    )
    cell.tick()
    job = job_of(cell, "j")
    return cell, job


def hold_something(cell: Cell, job: Job, statement: Statement, random: Random) -> None:
    """One operation that the free numbers allow."""
    found = random.choice(cell.state.nodes)
    assert found.kind is not None
    if random.random() < 0.5:
        shape = job.shape.shapes[1]
        card = pick_shared(found, shape, -1)
        if card >= 0:
            statement.hold_share(1, shape, found, card)
    else:
        shape = job.shape.shapes[0]
        cards = [1 << card for card in range(8) if found.free >> card & 1]
        count = random.randint(0, len(cards))
        if count:
            statement.hold(0, shape, found, tuple(random.sample(cards, count)))


def facts(cell: Cell) -> list[tuple[object, ...]]:
    """All that an operation may change."""
    kinds = cell.state.indexes.nodes.classes.values()
    lists: list[tuple[object, ...]] = [
        (
            list(kind.partial),
            kind.levels,
            {c: list(b.by_cpu) for c, b in kind.buckets.items() if b.by_cpu},
        )
        for kind in kinds
    ]
    numbers: list[tuple[object, ...]] = [
        (
            n.free,
            n.free_count,
            dict(n.shared),
            n.free_cpu,
            n.free_memory,
            n.free_slots,
            {k: v for k, v in n.free_extra.items() if v},
        )
        for n in cell.state.nodes
    ]
    return lists + numbers


@pytest.mark.parametrize("seed", range(20))
def test_any_operations_and_then_discard_leave_everything_as_it_was(seed: int) -> None:
    random = Random(seed)
    cell, job = waiting_cell()
    digest, before, data = seal(cell.state), facts(cell), snapshot.encode(cell.state)
    statement = Statement(cell.state)
    for _ in range(12):
        hold_something(cell, job, statement, random)
        if random.random() < 0.2:
            statement.rollback(random.randint(0, statement.checkpoint()))
    statement.discard()
    assert statement.operations == []
    assert (seal(cell.state), facts(cell)) == (digest, before)
    assert snapshot.encode(cell.state) == data
    invariants.check(cell.state)


@pytest.mark.parametrize("seed", range(10))
def test_rollback_goes_back_to_its_mark_exactly(seed: int) -> None:
    random = Random(seed)
    cell, job = waiting_cell()
    statement = Statement(cell.state)
    hold_something(cell, job, statement, random)
    mark, held, before = statement.checkpoint(), statement.held(), facts(cell)
    for _ in range(6):
        hold_something(cell, job, statement, random)
    statement.rollback(mark)
    assert (statement.checkpoint(), statement.held(), facts(cell)) == (mark, held, before)


def test_what_is_held_is_summed_by_resource() -> None:
    cell, job = waiting_cell()
    statement = Statement(cell.state)
    found = node_of(cell, "n1")
    free = [1 << card for card in range(8) if found.free >> card & 1]
    statement.hold(0, job.shape.shapes[0], found, tuple(free[:3]))
    statement.hold_share(1, job.shape.shapes[1], found, pick_shared(found, job.shape.shapes[1], -1))
    nic = cell.state.table.index["nic"]
    assert statement.held() == {0: 3200, 1: 300, 3: 4, nic: 3}
    statement.discard()
    assert statement.held() == {}


def test_nothing_is_said_before_commit() -> None:
    cell, job = waiting_cell()
    statement = Statement(cell.state)
    statement.hold(0, job.shape.shapes[0], node_of(cell, "n1"), (1, 2))
    assert cell.state.outbox == []
    assert job.pods is None
    cell.state.decision_index = 0
    assert statement.commit(job, DecisionKind.ALLOCATE, Tier.MAIN) == 2
    made = cell.state.outbox
    assert [(d.pod, d.attempt, d.node, d.free) for d in made] == [
        (0, 1, "n1", 8000),
        (3, 1, "n1", 7000),
    ]
    assert statement.operations == []
    assert {pod.phase for pod in (job.pods or {}).values()} == {Phase.ALLOCATED}
    assert phase_of(cell, "j") is Phase.PENDING  # the action moves the job, not the statement


def test_returned_numbers_are_given_out_before_fresh_ones() -> None:
    state = RoleState(6, fresh=4, returned=[1, 3])
    assert [next_local(state) for _ in range(4)] == [1, 3, 4, 5]
    assert state.returned is None
    assert state.pending() == 0
    with pytest.raises(AssertionError):
        next_local(state)

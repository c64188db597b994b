"""Whatever a statement did, discard leaves the cell as it was, and rollback as at the mark."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.state import State
from support.builders import Cell, node, request, role
from support.placing import place_pod

SHAPES = (
    request(1, cpu=1000),
    request(2, memory=4096),
    request(milli=300, card_memory=10_000),
    request(milli=700),
    request(cpu=3000, resources=(("nic", 1),)),
    request(),
)


def busy_cell() -> State:
    """Two kinds of nodes, some cards held whole, some shared, one failed."""
    cell = Cell().start(
        node("a", 4, cpu=16_000, resources=(("nic", 3),)),
        node("b", 8, island=4, failed=(5,), cpu=32_000),
    )
    cell.submit("whole", role(replicas=2, cards=1, cpu=500))
    cell.submit("part", role(replicas=3, milli=400, card_memory=20_000))
    cell.submit("other", role(replicas=1, cpu=100, resources=(("nic", 1),)))
    cell.submit("empty", role(replicas=2))
    cell.tick()
    cell.started("whole")
    return cell.state


def free_numbers(state: State) -> list[object]:
    """All that an operation may change, indexes included."""
    return [
        (
            n.free,
            n.free_count,
            sorted(n.shared.items()),
            n.free_cpu,
            n.free_memory,
            n.free_slots,
            sorted((place, count) for place, count in n.free_extra.items() if count),
            n.bucket is not None,
            n.keys,
            n.partial,
        )
        for n in state.nodes
    ]


operations = st.lists(st.integers(0, len(SHAPES) - 1), max_size=30)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(before=operations, after=operations)
def test_discard_and_rollback_leave_no_trace(before: list[int], after: list[int]) -> None:
    state = busy_cell()
    first, first_bytes = free_numbers(state), snapshot.encode(state)
    statement = Statement(state)
    for which in before:
        place_pod(state, statement, SHAPES[which])
    mark, at_mark = statement.checkpoint(), free_numbers(state)
    held = statement.held()
    for which in after:
        place_pod(state, statement, SHAPES[which])
    statement.rollback(mark)
    assert free_numbers(state) == at_mark
    assert statement.held() == held
    statement.discard()
    assert statement.operations == []
    assert free_numbers(state) == first
    assert snapshot.encode(state) == first_bytes
    invariants.check(state)


def test_operations_do_change_something() -> None:
    """Else the test above proves nothing."""
    state = busy_cell()
    for which in range(len(SHAPES)):
        statement, before = Statement(state), free_numbers(state)
        place_pod(state, statement, SHAPES[which])
        assert free_numbers(state) != before, SHAPES[which]
        statement.discard()

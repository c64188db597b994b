"""The node index against a walk over all nodes."""

from random import Random

import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import SelectorOperator, TaintEffect, TolerationOperator
from ganger.streams.kernel import invariants
from ganger.streams.kernel.entities import Node
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.nodes.node_index import can_hold, pick_shared, pods_on, suitable_cards
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from support.builders import Cell, node, request
from support.decision_lines import cordon, lose, say_again, uncordon

TAINT = r.Taint("t", "v", TaintEffect.NO_SCHEDULE)
BEARS = r.Toleration("t", TolerationOperator.EXISTS, "", TaintEffect.UNKNOWN)
ZONE = {z: (r.Selector("zone", SelectorOperator.IN, (z,)),) for z in "ab"}
NOT_A = (r.Selector("zone", SelectorOperator.NOT_IN, ("a",)),)
REQUESTS = [
    request(1),
    request(2),
    request(4, same_island=True),
    request(3, cpu=3000),
    request(8),
    request(cpu=2500, memory=60),
    request(1, memory=90),
    request(2, models=["B"]),
    request(1, min_card_memory=50),
    request(1, tolerations=[BEARS]),
    request(1, selectors=ZONE["a"]),
    request(2, selectors=NOT_A, cpu=100),
    request(milli=300),
    request(milli=600, card_memory=40),
    request(milli=250, selectors=ZONE["b"]),
    request(1, resources=[("nic", 2)]),
    request(),
]


def random_cell(random: Random) -> Cell:
    """A dozen nodes of a few kinds."""
    cell = Cell(checks=False).start()
    for number in range(12):
        cell.put(
            node(
                f"n{number}",
                random.choice((0, 2, 8, 8)),
                model=random.choice("AB"),
                card_memory=random.choice((40, 80)),
                island=random.choice((0, 4)),
                cpu=random.randrange(2000, 9000, 500),
                memory=random.randrange(50, 200, 10),
                slots=random.choice((2, 6, 40)),
                labels=[("zone", random.choice("abc"))],
                taints=[TAINT] if random.random() < 0.2 else [],
                resources=[("nic", 3)] if random.random() < 0.5 else [],
            )
        )
    return cell


def fits(node: Node, shape: Shape) -> bool:
    """Whether one pod may go there, asked of the node itself."""
    assert node.kind is not None
    mask = suitable_cards(shape, node.kind)
    return (
        node.is_open
        and node.free_slots > 0
        and mask >= 0
        and node.free_cpu >= shape.cpu
        and node.free_memory >= shape.memory
        and can_hold(node, shape, mask)
    )


def take(state: State, node: Node, shape: Shape, random: Random) -> None:
    """Place as many pods as a random bound allows, as the statement would."""
    assert node.kind is not None
    mask = state.indexes.nodes.cards_for(shape, node.kind)
    if shape.card_milli:
        card = pick_shared(node, shape, mask)
        assert card >= 0
        occupancy.hold_share(state, node, shape, card)
        return
    count = pods_on(node, shape, mask, random.randint(1, 3))
    assert count > 0
    union = 0
    for _ in range(count):
        union |= _chosen(node, shape, mask & ~union)
    assert union.bit_count() == count * shape.cards
    occupancy.hold(state, node, shape, union, count)


def _chosen(node: Node, shape: Shape, mask: int) -> int:
    if not shape.cards:
        return 0
    assert node.kind is not None
    return first_cards(node.free & mask, shape, node.kind.islands)


def first_cards(free: int, shape: Shape, islands: tuple[int, ...]) -> int:
    """The first cards that will do."""
    groups = islands if shape.same_island else (free,)
    for group in groups:
        cards = [card for card in range(free.bit_length()) if free & group & 1 << card]
        if len(cards) >= shape.cards:
            return sum(1 << card for card in cards[: shape.cards])
    return 0


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_a_node_is_found_if_and_only_if_one_fits_and_it_is_the_right_one(
    seed: int, spread: bool
) -> None:
    random = Random(seed)
    cell = random_cell(random)
    state = cell.state
    shapes = [state.shapes.pod(one) for one in REQUESTS]
    state.widen()
    for _ in range(120):
        shape = random.choice(shapes)
        avoid = (random.randrange(12),) if random.random() < 0.2 else ()
        good = [n for n in state.nodes if fits(n, shape) and n.index not in avoid]
        found = state.indexes.nodes.seek(shape, avoid, spread)
        assert (found is not None) == bool(good), shape.request
        if found is None:
            continue
        assert found in good
        counts = [n.free_count for n in good]
        if not shape.card_milli:
            assert found.free_count == (max(counts) if spread else min(counts))
            bound = state.indexes.nodes.room(shape, 1 << 30)
            assert not shape.cards or bound >= sum(
                pods_on(n, shape, suitable_cards(shape, n.kind), 99)
                for n in good  # type: ignore[arg-type]
            )
        if random.random() < 0.6:
            take(state, found, shape, random)


@pytest.mark.parametrize("seed", range(6))
def test_the_lists_follow_every_change_of_a_node(seed: int) -> None:
    random = Random(seed)
    cell = random_cell(random)
    for _ in range(40):
        name = f"n{random.randrange(12)}"
        kind = random.randrange(5)
        if kind == 0:
            cordon(cell, name)
        elif kind == 1:
            uncordon(cell, name)
        elif kind == 2:
            lose(cell, name)
        elif kind == 3:
            say_again(cell, name, random.choice((0, 4, 8)), slots=random.choice((0, 5)))
        else:
            say_again(cell, name, 8, failed=[random.randrange(8)], labels=[("zone", "a")])
        invariants.check(cell.state)
        labelled = cell.state.indexes.nodes.by_label.get(("zone", "a"), [])
        assert labelled == [n.index for n in cell.state.nodes if n.labels.get("zone") == "a"]


def test_packing_breaks_ties_by_cpu_then_memory_then_number() -> None:
    cell = Cell().start(
        node("n0", 2, cpu=5000, memory=70),
        node("n1", 2, cpu=4000, memory=90),
        node("n2", 2, cpu=4000, memory=80),
        node("n3", 2, cpu=4000, memory=80),
    )
    shape = cell.state.shapes.pod(request(1, cpu=1000))
    order = []
    avoid: tuple[int, ...] = ()
    while (found := cell.state.indexes.nodes.seek(shape, avoid, False)) is not None:
        order.append(found.report.node)
        avoid = (*avoid, found.index)
    assert order == ["n2", "n3", "n1", "n0"]


def test_no_nodes() -> None:
    state = Cell().start().state
    shape = state.shapes.pod(request(1))
    assert state.indexes.nodes.seek(shape, (), False) is None
    assert state.indexes.nodes.room(shape, 5) == 0


def test_a_thousandth_node_is_found_as_the_first() -> None:
    cell = Cell(checks=False).start(*(node(f"n{i}", 1) for i in range(200)), node("last", 2))
    shape = cell.state.shapes.pod(request(2))
    found = cell.state.indexes.nodes.seek(shape, (), False)
    assert found is not None
    assert found.report.node == "last"

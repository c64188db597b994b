"""Which node and which cards a pod gets."""

import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import (
    CardHealth,
    SelectorOperator,
    TaintEffect,
    TolerationOperator,
)
from support.builders import Cell, node, policy, role
from support.decision_lines import cards, cordon, node_of, places, said, say_again, started_jobs

IN, NOT_IN = SelectorOperator.IN, SelectorOperator.NOT_IN
EXISTS, NOT_EXISTS = SelectorOperator.EXISTS, SelectorOperator.NOT_EXISTS
OK = CardHealth.HEALTHY
SPREAD = policy("priority", "gang", "overcommit", "fair_share", "spread")


def goes(cell: Cell, **asks: object) -> str:
    """The node that one pod of a request goes to, or `-`."""
    cell.submit("j", role(**asks))  # type: ignore[arg-type]
    found = places(cell.tick())
    return found[0].split("@")[1] if found else "-"


@pytest.mark.parametrize(
    ("operator", "values", "node_name"),
    [
        (IN, ("b",), "n2"),
        (IN, ("x", "c"), "n3"),
        (IN, ("x",), "-"),
        (IN, (), "-"),
        (NOT_IN, ("a", "b"), "n3"),
        (NOT_IN, ("a", "b", "c"), "n4"),  # a node without the label is not in the values
        (EXISTS, (), "n1"),
        (NOT_EXISTS, (), "n4"),
        (SelectorOperator.UNKNOWN, ("a",), "-"),
    ],
)
def test_labels(operator: SelectorOperator, values: tuple[str, ...], node_name: str) -> None:
    labelled = [node(f"n{i}", 1, labels=[("zone", zone)]) for i, zone in enumerate("abc", 1)]
    cell = Cell().start(*labelled, node("n4", 1))
    assert goes(cell, cards=1, selectors=[r.Selector("zone", operator, values)]) == node_name


def test_all_selectors_must_hold() -> None:
    cell = Cell().start(
        node("n1", labels=[("a", "1")]), node("n2", labels=[("a", "1"), ("b", "2")])
    )
    both = [r.Selector("a", IN, ("1",)), r.Selector("b", IN, ("2",))]
    assert goes(cell, cards=1, selectors=both) == "n2"


def test_a_label_that_changes_is_followed() -> None:
    cell = Cell().start(node("n1", labels=[("a", "1")]))
    cell.submit("j", role(cards=1, selectors=[r.Selector("a", IN, ("2",))]))
    assert places(cell.tick()) == []
    say_again(cell, "n1", labels=[("a", "2")])
    assert places(cell.tick()) == ["j/0@n1"]


def test_selectors_find_nodes_among_many_as_among_few() -> None:
    wide = [node(f"n{i:03}", 1, labels=[("a", "1")]) for i in range(70)]
    cell = Cell(checks=False).start(*wide, node("last", 2, labels=[("a", "1"), ("b", "2")]))
    many = [r.Selector("a", IN, ("1",))]
    assert goes(cell, cards=2, selectors=many) == "last"


@pytest.mark.parametrize(
    ("effect", "toleration", "fits"),
    [
        (TaintEffect.NO_SCHEDULE, None, False),
        (TaintEffect.NO_EXECUTE, None, False),
        (TaintEffect.PREFER_NO_SCHEDULE, None, True),
        (TaintEffect.NO_SCHEDULE, ("gpu", TolerationOperator.EQUAL, "yes", 0), True),
        (TaintEffect.NO_SCHEDULE, ("gpu", TolerationOperator.EQUAL, "no", 0), False),
        (TaintEffect.NO_SCHEDULE, ("gpu", TolerationOperator.EXISTS, "", 0), True),
        (TaintEffect.NO_SCHEDULE, ("", TolerationOperator.EXISTS, "", 0), True),
        (TaintEffect.NO_SCHEDULE, ("cpu", TolerationOperator.EXISTS, "", 0), False),
        (TaintEffect.NO_SCHEDULE, ("gpu", TolerationOperator.EXISTS, "", 1), True),
        (TaintEffect.NO_EXECUTE, ("gpu", TolerationOperator.EXISTS, "", 1), False),
    ],
)
def test_taints(
    effect: TaintEffect, toleration: tuple[str, TolerationOperator, str, int] | None, fits: bool
) -> None:
    cell = Cell().start(node("n1", taints=[r.Taint("gpu", "yes", effect)]))
    bears = []
    if toleration is not None:
        key, operator, value, on = toleration
        bears = [r.Toleration(key, operator, value, TaintEffect(on))]
    assert goes(cell, cards=1, tolerations=bears) == ("n1" if fits else "-")


@pytest.mark.parametrize(
    ("asks", "node_name"),
    [
        ({"cards": 1}, "small"),
        ({"cards": 3}, "big"),
        ({"cards": 9}, "-"),
        ({"cards": 1, "cpu": 4001}, "big"),
        ({"cards": 1, "cpu": 64_001}, "-"),
        ({"cards": 1, "memory": 2049}, "big"),
        ({"cards": 1, "memory": (1 << 20) + 1}, "-"),
        ({"cards": 1, "models": ["B"]}, "big"),
        ({"cards": 1, "models": ["B", "A"]}, "small"),
        ({"cards": 1, "models": ["C"]}, "-"),
        ({"cards": 1, "min_card_memory": 40_001}, "big"),
        ({"cards": 1, "min_card_memory": 81_921}, "-"),
        ({"cards": 1, "resources": [("nic", 1)]}, "big"),
        ({"cards": 1, "resources": [("nic", 3)]}, "-"),
        ({"cpu": 1000}, "small"),
        ({"milli": 500, "card_memory": 41_000}, "big"),
        ({"milli": 500, "models": ["A"]}, "small"),
    ],
)
def test_a_pod_goes_where_all_it_asks_for_is(asks: dict[str, object], node_name: str) -> None:
    cell = Cell().start(
        node("big", 8, model="B", resources=[("nic", 2)]),
        node("small", 2, card_memory=40_000, cpu=4000, memory=2048),
    )
    assert goes(cell, **asks) == node_name


def test_named_resources_run_out_like_any_other() -> None:
    cell = Cell().start(node("n1", resources=[("nic", 3)]))
    cell.submit("j", role(replicas=4, minimum=0, cards=1, resources=[("nic", 2)]))
    assert places(cell.tick()) == ["j/0@n1"]
    cell.succeeded("j", 0)
    assert places(cell.tick()) == ["j/1@n1"]


def test_pod_slots_run_out_before_cards() -> None:
    cell = Cell().start(node("n1", 8, slots=2))
    for key in "abc":
        cell.submit(key)
    assert started_jobs(cell.tick()) == ["a", "b"]
    cell.succeeded("a")
    assert started_jobs(cell.tick()) == ["c"]


def test_cards_of_one_pod_are_all_of_suitable_kinds_on_a_mixed_node() -> None:
    runs = [
        r.CardRun(2, "A", 40_000, 0, OK),
        r.CardRun(2, "B", 80_000, 1, OK),
        r.CardRun(2, "A", 40_000, 0, OK),
    ]
    cell = Cell().start(node("n1", runs=runs))
    cell.submit("a", role(cards=3, models=["A"]))
    cell.submit("b", role(cards=1, models=["B"], min_card_memory=80_000))
    cell.submit("c", role(cards=2, models=["B"]))
    assert cards(cell.tick()) == [[0, 1, 4], [2]]


def test_a_model_and_a_memory_must_be_of_the_same_card() -> None:
    runs = [r.CardRun(1, "A", 40_000, 0, OK), r.CardRun(1, "B", 80_000, 0, OK)]
    cell = Cell().start(node("n1", runs=runs))
    assert goes(cell, cards=1, models=["A"], min_card_memory=80_000) == "-"


@pytest.mark.parametrize("health", [CardHealth.FAILED, CardHealth.UNKNOWN])
def test_only_healthy_cards_hold_work(health: CardHealth) -> None:
    runs = [r.CardRun(1, "A", 1, 0, health), r.CardRun(1, "A", 1, 0, OK)]
    cell = Cell().start(node("n1", runs=runs))
    cell.submit("a", role(replicas=2, minimum=1, cards=1))
    assert cards(cell.tick()) == [[1]]


@pytest.mark.parametrize(
    ("free_islands", "asked", "same", "chosen"),
    [
        # cards still free, in islands of four; the cards that the pod gets
        ([0, 1, 2, 3, 4, 5, 6, 7], 4, True, [0, 1, 2, 3]),
        ([1, 2, 3, 4, 5, 6, 7], 4, True, [4, 5, 6, 7]),
        ([1, 2, 3, 5, 6, 7], 4, True, None),
        ([1, 2, 3, 5, 6, 7], 4, False, [1, 2, 3, 5]),
        ([1, 4, 5, 6, 7], 1, True, [1]),  # keeps the whole island
        ([2, 3, 4, 5, 6, 7], 2, False, [2, 3]),
        ([3, 4, 5, 6, 7], 2, False, [4, 5]),
        ([0, 1, 2, 3, 4, 5, 6, 7], 5, True, None),
        ([0, 1, 2, 3, 4, 5, 6, 7], 5, False, [0, 1, 2, 3, 4]),
        ([], 1, False, None),
    ],
)
def test_islands(free_islands: list[int], asked: int, same: bool, chosen: list[int] | None) -> None:
    failed = [card for card in range(8) if card not in free_islands]
    cell = Cell().start(node("n1", 8, island=4, failed=failed))
    cell.submit("j", role(cards=asked, same_island=same))
    assert cards(cell.tick()) == ([] if chosen is None else [chosen])


def test_packing_fills_the_fullest_node_and_keeps_whole_nodes_free() -> None:
    cell = Cell().start(node("n1", 8), node("n2", 8), node("n3", 8))
    cell.submit("a", role(cards=3))
    assert places(cell.tick()) == ["a/0@n1"]
    for key in "bcd":
        cell.submit(key, role(cards=2))
    assert places(cell.tick()) == ["b/0@n1", "c/0@n1", "d/0@n2"]
    cell.submit("whole", role(cards=8))
    assert places(cell.tick()) == ["whole/0@n3"]


def test_packing_prefers_the_node_where_least_cpu_is_left() -> None:
    cell = Cell().start(node("n1", 2, cpu=9000), node("n2", 2, cpu=5000), node("n3", 2, cpu=7000))
    cell.submit("a", role(cards=1, cpu=4000))
    cell.submit("b", role(cards=1, cpu=6000))
    assert places(cell.tick()) == ["a/0@n2", "b/0@n3"]


def test_pods_without_cards_go_to_nodes_without_cards_first() -> None:
    cell = Cell().start(node("gpu", 8), node("cpu", 0))
    assert goes(cell, cpu=1000) == "cpu"


def test_spreading_takes_the_emptiest_node_for_each_pod() -> None:
    cell = Cell().start(*(node(f"n{i}", 4) for i in range(3)), rules=SPREAD)
    cell.submit("j", role(replicas=4, cards=1))
    used = [place.split("@")[1] for place in places(cell.tick())]
    assert sorted(used[:3]) == ["n0", "n1", "n2"]
    assert sorted(node.free_count for node in cell.state.nodes) == [2, 3, 3]


def test_shares_fill_a_card_before_they_open_another() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=5, minimum=0, milli=400))
    made = cell.tick()
    assert cards(made) == [[0], [0], [1], [1]]
    assert [d.card_milli for d in made if d.pod >= 0] == [400] * 4


def test_a_share_goes_to_the_card_with_the_least_room_that_suffices() -> None:
    cell = Cell().start(node("n1", 1), node("n2", 1))
    cell.submit("a", role(milli=600))
    cell.submit("b", role(milli=700))
    assert places(cell.tick()) == ["a/0@n1", "b/0@n2"]
    cell.submit("c", role(milli=300))
    assert places(cell.tick()) == ["c/0@n2"]


def test_a_share_with_a_selector_fills_opened_cards_too() -> None:
    zone = [r.Selector("zone", IN, ("a",))]
    in_a = [("zone", "a")]
    cell = Cell().start(node("n1", 8, labels=in_a), node("n2", 2, labels=in_a, cpu=10))
    cell.submit("first", role(milli=300, cpu=20, selectors=zone))
    cell.submit("second", role(milli=300, selectors=zone))
    assert places(cell.tick()) == ["first/0@n1", "second/0@n1"]


def test_the_memory_of_a_shared_card_runs_out_too() -> None:
    cell = Cell().start(node("n1", 1, card_memory=24_576))
    cell.submit("j", role(replicas=3, minimum=0, milli=100, card_memory=12_288))
    assert len(places(cell.tick())) == 2
    cell.succeeded("j", 0)
    assert places(cell.tick()) == ["j/2@n1"]


def test_a_shared_card_is_whole_again_when_its_last_share_ends() -> None:
    cell = Cell().start(node("n1", 1))
    cell.submit("j", role(replicas=2, milli=500))
    cell.tick()
    cell.submit("whole")
    cell.succeeded("j", 0)
    assert places(cell.tick()) == []
    cell.succeeded("j", 1)
    assert places(cell.tick()) == ["whole/0@n1"]


def test_a_shared_card_that_failed_takes_no_more_shares() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("a", role(milli=500))
    cell.tick()
    assert said(say_again(cell, "n1", 2, failed=[0])) == ["EVICT a/0#1@n1 CARD_FAILED"]
    cell.submit("b", role(milli=500))
    assert cards(cell.tick()) == [[1]]
    cell.released("a")
    assert node_of(cell, "n1").free_count == 0


def test_shares_on_cards_that_are_reported_no_more_end_quietly() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(replicas=3, milli=500))
    cell.tick()
    assert said(say_again(cell, "n1", 0)) == []
    cell.succeeded("j", 0)
    say_again(cell, "n1", 2)
    assert node_of(cell, "n1").shared == {0: (500, 81_920), 1: (500, 81_920)}
    cell.succeeded("j", 1)
    cell.succeeded("j", 2)
    assert node_of(cell, "n1").free_count == 2


def test_a_job_is_asked_again_when_a_node_of_another_kind_comes() -> None:
    cell = Cell().start(node("n1", 2))
    cell.submit("j", role(cards=1, models=["B"]))
    assert places(cell.tick()) == []
    cell.put(node("n2", 2, model="B", time_ns=cell.now_ns))
    assert places(cell.tick()) == ["j/0@n2"]


def test_a_smaller_job_goes_ahead_of_one_that_does_not_fit() -> None:
    free = policy("priority", "gang", "fair_share", "pack")
    cell = Cell().start(node("n1", 8), node("n2", 4), rules=free)
    cell.submit("running", role(cards=6))
    cell.tick()
    cell.submit("big", role(cards=8))
    cell.submit("small", role(cards=2))
    assert places(cell.tick()) == ["small/0@n1"]


def test_a_closed_node_is_skipped() -> None:
    cell = Cell().start(node("n1", 1), node("n2", 2))
    cordon(cell, "n1")
    assert goes(cell, cards=1) == "n2"

"""The queue tree: weights, guarantees, capabilities, states, and its changes."""

from collections import Counter

import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import QueueState
from ganger.streams.kernel.queues.quota import deserved
from support.builders import Cell, node, policy, queue, role
from support.decision_lines import places, queue_of, said, started_jobs

UNGATED = policy("priority", "gang", "fair_share", "pack")


def shared_out(cell: Cell, *names: str, each: int = 20) -> dict[str, int]:
    """Submit `each` one-card jobs to every queue, run a cycle: pods placed per queue."""
    for name in names:
        for number in range(each):
            cell.submit(f"{name}.{number}", queue=name)
    return Counter(place.split(".")[0] for place in places(cell.tick()))


@pytest.mark.parametrize(
    ("weights", "placed"),
    [
        ((1, 1), (4, 4)),
        ((3, 1), (6, 2)),
        ((1, 7), (1, 7)),
        ((2, 1, 1), (4, 2, 2)),
    ],
)
def test_weights(weights: tuple[int, ...], placed: tuple[int, ...]) -> None:
    names = [f"q{i}" for i in range(len(weights))]
    queues = [queue(name, weight=weight) for name, weight in zip(names, weights, strict=True)]
    cell = Cell().start(*queues, node("n1", 8), rules=UNGATED)
    assert shared_out(cell, *names) == dict(zip(names, placed, strict=True))


def test_what_a_queue_does_not_want_goes_to_the_others() -> None:
    cell = Cell().start(queue("a", weight=7), queue("b"), node("n1", 8), rules=UNGATED)
    cell.submit("a.0", queue="a")
    assert shared_out(cell, "b") == {"a": 1, "b": 7}


def test_the_share_is_of_the_scarcest_resource() -> None:
    cell = Cell().start(queue("a"), queue("b"), node("n1", 8, cpu=8000), rules=UNGATED)
    for number in range(8):
        cell.submit(f"a.{number}", role(cpu=2000), queue="a")
        cell.submit(f"b.{number}", role(cards=2), queue="b")
    found = Counter(place.split(".")[0] for place in places(cell.tick()))
    assert found == {"a": 4, "b": 4}


def test_priority_of_queues_comes_before_shares() -> None:
    cell = Cell().start(queue("a", weight=9), queue("b", priority=1), node("n1", 8), rules=UNGATED)
    assert shared_out(cell, "a", "b") == {"b": 8}


def test_shares_are_divided_down_the_tree() -> None:
    cell = Cell().start(
        queue("left"), queue("right"),
        queue("l1", parent="left", weight=3), queue("l2", parent="left"),
        node("n1", 8), rules=UNGATED,
    )  # fmt: skip
    assert shared_out(cell, "l1", "l2", "right") == {"l1": 3, "l2": 1, "right": 4}


def test_a_queue_below_its_guarantee_is_served_first() -> None:
    cell = Cell().start(
        queue("a"), queue("b", guarantee={"cards_milli": 6000}), node("n1", 8), rules=UNGATED
    )
    assert shared_out(cell, "a", "b") == {"a": 2, "b": 6}


def test_a_guarantee_above_the_cell_is_accepted_and_takes_all_it_can() -> None:
    cell = Cell().start(
        queue("a"), queue("b", guarantee={"cards_milli": 99_000}), node("n1", 8), rules=UNGATED
    )
    assert shared_out(cell, "a", "b") == {"b": 8}


def test_a_guarantee_that_nobody_asks_for_is_lent() -> None:
    cell = Cell().start(
        queue("a"), queue("b", guarantee={"cards_milli": 6000}), node("n1", 8), rules=UNGATED
    )
    assert shared_out(cell, "a") == {"a": 8}


@pytest.mark.parametrize("rules", [UNGATED, policy()], ids=["kernel alone", "gated"])
def test_a_capability_is_never_passed(rules: r.PolicyConfigured) -> None:
    cell = Cell().start(
        queue("a", capability={"cards_milli": 3000}), queue("b"), node("n1", 8), rules=rules
    )
    cell.submit("a.big", role(replicas=4, cards=1), queue="a")
    cell.submit("a.elastic", role(replicas=9, minimum=1, cards=1), queue="a")
    cell.submit("b.0", queue="b")
    assert places(cell.tick()) == ["a.elastic/0@n1", "a.elastic/1@n1", "a.elastic/2@n1", "b.0/0@n1"]
    cell.succeeded("a.elastic", 1)
    assert places(cell.tick()) == ["a.elastic/3@n1"]


def test_a_capability_up_the_tree_binds_all_below() -> None:
    cell = Cell().start(
        queue("top", capability={"cards_milli": 3000}),
        queue("a", parent="top"), queue("b", parent="top"),
        node("n1", 8),
    )  # fmt: skip
    assert sum(shared_out(cell, "a", "b").values()) == 3
    cell.succeeded("a.0")
    assert len(started_jobs(cell.tick())) == 1


@pytest.mark.parametrize(
    ("limit", "asks", "count"),
    [
        ({"cpu_milli": 2500}, {"cpu": 1000}, 2),
        ({"memory_mib": 100}, {"memory": 30}, 3),
        ({"pods": 2}, {"cards": 1}, 2),
        ({"pods": 2}, {}, 2),  # pods that ask for nothing are pods too
        ({"nic": 3}, {"resources": [("nic", 2)]}, 1),
        ({"cards_milli": 1000}, {"milli": 400}, 2),
        ({"cards_milli": 0}, {"cards": 1}, 0),
        ({"cpu_milli": 0}, {"cards": 1}, 4),  # a resource not asked for does not bind
    ],
)
def test_every_resource_can_be_capped(
    limit: dict[str, int], asks: dict[str, object], count: int
) -> None:
    cell = Cell().start(queue("q", capability=limit), node("n1", 8, resources=[("nic", 9)]))
    cell.submit("j", role(replicas=4, minimum=0, **asks))
    assert len(places(cell.tick())) == count


def test_a_raised_capability_lets_waiting_pods_go() -> None:
    for asks in ({"cards": 1}, {}):
        cell = Cell().start(queue("q", capability={"pods": 1}), node("n1", 8))
        cell.submit("j", role(replicas=3, minimum=0, **asks))
        assert len(places(cell.tick())) == 1
        cell.put(queue("q", capability={"pods": 2}))
        assert len(places(cell.tick())) == 1
        cell.put(queue("q"))
        assert len(places(cell.tick())) == 1


def test_a_capability_cut_below_use_evicts_nobody_and_starts_nobody() -> None:
    cell = Cell().start(queue("q"), node("n1", 8))
    cell.submit("j", role(replicas=6, cards=1))
    cell.tick()
    assert said(cell.put(queue("q", capability={"cards_milli": 2000}))) == []
    cell.submit("next")
    for pod in range(4):
        cell.succeeded("j", pod)
        assert places(cell.tick()) == []
    cell.succeeded("j", 4)
    assert places(cell.tick()) == ["next/0@n1"]


def test_a_closed_queue_goes_on_with_what_it_has() -> None:
    cell = Cell().start(queue("q"), node("n1", 1))
    cell.submit("a")
    cell.put(queue("q", state=QueueState.CLOSED))
    assert said(cell.submit("b")) == ["REJECT b QUEUE_CLOSED"]
    assert places(cell.tick()) == ["a/0@n1"]


@pytest.mark.parametrize("drained", ["top", "q"])
def test_a_draining_queue_starts_nothing_below_it(drained: str) -> None:
    parents = {"top": "", "q": "top"}
    cell = Cell().start(queue("top"), queue("q", parent="top"), node("n1", 2))
    cell.submit("running", role(replicas=2, minimum=1, cards=1), retries=1)
    cell.tick()
    cell.submit("waiting")
    cell.put(queue(drained, parent=parents[drained], state=QueueState.DRAINING))
    assert said(cell.submit("late")) == ["REJECT late QUEUE_CLOSED"]
    cell.succeeded("running", 0)
    cell.failed("running", 1)
    assert places(cell.tick()) == []
    cell.put(queue(drained, parent=parents[drained]))
    assert sorted(places(cell.tick())) == ["running/1@n1", "waiting/0@n1"]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (queue(""), "QUEUE_UNKNOWN"),
        (queue("new", weight=-1), "VALUE_OUT_OF_RANGE"),
        (queue("new", weight=(1 << 31) + 1), "VALUE_OUT_OF_RANGE"),
        (queue("new", state=QueueState.UNKNOWN), "VALUE_OUT_OF_RANGE"),
        (queue("new", capability={"pods": -1}), "VALUE_OUT_OF_RANGE"),
        (queue("new", guarantee={"pods": -1}), "VALUE_OUT_OF_RANGE"),
        (queue("new", parent="none"), "PARENT_UNKNOWN"),
        (queue("new", parent="busy"), "PARENT_HAS_JOBS"),
        (queue("none", removed=True), "QUEUE_UNKNOWN"),
        (queue("busy", removed=True), "QUEUE_NOT_EMPTY"),
        (queue("top", removed=True), "QUEUE_NOT_EMPTY"),
        (queue("top", parent="top"), "PARENT_CYCLE"),
        (queue("top", parent="leaf"), "PARENT_CYCLE"),
    ],
)
def test_configurations_that_are_refused(record: r.QueueConfigured, reason: str) -> None:
    cell = Cell().start(queue("busy"), queue("top"), queue("leaf", parent="top"), node("n1"))
    cell.submit("j", queue="busy")
    before = [q.config for q in cell.state.queues]
    (refused,) = said(cell.put(record))
    assert refused == f"REJECT  {reason}"
    assert [q.config for q in cell.state.queues] == before


def test_the_tree_stays_within_its_depth_when_a_subtree_moves() -> None:
    cell = Cell().start()
    for letter in "ab":
        for level in range(10):
            cell.put(queue(f"{letter}{level}", parent=f"{letter}{level - 1}" if level else ""))
    (refused,) = cell.put(queue("b0", parent="a9"))
    assert (refused.asked, refused.limit) == (20, 16)
    assert cell.put(queue("b0", parent="a5")) == []
    assert max(len(q.chain) for q in cell.state.queues) == 16


def test_a_removed_queue_can_come_back() -> None:
    cell = Cell().start(queue("q"), queue("x"), node("n1"))
    cell.put(queue("x", removed=True))
    assert said(cell.submit("j", queue="x")) == ["REJECT j QUEUE_UNKNOWN"]
    cell.put(queue("x"))
    cell.submit("j", queue="x")
    assert places(cell.tick()) == ["j/0@n1"]


def test_a_removed_queue_takes_no_part_in_weights() -> None:
    cell = Cell().start(queue("a"), queue("b"), queue("c", weight=6), node("n1", 8), rules=UNGATED)
    cell.put(queue("c", removed=True))
    assert shared_out(cell, "a", "b") == {"a": 4, "b": 4}


def test_use_moves_with_a_queue_that_gets_another_parent() -> None:
    cell = Cell().start(
        queue("left"), queue("right", capability={"cards_milli": 3000}),
        queue("q", parent="left"), queue("r", parent="right"), node("n1", 8),
    )  # fmt: skip
    cell.submit("a", role(replicas=2, cards=1))
    cell.submit("held", held=True)
    cell.tick()
    assert (queue_of(cell, "left").used[0], queue_of(cell, "right").used[0]) == (2000, 0)
    cell.put(queue("q", parent="right"))
    assert (queue_of(cell, "left").used[0], queue_of(cell, "right").used[0]) == (0, 2000)
    assert (queue_of(cell, "left").jobs, queue_of(cell, "right").jobs) == (0, 2)
    cell.submit("r1", role(cards=2), queue="r")
    assert places(cell.tick()) == []
    cell.submit("r2", role(cards=1), queue="r")
    assert places(cell.tick()) == ["r2/0@n1"]


def test_a_queue_whose_jobs_have_all_ended_may_get_children() -> None:
    cell = Cell().start(queue("q"), node("n1"))
    cell.submit("j")
    cell.tick()
    cell.succeeded("j")
    assert cell.put(queue("child", parent="q")) == []
    assert said(cell.submit("k", queue="q")) == ["REJECT k QUEUE_NOT_A_LEAF"]
    cell.submit("k", queue="child")
    assert places(cell.tick()) == ["k/0@n1"]


@pytest.mark.parametrize(
    ("queues", "asked", "due"),
    [
        # (name, weight, guarantee, capability, given) in milli-cards; asked; deserved of 8 cards
        ([("a", 3, 0, None, None), ("b", 1, 0, None, None)], (9, 9), (6000, 2000)),
        ([("a", 3, 0, None, None), ("b", 1, 0, None, None)], (1, 9), (1000, 7000)),
        ([("a", 1, 0, 1000, None), ("b", 1, 0, None, None)], (9, 9), (1000, 7000)),
        ([("a", 1, 6000, None, None), ("b", 1, 0, None, None)], (9, 9), (6000, 2000)),
        ([("a", 1, 0, None, 3000), ("b", 1, 0, None, None)], (9, 9), (3000, 5000)),
        ([("a", 1, 12_000, None, None), ("b", 1, 4000, None, None)], (16, 16), (6000, 2000)),
        ([("a", 1, 6000, None, None), ("b", 1, 0, None, None)], (0, 9), (0, 8000)),
    ],
)
def test_deserved(
    queues: list[tuple[str, int, int, int | None, int | None]],
    asked: tuple[int, ...],
    due: tuple[int, ...],
) -> None:
    def limit(value: int | None) -> dict[str, int]:
        return {} if value is None else {"cards_milli": value}

    configs = [
        queue(n, weight=w, guarantee=limit(g), capability=limit(c), deserved=limit(d))
        for n, w, g, c, d in queues
    ]
    cell = Cell().start(*configs, node("n1", 8))
    for config, count in zip(configs, asked, strict=True):
        if count:
            cell.submit(config.queue, role(replicas=count, cards=1), queue=config.queue)
    found = deserved(cell.state)
    assert tuple(found[queue_of(cell, c.queue).index][0] for c in configs) == due

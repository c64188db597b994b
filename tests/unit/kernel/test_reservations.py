"""Nodes kept free of new pods for a while."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import Phase
from support.builders import SECOND, Cell, node, role, submission
from support.decision_lines import node_of, phase_of, places, reserve, said, say_again


def test_a_node_takes_no_new_pods_inside_its_reservation() -> None:
    cell = Cell().start(node("n1"))
    reserve(cell, "r", "n1", after_s=10, until_s=20)
    cell.put(replace(submission("before", role(), time_ns=cell.now_ns), runtime_estimate_ns=SECOND))
    assert places(cell.tick(9)) == ["before/0@n1"]
    cell.submit("inside")
    assert places(cell.tick(1)) == []
    assert phase_of(cell, "before") is Phase.ALLOCATED  # what is there stays
    assert places(cell.tick(9)) == []
    assert places(cell.tick(1)) == ["inside/0@n1"]
    assert cell.state.reservations == {}


def test_it_can_begin_at_once_and_be_given_back() -> None:
    cell = Cell().start(node("n1"))
    reserve(cell, "r", "n1", until_s=1000)
    cell.tick()
    cell.submit("j")
    assert places(cell.tick()) == []
    assert said(reserve(cell, "r", cancelled=True)) == []
    assert places(cell.tick()) == ["j/0@n1"]


def test_two_reservations_of_a_node_end_when_the_last_ends() -> None:
    cell = Cell().start(node("n1"))
    reserve(cell, "a", "n1", until_s=10)
    reserve(cell, "b", "n1", until_s=20)
    cell.submit("j")
    assert places(cell.tick(10)) == []
    assert places(cell.tick(10)) == ["j/0@n1"]


def test_a_reservation_of_the_same_name_replaces_the_former() -> None:
    cell = Cell().start(node("n1", 1), node("n2", 1))
    reserve(cell, "r", "n1", until_s=100)
    reserve(cell, "r", "n2", until_s=100)
    cell.submit("j")
    assert places(cell.tick()) == ["j/0@n1"]
    assert node_of(cell, "n2").is_reserved


def test_it_outlives_news_of_the_node() -> None:
    cell = Cell().start(node("n1"))
    reserve(cell, "r", "n1", until_s=100)
    cell.tick()
    say_again(cell, "n1", boot="boot-2")
    cell.submit("j")
    assert places(cell.tick()) == []


@pytest.mark.parametrize(
    ("nodes", "after_s", "until_s", "cancelled", "reason"),
    [
        ((), 0, 10, False, "RESERVATION_WITHOUT_NODES"),
        (("n1", "n9"), 0, 10, False, "NODE_UNKNOWN"),
        (("n1",), 10, 10, False, "VALUE_OUT_OF_RANGE"),
        (("n1",), 10, 5, False, "VALUE_OUT_OF_RANGE"),
        ((), 0, 0, True, "RESERVATION_UNKNOWN"),
    ],
)
def test_refusals(
    nodes: tuple[str, ...], after_s: int, until_s: int, cancelled: bool, reason: str
) -> None:
    cell = Cell().start(node("n1"))
    made = reserve(cell, "r", *nodes, after_s=after_s, until_s=until_s, cancelled=cancelled)
    assert said(made) == [f"REJECT  {reason}"]
    assert cell.state.reservations == {}
    cell.submit("j")
    assert places(cell.tick()) == ["j/0@n1"]


def test_a_second_giving_back_is_refused_and_harmless() -> None:
    cell = Cell().start(node("n1"))
    reserve(cell, "r", "n1", until_s=9)
    reserve(cell, "r", cancelled=True)
    assert said(reserve(cell, "r", cancelled=True)) == ["REJECT  RESERVATION_UNKNOWN"]


def test_a_reservation_before_the_first_tick_holds() -> None:
    cell = Cell().start(node("n1"))
    cell.put(
        r.ReservationRequested(cell.now_ns, "", None, "r", "me", ("n1",), 0, 0, 1 << 62, False)
    )
    cell.submit("j")
    assert places(cell.tick()) == []


@pytest.mark.parametrize(
    ("facts", "reason", "asked", "limit"),
    [
        ({"pods": 3}, "VALUE_OUT_OF_RANGE", 3, 0),
        ({"to_ns": (1 << 62) + 1}, "VALUE_OUT_OF_RANGE", (1 << 62) + 1, 1 << 62),
        ({"queues": ("none",)}, "QUEUE_UNKNOWN", 0, 0),
        ({"users": ("u", "u")}, "NAMES_REPEATED", 2, 1),
        ({"tenants": ("",)}, "NAMES_REPEATED", 1, 0),
        ({"users": tuple(map(str, range(257)))}, "VALUE_OUT_OF_RANGE", 257, 256),
        ({"users": ("u",), "is_maintenance": True}, "VALUE_OUT_OF_RANGE", 1, 0),
        ({"queues": ("q",), "users": ("u", "v"), "tenants": ("t",)}, "", 0, 0),
        ({"is_maintenance": True}, "", 0, 0),
    ],
)
def test_who_may_use_a_reservation_is_named_rightly(
    facts: dict[str, object], reason: str, asked: int, limit: int
) -> None:
    cell = Cell().start(node("n1"))
    record = r.ReservationRequested(cell.now_ns, "", None, "r", "me", ("n1",), 0, 0, 9, False)
    made = cell.put(replace(record, **facts))  # type: ignore[arg-type]
    expected = [(reason, asked, limit)] if reason else []
    assert [(d.reason.name, d.asked, d.limit) for d in made] == expected

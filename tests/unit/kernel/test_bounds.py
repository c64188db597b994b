"""Numbers nobody should send: refused with number and bound, before anything has changed."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import CardHealth, DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.limits import (
    ATTEMPT_MAX,
    CARDS_MAX,
    NAMES_MAX,
    NUMBER_MAX,
    PRIORITY_MAX,
    QUANTITY_MAX,
    ROLES_MAX,
    RUN_CARDS_MAX,
    SPANS_MAX,
    TIME_MAX,
    WEIGHT_BITS_MAX,
)
from ganger.streams.kernel.queues.quota import weighted_share
from ganger.streams.kernel.step import next_wake
from support.builders import GENESIS, Cell, node, placed, policy, queue, role, submission

MANY = tuple((f"r{i}", 1) for i in range(NAMES_MAX + 1))


def run(count: int, **facts: int) -> r.CardRun:
    return replace(r.CardRun(count, "A", 1, 0, CardHealth.HEALTHY), **facts)


def refused(cell: Cell, record: r.Record) -> tuple[Reason, int, int]:
    """The one rejection that a record leads to, and nothing else."""
    before = cell.digest
    (decision,) = cell.put(record)
    assert decision.kind is DecisionKind.REJECT
    cell.state.next_seq -= 1  # the digest covers it
    assert cell.digest == before
    cell.state.next_seq += 1
    return decision.reason, decision.asked, decision.limit


@pytest.mark.parametrize(
    ("record", "asked", "limit"),
    [
        (node("", 1), 0, 1),
        (node("n", runs=[run(-1)]), -1, 0),
        (node("n", runs=[run(1, memory_mib=-2)]), -2, 0),
        (node("n", runs=[run(1, island=-3)]), -3, 0),
        (node("n", runs=[run((1 << 31) - 1)]), (1 << 31) - 1, CARDS_MAX),
        (node("n", runs=[run(CARDS_MAX), run(1)]), CARDS_MAX + 1, CARDS_MAX),
        (node("n", runs=[run(1 << 19)] + [run(0)] * 32), 33 << 19, RUN_CARDS_MAX),
        (node("n", runs=[run(1, memory_mib=QUANTITY_MAX + 1)]), QUANTITY_MAX + 1, QUANTITY_MAX),
        (node("n", cpu=-1), -1, 0),
        (node("n", cpu=1 << 62), 1 << 62, QUANTITY_MAX),
        (node("n", memory=QUANTITY_MAX + 1), QUANTITY_MAX + 1, QUANTITY_MAX),
        (node("n", slots=-1), -1, 0),
        (node("n", resources=[("nic", -1)]), -1, 0),
        (node("n", resources=[("nic", 1 << 62)]), 1 << 62, QUANTITY_MAX),
        (node("n", resources=[("nic", 1), ("nic", 1)]), 1, 0),
        (node("n", resources=[("pods", 1)]), 1, 0),
        (node("n", resources=MANY), NAMES_MAX + 1, NAMES_MAX),
        (node("n", labels=[("zone", "a"), ("zone", "b")]), 1, 0),
    ],
)
def test_reports(record: r.NodeChanged, asked: int, limit: int) -> None:
    for sent in (record, r.NodeReturned(GENESIS, "", None, record.report)):
        cell = Cell().start()
        assert refused(cell, sent) == (Reason.VALUE_OUT_OF_RANGE, asked, limit)
        assert not cell.state.nodes


@pytest.mark.parametrize(
    ("roles", "asked", "limit"),
    [
        ((role(cpu=1 << 62),), 1 << 62, QUANTITY_MAX),
        ((role(memory=QUANTITY_MAX + 1),), QUANTITY_MAX + 1, QUANTITY_MAX),
        ((role(resources=[("nic", 1 << 61)]),), 1 << 61, QUANTITY_MAX),
        ((role(resources=[("nic", 1), ("nic", 2)]),), 1, 0),
        ((role(resources=[("cards_milli", 1)]),), 1, 0),
        ((role(resources=MANY),), NAMES_MAX + 1, NAMES_MAX),
        (tuple(role(f"r{i}") for i in range(ROLES_MAX + 1)), ROLES_MAX + 1, ROLES_MAX),
        ((role("a", CARDS_MAX, 0), role("b", 1, 0)), CARDS_MAX + 1, CARDS_MAX),
    ],
)
def test_roles(roles: tuple[r.Role, ...], asked: int, limit: int) -> None:
    cell = Cell().start(node("n"))
    assert refused(cell, submission("j", *roles)) == (Reason.VALUE_OUT_OF_RANGE, asked, limit)


ADOPTED = r.PodAdopted(
    GENESIS, "", None, "j", "w", "q", "u", "t", 0, 0, 1, "n", (r.CardSpan(0, 1),), 0, 0, 1, 1, 0, 0
)


@pytest.mark.parametrize(
    ("change", "asked", "limit"),
    [
        ({"job": ""}, 0, 1),
        ({"attempt": (1 << 31) - 1}, (1 << 31) - 1, ATTEMPT_MAX),
        ({"priority": -PRIORITY_MAX - 1}, PRIORITY_MAX + 1, PRIORITY_MAX),
        ({"runtime_estimate_ns": 1 << 62}, 1 << 62, NUMBER_MAX),
        ({"pod": (1 << 31) - 1}, 1 << 31, CARDS_MAX),
        ({"cpu_milli": 1 << 62}, 1 << 62, QUANTITY_MAX),
        ({"cards": (r.CardSpan(0, 1),) * (SPANS_MAX + 1)}, SPANS_MAX + 1, SPANS_MAX),
        ({"cards": (r.CardSpan((1 << 31) - 1, 1),)}, 1, CARDS_MAX),
    ],
)
def test_adoptions(change: dict[str, object], asked: int, limit: int) -> None:
    cell = Cell().start(node("n"))
    record = replace(ADOPTED, **change)
    assert refused(cell, record) == (Reason.VALUE_OUT_OF_RANGE, asked, limit)


@pytest.mark.parametrize(
    ("change", "asked", "limit"),
    [
        ({"capability": (r.Amount("nic", 1 << 62),)}, 1 << 62, NUMBER_MAX),
        ({"lending_limit": (r.Amount("nic", -1),)}, -1, 0),
        ({"guarantee": (r.Amount("nic", 1), r.Amount("nic", 2))}, 2, 1),
        ({"deserved": tuple(r.Amount(*one) for one in MANY)}, NAMES_MAX + 1, NAMES_MAX),
    ],
)
def test_amounts_of_queues(change: dict[str, object], asked: int, limit: int) -> None:
    cell = Cell().start()
    record = replace(queue("a"), **change)
    assert refused(cell, record) == (Reason.VALUE_OUT_OF_RANGE, asked, limit)


def test_weights_of_siblings_have_a_common_multiple_of_bounded_size() -> None:
    cell = Cell(checks=False).start(node("n"))
    reasons = [
        decision.reason
        for number in range(400)
        for decision in cell.put(queue(f"p{number}", weight=(1 << 31) - 1 - 2 * number))
    ]
    assert reasons
    assert set(reasons) == {Reason.VALUE_OUT_OF_RANGE}
    queues = cell.state.queues
    assert max(q.weight_scale for q in queues).bit_length() <= WEIGHT_BITS_MAX
    assert all(weighted_share(cell.state, q) == 0 for q in queues)
    cell.put(queue("child", parent="q", weight=(1 << 31) - 19))  # other siblings
    assert cell.state.queues[-1].config.queue == "child"


def test_classes_of_priority_have_names_of_their_own() -> None:
    for classes in ([("a", 1), ("a", 2)], [("", 1)]):
        cell = Cell().start()
        assert refused(cell, policy(classes=classes))[0] is Reason.ARGUMENT_INVALID


def test_reservations_end_in_time() -> None:
    cell = Cell().start(node("n"))
    window = (GENESIS, (1 << 63) - 1)
    record = r.ReservationRequested(GENESIS, "", None, "r", "me", ("n",), 0, *window, False)
    assert refused(cell, record) == (Reason.VALUE_OUT_OF_RANGE, (1 << 63) - 1, TIME_MAX)


def test_time_does_not_leave_64_bits() -> None:
    """A record of the last moment, a retry with the longest backoff, and a Tick beyond the end."""
    cell = Cell().start(node("n"))
    cell.submit("j", role(cards=1), retries=5, backoff_ns=NUMBER_MAX >> 4)
    cell.tick()
    late = r.PodFailed((1 << 63) - 1, "", None, "j", 0, 1, 1, 1, "", 0)  # type: ignore[arg-type]
    cell.put(late)
    retry_ns = next(iter(cell.state.jobs.values())).not_before_ns
    assert TIME_MAX < retry_ns < 1 << 63
    assert next_wake(cell.state) is None  # no Tick can be at that moment
    clock_ns = cell.state.clock_ns
    assert cell.put(r.Tick(TIME_MAX + 1, "", None, cell.state.epoch, True)) == []
    assert cell.state.clock_ns == clock_ns
    assert cell.put(r.Tick(TIME_MAX, "", None, cell.state.epoch, True))
    assert cell.state.clock_ns == TIME_MAX


def test_what_a_node_cannot_have_handled_yet_frees_nothing() -> None:
    cell = Cell().start(node("n"))
    cell.submit("j")
    cell.tick()
    cell.cancel("j")
    held = cell.state.nodes[0].pods
    cell.put(node("n", handled=1 << 60))
    assert held
    cell.put(node("n", handled=cell.state.cause))
    assert not held


def test_memory_of_large_nodes_does_not_reach_into_the_order_by_cpu() -> None:
    """Of equally free nodes the one with less cpu is taken, whatever memory they have."""
    cell = Cell().start(node("a", cpu=1001, memory=1), node("b", cpu=1000, memory=1 << 33))
    cell.submit("j", role(cards=1, cpu=500))
    assert placed(cell.tick()) == [("j", 0, 1, "b")]


def test_many_dependents_end_at_once() -> None:
    cell = Cell(checks=False).start(node("n"))
    cell.submit("first")
    for number in range(3000):
        depends = ["first"] if number % 2 else [f"j{number - 1}" if number else "first"]
        cell.put(submission(f"j{number}", depends=depends))
    made = cell.cancel("first")
    assert [d.kind for d in made] == [DecisionKind.FINISH] * 3001
    assert cell.state.waiting_count == 0

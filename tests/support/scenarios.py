"""Short histories of a cell, one per matter, for the recorded corpus. In each all jobs end."""

from collections.abc import Callable
from functools import partial, update_wrapper
from random import Random
from typing import Any

from ganger.schemas import records as r
from ganger.schemas.enums import (
    FailureKind,
    QueueState,
    SelectorOperator,
    TaintEffect,
    TolerationOperator,
)
from ganger.streams.presets.loader import preset_names
from support.builders import SECOND, Cell, node, policy, queue, report, role
from support.chaos import run_seed
from support.contests import contest
from support.endings import end_all
from support.gang_cells import carry_out_gangs, random_gangs, random_nodes, reserving
from support.quota_scenarios import quota


def gang() -> Cell:
    """A gang that waits for room, one with role minimums, an elastic one, one that never fits."""
    cell = Cell("gang").start(node("a", 4), node("b", 4, island=2))
    cell.submit("first", role(replicas=3, cards=2))
    cell.submit("whole", role(replicas=2, cards=4))
    cell.submit("roles", role("ps", 1, cpu=1000), role("worker", 4, 2, cards=1))
    cell.submit("elastic", role(replicas=8, minimum=2, cards=1))
    cell.submit("huge", role(replicas=3, cards=4), minimum=3)
    cell.tick()
    for pod in range(3):
        cell.started("first", pod)
        cell.succeeded("first", pod)
    cell.tick()
    cell.cancel("huge")
    return end_all(cell)


def retries() -> Cell:
    """Failures with backoff and limit, a start that fails, one that never comes, a late fact."""
    rules = policy(settings={"start_timeout_ns": str(30 * SECOND)})
    cell = Cell("retries").start(node("a", 2), node("b", 2), rules=rules)
    cell.submit("again", retries=2, backoff_ns=4 * SECOND)
    cell.submit("hangs", retries=1)
    cell.submit("never", role(replicas=2, cards=1))
    cell.tick()
    cell.started("again")
    cell.failed("again")
    cell.tick(2)
    cell.tick(3)
    cell.failed("again", attempt=2, failure=FailureKind.START_FAILED)
    cell.succeeded("again", attempt=1)
    cell.tick(9)
    cell.failed("never", 1)
    cell.released("never")
    cell.tick(40)
    cell.released("hangs")
    cell.tick()
    return end_all(cell)


def node_faults() -> Cell:
    """Loss, return with and without a reboot, a failed card, cordon, drain, a reservation."""
    cell = Cell("node-faults").start(node("a", 4), node("b", 4), node("c", 4))
    for name in ("x", "y", "z"):
        cell.submit(name, role(replicas=2, cards=2))
    cell.tick()
    now = cell.now_ns
    cell.put(r.NodeLost(now, "", None, "a", 1, 30 * SECOND))
    cell.put(r.NodeCordoned(now, "", None, "c", "ops"))
    cell.tick()
    cell.put(r.NodeReturned(now, "", None, report("a", 4, attempts=[("x", 0, 1)])))
    cell.put(node("b", 4, now, failed=(0,)))
    cell.tick()
    cell.put(r.NodeLost(now, "", None, "a", 1, 30 * SECOND))
    cell.put(r.NodeReturned(now, "", None, report("a", 4, boot="boot-2", handled=cell.state.cause)))
    cell.put(r.NodeDrained(now, "", None, "b", "ops", 0))
    until = cell.now_ns + 3 * SECOND
    keep = r.ReservationRequested(now, "", None, "keep", "ops", ("a",), 0, now, until, False)
    cell.put(keep)
    cell.tick()
    for name in ("b", "c"):
        cell.put(r.NodeUncordoned(now, "", None, name, "ops"))
    cell.put(node("b", 4, now, handled=cell.state.cause))
    cell.tick(5)
    return end_all(cell)


def queues() -> Cell:
    """Weights, a guarantee, nested capability, a queue closed and one that drains, priorities."""
    cell = Cell("queues").start(
        queue("top", capability={"cards_milli": 6000}),
        queue("a", parent="top", weight=3),
        queue("b", parent="top", guarantee={"cards_milli": 2000}),
        queue("c", weight=2, deserved={"cards_milli": 4000}),
        node("n", 8),
        rules=policy(classes=(("high", 9),)),
    )
    for i in range(6):
        cell.submit(f"a{i}", role(cards=1, cpu=500), queue="a")
        cell.submit(f"b{i}", role(cards=2), queue="b", priority=i % 2)
        cell.submit(f"c{i}", role(cards=1), queue="c", priority_class="high" if i > 3 else "")
    cell.tick()
    cell.put(queue("b", parent="top", state=QueueState.DRAINING))
    cell.put(queue("c", weight=5, state=QueueState.CLOSED))
    cell.submit("refused", queue="c")
    cell.succeeded("a0")
    cell.tick()
    cell.put(queue("b", parent="top"), queue("top"))
    return end_all(cell)


def shares() -> Cell:
    """Shared cards with memory, models, labels and taints, other resources, zero-request pods."""
    taint = r.Taint("team", "x", TaintEffect.NO_SCHEDULE)
    bears = r.Toleration("team", TolerationOperator.EQUAL, "x", TaintEffect.UNKNOWN)
    near = r.Selector("zone", SelectorOperator.IN, ("east",))
    cell = Cell("shares").start(
        node("a", 2, model="A", resources=(("nic", 2),), labels=(("zone", "east"),)),
        node("b", 2, model="B", taints=(taint,), slots=4),
    )
    cell.submit("half", role(replicas=3, milli=500, card_memory=30_000))
    cell.submit("third", role(replicas=2, milli=330, card_memory=60_000))
    cell.submit("near", role(cards=1, selectors=(near,), resources=(("nic", 1),)))
    cell.submit("bears", role(cards=1, models=("B",), tolerations=(bears,)))
    cell.submit("nothing", role(replicas=3))
    cell.submit("mixed", role("zero", 2), role("card", 1, cards=2))
    cell.tick()
    return end_all(cell)


def evictions() -> Cell:
    """Preemption, reclaim, warnings, protection, a claim that is taken back, one that expires, a
    gang that stays below its minimum: by the rules of preset default.
    """
    return _evictions(Cell("evictions"), ("priority", "gang", "cooldown", *_SHARES), "cell")


def volcano_evictions() -> Cell:
    """The same by Volcano's rules: tiers of votes, victims sought node by node."""
    above = ("priority", ("gang", {"whole": "never"}), "conformance", "cooldown")
    return _evictions(Cell("volcano-evictions"), (*above, "drf", "proportion", "pack"), "node")


_SHARES = ("fair_share", "capability", "pack")


def _evictions(cell: Cell, rules: tuple[Any, ...], search: str) -> Cell:
    made = policy(
        *rules,
        actions=("enqueue", "allocate", "backfill", "reclaim", "preempt", "stale"),
        settings={"grace_ns": "20s", "claim_ns": "300s", "start_timeout_ns": "60s"},
        searches=search,
    )
    cell.start(queue("a"), queue("b", weight=2), node("n", 4), node("m", 4), rules=made)
    cell.submit("gang", role(replicas=5, cards=1), queue="a")
    cell.submit("elastic", role(replicas=3, minimum=0, cards=1), queue="a")
    for said in cell.tick():
        cell.started(said.job, said.pod, said.attempt)
    cell.submit("high", role(cards=1), queue="a", priority=5)
    cell.submit("due", role(replicas=2, cards=1), queue="b")
    cell.submit("island", role(cards=4, same_island=True), queue="b")
    cell.tick()  # warnings and claims
    for said in cell.tick(20):
        if said.job == "elastic":
            cell.released(said.job, said.pod, said.attempt)  # one of them meets its claim
    cell.tick()
    cell.cancel("island")
    cell.submit("late", role(replicas=2, cards=1), queue="b", priority=9)
    cell.tick()
    cell.tick(301)  # what is not met by now is given up
    cell.put(r.NodeLost(cell.now_ns, "", None, "m", cell.state.claim, 30 * SECOND))
    cell.tick()
    cell.tick(61)  # a gang below its minimum has had its time
    cell.put(node("m", 4, cell.now_ns, boot="boot-2"))
    cell.tick()
    return end_all(cell)


def booked(reserve: str) -> Cell:
    """Gangs of several roles on nodes with islands, short of cards; some ask for cpu as well, and
    several have reservations.
    """
    chance = Random(11)
    nodes = random_nodes(chance)
    jobs = random_gangs(chance, nodes, 40, odd=True)
    return carry_out_gangs(reserving(reserve), nodes, jobs, name=f"booked-{reserve}")


def mixed() -> Cell:
    """A cluster under faults of every kind."""
    return run_seed(17, 40, check_every=100).cell


PRESETS = preset_names()

SCENARIOS: dict[str, Callable[[], Cell]] = {
    "gang": gang,
    "retries": retries,
    "node-faults": node_faults,
    "queues": queues,
    "shares": shares,
    "mixed": mixed,
    **{
        f"booked-{reserve}": update_wrapper(partial(booked, reserve), booked)
        for reserve in ("all", "3")
    },
    "evictions": evictions,
    "volcano-evictions": volcano_evictions,
    "quota": quota,
    **{f"contest-{name}": update_wrapper(partial(contest, name), contest) for name in PRESETS},
}

"""Snapshots: taken anywhere, they hold all there is, and what follows does not differ."""

from collections.abc import Callable

import msgspec
import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import FailureKind, QueueState
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import next_wake, step
from support.builders import SECOND, Cell, node, policy, queue, role
from support.decision_lines import (
    adopt,
    cordon,
    drain,
    give_back,
    lose,
    reserve,
    say_again,
    uncordon,
)


def rich() -> Cell:
    """A cell to which about everything happens once. Its records are what the tests replay."""
    cell = Cell(checks=False).start(
        queue("q", capability={"cards_milli": 30_000}),
        queue("top", weight=3, guarantee={"cards_milli": 4000}),
        queue("leaf", parent="top"),
        node("n1", 8, island=4, resources=[("nic", 4)]),
        node("n2", 8, labels=[("zone", "a")]),
        node("n3", 2, model="B", attempts=[("old", 0, 2)]),
        node("n4", 0, cpu=8000),
        rules=policy(settings={"start_timeout_ns": str(30 * SECOND)}, classes=[("gold", 5)]),
    )
    cell.submit("gang", role("m", 1, cards=1), role("w", 3, 2, cards=4), minimum=3, event_id="e1")
    cell.submit("mixed", role("z", 2), role("w", 1, cards=2, resources=[("nic", 1)]), retries=2)
    cell.submit("share", role(replicas=5, minimum=1, milli=300, card_memory=999), queue="leaf")
    cell.submit("later", depends=["gang"], priority_class="gold")
    cell.submit("held", held=True, event_id="e2")
    cell.submit("never", role(cards=99))
    cell.submit("cpu", role(replicas=3, cpu=3000), retries=3, backoff_ns=7 * SECOND)
    cell.tick()
    adopt(cell, "old", 0, "n3", attempt=2)
    adopt(cell, "old", 3, "n1", first=7)
    cell.tick()
    _use(cell)
    _disturb(cell)
    return cell


def _use(cell: Cell) -> None:
    for pod in range(3):
        cell.started("gang", pod)
    cell.started("mixed", 0)
    cell.failed("cpu", 0)
    cell.put(r.PodProgressed(cell.now_ns, "", None, "gang", 0, 1, 400, 0))
    cell.put(r.PodCheckpointed(cell.now_ns, "", None, "gang", 0, 1, 300, 0))
    cell.tick(8)
    cell.failed("mixed", 1, failure=FailureKind.START_FAILED)
    cell.succeeded("share", 0)
    cell.update("share", scale=[("worker", 2, 1)])
    reserve(cell, "r", "n4", after_s=5, until_s=50)
    cell.tick(6)
    source = r.Source("pods", 0, 17, 1)
    fact = r.PodReleased(cell.now_ns, "", source, "share", 4, 1, 0)
    cell.put(fact, msgspec.structs.replace(fact, time_ns=1))


def _disturb(cell: Cell) -> None:
    lose(cell, "n2")
    cell.tick()
    say_again(cell, "n1", 8, island=4, failed=[0, 3], resources=[("nic", 1)])
    cell.put(queue("q"), queue("leaf", parent="top", state=QueueState.DRAINING))
    cell.tick(20)
    give_back(cell, "n2", 8, labels=[("zone", "b")], attempts=[("gang", 1, 1)])
    cell.update("held", held=False, priority=3)
    cell.cancel("mixed")
    cordon(cell, "n3")
    drain(cell, "n4")
    cell.tick(9)
    cell.put(policy("priority", "gang", "spread", settings={"ttl_ns": str(5 * SECOND)}))
    uncordon(cell, "n4")
    say_again(cell, "n1", 8, boot="boot-2")
    cell.submit("late", role(milli=700), event_id="e3")
    cell.tick(9)
    cell.cancel("gang")
    cell.tick(30)
    cell.put(r.OwnerClaimed(cell.now_ns, "", None, "next"))
    cell.tick()
    _configure(cell)


def _configure(cell: Cell) -> None:
    now = cell.now_ns
    for name in ("fast", "cheap"):
        labels = (r.Label("tier", name),)
        cell.put(r.FlavorConfigured(now, "", None, name, labels, (), (), False))
        span = r.Interval(now, now + SECOND)
        cell.put(r.ZoneConfigured(now, "", None, name, (span,), False))
    bounds = (r.QuotaBound("cards_milli", 4000, 1000),)
    flavors = tuple(r.FlavorQuota(name, bounds) for name in ("cheap", "fast"))
    quota = msgspec.structs.replace(queue("q"), resource_groups=(r.ResourceGroup(flavors),))
    cell.put(quota, queue("top", state=QueueState.EVICTING))
    cell.tick(3)
    cell.put(queue("top"))
    cell.tick()


RECORDS = rich().records


def walk(visit: Callable[[State, int], None]) -> State:
    """Step the rich scenario, looking at the state after every record."""
    state = Cell().state
    for seq, record in enumerate(RECORDS):
        step(state, seq, record)
        visit(state, seq)
    return state


def shuffled(state: State) -> State:
    """The same state with its dicts in another order."""
    for entities in (state.jobs, state.node_by_name, state.queue_by_name, state.job_by_key):
        items = list(entities.items())
        entities.clear()  # type: ignore[attr-defined]
        entities.update(reversed(items))  # type: ignore[attr-defined,call-overload]
    for entity in state.nodes:
        entity.pods = dict(reversed(entity.pods.items()))
    state.reservations = dict(reversed(state.reservations.items()))
    state.flavors = dict(reversed(state.flavors.items()))
    state.zones = dict(reversed(state.zones.items()))
    return state


def test_the_scenario_is_rich() -> None:
    state = walk(lambda state, seq: None)
    kinds = {d.kind.name for d in rich().decisions}
    assert {"ADMIT", "ALLOCATE", "BACKFILL", "EVICT", "FINISH", "CYCLE_CLOSED"} <= kinds
    assert {type(record).__name__ for record in RECORDS} >= {
        "NodeLost",
        "PodAdopted",
        "NodeReturned",
    }
    assert state.next_seq == len(RECORDS) > 50


def test_a_copy_has_equal_bytes_and_digest_after_every_record() -> None:
    def same(state: State, seq: int) -> None:
        data = snapshot.encode(state)
        copy = snapshot.decode(data)
        invariants.check(copy)
        assert snapshot.encode(copy) == data, seq
        assert seal(copy) == seal(state), seq
        assert next_wake(copy) == next_wake(state), seq

    walk(same)


def test_what_follows_a_snapshot_does_not_differ_wherever_it_is_taken() -> None:
    whole = Cell().state
    wanted = []
    copies: list[State] = []
    for seq, record in enumerate(RECORDS):
        made = [d.body for d in step(whole, seq, record)]
        wanted.append(made)
        for copy in copies:
            assert [d.body for d in step(copy, seq, record)] == made, seq
        if seq % 3 == 0:
            copies.append(shuffled(snapshot.fork(whole)))
    assert {copy.chain for copy in copies} == {whole.chain}
    assert {snapshot.encode(copy) for copy in copies} == {snapshot.encode(whole)}
    assert sum(map(len, wanted)) > 40


def test_taking_a_snapshot_changes_nothing() -> None:
    plain = walk(lambda state, seq: None)
    watched = walk(lambda state, seq: snapshot.encode(state) and None)
    assert snapshot.encode(watched) == snapshot.encode(plain)


def test_a_copy_shares_nothing_with_its_original() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j")
    before = snapshot.encode(cell.state)
    copy = snapshot.fork(cell.state)
    cell.tick()
    cell.succeeded("j")
    assert snapshot.encode(copy) == before


@pytest.mark.parametrize("path", ["cancelled", "refused", "held and released"])
def test_equal_states_have_equal_terms_whatever_path_led_to_them(path: str) -> None:
    def state_of(detour: bool) -> list[int]:
        cell = Cell().start(node("n1"))
        cell.submit("j")
        if path == "cancelled":
            cell.submit("x", ttl_ns=0)
            cell.cancel("x")
        elif path == "refused":
            cell.submit("j") if detour else cell.submit("j", queue="none")
        else:
            cell.update("j", held=detour)
            cell.update("j", held=False)
        cell.tick()
        seal(cell.state)
        return [cell.state.digest]

    assert state_of(True) == state_of(False)


@pytest.mark.parametrize("damage", ["nothing", "cut", "version", "content"])
def test_what_is_no_snapshot_is_refused(damage: str) -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j")
    data = snapshot.encode(cell.state)
    bad = {
        "nothing": b"",
        "cut": data[:-1],
        "version": data.replace(bytes([0x91 + 16 - 1, snapshot.VERSION]), b"\xdc\x00", 1)[:9],
        "content": data.replace(b"A", b"B", 1),
    }[damage]
    with pytest.raises(snapshot.SnapshotUnreadable):
        snapshot.decode(bad)


def test_a_snapshot_of_another_version_is_refused() -> None:
    rows = msgspec.msgpack.decode(snapshot.encode(Cell().start(node("n1")).state))
    rows[0] = snapshot.VERSION + 1
    with pytest.raises(snapshot.SnapshotUnreadable, match=f"version {snapshot.VERSION + 1}"):
        snapshot.decode(msgspec.msgpack.encode(rows))

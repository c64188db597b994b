"""The history of a cell under the preset of quota admission, for the recorded corpus."""

from ganger.schemas.enums import QueueState, VictimRule
from support.builders import Cell, node, role
from support.endings import carry_out, end_all
from support.quotas import flavor, kueue, leaf

ANY, LOWER = VictimRule.ANY, VictimRule.LOWER_PRIORITY


def quota() -> Cell:
    """Preset kueue: lent quota taken back, a taker in its own queue, fewer pods, a second flavor, a
    start that never comes, a queue drained and opened again.
    """
    cell = Cell("quota").start(
        flavor("a", {"kind": "a"}),
        flavor("b", {"kind": "b"}),
        leaf("all", {}),
        leaf("mine", {"a": 4, "b": 1}, parent="all", reclaim=ANY, within=LOWER),
        leaf("yours", {"a": (4, 4), "b": 1}, parent="all", within=LOWER),
        leaf("strict", {"b": (2, -1, 1)}, parent="all", strict=True),
        node("n1", 4, labels=[("kind", "a")]),
        node("n2", 4, labels=[("kind", "a")]),
        node("n3", 4, labels=[("kind", "b")]),
        rules=kueue({"start_timeout_ns": "30s", "ttl_ns": "1d"}),
    )
    for number in range(5):
        cell.submit(f"lent{number}", role(cards=2), queue="yours")
        cell.tick()
    carry_out(cell, succeed=False)
    cell.submit("takes", role(replicas=2, cards=2), queue="mine")
    cell.submit("few", role(replicas=5, minimum=1, cards=1), queue="strict")
    cell.submit("behind", role(cards=2), queue="strict")
    cell.tick()
    cell.tick()
    carry_out(cell, succeed=False)
    cell.tick()
    cell.submit("first", role(cards=4), queue="mine", priority=5)
    cell.tick()
    carry_out(cell, succeed=False)
    cell.tick()
    cell.tick(31)  # what was placed last does not start
    carry_out(cell, succeed=False)
    draining = QueueState.EVICTING
    cell.put(leaf("yours", {"a": 4}, parent="all", state=draining, time_ns=cell.now_ns))
    carry_out(cell, succeed=False)
    cell.tick(60)
    cell.put(leaf("yours", {"a": 4}, parent="all", time_ns=cell.now_ns))
    return end_all(cell)

"""The nodes of a simulated cell: what they report, and what befalls them in the course of a run.

Each node is described as its heartbeat would; faults change the description or silence the node.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from ganger.replay.cluster import ClusterSpec, NodeSpec
from ganger.replay.faults import Faults
from ganger.replay.traces.fields import NS_PER_S
from ganger.replay.traces.source import InputError
from ganger.schemas.enums import CardHealth, TaintEffect
from ganger.schemas.records import (
    AttemptRef,
    CardRun,
    Label,
    NodeHeartbeat,
    NodeReport,
    Taint,
)

_EFFECTS = {
    "NoSchedule": TaintEffect.NO_SCHEDULE,
    "NoExecute": TaintEffect.NO_EXECUTE,
    "PreferNoSchedule": TaintEffect.PREFER_NO_SCHEDULE,
}


def report_of(name: str, spec: NodeSpec) -> NodeReport:
    """The first heartbeat of a node: all cards healthy, nothing runs."""
    islands = spec.cards // spec.island_cards if spec.cards else 0
    return NodeReport(
        name,
        f"{name}/1",
        tuple(
            CardRun(spec.island_cards, spec.model, spec.card_memory_mib, island, CardHealth.HEALTHY)
            for island in range(islands)
        ),
        spec.cpu_milli,
        spec.memory_mib,
        spec.pod_slots,
        (),
        tuple(Label(key, value) for key, value in spec.labels),
        tuple(Taint(taint.key, taint.value, _EFFECTS[taint.effect]) for taint in spec.taints),
        spec.topology,
        (),
        -1,
        (),
    )


class Machines:
    """The reports of all nodes as they stand."""

    def __init__(self, cluster: ClusterSpec) -> None:
        """Nodes fresh from the description, in its order."""
        self.reports = {name: report_of(name, spec) for name, spec in cluster.expand()}
        self._boots = dict.fromkeys(self.reports, 1)
        self._failed: dict[str, set[int]] = {}

    def heartbeat(
        self,
        now_ns: int,
        nodes: Iterable[str],
        alive: dict[str, list[AttemptRef]],
        handled: dict[str, int],
    ) -> NodeHeartbeat:
        """One framed heartbeat of these nodes.

        Args:
            now_ns: time of the frame.
            nodes: in the order of their reports.
            alive: attempts that run, by node.
            handled: cause of the last decision that a node has handled; absent: none.
        """
        reports = []
        for node in nodes:
            report = self.reports[node]
            attempts = tuple(alive.get(node, ()))
            seq = handled.get(node, -1)
            if report.attempts != attempts or report.handled_seq != seq:
                report = replace(report, attempts=attempts, handled_seq=seq)
                self.reports[node] = report
            reports.append(report)
        return NodeHeartbeat(now_ns, "", None, tuple(reports))

    def reboot(self, node: str) -> None:
        """The node was started anew: another boot id."""
        self._boots[node] += 1
        boot_id = f"{node}/{self._boots[node]}"
        self.reports[node] = replace(self.reports[node], boot_id=boot_id)

    def set_card(self, node: str, card: int, *, is_healthy: bool) -> None:
        """A card fails or is repaired."""
        failed = self._failed.setdefault(node, set())
        if is_healthy:
            failed.discard(card)
        else:
            failed.add(card)
        report = self.reports[node]
        self.reports[node] = replace(report, cards=_with_failed(report.cards, failed))


def _with_failed(cards: tuple[CardRun, ...], failed: set[int]) -> tuple[CardRun, ...]:
    """The runs split where health changes; neighbouring equal cards make one run."""
    single = [
        replace(run, count=1, health=CardHealth.HEALTHY) for run in cards for _ in range(run.count)
    ]
    for card in failed:
        single[card] = replace(single[card], health=CardHealth.FAILED)
    runs: list[CardRun] = []
    for card_run in single:
        if runs and replace(runs[-1], count=1) == card_run:
            runs[-1] = replace(runs[-1], count=runs[-1].count + 1)
        else:
            runs.append(card_run)
    return tuple(runs)


class Mishap(NamedTuple):
    """Something that befalls a node at a moment. `kind` names a method of who acts on it."""

    at_ns: int
    order: int
    kind: str
    node: str
    card: int = -1
    is_hard: bool = False  # powered off; drained


def timeline(faults: Faults, machines: Machines, start_ns: int) -> list[Mishap]:
    """All mishaps of a run, latest first, so that the next is at the end.

    Raises:
        InputError: a fault names a node or card that is not there, or a node while it is away.
    """
    found: list[Mishap] = []

    def add(at_s: int, kind: str, node: str, card: int = -1, is_hard: bool = False) -> None:
        found.append(Mishap(start_ns + at_s * NS_PER_S, len(found), kind, node, card, is_hard))

    for index, fault in enumerate(faults.nodes):
        _check_node(machines, f"nodes[{index}]", fault.node)
        add(fault.at_s, "leave", fault.node, is_hard=fault.reboot)
        if fault.for_s is not None:
            add(fault.at_s + fault.for_s, "come_back", fault.node, is_hard=fault.reboot)
    for index, card_fault in enumerate(faults.cards):
        _check_card(machines, f"cards[{index}]", card_fault.node, card_fault.card)
        add(card_fault.at_s, "fail_card", card_fault.node, card_fault.card)
        if card_fault.for_s is not None:
            end_s = card_fault.at_s + card_fault.for_s
            add(end_s, "repair_card", card_fault.node, card_fault.card)
    for index, cordon in enumerate(faults.cordons):
        _check_node(machines, f"cordons[{index}]", cordon.node)
        add(cordon.at_s, "cordon", cordon.node, is_hard=cordon.drain)
        if cordon.for_s is not None:
            add(cordon.at_s + cordon.for_s, "uncordon", cordon.node)
    found.sort()
    _check_absences(found)
    found.reverse()
    return found


def _check_node(machines: Machines, place: str, node: str) -> None:
    if node not in machines.reports:
        first = next(iter(machines.reports))
        raise InputError(
            f"faults: {place}.node", f"there is no node {node!r}", f"name one like {first!r}"
        )


def _check_card(machines: Machines, place: str, node: str, card: int) -> None:
    _check_node(machines, place, node)
    cards = sum(run.count for run in machines.reports[node].cards)
    if card >= cards:
        raise InputError(
            f"faults: {place}.card", f"it is {card}, and {node!r} has {cards}", "count from 0"
        )


def _check_absences(mishaps: list[Mishap]) -> None:
    """A node that is away cannot go away again."""
    away: set[str] = set()
    for mishap in mishaps:
        if mishap.kind == "come_back":
            away.discard(mishap.node)
        elif mishap.kind == "leave":
            if mishap.node in away:
                raise InputError(
                    "faults: nodes",
                    f"{mishap.node!r} goes away again before it is back",
                    "let its absences not overlap",
                )
            away.add(mishap.node)

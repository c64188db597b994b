"""How full a node is, resource by resource, and how well it suits a pod by that."""

from collections.abc import Mapping

from ganger.streams.kernel.entities import Node
from ganger.streams.kernel.nodes import scores
from ganger.streams.kernel.nodes.scores import Lean
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, CPU, MEMORY, PODS, Shape
from ganger.streams.kernel.state import State

Leans = Mapping[str, tuple[Lean, int]]
"""What is better of a resource, and how much it weighs, by the resource's name."""

_PER_POINT = 1_000_000
_BILLIONTHS = scores.POINT // _PER_POINT


def load(node: Node, place: int) -> tuple[int, int]:
    """What is held of a resource on a node, and what there is in all."""
    if place == CARDS:
        whole = node.healthy.bit_count() * CARD_MILLI
        shared = sum(milli for milli, _ in node.shared.values())
        return whole - node.free_count * CARD_MILLI - shared, whole
    if place == CPU:
        return node.report.cpu_milli - node.free_cpu, node.report.cpu_milli
    if place == MEMORY:
        return node.report.memory_mib - node.free_memory, node.report.memory_mib
    if place == PODS:
        return node.report.pod_slots - node.free_slots, node.report.pod_slots
    whole = node.capacity.get(place, 0)
    return whole - node.free_extra.get(place, 0), whole


def suitability(state: State, shape: Shape, node: Node, leans: Leans, weight: int = 1) -> int:
    """The weighted mean of scores of the resources that a pod asks for, 0 to 100 points, times
    `weight`; in millionths of a point. Resources without a lean do not count.
    """
    names = state.table.names
    asked: dict[int, int] = {}
    used: dict[int, int] = {}
    whole: dict[int, int] = {}
    wanted: dict[int, tuple[Lean, int]] = {}
    for place, amount in shape.charges:
        lean = leans.get(names[place])
        if lean is not None:
            asked[place] = amount
            wanted[place] = lean
            used[place], whole[place] = load(node, place)
    return scores.by_resource(asked, used, whole, wanted) * weight // _BILLIONTHS

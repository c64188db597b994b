"""Where the pods of a taker could go if others left: which attempts are in their way."""

from ganger.streams.kernel.entities import Node, Pod, Taker
from ganger.streams.kernel.nodes.node_index import matches
from ganger.streams.kernel.preemption.candidates import Bundle
from ganger.streams.kernel.resources import Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import NodeClass, pods_in


class Spots:
    """The nodes and cards that suit the pods that a taker must start."""

    __slots__ = ("_largest", "_masks", "_shapes", "_state")

    def __init__(self, state: State, taker: Taker) -> None:
        self._state = state
        shapes = taker.job.shape.shapes
        self._shapes = [s for s, count in zip(shapes, taker.counts, strict=True) if count]
        self._largest = max(self._shapes or shapes, key=lambda shape: shape.cards_milli)
        # by shape: cards that suit, by class of nodes
        self._masks: list[dict[tuple[object, ...], int]] = []
        for shape in self._shapes:
            eligible = state.indexes.nodes.eligible(shape)
            self._masks.append({kind.order: mask for kind, mask, _ in eligible})

    def helps(self, bundle: Bundle) -> bool:
        """Whether any of them holds something that a pod of the taker could use."""
        return any(self._is_in_the_way(pod) for pod in bundle.pods)

    def _is_in_the_way(self, pod: Pod) -> bool:
        node = self._state.nodes[pod.node]
        if not node.is_open or node.kind is None:
            return False
        for shape, masks in zip(self._shapes, self._masks, strict=True):
            mask = masks.get(node.kind.order)
            if mask is None or not matches(node.labels, shape.request.selectors):
                continue
            if pod.mask & mask or not shape.cards_milli or not pod.mask:
                return True
        return False

    def grouped(self, bundles: list[Bundle]) -> list[Bundle]:
        """The bundles in groups that each make room for one more pod, the largest that is asked
        for: first the groups with the fewest attempts, then the cheapest. Others are left out.
        """
        on_node: dict[int, list[tuple[Bundle, Pod]]] = {}
        for bundle in bundles:
            for pod in bundle.pods:
                on_node.setdefault(pod.node, []).append((bundle, pod))
        groups: list[tuple[int, tuple[int, ...], int, list[Bundle]]] = []
        for number in sorted(on_node):
            for group in self._groups(self._state.nodes[number], on_node[number]):
                pods = sum([len(bundle.pods) for bundle in group])
                groups.append((pods, max([bundle.key for bundle in group]), number, group))
        groups.sort(key=lambda group: group[:3])
        order: dict[tuple[int, ...], Bundle] = {}
        for *_, group in groups:
            for bundle in group:
                order.setdefault(bundle.key, bundle)
        return list(order.values())

    def _groups(self, node: Node, found: list[tuple[Bundle, Pod]]) -> list[list[Bundle]]:
        """On one node, island by island where a pod needs one of its own."""
        shape = self._largest
        assert node.kind is not None
        mask = suited(self._state, shape, node)
        if mask < 0:
            return []
        islands = node.kind.islands if shape.same_island else (mask,)
        groups = []
        for island in islands:
            free = node.free & mask & island
            fits = self._pods(shape, free, node.kind)
            group: list[Bundle] = []
            for bundle, pod in found:
                gained = pod.mask & node.healthy & mask & island
                if pod.mask and not gained:
                    continue
                free |= gained
                group.append(bundle)
                now = self._pods(shape, free, node.kind)
                if now > fits or not shape.cards:
                    groups.append(group)
                    group, fits = [], now
        return groups

    def _pods(self, shape: Shape, free: int, kind: NodeClass) -> int:
        return pods_in(free, shape.cards, kind.islands, shape.same_island) if shape.cards else 0


def suited(state: State, shape: Shape, node: Node) -> int:
    """Mask of a node's cards that suit a shape; -1: the node does not."""
    if not node.is_open or not matches(node.labels, shape.request.selectors):
        return -1
    for kind, mask, _ in state.indexes.nodes.eligible(shape):
        if kind is node.kind:
            return mask
    return -1

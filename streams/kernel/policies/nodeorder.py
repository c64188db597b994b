"""nodeorder: the emptier, the more evenly used and the less tainted node first, each with a weight.

Each part gives 0 to 100 points: `least_requested` and `most_requested` the mean of what would be
free, or used, of cards, cpu and memory, as far as the pod asks for them; `balanced` 100 less the
standard deviation of the used parts in percent; `taints` 100, divided by one more than the node's
taints of the kind that only asks to be avoided and that the pod does not tolerate. Weights are
Volcano's. Its affinity of pods is the kernel's own (module `trial`).
"""

from math import isqrt

from ganger.schemas.enums import TaintEffect
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.nodes.loads import load
from ganger.streams.kernel.nodes.node_index import tolerates
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.resources import SHARED, Shape
from ganger.streams.kernel.state import State

NAME = "nodeorder"
HOOKS = ("node_order",)

KNOWN = {
    "least_requested_weight": (1, 0, PRIORITY_MAX),
    "most_requested_weight": (0, 0, PRIORITY_MAX),
    "balanced_weight": (1, 0, PRIORITY_MAX),
    "taints_weight": (3, 0, PRIORITY_MAX),
}

_FULL = 100_000_000
"""100 points."""


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Weights, see `KNOWN`."""
    weights = integers(arguments, where, KNOWN)
    least, most = weights["least_requested_weight"], weights["most_requested_weight"]
    balanced, taints = weights["balanced_weight"], weights["taints_weight"]

    def score(state: State, job: Job, role: int, node: Node) -> int:
        shape = job.shape.shapes[role]
        parts = _parts(shape, node)
        total = taints * (_FULL // (1 + _soft_taints(shape, node))) if taints else 0
        if parts and max(parts) <= _FULL:
            mean = sum(parts) // len(parts)
            total += least * (_FULL - mean) + most * mean
        return total + (balanced * _balance(parts) if balanced else 0)

    return Hooks(node_order=score)


def _parts(shape: Shape, node: Node) -> list[int]:
    """How much of each resource that the pod asks for would be used; `_FULL` is all of it."""
    parts = []
    for place, asked in shape.charges:
        if place in SHARED:
            used, whole = load(node, place)
            if whole > 0:
                parts.append(_FULL * (used + asked) // whole)
    return parts


def _balance(parts: list[int]) -> int:
    """How evenly the resources would be used: all less the standard deviation."""
    if len(parts) < 2:
        return _FULL
    kept = [min(_FULL, part) for part in parts]
    mean = sum(kept) // len(kept)
    return _FULL - isqrt(sum([(part - mean) ** 2 for part in kept]) // len(kept))


def _soft_taints(shape: Shape, node: Node) -> int:
    """Taints of a node that ask to be avoided and that the pod does not tolerate."""
    assert node.kind is not None
    count = 0
    for taint in node.kind.taints:
        if taint.effect is TaintEffect.PREFER_NO_SCHEDULE:
            count += not tolerates(shape.request.tolerations, taint)
    return count

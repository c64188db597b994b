"""binpack: the fuller node first, resource by resource with weights.

A node scores the weighted mean of what would be used of each resource that the pod asks for and
that has a weight, 0 to 100 points, times `weight`. In Volcano cards count only if they are named;
here they count first: their weight is 10 where that of cpu and memory is 1.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.nodes.loads import suitability
from ganger.streams.kernel.nodes.scores import Lean
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.state import State

NAME = "binpack"
HOOKS = ("node_order",)

WEIGHTS = {"cards_milli": 10, "cpu_milli": 1, "memory_mib": 1}


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`weight`: of the whole score. Any other key is a resource's name, its value the weight."""
    reader = Arguments(arguments, where)
    weight = reader.integer("weight", 1, 0, PRIORITY_MAX)
    weights = {**WEIGHTS, **reader.rest(0, PRIORITY_MAX)}
    reader.close()
    leans = {name: (Lean.MOST_ALLOCATED, part) for name, part in weights.items() if part}

    def score(state: State, job: Job, role: int, node: Node) -> int:
        return suitability(state, job.shape.shapes[role], node, leans, weight)

    return Hooks(node_order=score)

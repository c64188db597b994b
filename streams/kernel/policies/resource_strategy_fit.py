"""resource_strategy_fit: some resources packed, others spread, each with a weight.

So that, for instance, cards are used up node by node while cpu is left free beside them. Only
resources that the pod asks for and that are named count.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.nodes.loads import suitability
from ganger.streams.kernel.nodes.scores import Lean
from ganger.streams.kernel.policies.hooks import Arguments, Hooks, refuse
from ganger.streams.kernel.state import State

NAME = "resource_strategy_fit"
HOOKS = ("node_order",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`weight`: of the whole score, 10 unless said, as in Volcano. `spread`: names of resources of
    which the emptier node is better. Any other key is a resource's name, its value the weight.
    """
    reader = Arguments(arguments, where)
    weight = reader.integer("weight", 10, 0, PRIORITY_MAX)
    spread = reader.names("spread")
    weights = reader.rest(0, PRIORITY_MAX)
    reader.close()
    for name in spread:
        if name not in weights:
            refuse(f"{where}.spread", name, f"give {name} a weight, or remove it")
    leans = {
        name: (Lean.LEAST_ALLOCATED if name in spread else Lean.MOST_ALLOCATED, part)
        for name, part in weights.items()
        if part
    }

    def score(state: State, job: Job, role: int, node: Node) -> int:
        return suitability(state, job.shape.shapes[role], node, leans, weight)

    return Hooks(node_order=score)

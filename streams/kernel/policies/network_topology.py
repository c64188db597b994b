"""network_topology: the fuller domain first among those that hold a job, and in it the fuller node.

That a job with a topology starts in the narrowest domain that holds it, and is gathered inside it,
is the kernel's own rule (module `trial`); this policy says which of equals to take, so that wide
domains stay whole for those who need them. Both scores are those of binpack, 0 to 100 points: of
what the job's roles ask for, what is held of it in the domain, or on the node.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.nodes.loads import load, suitability
from ganger.streams.kernel.nodes.scores import Lean
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.state import State

NAME = "network_topology"
HOOKS = ("domain_order", "node_order")

WEIGHTS = {"cards_milli": 10, "cpu_milli": 1, "memory_mib": 1}

_FULL = 100_000_000


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`weight`: of both scores. Any other key is a resource's name, its value the weight."""
    reader = Arguments(arguments, where)
    weight = reader.integer("weight", 1, 0, PRIORITY_MAX)
    weights = {**WEIGHTS, **reader.rest(0, PRIORITY_MAX)}
    reader.close()
    leans = {name: (Lean.MOST_ALLOCATED, part) for name, part in weights.items() if part}

    def of_domain(state: State, job: Job, domain: tuple[str, ...]) -> int:
        tree = state.indexes.domains
        assert tree is not None
        nodes = [state.nodes[number] for number in tree.by_path[domain].nodes]
        return _fullness(state, job, nodes, weights) * weight

    def of_node(state: State, job: Job, role: int, node: Node) -> int:
        return suitability(state, job.shape.shapes[role], node, leans, weight)

    return Hooks(domain_order=of_domain, node_order=of_node)


def _fullness(state: State, job: Job, nodes: list[Node], weights: dict[str, int]) -> int:
    """The weighted mean of the parts held of what the job asks for. Millionths of a point."""
    names = state.table.names
    places = {place: True for shape in job.shape.shapes for place, _ in shape.charges}
    total = weighted = 0
    for place in sorted(places):
        weight = weights.get(names[place], 0)
        held = whole = 0
        for node in nodes if weight else ():
            used, there = load(node, place)
            held, whole = held + used, whole + there
        total += weight
        if whole > 0:
            weighted += weight * (_FULL * held // whole)
    return weighted // total if total else 0

"""flavors: pods go to nodes with the labels of the flavors that their use is counted in."""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.policies.hooks import Hooks, integers
from ganger.streams.kernel.state import State

NAME = "flavors"
HOOKS = ("predicate",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(predicate=_predicate)


def _predicate(state: State, job: Job, role: int, node: Node) -> Reason:
    name = job.shape.roles[role].name
    for choice in job.flavors:
        if choice.role == name and choice.flavor in state.flavors:
            for label in state.flavors[choice.flavor].labels:
                if node.labels.get(label.key) != label.value:
                    return Reason.FLAVOR_AFFINITY
    return Reason.UNKNOWN

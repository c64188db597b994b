"""shard: the nodes of this scheduler's share of a cluster, alone or first.

`mode = "hard"`: other nodes are forbidden. `mode = "soft"`: they are used only where no node of the
shard will do.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.state import State

NAME = "shard"
HOOKS = ("predicate", "node_order")

FIRST = 10**18
"""More than any other scores together."""


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """`mode`: hard or soft. `nodes`: names of its nodes. `label`: or the key of the label whose
    value `value` its nodes have.
    """
    reader = Arguments(arguments, where)
    is_hard = reader.choice("mode", "hard", ("hard", "soft")) == "hard"
    names = dict.fromkeys(reader.names("nodes"), True)
    [label] = reader.names("label", ("",))[:1]
    [value] = reader.names("value", ("",))[:1]
    reader.close()

    def is_inside(node: Node) -> bool:
        if label and node.labels.get(label) == value:
            return True
        return node.report.node in names

    def predicate(state: State, job: Job, role: int, node: Node) -> Reason:
        return Reason.UNKNOWN if is_inside(node) else Reason.SHARD

    def score(state: State, job: Job, role: int, node: Node) -> int:
        return FIRST if is_inside(node) else 0

    return Hooks(predicate=predicate) if is_hard else Hooks(node_order=score)

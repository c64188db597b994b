"""shard: the nodes of this scheduler's share of a cluster, alone or first.

`mode = "hard"`: other nodes are forbidden. `mode = "soft"`: they are used only where no node of the
shard will do.
"""

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.policies.hooks import Arguments, Hooks, refuse
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
    label = reader.name("label")
    value = reader.name("value")
    reader.close()
    for key, given, other in (("label", label, "value"), ("value", value, "label")):
        if given and not (label and value):
            refuse(f"{where}.{key}", given, f"give {other} too, or remove it")
    if not (names or label):
        refuse(f"{where}.nodes", "", "name the nodes of the shard, or their label and its value")

    def is_inside(node: Node) -> bool:
        if label and node.labels.get(label) == value:
            return True
        return node.report.node in names

    def predicate(state: State, job: Job, role: int, node: Node) -> Reason:
        return Reason.UNKNOWN if is_inside(node) else Reason.SHARD

    def score(state: State, job: Job, role: int, node: Node) -> int:
        return FIRST if is_inside(node) else 0

    return Hooks(predicate=predicate) if is_hard else Hooks(node_order=score)

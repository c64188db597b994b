"""predicates: what a node must have at all: the named labels, tolerated taints, a free pod slot,
room, and the company or distance that pods require.

All of it is the kernel's own rule, policy or no policy, so that nothing is left to say here. The
name stands for those who know it from Volcano.
"""

from ganger.schemas.records import Argument
from ganger.streams.kernel.policies.hooks import Hooks, integers

NAME = "predicates"
HOOKS = ("predicate",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks()

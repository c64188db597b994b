"""pack: the fullest node that fits first, which keeps whole nodes and islands free."""

from ganger.schemas.records import Argument
from ganger.streams.kernel.policies.hooks import Hooks, integers

NAME = "pack"
HOOKS = ("spread",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(spread=False)

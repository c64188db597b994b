"""spread: the emptiest node that fits first, one pod at a time."""

from ganger.schemas.records import Argument
from ganger.streams.kernel.policies.hooks import Hooks, integers

NAME = "spread"
HOOKS = ("spread",)


def build(arguments: tuple[Argument, ...], where: str) -> Hooks:
    """Takes no arguments."""
    integers(arguments, where, {})
    return Hooks(spread=True)

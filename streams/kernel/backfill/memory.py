"""What policies have learnt: rows of plain numbers under names, facts of the state.

A row is kept as long as there is room; those not changed for longest are forgotten first. Its first
number is the seq of the record that changed it last, the rest is the learner's.
"""

from typing import Protocol

from ganger.streams.kernel.entities import Entity, Row

ROWS_MAX = 1 << 16


class Remembering(Protocol):
    """The part of a cell's state that rows live in."""

    memory: dict[str, Row]
    cause: int

    def touch(self, entity: Entity) -> None:
        """Remember that the entity's digest term must be made anew."""


def get(state: Remembering, name: str) -> tuple[int, ...]:
    """What is known under a name; () for nothing."""
    row = state.memory.get(name)
    return () if row is None else row.values[1:]


def put(state: Remembering, name: str, values: tuple[int, ...]) -> None:
    """Know this under a name from now on."""
    row = state.memory.get(name)
    if row is None:
        if len(state.memory) >= ROWS_MAX:
            _forget_oldest(state)
        row = state.memory[name] = Row(name, ())
    row.values = (state.cause, *values)
    state.touch(row)


def drop(state: Remembering, name: str) -> None:
    """Forget it."""
    row = state.memory.pop(name, None)
    if row is not None:
        row.is_untold = True
        state.touch(row)


def _forget_oldest(state: Remembering) -> None:
    """Make room for an eighth of all rows. O(n log n), so it pays for many to come."""
    ages = sorted((row.values[0], name) for name, row in state.memory.items())
    for _, name in ages[: ROWS_MAX // 8]:
        drop(state, name)

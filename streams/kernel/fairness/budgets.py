"""How many pods of a job may be disturbed at once."""

from dataclasses import dataclass

MILLI = 1000


@dataclass(frozen=True, slots=True)
class Budget:
    """-1: not given. Parts are thousandths of all pods, rounded up. A count goes before a part,
    what must be available before what may be unavailable.
    """

    min_available_count: int = -1
    min_available_milli: int = -1
    max_unavailable_count: int = -1
    max_unavailable_milli: int = -1


def allowed(budget: Budget, total: int, available: int, otherwise: int) -> int:
    """How many of the `available` pods of `total` may leave now; `otherwise` without a budget."""
    least = _bound(budget.min_available_count, budget.min_available_milli, total)
    if least is not None:
        return max(0, available - least)
    most = _bound(budget.max_unavailable_count, budget.max_unavailable_milli, total)
    if most is not None:
        return max(0, min(available, most - (total - available)))
    return max(0, min(available, otherwise))


def _bound(count: int, milli: int, total: int) -> int | None:
    if count >= 0:
        return count
    return -(-milli * total // MILLI) if milli >= 0 else None

"""Quota that queues of a tree lend each other, by (flavor, resource): Kueue's cohorts.

A node has quota of its own and that of its children. Of its quota it keeps `local_quota` to itself,
as its lending limit says, and stores the rest in its parent, from where anybody below may borrow
it. So a node's usage counts at the node and, beyond its local quota, at the parent, and on up.

Pure: plain ints and dictionaries. Whoever builds a tree calls `seal` on its root once quotas and
the queues' own usage stand.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Key = tuple[str, str]
"""Flavor and resource."""

Amounts = dict[Key, int]


@dataclass(frozen=True, slots=True)
class Quota:
    """Of one key at one node. None: no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(slots=True, eq=False)
class Cohort:
    """A node of the tree: a queue, which holds jobs, or a cohort of nodes."""

    name: str
    parent: "Cohort | None" = None
    quotas: dict[Key, Quota] = field(default_factory=dict)
    weight_milli: int = 1000  # of its share among its siblings; 0: may not borrow for long
    is_queue: bool = False
    children: "list[Cohort]" = field(default_factory=list)
    subtree: Amounts = field(default_factory=dict)  # own quota and what children store here
    usage: Amounts = field(default_factory=dict)  # of a cohort: what children use beyond their own

    def path(self) -> "Iterator[Cohort]":
        """The node's ancestors, the nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def root(self) -> "Cohort":
        """The topmost ancestor, or the node itself."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node


def attach(child: Cohort, parent: Cohort) -> None:
    """Make a node the child of another."""
    child.parent = parent
    parent.children.append(child)


def queues_below(node: Cohort) -> Iterator[Cohort]:
    """The queues of a subtree, depth first in the order of children."""
    if node.is_queue:
        yield node
    for child in node.children:
        yield from queues_below(child)


def seal(node: Cohort) -> None:
    """Sum quotas and usage up the subtree; the queues' own usage must stand."""
    node.subtree = {key: quota.nominal for key, quota in node.quotas.items()}
    if not node.is_queue:
        node.usage = {}
    for child in node.children:
        seal(child)
        for key, amount in child.subtree.items():
            node.subtree[key] = node.subtree.get(key, 0) + amount - local_quota(child, key)
        for key, amount in child.usage.items():
            beyond = max(0, amount - local_quota(child, key))
            node.usage[key] = node.usage.get(key, 0) + beyond


def local_quota(node: Cohort, key: Key) -> int:
    """What the node never lends."""
    quota = node.quotas.get(key)
    if quota is None or quota.lending_limit is None:
        return 0
    return max(0, node.subtree.get(key, 0) - quota.lending_limit)


def local_available(node: Cohort, key: Key) -> int:
    """What is left of it."""
    return max(0, local_quota(node, key) - node.usage.get(key, 0))


def available(node: Cohort, key: Key) -> int:
    """What the node may still use, by all quotas and limits up the tree.

    Negative where more is used than there is, as after a quota was lowered; but what a node never
    lends stays its own even if others use more than there is (in Kueue it does not).
    """
    if node.parent is None:
        return node.subtree.get(key, 0) - node.usage.get(key, 0)
    above = available(node.parent, key)
    quota = node.quotas.get(key)
    if quota is not None and quota.borrowing_limit is not None:
        kept = local_quota(node, key)
        stored = node.subtree.get(key, 0) - kept
        used = max(0, node.usage.get(key, 0) - kept)
        above = min(above, stored - used + quota.borrowing_limit)
    local = local_available(node, key)
    return local + max(0, above) if local else above


def potential(node: Cohort, key: Key) -> int:
    """What the node might use if nothing was used anywhere."""
    if node.parent is None:
        return node.subtree.get(key, 0)
    most = local_quota(node, key) + potential(node.parent, key)
    quota = node.quotas.get(key)
    if quota is not None and quota.borrowing_limit is not None:
        most = min(most, node.subtree.get(key, 0) + quota.borrowing_limit)
    return most


def borrows_with(node: Cohort, key: Key, more: int) -> bool:
    """Whether with so much more the node would use beyond its own quota."""
    return node.usage.get(key, 0) + more > node.subtree.get(key, 0)


def is_within(node: Cohort, keys: Iterable[Key]) -> bool:
    """Whether the node uses no more than its own quota of every key."""
    return not any(borrows_with(node, key, 0) for key in keys)


def fits(node: Cohort, request: Mapping[Key, int], borrows: bool) -> bool:
    """Whether the node may use so much more. `borrows`: even beyond its own quota."""
    for key, amount in request.items():
        if not borrows and borrows_with(node, key, amount):
            return False
        if amount > available(node, key):
            return False
    return True


def use(node: Cohort, amounts: Mapping[Key, int]) -> None:
    """The node begins to use so much more."""
    for key, amount in amounts.items():
        _use(node, key, amount)


def _use(node: Cohort, key: Key, amount: int) -> None:
    local = local_available(node, key)
    node.usage[key] = node.usage.get(key, 0) + amount
    if node.parent is not None and amount > local:
        _use(node.parent, key, amount - local)


def unuse(node: Cohort, amounts: Mapping[Key, int]) -> None:
    """The node ceases to use so much: the inverse of `use`."""
    for key, amount in amounts.items():
        _unuse(node, key, amount)


def _unuse(node: Cohort, key: Key, amount: int) -> None:
    beyond = node.usage.get(key, 0) - local_quota(node, key)
    node.usage[key] = node.usage.get(key, 0) - amount
    if beyond > 0 and node.parent is not None:
        _unuse(node.parent, key, min(amount, beyond))


def rest_after(node: Cohort, request: Mapping[Key, int]) -> tuple[bool, Amounts]:
    """Whether the node's own quota holds the request; what it must ask of its parent for it."""
    holds = not any(borrows_with(node, key, amount) for key, amount in request.items())
    rest = {key: max(0, amount - local_available(node, key)) for key, amount in request.items()}
    return holds, rest


def height(node: Cohort) -> int:
    """Edges to the farthest leaf below."""
    return max((1 + height(child) for child in node.children), default=0)


def borrow_level(queue: Cohort, key: Key, amount: int) -> tuple[int, bool]:
    """From how high up the quota for so much more of a key comes, if from anywhere.

    Returns the height of the lowest subtree around the queue that holds it (0: the queue itself;
    the height of the whole tree where none does), and whether that subtree is less than the whole.
    """
    if not borrows_with(queue, key, amount) or queue.parent is None:
        return 0, queue.parent is not None
    rest = amount - local_available(queue, key)
    node = queue
    for node in queue.path():
        if not borrows_with(node, key, rest):
            break
        rest -= local_available(node, key)
    return height(node), node.parent is not None

"""Whose turn it is under fair sharing: heads of queues compete up the tree, as in Kueue.

At every cohort the child wins whose share would be least with the job of its own winner in it;
equal shares go by priority, then by who stands in line longer. So a branch that borrows much waits
for its siblings at each level, whatever it does inside.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ganger.streams.kernel.fairness.cohort import Amounts, Cohort, unuse, use
from ganger.streams.kernel.fairness.cohort_share import Share, compare, share_of


@dataclass(frozen=True, slots=True)
class Head:
    """The first job of a queue, with the quota that it would get. `order` is unique."""

    queue: Cohort
    request: Amounts
    priority: int
    queued_at: int
    order: int


def winner(root: Cohort, heads: Mapping[str, Head]) -> Head | None:
    """Whose turn it is among the heads below a node; none if it has none. The tree stays as it was.

    `heads`: by name of the queue. O(heads x depth).
    """
    if root.is_queue:
        return heads.get(root.name)
    best: Head | None = None
    best_share = Share()
    for child in root.children:
        head = winner(child, heads)
        if head is None:
            continue
        share = _with(child, head)
        order = compare(share, best_share)
        if best is None or order < 0 or (order == 0 and _key(head) < _key(best)):
            best, best_share = head, share
    return best


def _with(node: Cohort, head: Head) -> Share:
    use(head.queue, head.request)
    share = share_of(node)
    unuse(head.queue, head.request)
    return share


def _key(head: Head) -> tuple[int, int, int]:
    return -head.priority, head.queued_at, head.order

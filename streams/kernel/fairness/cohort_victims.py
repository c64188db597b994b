"""Which holders of quota must leave so that a job gets its own: the classical rules of Kueue.

Holders of the own queue are judged by the queue's rule for itself; those of others only while
their queues borrow. Among others, the job has an *advantage* over those that sit farther from a
subtree whose own quota would hold it: that quota is nearer to it, so they leave whatever their
priority says. Over the rest its queue may borrow and take only from jobs below its threshold;
above it only if it ends without borrowing.

The obvious search: free holders in order until the job fits, then take back those whose return it
survives, the dearest first. It ends in a set of which none can be left out but the last.
"""

from dataclasses import dataclass, field

from ganger.streams.kernel.fairness.cohort import (
    Cohort,
    borrows_with,
    fits,
    is_within,
    rest_after,
    unuse,
    use,
)
from ganger.streams.kernel.fairness.cohort_rules import (
    Holder,
    Rule,
    Taker,
    Why,
    allows,
    uses_any,
    victim_key,
)

Targets = list[tuple[Holder, Why]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A holder that may leave. `only_unborrowed`: only if the taker ends without borrowing.

    `common`: the lowest cohort that it shares with the taker; none in the own queue.
    """

    holder: Holder
    why: Why
    only_unborrowed: bool = False
    common: Cohort | None = None


@dataclass(slots=True)
class Candidates:
    """Those who may leave, by how the taker stands to them."""

    below: list[Candidate] = field(default_factory=list)  # it has the advantage over them
    others: list[Candidate] = field(default_factory=list)
    own: list[Candidate] = field(default_factory=list)

    def in_order(self, queue: Cohort) -> list[Candidate]:
        """Those that leave already, then the others; in each the three kinds in turn."""
        kinds = [
            sorted(kind, key=lambda c: victim_key(c.holder, queue))
            for kind in (self.below, self.others, self.own)
        ]
        leaving = [c for kind in kinds for c in kind if c.holder.is_leaving]
        return leaving + [c for kind in kinds for c in kind if not c.holder.is_leaving]


def find(taker: Taker, held: dict[str, list[Holder]]) -> Targets:
    """Who must leave, and why; empty when nothing helps.

    `held`: holders by name of their queue. The tree is left as it was.
    """
    found = _collect(taker, held)
    candidates = found.in_order(taker.queue)
    for borrows in _attempts(taker, found):
        targets = _minimal(taker, candidates, borrows)
        if targets:
            return targets
    return []


def _attempts(taker: Taker, found: Candidates) -> tuple[bool, ...]:
    """Whether to try with borrowing, without, or both, and in which order."""
    rules = taker.rules
    is_under = all(
        taker.queue.quotas[key].nominal > taker.queue.usage.get(key, 0)
        if key in taker.queue.quotas
        else False
        for key in taker.contested
    )
    if not (found.below or found.others) or (not rules.borrow and not is_under):
        return (True,)
    if not rules.borrow and not found.below:
        return (False, True)
    return (True, False)


def _collect(taker: Taker, held: dict[str, list[Holder]]) -> Candidates:
    found = Candidates()
    queue, rules = taker.queue, taker.rules
    if rules.within_queue is not Rule.NEVER:
        for holder in held.get(queue.name, ()):
            if _may_leave(taker, holder, rules.within_queue):
                found.own.append(Candidate(holder, Why.SAME_QUEUE))
    if queue.parent is None or rules.reclaim is Rule.NEVER:
        return found
    has_advantage, rest = rest_after(queue, taker.request)
    done: Cohort = queue
    for cohort in queue.path():
        _collect_below(taker, held, cohort, cohort, done, has_advantage, found)
        holds, rest = rest_after(cohort, rest)
        has_advantage = has_advantage or holds
        done = cohort
    return found


def _collect_below(
    taker: Taker,
    held: dict[str, list[Holder]],
    node: Cohort,
    common: Cohort,
    done: Cohort,
    has_advantage: bool,
    found: Candidates,
) -> None:
    """Holders of the queues of a subtree that borrow, but for the part that is done."""
    for child in node.children:
        if child is done or is_within(child, taker.contested):
            continue
        if not child.is_queue:
            _collect_below(taker, held, child, common, done, has_advantage, found)
            continue
        for holder in held.get(child.name, ()):
            if not _may_leave(taker, holder, taker.rules.reclaim):
                continue
            if has_advantage:
                candidate = Candidate(holder, Why.RECLAIM_IN_COHORT, common=common)
                found.below.append(candidate)
            elif _is_below_threshold(taker, holder):
                found.others.append(Candidate(holder, Why.RECLAIM_WHILE_BORROWING, common=common))
            else:
                found.others.append(
                    Candidate(holder, Why.RECLAIM_IN_COHORT, only_unborrowed=True, common=common)
                )


def _may_leave(taker: Taker, holder: Holder, rule: Rule) -> bool:
    if not uses_any(holder, taker.contested):
        return False
    return allows(rule, taker.priority, taker.queued_at, holder.priority, holder.queued_at)


def _is_below_threshold(taker: Taker, holder: Holder) -> bool:
    rules = taker.rules
    if not rules.borrow or holder.priority >= taker.priority:
        return False
    return rules.borrow_priority_max is None or holder.priority <= rules.borrow_priority_max


def _minimal(taker: Taker, candidates: list[Candidate], borrows: bool) -> Targets:
    targets: Targets = []
    for candidate in candidates:
        if _still_counts(taker, candidate, borrows):
            unuse(candidate.holder.queue, candidate.holder.usage)
            targets.append((candidate.holder, candidate.why))
            if fits(taker.queue, taker.request, borrows):
                targets = fill_back(taker, targets, borrows)
                restore(targets)
                return targets
    restore(targets)
    return []


def _still_counts(taker: Taker, candidate: Candidate, borrows: bool) -> bool:
    """Whether the holder may still be taken after others have left: its queue, and the cohorts
    between it and the common one, must still borrow.
    """
    if candidate.common is None:
        return True
    if borrows and candidate.only_unborrowed:
        return False
    node = candidate.holder.queue
    while node is not candidate.common:
        if is_within(node, taker.contested):
            return False
        assert node.parent is not None
        node = node.parent
    return True


def fill_back(taker: Taker, targets: Targets, borrows: bool) -> Targets:
    """Let those stay whose stay the taker survives, the last taken first; never the very last."""
    kept = targets[:]
    for place in range(len(targets) - 2, -1, -1):
        holder = targets[place][0]
        use(holder.queue, holder.usage)
        if fits(taker.queue, taker.request, borrows):
            del kept[place]
        else:
            unuse(holder.queue, holder.usage)
    return kept


def restore(targets: Targets) -> None:
    """Undo that they left."""
    for holder, _ in targets:
        use(holder.queue, holder.usage)


def borrows_any(queue: Cohort, taker: Taker) -> bool:
    """Whether a queue uses more than its own quota of anything contested."""
    return any(borrows_with(queue, key, 0) for key in taker.contested)

"""Which holders of quota must leave for a fair division: Kueue's fair sharing.

Time and again the queue with the greatest share gives: from the root down, the child with the
greatest share that still has candidates. A taker that stays within its own quota takes from
borrowers without comparing; else shares are compared just below the lowest common cohort, the
taker's with its job in it:

* first rule: it ends with no more than the giver has left, or (`INITIAL`) less than it had;
* second rule, once a queue, where the first did not suffice: less than the giver had.

Afterwards those that are not needed stay, as in `cohort_victims`; then every target must still
pass one of the rules, for a target of the own queue that stays raises the taker's share again.
"""

from collections.abc import Iterator
from enum import IntEnum

from ganger.streams.kernel.fairness.cohort import Cohort, fits, queues_below, unuse, use
from ganger.streams.kernel.fairness.cohort_rules import (
    Holder,
    Rule,
    Taker,
    Why,
    allows,
    uses_any,
    victim_key,
)
from ganger.streams.kernel.fairness.cohort_share import Share, compare, share_of
from ganger.streams.kernel.fairness.cohort_victims import (
    Targets,
    borrows_any,
    fill_back,
    restore,
)


class Strategy(IntEnum):
    """A rule: the taker's new share must be ..."""

    FINAL = 1  # at most what the giver has after the holder left
    INITIAL = 2  # less than the giver has before


DEFAULT = (Strategy.FINAL, Strategy.INITIAL)


def find(
    taker: Taker,
    held: dict[str, list[Holder]],
    strategies: tuple[Strategy, ...] = DEFAULT,
) -> Targets:
    """Who must leave, and why; empty when nothing helps. The tree is left as it was.

    `held`: holders by name of their queue.
    """
    candidates = sorted(_candidates(taker, held), key=lambda h: victim_key(h, taker.queue))
    if not candidates:
        return []
    search = _Search(taker, strategies)
    use(taker.queue, taker.request)  # shares count the taker's job in
    is_done = search.run(candidates)
    unuse(taker.queue, taker.request)
    targets = search.targets
    if not is_done:
        restore(targets)
        return []
    targets = fill_back(taker, targets, borrows=True)
    is_fair = _are_fair(taker, targets, strategies)
    restore(targets)
    return targets if is_fair else []


def _candidates(taker: Taker, held: dict[str, list[Holder]]) -> Iterator[Holder]:
    for queue in queues_below(taker.queue.root()):
        rule = taker.rules.reclaim
        if queue is taker.queue:
            rule = taker.rules.within_queue
        elif not borrows_any(queue, taker):
            continue
        if rule is Rule.NEVER:
            continue
        for holder in held.get(queue.name, ()):
            if uses_any(holder, taker.contested) and allows(
                rule, taker.priority, taker.queued_at, holder.priority, holder.queued_at
            ):
                yield holder


class _Search:
    """One search; `targets` have left the tree."""

    def __init__(self, taker: Taker, strategies: tuple[Strategy, ...]) -> None:
        self.taker = taker
        self.strategies = strategies
        self.targets: Targets = []

    def run(self, candidates: list[Holder]) -> bool:
        """Take until the job fits."""
        before = len(self.targets)
        is_done, left = self._first(candidates)
        took_own = any(h.queue is self.taker.queue for h, _ in self.targets[before:])
        if not is_done and took_own:  # the taker's share fell since: ask the rest again
            is_done, left = self._first(left)
        if not is_done and len(self.strategies) > 1:
            is_done = self._second(left)
        return is_done

    def _first(self, candidates: list[Holder]) -> tuple[bool, list[Holder]]:
        """Returns whether the job fits, and who did not pass."""
        taker = self.taker
        order = _Givers(taker, candidates)
        is_within = not borrows_any(taker.queue, taker)  # with its job in it
        left: list[Holder] = []
        while (giver := order.next()) is not None:
            waiting = order.holders[giver.name]
            if giver is taker.queue or is_within:
                why = Why.SAME_QUEUE if giver is taker.queue else Why.RECLAIM_IN_COHORT
                if self._take(waiting.pop(0), why):
                    return True, left
                continue
            mine, theirs = _sides(taker.queue, giver)
            share, before = share_of(mine), share_of(theirs)
            while waiting:
                holder = waiting.pop(0)
                if _passes(self.strategies[0], share, before, theirs, holder):
                    if self._take(holder, Why.FAIR_SHARE):
                        return True, left
                    break  # shares have changed: another queue may come first now
                left.append(holder)
        return False, left

    def _second(self, candidates: list[Holder]) -> bool:
        taker = self.taker
        order = _Givers(taker, candidates)
        while (giver := order.next()) is not None:
            mine, theirs = _sides(taker.queue, giver)
            if giver is not taker.queue and compare(share_of(mine), share_of(theirs)) < 0:
                if self._take(order.holders[giver.name].pop(0), Why.FAIR_SHARE):
                    return True
            order.drop(giver)
        return False

    def _take(self, holder: Holder, why: Why) -> bool:
        """Let a holder leave; whether the job fits then."""
        unuse(holder.queue, holder.usage)
        self.targets.append((holder, why))
        unuse(self.taker.queue, self.taker.request)
        is_done = fits(self.taker.queue, self.taker.request, borrows=True)
        use(self.taker.queue, self.taker.request)
        return is_done


def _passes(
    strategy: Strategy, share: Share, before: Share, theirs: Cohort, holder: Holder
) -> bool:
    if strategy is Strategy.INITIAL:
        return compare(share, before) < 0
    unuse(holder.queue, holder.usage)
    after = share_of(theirs)
    use(holder.queue, holder.usage)
    return compare(share, after) <= 0


def _are_fair(taker: Taker, targets: Targets, strategies: tuple[Strategy, ...]) -> bool:
    """Whether each target still passes a rule, with the job in and all targets gone."""
    use(taker.queue, taker.request)
    is_within = not borrows_any(taker.queue, taker)
    result = True
    for holder, why in targets:
        if why is Why.SAME_QUEUE or is_within:
            continue
        mine, theirs = _sides(taker.queue, holder.queue)
        share, after = share_of(mine), share_of(theirs)
        use(holder.queue, holder.usage)
        before = share_of(theirs)
        unuse(holder.queue, holder.usage)
        passes = {Strategy.FINAL: compare(share, after) <= 0, Strategy.INITIAL: False}
        passes[Strategy.INITIAL] = compare(share, before) < 0
        result = result and any(passes[strategy] for strategy in strategies)
    unuse(taker.queue, taker.request)
    return result


def _sides(queue: Cohort, other: Cohort) -> tuple[Cohort, Cohort]:
    """The two ancestors (or the queues themselves) just below the lowest common cohort."""
    above = {node.name: True for node in queue.path()}
    theirs = other
    while theirs.parent is not None and theirs.parent.name not in above:
        theirs = theirs.parent
    mine = queue
    while mine.parent is not None and mine.parent is not theirs.parent:
        mine = mine.parent
    return mine, theirs


class _Givers:
    """Queues in the order in which they give. Between two calls of `next` a holder of the queue
    must be taken out of `holders`, or the queue dropped.
    """

    def __init__(self, taker: Taker, candidates: list[Holder]) -> None:
        self.queue = taker.queue
        self.above = {node.name: True for node in taker.queue.path()}
        self.holders: dict[str, list[Holder]] = {}
        self.pruned: dict[str, bool] = {}
        for holder in candidates:
            self.holders.setdefault(holder.queue.name, []).append(holder)

    def next(self) -> Cohort | None:
        """The queue to give next, or none."""
        root = self.queue.root()
        if root is self.queue:
            return root if self._has_any(root) else None
        while root.name not in self.pruned:
            found = self._down(root)
            if found is not None:
                return found
        return None

    def drop(self, queue: Cohort) -> None:
        """Ask the queue no more."""
        self.holders.pop(queue.name, None)

    def _has_any(self, queue: Cohort) -> bool:
        return bool(self.holders.get(queue.name))

    def _down(self, cohort: Cohort) -> Cohort | None:
        """The queue below a cohort that gives next; none when something was pruned instead.

        Of equal shares a cohort comes before a queue: the unfairest may sit inside it.
        """
        best: Cohort | None = None
        best_share = Share()
        for child in cohort.children:
            if child.name in self.pruned:
                continue
            share = share_of(child)
            if child.is_queue:
                is_out = not self._has_any(child) or (
                    child is not self.queue and not share.borrowed
                )
            else:
                is_out = child.name not in self.above and not share.borrowed
            if is_out:
                self.pruned[child.name] = True
            elif best is None or self._is_before(child, share, best, best_share):
                best, best_share = child, share
        if best is None:
            self.pruned[cohort.name] = True
            return None
        return best if best.is_queue else self._down(best)

    def _is_before(self, node: Cohort, share: Share, best: Cohort, best_share: Share) -> bool:
        order = compare(share, best_share)
        if order or node.is_queue is not best.is_queue:
            return order > 0 or (order == 0 and best.is_queue)
        if not node.is_queue:
            return node.name < best.name
        mine, theirs = self.holders[node.name][0], self.holders[best.name][0]
        return victim_key(mine, self.queue) < victim_key(theirs, self.queue)

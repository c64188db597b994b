"""The solver: the cheapest attempts without which a job could start, all of it.

The obvious algorithm: take the candidates in order of their cost, one bundle more at a time, until
the job finds its places on what would then be free; give back whoever turns out not to be needed.
What departs from it: the number of bundles is doubled and then bisected, since more freed does not
hurt. So the dearest victim is as cheap as can be. Attempts that leave anyhow are seen as gone
already (module `taking`).

Nothing here changes the cell: everything is undone before the answer is given.
"""

from ganger.streams.kernel.entities import Pod, Taker
from ganger.streams.kernel.jobs.progress import may_evict
from ganger.streams.kernel.nodes.statement import Place, Statement
from ganger.streams.kernel.preemption.candidates import (
    Bundle,
    Hunt,
    Pool,
    Solution,
    View,
    flatten,
    judged,
)
from ganger.streams.kernel.preemption.spots import Spots
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.state import State

READ_FIRST, READ_MORE = 4, 256
"""Candidates that are looked at: first few, then many at once, then their number is doubled."""

TRIALS_MAX = 256
"""Pods that may be placed once more, in all, to find victims that are not needed."""


def solve(state: State, taker: Taker, hunt: Hunt, pool: Pool, place: Place) -> Solution | None:
    """The solution for a job; none if there is none, or if it fits without anybody leaving."""
    is_hopeful = may_evict(state, taker.job) and pool.may_help(taker, hunt)
    if not (is_hopeful or pool.leaving):
        return None
    search = _Search(state, taker, hunt, place)
    try:
        if search.fits([]):
            entries = search.statement.take_entries()
            return Solution(entries, (), 0) if pool.leaving else None
        return search.cheapest(pool) if is_hopeful else None
    finally:
        search.statement.discard()
        search.lifts.discard()


class _Search:
    """One job that looks for its victims."""

    __slots__ = ("_hunt", "_known", "_lifted", "_place", "_state", "_taker", "lifts", "statement")

    def __init__(self, state: State, taker: Taker, hunt: Hunt, place: Place) -> None:
        self._state = state
        self._taker = taker
        self._hunt = hunt
        self._place = place
        self.lifts = Statement(state)  # those who are seen as gone
        self.statement = Statement(state)  # the places found
        self._lifted: list[tuple[Bundle, int]] = []  # each with the mark before it in `lifts`
        self._known: dict[tuple[int, int, int], bool] = {}  # attempts of these

    def cheapest(self, pool: Pool) -> Solution | None:
        taker, judge, state = self._taker, self._hunt.judge, self._state
        spots = Spots(state, taker)
        view = View(filter(spots.helps, pool.offer(taker, self._hunt)))
        shapes = taker.job.shape.shapes
        need = sum([s.cards_milli * n for s, n in zip(shapes, taker.counts, strict=True)])
        need -= max(0, state.total[CARDS] - state.used[CARDS])
        while True:
            view.read(max(READ_MORE, len(view.seen)) if view.seen else READ_FIRST, need)
            self._lift([])  # vetoes look at what queues really have
            chosen = judged(state, taker, view.seen, judge)
            cards = sum([victim.pod.shape.cards_milli for victim in flatten(chosen)])
            if chosen and cards >= need and self.fits(chosen):
                break
            if view.is_done:
                # whom no veto lets go alone, none lets go in another order
                is_picked = 0 < len(chosen) < len(view.seen)
                chosen = self._grouped(spots, view.seen) if is_picked else []
                if not chosen:
                    return None
                break
        chosen = self._least(chosen)
        if self._hunt.gives_back:
            chosen = self._needed(chosen)
        victims = flatten(chosen)
        self._lift([])
        if judge is not None and len(judge(state, taker, victims)) < len(victims):
            return None  # with those that were given back it is not the set that was let go
        if not self.fits(chosen):
            return None
        return Solution(self.statement.take_entries(), tuple(victims), len(view.seen))

    def _grouped(self, spots: Spots, bundles: list[Bundle]) -> list[Bundle]:
        """Where vetoes let only some go, and those were not in the same place: candidates in order
        of places, so that those are counted who together make room for a pod. Empty: in vain.
        """
        self._lift([])
        chosen = judged(self._state, self._taker, spots.grouped(bundles), self._hunt.judge)
        return chosen if chosen and self.fits(chosen) else []

    def _least(self, chosen: list[Bundle]) -> list[Bundle]:
        """The shortest prefix that suffices; the whole does, none of it does not."""
        low, high = 0, len(chosen)
        while high - low > 1:
            middle = (low + high) // 2
            if self.fits(chosen[:middle]):
                high = middle
            else:
                low = middle
        return chosen[:high]

    def _needed(self, chosen: list[Bundle]) -> list[Bundle]:
        """Give back those that are not needed, the dearest first: at once those whose places were
        left free, then, few pods permitting, those without which other places are found.
        """
        needed = self._untouched(chosen)
        trials = TRIALS_MAX // max(1, sum(self._taker.counts))
        for bundle in reversed(needed):
            if len(needed) == 1 or trials <= 0:
                break
            if _leaves_rest(bundle, needed):
                continue
            trials -= 1
            fewer = [other for other in needed if other is not bundle]
            if self.fits(fewer):
                needed = fewer
        return needed

    def _untouched(self, chosen: list[Bundle]) -> list[Bundle]:
        """Those of whose cards and other quantities the placement takes something."""
        if not self.fits(chosen):
            return chosen
        own: dict[int, list[Pod]] = {}  # what a bundle adds to those before it
        for victim in flatten(chosen):
            own.setdefault(victim.bundle, []).append(victim.pod)
        held = Statement(self._state)
        kept: list[Bundle] = []
        for place, bundle in reversed(list(enumerate(chosen))):
            mark = held.checkpoint()
            stays = not _leaves_rest(bundle, kept)
            if not (stays and all(held.take_again(pod) for pod in own.get(place, ()))):
                held.rollback(mark)
                kept.append(bundle)
        held.discard()
        kept.reverse()
        # cards alone do not say who is in the way: pods may have to keep apart
        return kept if kept and self.fits(kept) else chosen

    def fits(self, chosen: list[Bundle]) -> bool:
        """Whether the job finds its places, in the statement, if just these were gone."""
        self._lift(chosen)
        return self._place(self._state, self.statement, self._taker.job, False) is None

    def _lift(self, chosen: list[Bundle]) -> None:
        """See just these as gone. What they have in common with the last at the front stays."""
        self.statement.discard()
        common = 0
        for (bundle, _), other in zip(self._lifted, chosen, strict=False):
            if bundle is not other:
                break
            common += 1
        while len(self._lifted) > common:
            _, mark = self._lifted.pop()
            for pod, _ in self.lifts.lifted[mark:]:
                del self._known[pod.job, pod.index, pod.attempt]
            self.lifts.rollback(mark)
        for bundle in chosen[common:]:
            self._lifted.append((bundle, self.lifts.checkpoint()))
            for pod in bundle.pods:
                identity = (pod.job, pod.index, pod.attempt)
                if identity not in self._known:
                    self._known[identity] = True
                    self.lifts.give_back(pod)


def _leaves_rest(bundle: Bundle, kept: list[Bundle]) -> bool:
    """Whether it is a spare pod of a job that leaves as a whole: it cannot stay alone."""
    return not bundle.is_whole and any(o.is_whole and o.job is bundle.job for o in kept)

"""When a queue may take back from others, and from whom: KAI's rules over fair shares.

A queue may begin while with the job it stays within its fair share. A set of victims is right when
each, judged after those before it, belongs to a branch above its fair share and its quota, or above
its quota while the taker stays within its own; and when no branch of the taker ends above its fair
share unless the robbed sibling stays the more saturated of the two. A job that nobody may evict
must also fit into quota among its like, at every level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Standing:
    """Of a queue in one resource. None: unlimited. `allocated_firm`: by jobs not to be evicted.

    `limit`: the most that it may ever have.
    """

    quota: int | None
    fair_share: int | None
    allocated: int
    allocated_firm: int = 0
    limit: int | None = None

    def allowance(self) -> int | None:
        """What it may keep whoever asks: the greater of quota and fair share, within its limit."""
        if self.quota is None or self.fair_share is None:
            return self.limit
        most = max(self.quota, self.fair_share)
        return most if self.limit is None else min(self.limit, most)


@dataclass(frozen=True, slots=True)
class Branch:
    """A queue with its standing by resource. `parent`: empty at the top."""

    name: str
    parent: str
    standings: Mapping[str, Standing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claimer:
    """The job that wants to take. `saturation_milli`: how much more saturated than its branch, in
    thousandths, a robbed branch must stay once its own is above fair share.
    """

    queue: str
    request: Mapping[str, int]
    is_evictable: bool
    saturation_milli: int = 1000


Victim = tuple[str, Mapping[str, int]]
"""Queue and what leaves it."""


def may_start(branch: Branch, claimer: Claimer) -> bool:
    """Whether the job may look for victims at all. O(resources)."""
    for resource, standing in branch.standings.items():
        more = claimer.request.get(resource, 0)
        if standing.fair_share is not None and standing.allocated + more > standing.fair_share:
            return False
    return claimer.is_evictable or _fits_firm(branch, claimer)


def is_allowed(branches: Mapping[str, Branch], claimer: Claimer, victims: Sequence[Victim]) -> bool:
    """Whether the job may take these victims, in this order. O(victims x depth)."""
    trial = Trial(branches, claimer)
    return all(trial.take(queue, amounts) for queue, amounts in victims) and trial.is_fair()


class Trial:
    """Victims taken one after the other, as far as the rules allow."""

    __slots__ = ("_branches", "_claimer", "_involved", "_left")

    def __init__(self, branches: Mapping[str, Branch], claimer: Claimer) -> None:
        self._branches = branches
        self._claimer = claimer
        self._left: dict[str, dict[str, int]] = {}  # what branches that lost something have left
        self._involved: dict[str, dict[str, int]] = {}  # victims by branch and resource

    def take(self, queue: str, amounts: Mapping[str, int]) -> bool:
        """Take a victim from a queue if it may give one, after those before. O(depth)."""
        taking, giving = _sides(self._branches, self._claimer.queue, queue)
        if not _may_give(taking, giving, self._left.get(giving.name), self._claimer):
            return False
        self._move(queue, amounts, 1)
        return True

    def give_back(self, queue: str, amounts: Mapping[str, int]) -> None:
        """Undo of the last `take` that was allowed."""
        self._move(queue, amounts, -1)

    def is_fair(self) -> bool:
        """Whether with these victims the job may start: see the module. O(depth x robbed)."""
        involved = {
            name: {resource: True for resource, count in counts.items() if count}
            for name, counts in self._involved.items()
        }
        robbed = {name: left for name, left in self._left.items() if any(involved.get(name, ()))}
        return all(
            _stays_fair(self._branches, branch, self._claimer, robbed, involved)
            and (self._claimer.is_evictable or _fits_firm(branch, self._claimer))
            for branch in _path(self._branches, self._claimer.queue)
        )

    def _move(self, queue: str, amounts: Mapping[str, int], sign: int) -> None:
        for branch in _path(self._branches, queue):
            rest = self._left.setdefault(
                branch.name, {r: s.allocated for r, s in branch.standings.items()}
            )
            counts = self._involved.setdefault(branch.name, {})
            for resource, amount in amounts.items():
                if amount:
                    rest[resource] = rest.get(resource, 0) - amount * sign
                    counts[resource] = counts.get(resource, 0) + sign


def _may_give(
    taking: Branch, giving: Branch, left: Mapping[str, int] | None, claimer: Claimer
) -> bool:
    """Whether the next victim may be taken from a branch of which so much is left."""
    has = left or {}
    above_share = above_quota = False
    for resource, standing in giving.standings.items():
        rest = has.get(resource, standing.allocated)
        allowance = standing.allowance()
        above_share |= allowance is not None and rest > allowance
        above_quota |= standing.quota is not None and rest > standing.quota
    if above_share or not above_quota:
        return above_share
    return all(
        standing.quota is None
        or standing.allocated + claimer.request.get(resource, 0) <= standing.quota
        for resource, standing in taking.standings.items()
    )


def _stays_fair(
    branches: Mapping[str, Branch],
    branch: Branch,
    claimer: Claimer,
    left: Mapping[str, Mapping[str, int]],
    involved: Mapping[str, Mapping[str, bool]],
) -> bool:
    """Whether a branch of the taker ends within its fair share, or less saturated than those of its
    siblings that were robbed.
    """
    asked = {resource: True for resource, amount in claimer.request.items() if amount}
    for name in sorted(left):
        sibling = branches[name]
        if sibling.parent != branch.parent or name == branch.name:
            continue
        for resource in {**involved.get(name, {}), **asked}:
            mine, theirs = branch.standings.get(resource), sibling.standings.get(resource)
            if mine is None or theirs is None or mine.fair_share is None:
                continue
            has = left.get(branch.name, {}).get(resource, mine.allocated)
            has += claimer.request.get(resource, 0)
            if has <= mine.fair_share or theirs.fair_share == 0:
                continue
            rest = left[name].get(resource, theirs.allocated)
            if theirs.fair_share is None or not mine.fair_share:
                return False
            # has / mine.fair_share * factor >= rest / theirs.fair_share
            factor = claimer.saturation_milli
            if has * factor * theirs.fair_share >= rest * 1000 * mine.fair_share:
                return False
    return True


def _fits_firm(branch: Branch, claimer: Claimer) -> bool:
    return all(
        standing.quota is None
        or standing.allocated_firm + claimer.request.get(resource, 0) <= standing.quota
        for resource, standing in branch.standings.items()
    )


def _path(branches: Mapping[str, Branch], name: str) -> list[Branch]:
    """The queue, its parent, ... up to the top."""
    path = [branches[name]]
    while path[-1].parent:
        path.append(branches[path[-1].parent])
    return path


def _sides(branches: Mapping[str, Branch], mine: str, other: str) -> tuple[Branch, Branch]:
    """Ancestors (or the queues themselves) of both where they first differ from the top down."""
    pairs = list(zip(_path(branches, mine)[::-1], _path(branches, other)[::-1], strict=False))
    for left, right in pairs:
        if left.name != right.name:
            return left, right
    return pairs[-1]

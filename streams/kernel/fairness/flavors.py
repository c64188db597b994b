"""Which flavor a job's groups get for each resource, and whether by free quota or by eviction.

A queue's resources fall into groups; all resources of a group that one set of pods asks for get
the same flavor. Flavors are tried in the queue's order; how far to look is the queue's choice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ganger.streams.kernel.fairness.cohort import (
    Amounts,
    Cohort,
    Key,
    available,
    borrow_level,
    potential,
)

PODS = "pods"
"""Where a queue has quota for pods, every set of pods asks for its count."""


class Mode(IntEnum):
    """How quota can be had, worst first."""

    NO_FIT = 0  # not even with everything free
    NO_CANDIDATES = 1  # by eviction, but nobody may be evicted now
    PREEMPT = 2
    RECLAIM = 3  # by eviction in other queues alone
    FIT = 4


class Lack(IntEnum):
    """Why no flavor could be had, mildest first."""

    NONE = 0
    QUOTA = 1  # too little is free, and nobody may be evicted for it
    MOST = 2  # more is asked than could ever be had
    FLAVOR = 3  # no flavor suits the pods, or the queue has none for the resource


@dataclass(frozen=True, slots=True)
class Grade:
    """How good a flavor is: mode, and from how high up the tree its quota comes."""

    mode: Mode
    level: int
    lack: Lack = Lack.NONE


@dataclass(frozen=True, slots=True)
class Search:
    """How far a queue looks among its flavors. `borrow_next`, `preempt_next`: whether to go on
    after a flavor that could be had by borrowing, by eviction. `preempt_first`: eviction is
    preferred to borrowing from higher up.
    """

    borrow_next: bool = False
    preempt_next: bool = True
    preempt_first: bool = False


@dataclass(frozen=True, slots=True)
class FlavorGroup:
    """Resources that get one flavor, and the flavors in order."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of a job: what all `count` of them ask together, and the flavors they bear."""

    name: str
    count: int
    requests: dict[str, int]
    bears: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A flavor for one resource of one set of pods."""

    flavor: str
    mode: Mode
    level: int


@dataclass(slots=True)
class Assignment:
    """What each set of pods gets, in their order. Sets after the first that fits nowhere are not
    looked at.
    """

    chosen: list[dict[str, Chosen]] = field(default_factory=list)
    usage: Amounts = field(default_factory=dict)
    mode: Mode = Mode.FIT
    level: int = 0
    lack: Lack = Lack.NONE  # of a mode NO_FIT

    def contested(self) -> tuple[Key, ...]:
        """Keys of which too little is free."""
        keys = [
            (one.flavor, resource)
            for part in self.chosen
            for resource, one in part.items()
            if one.mode is not Mode.FIT
        ]
        return tuple(dict.fromkeys(sorted(keys)))


Oracle = Callable[[Key, int], Grade]
"""Whether so much of a key could be had by eviction, and the borrow level after it."""


@dataclass(frozen=True, slots=True)
class Asker:
    """The queue that asks. `borrows_by_eviction`: its job may evict even if it then borrows."""

    queue: Cohort
    groups: tuple[FlavorGroup, ...]
    oracle: Oracle
    search: Search = Search()
    borrows_by_eviction: bool = False


def assign(asker: Asker, pod_sets: Sequence[PodSet]) -> Assignment:
    """Flavors for all sets of pods, each counting what the earlier ones got."""
    result = Assignment()
    for pods in pod_sets:
        requests = dict(pods.requests)
        if _group_of(asker, PODS) is not None:
            requests[PODS] = pods.count
        chosen: dict[str, Chosen] = {}
        for resource in sorted(requests):
            group = _group_of(asker, resource)
            if resource in chosen or (group is None and not requests[resource]):
                continue
            part: dict[str, Chosen] = {}
            lack = Lack.FLAVOR
            if group is not None:
                part, lack = _choose(asker, group, pods, requests, result.usage)
            if not part:
                result.chosen.append({})
                result.mode, result.lack = Mode.NO_FIT, lack
                return result
            chosen.update(part)
        result.chosen.append(chosen)
        for resource, one in chosen.items():
            key = (one.flavor, resource)
            result.usage[key] = result.usage.get(key, 0) + requests[resource]
            result.mode = min(result.mode, one.mode)
            result.level = max(result.level, one.level)
    return result


def _group_of(asker: Asker, resource: str) -> FlavorGroup | None:
    for group in asker.groups:
        if resource in group.resources:
            return group
    return None


def _choose(
    asker: Asker, group: FlavorGroup, pods: PodSet, requests: dict[str, int], used: Amounts
) -> tuple[dict[str, Chosen], Lack]:
    """The best flavor of a group for the resources of it that are asked for; if none, why."""
    asked = [resource for resource in sorted(requests) if resource in group.resources]
    best: dict[str, Chosen] = {}
    best_grade = Grade(Mode.NO_FIT, 0)
    lack = Lack.FLAVOR
    for flavor in group.flavors:
        if flavor not in pods.bears:
            continue
        chosen: dict[str, Chosen] = {}
        worst = Grade(Mode.FIT, 0)
        for resource in asked:
            key = (flavor, resource)
            grade = grade_of(asker, key, used.get(key, 0) + requests[resource])
            if is_better(worst, grade, asker.search):
                worst = grade
            if worst.mode is Mode.NO_FIT:
                lack = min(lack, worst.lack)
                break
            chosen[resource] = Chosen(flavor, grade.mode, grade.level)
        if worst.mode is Mode.NO_FIT:
            continue
        if not _looks_on(worst, asker.search):
            return chosen, Lack.NONE
        if is_better(worst, best_grade, asker.search):
            best, best_grade = chosen, worst
    return best, Lack.NONE if best else lack


def grade_of(asker: Asker, key: Key, amount: int) -> Grade:
    """How so much of one key can be had."""
    queue = asker.queue
    if amount > potential(queue, key):
        return Grade(Mode.NO_FIT, 0, Lack.MOST)
    level, is_part = borrow_level(queue, key, amount)
    if amount <= available(queue, key):
        return Grade(Mode.FIT, level)
    quota = queue.quotas.get(key)
    is_own = quota is not None and amount <= quota.nominal
    if is_own or is_part or asker.borrows_by_eviction:
        return asker.oracle(key, amount)
    return Grade(Mode.NO_FIT, level, Lack.QUOTA)


def is_better(left: Grade, right: Grade, search: Search) -> bool:
    """Whether one grade is better than another, as the queue prefers."""
    if Mode.NO_FIT in (left.mode, right.mode):
        return left.mode is not Mode.NO_FIT
    if (left.mode is Mode.NO_CANDIDATES) is not (right.mode is Mode.NO_CANDIDATES):
        return right.mode is Mode.NO_CANDIDATES
    by_mode = (left.mode - right.mode, right.level - left.level)
    first, second = by_mode[::-1] if search.preempt_first else by_mode
    return first > 0 or (first == 0 and second > 0)


def _looks_on(grade: Grade, search: Search) -> bool:
    if grade.mode is Mode.NO_CANDIDATES:
        return True
    if grade.mode in (Mode.PREEMPT, Mode.RECLAIM) and search.preempt_next:
        return True
    return grade.level > 0 and search.borrow_next


def shrink(
    counts: Sequence[int], least: Sequence[int], does_fit: Callable[[list[int]], bool]
) -> list[int] | None:
    """The largest sizes, between `least` and `counts`, with which a job fits; none if none.

    All sets shrink by one common step of as many as there are pods to spare, so each by its part of
    them. Bisects, for smaller fits wherever larger does.
    """
    spare = [count - few for count, few in zip(counts, least, strict=True)]
    steps = sum(spare)
    if not steps:
        return None

    def sizes(step: int) -> list[int]:
        return [count - extra * step // steps for count, extra in zip(counts, spare, strict=True)]

    if not does_fit(sizes(steps)):
        return None
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        if does_fit(sizes(middle)):
            high = middle
        else:
            low = middle + 1
    return sizes(low)

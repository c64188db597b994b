"""Who may evict whom within a quota tree, and in which order jobs are asked and taken: Kueue's."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from ganger.streams.kernel.fairness.cohort import Amounts, Cohort, Key


class Rule(IntEnum):
    """Which holders of quota a job may evict."""

    NEVER = 1
    LOWER_PRIORITY = 2
    LOWER_OR_NEWER_EQUAL = 3  # or of equal priority and younger
    ANY = 4


class Why(IntEnum):
    """Why a holder of quota has to leave."""

    SAME_QUEUE = 1
    RECLAIM_IN_COHORT = 2  # its queue borrowed what the other's is due
    RECLAIM_WHILE_BORROWING = 3  # the other borrows too and stands above it
    FAIR_SHARE = 4


@dataclass(frozen=True, slots=True)
class Rules:
    """Of the queue that takes. `borrow`: may it borrow and yet take from others of the cohort who
    stand below its job and, where `borrow_priority_max` is given, at most at that priority?
    """

    within_queue: Rule = Rule.NEVER
    reclaim: Rule = Rule.NEVER
    borrow: bool = False
    borrow_priority_max: int | None = None


@dataclass(slots=True, eq=False)
class Holder:
    """A job that holds quota. `order` is unique; `recent_use` of its user, where usage counts."""

    name: str
    queue: Cohort
    usage: Amounts
    priority: int  # boost included
    queued_at: int  # by which it stands in line
    reserved_at: int
    order: int
    is_leaving: bool = False
    recent_use: int = 0


@dataclass(frozen=True, slots=True)
class Taker:
    """A job that asks for quota. `contested`: the keys of which too little is free."""

    queue: Cohort
    request: Amounts
    contested: tuple[Key, ...]
    priority: int
    queued_at: int
    rules: Rules = Rules()


def allows(
    rule: Rule, priority: int, queued_at: int, other_priority: int, other_queued_at: int
) -> bool:
    """Whether a job of a priority that queued at a time may evict another, by the rule."""
    if rule is Rule.NEVER:
        return False
    if rule is Rule.ANY or priority > other_priority:
        return True
    is_newer = priority == other_priority and queued_at < other_queued_at
    return is_newer and rule is Rule.LOWER_OR_NEWER_EQUAL


def uses_any(holder: Holder, keys: Sequence[Key]) -> bool:
    """Whether the holder's end would free anything of the keys."""
    return any(key in holder.usage for key in keys)


def victim_key(holder: Holder, queue: Cohort) -> tuple[int, ...]:
    """Order in which holders leave for a job of `queue`, least first.

    Those that leave already, then those of other queues; in the own queue those whose users had
    most; then lower priority, then the most recently admitted.
    """
    is_own = holder.queue is queue
    return (
        0 if holder.is_leaving else 1,
        1 if is_own else 0,
        -holder.recent_use if is_own else 0,
        holder.priority,
        -holder.reserved_at,
        holder.order,
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """The head of a queue in a cycle. Times are those by which jobs stand in line."""

    borrow_level: int
    priority: int
    queued_at: int
    order: int
    has_victims: bool = False  # it evicted others in an earlier cycle and waits for their quota


@dataclass(frozen=True, slots=True)
class EntryOrder:
    """How heads are ordered. `takers_first`: those that evicted others before all."""

    by_priority: bool = True
    takers_first: bool = False


def entry_key(entry: Entry, how: EntryOrder = EntryOrder()) -> tuple[int, ...]:
    """Order in which heads are admitted, least first: who borrows least, then by priority."""
    return (
        0 if how.takers_first and entry.has_victims else 1,
        entry.borrow_level,
        -entry.priority if how.by_priority else 0,
        entry.queued_at,
        entry.order,
    )


@dataclass(frozen=True, slots=True)
class Past:
    """What happened to a waiting job. None: never."""

    created_at: int
    timed_out_at: int | None = None  # last evicted since it did not start in time
    preempted_at: int | None = None
    preempted_for: Why | None = None


def queued_at(past: Past, by_eviction: bool, by_priority: bool) -> int:
    """When a job stands in line from: its creation, but for two kinds of eviction.

    `by_eviction`: a job that did not start in time goes to the end. Where priority does not order
    the line, who had to leave for another that borrowed goes to the end too, behind those who came
    at that moment: else it would come first again and take its place back, for ever.
    """
    if by_eviction and past.timed_out_at is not None:
        return past.timed_out_at
    if not by_priority and past.preempted_for is Why.RECLAIM_WHILE_BORROWING:
        assert past.preempted_at is not None
        return past.preempted_at + 1
    return past.created_at

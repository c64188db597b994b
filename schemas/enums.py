"""The closed vocabularies of records and decisions, but for reasons (see `reasons`).

Every enum is an Avro enum in `schemas/avro` with the same symbols in the same order; the member's
value is its wire index. Symbol 0 is always `UNKNOWN`, the Avro default, so that an old reader maps
a newer symbol to it. Enums grow only at the end.
"""

from enum import IntEnum


class Phase(IntEnum):
    """Where a job or one attempt of a pod stands in its life."""

    UNKNOWN = 0
    PENDING = 1  # accepted, not yet admitted
    INQUEUE = 2  # admitted by enqueue, may be placed
    PIPELINED = 3  # placed on cards that are still being released
    ALLOCATED = 4  # placed, not yet reported running
    RUNNING = 5
    RELEASING = 6  # told to end, cards not yet returned
    SUSPENDED = 7
    SUCCEEDED = 8
    FAILED = 9
    CANCELLED = 10
    EVICTED = 11


class DecisionKind(IntEnum):
    """What a decision tells its readers to do or to know."""

    UNKNOWN = 0
    ADMIT = 1  # a job that waits may be placed from now on
    ALLOCATE = 2  # start this attempt of a pod on these cards, placed in turn
    BACKFILL = 3  # the same, placed in a gap or without resources; first to yield
    EVICT = 4  # end this attempt and report its release
    SUSPEND = 5
    RESUME = 6
    RESERVE = 7
    REJECT = 8  # a request was refused; nothing changed
    FINISH = 9  # a job reached its terminal phase
    CYCLE_CLOSED = 10  # the last decision of a cycle: counts, state digest


class Tier(IntEnum):
    """The standing of a running pod against others."""

    UNKNOWN = 0
    MAIN = 1
    BACKFILL = 2


class CardHealth(IntEnum):
    """Whether a card may hold work."""

    UNKNOWN = 0
    HEALTHY = 1
    FAILED = 2


class TaintEffect(IntEnum):
    """What a taint does to pods that do not tolerate it."""

    UNKNOWN = 0
    NO_SCHEDULE = 1  # no new pod
    NO_EXECUTE = 2  # no new pod; pods already there are left to their owner
    PREFER_NO_SCHEDULE = 3  # a wish; never excludes a node


class SelectorOperator(IntEnum):
    """How a node's label must relate to a selector's values."""

    UNKNOWN = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    NOT_EXISTS = 4


class TolerationOperator(IntEnum):
    """How a toleration matches a taint: key and value, or key alone (empty key: every taint)."""

    UNKNOWN = 0
    EQUAL = 1
    EXISTS = 2


class IslandPolicy(IntEnum):
    """Whether the cards of one pod must share a link island of their node."""

    UNKNOWN = 0
    ANY = 1
    SAME = 2


class BackfillPreference(IntEnum):
    """What a job's owner says to being run in a gap."""

    UNKNOWN = 0
    ACCEPT = 1
    LOW_RISK_ONLY = 2
    REFUSE = 3


class QueueState(IntEnum):
    """Whether a queue takes new jobs and starts waiting ones."""

    UNKNOWN = 0
    OPEN = 1
    CLOSED = 2  # no new jobs; waiting and running ones go on
    DRAINING = 3  # no new jobs, no new starts; running ones end by themselves


class FailureKind(IntEnum):
    """Why an attempt of a pod failed, as its executor saw it."""

    UNKNOWN = 0
    ERROR = 1  # the program ended with a code other than zero
    OUT_OF_MEMORY = 2
    START_FAILED = 3  # the attempt never ran
    CARD_FAILED = 4
    NODE_FAILED = 5
    LIMIT_EXCEEDED = 6  # ended by a limit that the job itself declared

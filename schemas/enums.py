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
    EVICT = 4  # end this attempt, by `until_ns` where it is set, and report its release
    SUSPEND = 5  # let it stop, by `until_ns` where it is set, and report that
    RESUME = 6
    RESERVE = 7
    REJECT = 8  # a request was refused; nothing changed
    FINISH = 9  # a job reached its terminal phase
    CYCLE_CLOSED = 10  # the last decision of a cycle: counts, state digest
    CLAIM = 11  # this pod will start on these cards once those who hold them have left
    UNCLAIM = 12  # the claim is given up; its cards are free for all
    REQUEUE = 13  # a job goes back and waits until `until_ns`
    NOTICE = 14  # this attempt will be told to end, or to stop, at `until_ns`; save what was done
    TUNE = 15  # a controller moved one of its numbers
    MOVE = 16  # the attempt ends here and its pod starts elsewhere in the same cycle
    UNRESERVE = 17  # a reservation is given up: started, cancelled or overtaken


class Tier(IntEnum):
    """The standing of a running pod against others."""

    UNKNOWN = 0
    MAIN = 1
    BACKFILL = 2
    SPOT = 3  # beside every quota, in gaps; the very first to yield


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
    EVICTING = 4  # the same, and running ones are evicted


class FailureKind(IntEnum):
    """Why an attempt of a pod failed, as its executor saw it."""

    UNKNOWN = 0
    ERROR = 1  # the program ended with a code other than zero
    OUT_OF_MEMORY = 2
    START_FAILED = 3  # the attempt never ran
    CARD_FAILED = 4
    NODE_FAILED = 5
    LIMIT_EXCEEDED = 6  # ended by a limit that the job itself declared


class Tri(IntEnum):
    """Yes or no, where saying nothing means yes."""

    UNKNOWN = 0
    NO = 1
    YES = 2


class PodEvent(IntEnum):
    """What may happen to a job that its owner can name an action for."""

    UNKNOWN = 0
    FAILED = 1
    EVICTED = 2
    SUCCEEDED = 3
    TIMED_OUT = 4  # not reported running in time
    JOB_PENDING = 5  # the job has waited for the action's timeout
    OUT_OF_SYNC = 6  # what runs differs from what should


class JobAction(IntEnum):
    """What follows from an event of a job's pods."""

    UNKNOWN = 0
    RESTART_POD = 1
    RESTART_ROLE = 2
    RESTART_GROUP = 3
    RESTART_JOB = 4
    ABORT_JOB = 5  # its pods end, it waits held
    TERMINATE_JOB = 6  # its pods end, it fails
    COMPLETE_JOB = 7  # its pods end, it succeeds
    RESUME_JOB = 8


class LimitScope(IntEnum):
    """Whose doings a limit of a queue counts together."""

    UNKNOWN = 0
    QUEUE = 1
    USER = 2
    TENANT = 3


class LimitAction(IntEnum):
    """What happens to a job that outlives its time limit. `UNKNOWN`: as the policy says."""

    UNKNOWN = 0
    END = 1
    LET_RUN = 2


class QueueOrder(IntEnum):
    """Whether a job that cannot be admitted keeps those behind it waiting."""

    UNKNOWN = 0
    BEST_EFFORT = 1  # it is parked, the next is tried
    STRICT = 2  # nobody passes it


class VictimRule(IntEnum):
    """Whose quota a job may take back. `UNKNOWN` is `NEVER` under quota admission."""

    UNKNOWN = 0
    NEVER = 1
    LOWER_PRIORITY = 2
    LOWER_OR_NEWER_EQUAL = 3
    ANY = 4


class FlavorSearch(IntEnum):
    """Whether the search stops at a flavor that would do by borrowing or preempting."""

    UNKNOWN = 0
    STOP = 1
    NEXT = 2


class FlavorPreference(IntEnum):
    """Which of two flavors is better: one to borrow in, or one to preempt in."""

    UNKNOWN = 0
    BORROWING_FIRST = 1
    PREEMPTION_FIRST = 2


class Communication(IntEnum):
    """How much a job's pods talk. `UNKNOWN`: heavy with several pods or cards, else low."""

    UNKNOWN = 0
    LOW = 1
    HEAVY = 2


class IdleClass(IntEnum):
    """Why cards that a gap is made of stand idle."""

    UNKNOWN = 0
    IN_NODE = 1  # beside a large job on its node
    FRAGMENT = 2  # left over on many nodes
    TIME = 3  # held for a reservation, or due to be released soon


class Estimates(IntEnum):
    """Where an estimated runtime comes from."""

    UNKNOWN = 0
    DECLARED = 1
    EXACT = 2  # known to a simulation
    PREDICTED = 3  # from former runs
    CORRECTED = 4  # a running job has outlived its estimate

"""Why: every reason a decision or an explanation can give, each with the numbers it carries.

A reason is an enum value with up to three integers, `asked`, `free` and `limit`; text is made at
the edge from `MEANING`, where each number stands with the unit that `UNITS` names. The wire index
of a reason is its place in the enum, so new ones are defined last, whatever their value.
"""

from enum import IntEnum


class Reason(IntEnum):
    """One cause of a decision, a refusal or a wait."""

    UNKNOWN = 0
    # why something was done
    PLACED_IN_TURN = 1
    PLACED_WITHOUT_RESOURCES = 2
    WITHIN_LIMITS = 3
    ALL_PODS_SUCCEEDED = 4
    CANCEL_REQUESTED = 5
    RETRY_LIMIT = 6
    NODE_LOST = 7
    NODE_REBOOTED = 8
    NODE_DRAINED = 9
    CARD_FAILED = 10
    START_TIMEOUT = 11
    SCALED_DOWN = 12
    CYCLE_DONE = 13
    DEPENDENCY_FAILED = 14
    # why a request was refused
    JOB_EXISTS = 32
    JOB_UNKNOWN = 33
    JOB_ENDED = 34
    QUEUE_UNKNOWN = 35
    QUEUE_CLOSED = 36
    QUEUE_NOT_A_LEAF = 37
    PARENT_UNKNOWN = 38
    PARENT_CYCLE = 39
    PARENT_HAS_JOBS = 40
    QUEUE_NOT_EMPTY = 41
    VALUE_OUT_OF_RANGE = 42
    ROLE_UNKNOWN = 43
    ROLE_DUPLICATE = 44
    ROLE_MISSING = 45
    MIN_ABOVE_REPLICAS = 46
    PRIORITY_CLASS_UNKNOWN = 47
    DEPENDENCY_UNKNOWN = 48
    NODE_UNKNOWN = 49
    CARDS_TAKEN = 50
    POD_EXISTS = 51
    POLICY_UNKNOWN = 52
    ACTION_UNKNOWN = 53
    ARGUMENT_UNKNOWN = 54
    ARGUMENT_INVALID = 55
    FLAG_UNKNOWN = 56
    RESERVATION_WITHOUT_NODES = 57
    RESERVATION_UNKNOWN = 58
    HOOK_UNKNOWN = 59
    # why a job waits
    HELD = 96
    BACKING_OFF = 97
    DEPENDENCY_WAITING = 98
    QUEUE_DRAINING = 99
    OVERCOMMIT = 100
    QUEUE_CAPABILITY = 101
    NO_CYCLE_YET = 102
    NO_NODES = 103
    NODE_CORDONED = 104
    NODE_UNREACHABLE = 105
    NODE_HAS_UNKNOWN_PODS = 106
    NODE_RESERVED = 107
    TAINT_NOT_TOLERATED = 108
    LABEL_MISMATCH = 109
    CARD_MODEL = 110
    CARD_MEMORY = 111
    CARDS_TOO_FEW = 112
    ISLAND_TOO_SMALL = 113
    CARD_SHARE_TOO_SMALL = 114
    CPU_TOO_LITTLE = 115
    MEMORY_TOO_LITTLE = 116
    POD_SLOTS_TAKEN = 117
    RESOURCE_TOO_LITTLE = 118
    GANG_BELOW_MINIMUM = 119
    NEVER_FITS = 120
    BEHIND_OTHERS = 121
    NODE_FAILED_BEFORE = 122
    FITS_NEXT_CYCLE = 123


MEANING: dict[Reason, str] = {
    Reason.UNKNOWN: "a reason that this version does not know",
    Reason.PLACED_IN_TURN: "placed in turn: asked {asked}, the node had {free} free",
    Reason.PLACED_WITHOUT_RESOURCES: "asks for no resources, placed at once",
    Reason.WITHIN_LIMITS: "admitted: asks {asked}, {free} of {limit} free at that moment",
    Reason.ALL_PODS_SUCCEEDED: "{asked} succeeded",
    Reason.CANCEL_REQUESTED: "cancelled on request",
    Reason.RETRY_LIMIT: "a pod failed {asked}; it may be tried again at most {limit}",
    Reason.NODE_LOST: "its node was lost",
    Reason.NODE_REBOOTED: "its node was started anew",
    Reason.NODE_DRAINED: "its node is being drained",
    Reason.CARD_FAILED: "a card it held failed",
    Reason.START_TIMEOUT: "not reported running {asked} after it was placed; it had {limit}",
    Reason.SCALED_DOWN: "its role was scaled down to {limit}",
    Reason.CYCLE_DONE: "cycle ended",
    Reason.DEPENDENCY_FAILED: "a job it depends on did not succeed",
    Reason.JOB_EXISTS: "a job of this key exists already; cancel it or use another key",
    Reason.JOB_UNKNOWN: "no such job; it never existed or its time to live is over",
    Reason.JOB_ENDED: "the job has ended already",
    Reason.QUEUE_UNKNOWN: "no such queue; configure it first",
    Reason.QUEUE_CLOSED: "the queue takes no new jobs; open it or use another",
    Reason.QUEUE_NOT_A_LEAF: "the queue has child queues; jobs go to leaves",
    Reason.PARENT_UNKNOWN: "its parent is not configured; configure the parent first",
    Reason.PARENT_CYCLE: "the queue would be its own ancestor",
    Reason.PARENT_HAS_JOBS: "the parent holds {asked}; a queue with jobs can get no children",
    Reason.QUEUE_NOT_EMPTY: "the queue is not empty; jobs and child queues in it: {asked}",
    Reason.VALUE_OUT_OF_RANGE: "value {asked} is out of range; the limit is {limit}",
    Reason.ROLE_UNKNOWN: "the job has no such role",
    Reason.ROLE_DUPLICATE: "two roles of the job share a name",
    Reason.ROLE_MISSING: "a job needs at least one role",
    Reason.MIN_ABOVE_REPLICAS: "min_available {asked} is above replicas {limit}",
    Reason.PRIORITY_CLASS_UNKNOWN: "the policy names no such priority class",
    Reason.DEPENDENCY_UNKNOWN: "depends on a job that is not known",
    Reason.NODE_UNKNOWN: "no such node",
    Reason.CARDS_TAKEN: "asked {asked} of the node, {limit} free",
    Reason.POD_EXISTS: "this attempt of the pod is known already",
    Reason.POLICY_UNKNOWN: "no policy of this name",
    Reason.ACTION_UNKNOWN: "no action of this name",
    Reason.ARGUMENT_UNKNOWN: "no argument of this name",
    Reason.ARGUMENT_INVALID: "the argument's value {asked} is not allowed; the limit is {limit}",
    Reason.FLAG_UNKNOWN: "flag {asked} is not known; the highest known is {limit}",
    Reason.RESERVATION_WITHOUT_NODES: "a reservation must name its nodes",
    Reason.RESERVATION_UNKNOWN: "no such reservation",
    Reason.HOOK_UNKNOWN: "the policy has no hook of this name",
    Reason.HELD: "held; release it to let it run",
    Reason.BACKING_OFF: "waits {asked} more after a failed attempt",
    Reason.DEPENDENCY_WAITING: "waits for {asked} that it depends on",
    Reason.QUEUE_DRAINING: "the queue starts no jobs while it drains",
    Reason.OVERCOMMIT: "asks {asked}; {free} left of the {limit} that may be used or admitted",
    Reason.QUEUE_CAPABILITY: "asks {asked}; its queue has {free} left of a capability of {limit}",
    Reason.NO_CYCLE_YET: "no cycle has looked at it yet",
    Reason.NO_NODES: "the cell has no nodes",
    Reason.NODE_CORDONED: "cordoned or draining",
    Reason.NODE_UNREACHABLE: "lost: no heartbeat",
    Reason.NODE_HAS_UNKNOWN_PODS: "runs pods that are not known here; adopt them or end them",
    Reason.NODE_RESERVED: "inside a reservation",
    Reason.TAINT_NOT_TOLERATED: "has a taint that the pod does not tolerate",
    Reason.LABEL_MISMATCH: "labels do not match the pod's selector",
    Reason.CARD_MODEL: "has no healthy card of an allowed model",
    Reason.CARD_MEMORY: "asked {asked} of memory per card, {free} there",
    Reason.CARDS_TOO_FEW: "asked {asked}, {free} free",
    Reason.ISLAND_TOO_SMALL: "asked {asked} of one island, {free} free in the best",
    Reason.CARD_SHARE_TOO_SMALL: "asked {asked} on one card, {free} free on the best",
    Reason.CPU_TOO_LITTLE: "asked {asked}, {free} free",
    Reason.MEMORY_TOO_LITTLE: "asked {asked} of memory, {free} free",
    Reason.POD_SLOTS_TAKEN: "no pod slot is free",
    Reason.RESOURCE_TOO_LITTLE: "asked {asked}, {free} free",
    Reason.GANG_BELOW_MINIMUM: "needs {asked} at once; {free} would fit now",
    Reason.NEVER_FITS: "needs {asked} at once and can never start: the nodes empty hold {free}",
    Reason.BEHIND_OTHERS: "behind {asked} of its queue",
    Reason.NODE_FAILED_BEFORE: "a pod of the job failed to start there",
    Reason.FITS_NEXT_CYCLE: "fits now; the next cycle will place it",
}

_CARDS = (
    Reason.PLACED_IN_TURN,
    Reason.WITHIN_LIMITS,
    Reason.CARD_SHARE_TOO_SMALL,
)
_RESOURCES = (Reason.OVERCOMMIT, Reason.QUEUE_CAPABILITY, Reason.RESOURCE_TOO_LITTLE)
_PODS = (
    Reason.ALL_PODS_SUCCEEDED,
    Reason.SCALED_DOWN,
    Reason.GANG_BELOW_MINIMUM,
    Reason.NEVER_FITS,
)
_JOBS = (Reason.PARENT_HAS_JOBS, Reason.DEPENDENCY_WAITING, Reason.BEHIND_OTHERS)
_WHOLE_CARDS = (Reason.CARDS_TOO_FEW, Reason.ISLAND_TOO_SMALL)

UNITS: dict[Reason, str] = {
    **dict.fromkeys(_CARDS, "cards_milli"),
    Reason.CPU_TOO_LITTLE: "cpu_milli",
    **dict.fromkeys((Reason.CARD_MEMORY, Reason.MEMORY_TOO_LITTLE), "memory_mib"),
    **dict.fromkeys((Reason.START_TIMEOUT, Reason.BACKING_OFF), "ns"),
    **dict.fromkeys(_RESOURCES, "resource"),
    **dict.fromkeys(_PODS, "pod"),
    **dict.fromkeys(_JOBS, "job"),
    **dict.fromkeys(_WHOLE_CARDS, "card"),
    Reason.RETRY_LIMIT: "time",
}
"""What the numbers of a reason count: a resource by its name in `Amount`, `ns`, or the thing itself
in the singular. `resource`: any; the reason's finder knows which. Reasons left out have plain
numbers or none."""

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
    # why something was done, with victims and claims
    PREEMPTED = 15
    RECLAIMED = 16
    RECLAIM_IN_COHORT = 17
    RECLAIM_WHILE_BORROWING = 18
    FAIR_SHARE = 19
    SAME_QUEUE = 20
    GANG_STALE = 21
    ZONE_CLOSED = 22
    QUEUE_EVICTED = 23
    CLAIM_EXPIRED = 24
    CLAIM_MADE = 25
    LIMIT_EXCEEDED = 26
    MOVED = 27
    ACTION_OF_JOB = 28
    JOB_RESTARTED = 29
    MIN_SUCCESS = 30
    # why a request was refused, on
    GROUP_UNKNOWN = 60
    FLAVOR_UNKNOWN = 61
    ZONE_UNKNOWN = 62
    LIMIT_UNKNOWN = 63
    ESTIMATES_UNKNOWN = 64
    FLAVOR_USED = 65
    QUOTA_GROUPS_OVERLAP = 66
    NAMES_REPEATED = 67
    # why a job waits, on
    QUEUE_OVERUSED = 124
    QUEUE_DESERVED = 125
    QUOTA_NOMINAL = 126
    QUOTA_BORROWING = 127
    NO_FLAVOR = 128
    FLAVOR_TAINT = 129
    FLAVOR_AFFINITY = 130
    PARKED = 131
    REQUEUE_BACKOFF = 132
    REQUEUE_LIMIT = 133
    USER_LIMIT = 134
    TENANT_QUOTA = 135
    QUEUE_HELD = 136
    TENANT_FORBIDDEN = 137
    GROUP_INCOMPLETE = 138
    ROLE_INCOMPLETE = 139
    AFFINITY = 140
    TOPOLOGY_TIER = 141
    NODE_GROUP = 142
    NODE_GROUP_LIMIT = 143
    SHARD = 144
    ZONE = 145
    CLAIMED_BY_OTHER = 146
    EVICTION_RIGHT_USED = 147
    NEVER_PREEMPTS = 148
    NOT_PREEMPTIVE = 149
    NOT_STARVING = 150
    # why a pod was spared
    PROTECTED = 224
    COOLDOWN = 225
    BUDGET = 226
    GANG_MINIMUM = 227
    CRITICAL = 228
    NOT_RECLAIMABLE = 229
    NOT_LOWER_PRIORITY = 230
    QUEUE_WITHIN_DUE = 231
    MIN_RUNTIME = 232
    NOT_NEEDED = 233
    # why something was done in time
    SAFE_IN_GAP = 160
    BESIDE_RESERVATION = 161
    SUSPENDABLE = 162
    SPOT_FILL = 163
    RESERVED_HEAD = 164
    RESERVED_MOVED = 165
    STARTS_NOW = 166
    MAIN_NEEDS_CARDS = 167
    WINDOW_OVER = 168
    LOST_WORK_BOUND = 169
    TIME_LIMIT = 170
    OUTLIVED_ESTIMATE = 171
    RESUMED = 172
    COMPENSATED = 173
    TUNE_MAIN_WAIT = 174
    TUNE_COMPLETION = 175
    TUNE_USE = 176
    TUNE_RELAX = 177
    # why a job is kept out of a gap
    RESERVATION_AHEAD = 192
    GAP_TOO_SHORT = 193
    NO_ESTIMATE = 194
    RISK_TOO_HIGH = 195
    BACKFILL_REFUSED = 196
    IDLE_CLASS = 197
    MAINTENANCE_AHEAD = 198
    SPOT_QUOTA = 199
    OVER_MAX_RUNTIME = 200
    BLOCKED_HEAD = 201


MEANING: dict[Reason, str] = {
    Reason.UNKNOWN: "a reason that this version does not know",
    Reason.PLACED_IN_TURN: "placed in turn: asked {asked}, the node had {free} free",
    Reason.PLACED_WITHOUT_RESOURCES: "asks for no resources, placed at once",
    Reason.WITHIN_LIMITS: "admitted: asks {asked}, {free} of {limit} free at that moment",
    Reason.ALL_PODS_SUCCEEDED: "{asked} succeeded",
    Reason.CANCEL_REQUESTED: "cancelled on request",
    Reason.RETRY_LIMIT: "failed {asked}; it may be tried again at most {limit}",
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
    Reason.PREEMPTED: "gives way to a job of its queue that goes first: asks {asked}, {free} free",
    Reason.RECLAIMED: (
        "given back to a queue that lacks its due: asks {asked}, {free} free; the one that gives "
        "is due {limit}"
    ),
    Reason.RECLAIM_IN_COHORT: (
        "given back to a queue of the cohort that lent it: asks {asked}, nominal quota {limit}"
    ),
    Reason.RECLAIM_WHILE_BORROWING: (
        "gives way to a job that borrows from the cohort: asks {asked}, may have {limit}"
    ),
    Reason.FAIR_SHARE: (
        "its queue has more of the cohort than the one that asks: {asked}, {free} free"
    ),
    Reason.SAME_QUEUE: (
        "gives way to a job of its queue within the quota: asks {asked}, {free} free"
    ),
    Reason.GANG_STALE: "below its minimum for {asked}; it had {limit} to get back to it",
    Reason.ZONE_CLOSED: "the zone it ran in has closed",
    Reason.QUEUE_EVICTED: "its queue evicts all its jobs",
    Reason.CLAIM_EXPIRED: "its claim was not met within {limit}",
    Reason.CLAIM_MADE: "starts as soon as it waits no longer for {asked} to leave",
    Reason.LIMIT_EXCEEDED: "has {asked}; the limit is {limit}",
    Reason.MOVED: "moved so that another job fits",
    Reason.ACTION_OF_JOB: "an action that the job itself names",
    Reason.JOB_RESTARTED: "its pods are started anew: restart {asked}",
    Reason.MIN_SUCCESS: "{asked} succeeded, {limit} are enough",
    Reason.GROUP_UNKNOWN: "the job has no such group of roles",
    Reason.FLAVOR_UNKNOWN: "no such flavor; configure it first",
    Reason.ZONE_UNKNOWN: "no such zone; configure it first",
    Reason.LIMIT_UNKNOWN: "limit {asked} of the queue names no scope or no resource",
    Reason.ESTIMATES_UNKNOWN: "no such source of estimates",
    Reason.FLAVOR_USED: "the flavor is part of the quota of {asked}; take it out there first",
    Reason.QUOTA_GROUPS_OVERLAP: (
        "resource group {asked} of the queue: name each flavor and each resource once in the "
        "queue, and in each flavor of a group the same resources"
    ),
    Reason.NAMES_REPEATED: (
        "{asked} names given, {limit} of them different and not empty; name each once"
    ),
    Reason.QUEUE_OVERUSED: "its queue has {asked}, its due is {limit}",
    Reason.QUEUE_DESERVED: "asks {asked}; its queue has {free} left of a due of {limit}",
    Reason.QUOTA_NOMINAL: "asks {asked}; {free} left of a nominal quota of {limit}",
    Reason.QUOTA_BORROWING: "asks {asked}; {free} can be had with borrowing, the bound is {limit}",
    Reason.NO_FLAVOR: "none of the {limit} flavors of its queue will do",
    Reason.FLAVOR_TAINT: "the flavor has a taint that the pod does not tolerate",
    Reason.FLAVOR_AFFINITY: "the flavor's labels do not match the pod's selector",
    Reason.PARKED: "parked until quota in its cohort is freed",
    Reason.REQUEUE_BACKOFF: "put back {limit}; waits {asked} more",
    Reason.REQUEUE_LIMIT: "put back {asked}; at most {limit} are allowed",
    Reason.USER_LIMIT: "asks {asked}; its user has {free} left of {limit} in the queue",
    Reason.TENANT_QUOTA: "asks {asked}; its tenant has {free} left of {limit} in the queue",
    Reason.QUEUE_HELD: "its queue is held",
    Reason.TENANT_FORBIDDEN: "its tenant may not use the queue",
    Reason.GROUP_INCOMPLETE: "a group of its roles needs {asked} at once; {free} would fit now",
    Reason.ROLE_INCOMPLETE: "one of its roles needs {asked} at once; {free} would fit now",
    Reason.AFFINITY: "the pods that it must be near to, or keep away from, forbid it",
    Reason.TOPOLOGY_TIER: (
        "needs room for {asked} pods in one domain of tier {limit}; the best has it for {free}"
    ),
    Reason.NODE_GROUP: "its queue may not use nodes of this group",
    Reason.NODE_GROUP_LIMIT: (
        "asks {asked}; its queue has {free} left of {limit} on this node group"
    ),
    Reason.SHARD: "belongs to another shard",
    Reason.ZONE: "in a zone that is closed, or that the pod did not name",
    Reason.CLAIMED_BY_OTHER: "claimed by a job that goes first",
    Reason.EVICTION_RIGHT_USED: (
        "has had others evicted, or was evicted, since the queue last got on"
    ),
    Reason.NEVER_PREEMPTS: "never evicts others, by its own word or its class",
    Reason.NOT_PREEMPTIVE: (
        "its queue would have {asked}, above the {limit} up to which it may evict"
    ),
    Reason.NOT_STARVING: "has its minimum; nobody is evicted for more",
    Reason.PROTECTED: "protected for {asked} more",
    Reason.COOLDOWN: "started too recently: protected for {asked} more of {limit}",
    Reason.BUDGET: "its job must keep {limit} running, {asked} would be left",
    Reason.GANG_MINIMUM: "its job would fall below its minimum of {limit}",
    Reason.CRITICAL: "of a critical class",
    Reason.NOT_RECLAIMABLE: "its queue gives nothing back",
    Reason.NOT_LOWER_PRIORITY: "its priority {asked} is not below {limit}",
    Reason.QUEUE_WITHIN_DUE: "without it its queue would have {asked}; its due is {limit}",
    Reason.MIN_RUNTIME: "has run less than its queue's minimum: {asked} more of {limit}",
    Reason.NOT_NEEDED: "not needed",
    Reason.SAFE_IN_GAP: "ends before the reservation: {asked} with margin, the gap is {limit}",
    Reason.BESIDE_RESERVATION: "beside the reservation: asks {asked} of {free} that it leaves",
    Reason.SUSPENDABLE: "will be suspended when the reserved job needs the cards",
    Reason.SPOT_FILL: "fills a gap as spot work: asks {asked}, {free} free",
    Reason.RESERVED_HEAD: "reserved: asks {asked}, {free} free now, {limit} free at its start",
    Reason.RESERVED_MOVED: (
        "reserved anew: asks {asked}, {free} free now, {limit} free at its start"
    ),
    Reason.STARTS_NOW: "starts now, so that its reservation ends",
    Reason.MAIN_NEEDS_CARDS: "a job that goes first needs its cards: asks {asked}, {free} free",
    Reason.WINDOW_OVER: (
        "its protection is over, and the job that waits has waited {asked} of {limit}"
    ),
    Reason.LOST_WORK_BOUND: "the work lost, {asked}, would be above {limit}",
    Reason.TIME_LIMIT: "ran {asked}; its limit was {limit}",
    Reason.OUTLIVED_ESTIMATE: "who has its cards has run {asked}, not the {limit} estimated",
    Reason.RESUMED: "goes on; it was suspended for {asked}",
    Reason.COMPENSATED: "goes before others in gaps, having lost {asked}",
    Reason.TUNE_MAIN_WAIT: "jobs in turn waited longer than before: from {asked} to {limit}",
    Reason.TUNE_COMPLETION: (
        "of a thousand jobs in gaps {free} were finished: from {asked} to {limit}"
    ),
    Reason.TUNE_USE: "of a thousand idle parts {free} were put to use: from {asked} to {limit}",
    Reason.TUNE_RELAX: "all is well again: from {asked} to {limit}",
    Reason.RESERVATION_AHEAD: "would delay the start of a job that goes first",
    Reason.GAP_TOO_SHORT: "needs {asked}; the gap lasts {limit}",
    Reason.NO_ESTIMATE: "has no estimate, so it is safe in no gap",
    Reason.RISK_TOO_HIGH: "would lose its cards in {asked} of a thousand cases; it takes {limit}",
    Reason.BACKFILL_REFUSED: "its owner refuses to be run in gaps",
    Reason.IDLE_CLASS: "the idle cards are kept for jobs of another kind",
    Reason.MAINTENANCE_AHEAD: "would run {asked}; maintenance begins in {limit}",
    Reason.SPOT_QUOTA: "asks {asked}; {free} left of {limit} for spot work",
    Reason.OVER_MAX_RUNTIME: "needs {asked}; gaps are given for at most {limit}",
    Reason.BLOCKED_HEAD: "behind a job that must start first",
}

_CARDS = (
    Reason.PLACED_IN_TURN,
    Reason.WITHIN_LIMITS,
    Reason.CARD_SHARE_TOO_SMALL,
    Reason.PREEMPTED,
    Reason.RECLAIMED,
    Reason.BESIDE_RESERVATION,
    Reason.SPOT_FILL,
    Reason.RESERVED_HEAD,
    Reason.RESERVED_MOVED,
    Reason.MAIN_NEEDS_CARDS,
)
_RESOURCES = (
    Reason.OVERCOMMIT,
    Reason.QUEUE_CAPABILITY,
    Reason.RESOURCE_TOO_LITTLE,
    Reason.RECLAIM_IN_COHORT,
    Reason.RECLAIM_WHILE_BORROWING,
    Reason.FAIR_SHARE,
    Reason.SAME_QUEUE,
    Reason.LIMIT_EXCEEDED,
    Reason.QUEUE_OVERUSED,
    Reason.QUEUE_DESERVED,
    Reason.QUOTA_NOMINAL,
    Reason.QUOTA_BORROWING,
    Reason.USER_LIMIT,
    Reason.TENANT_QUOTA,
    Reason.NODE_GROUP_LIMIT,
    Reason.NOT_PREEMPTIVE,
    Reason.QUEUE_WITHIN_DUE,
    Reason.SPOT_QUOTA,
)
_PODS = (
    Reason.ALL_PODS_SUCCEEDED,
    Reason.SCALED_DOWN,
    Reason.GANG_BELOW_MINIMUM,
    Reason.NEVER_FITS,
    Reason.CLAIM_MADE,
    Reason.MIN_SUCCESS,
    Reason.GROUP_INCOMPLETE,
    Reason.ROLE_INCOMPLETE,
    Reason.BUDGET,
    Reason.GANG_MINIMUM,
)
_JOBS = (Reason.PARENT_HAS_JOBS, Reason.DEPENDENCY_WAITING, Reason.BEHIND_OTHERS)
_TIMES = (
    Reason.START_TIMEOUT,
    Reason.BACKING_OFF,
    Reason.GANG_STALE,
    Reason.CLAIM_EXPIRED,
    Reason.REQUEUE_BACKOFF,
    Reason.PROTECTED,
    Reason.COOLDOWN,
    Reason.MIN_RUNTIME,
    Reason.SAFE_IN_GAP,
    Reason.WINDOW_OVER,
    Reason.LOST_WORK_BOUND,
    Reason.TIME_LIMIT,
    Reason.OUTLIVED_ESTIMATE,
    Reason.RESUMED,
    Reason.COMPENSATED,
    Reason.GAP_TOO_SHORT,
    Reason.MAINTENANCE_AHEAD,
    Reason.OVER_MAX_RUNTIME,
)
_WHOLE_CARDS = (Reason.CARDS_TOO_FEW, Reason.ISLAND_TOO_SMALL)

UNITS: dict[Reason, str] = {
    **dict.fromkeys(_CARDS, "cards_milli"),
    Reason.CPU_TOO_LITTLE: "cpu_milli",
    **dict.fromkeys((Reason.CARD_MEMORY, Reason.MEMORY_TOO_LITTLE), "memory_mib"),
    **dict.fromkeys(_TIMES, "ns"),
    **dict.fromkeys(_RESOURCES, "resource"),
    **dict.fromkeys(_PODS, "pod"),
    **dict.fromkeys(_JOBS, "job"),
    **dict.fromkeys(_WHOLE_CARDS, "card"),
    **dict.fromkeys((Reason.RETRY_LIMIT, Reason.REQUEUE_LIMIT), "time"),
    Reason.FLAVOR_USED: "queue",
}
"""What the numbers of a reason count: a resource by its name in `Amount`, `ns`, or the thing itself
in the singular. `resource`: any; the reason's finder knows which. Reasons left out have plain
numbers or none."""

"""How much is believable: bounds on what records may say, so that no sum that a decision states,
no key of an index and no row of the digest leaves 64 bits, and no mask grows without bound.

Intake refuses what passes them with a dead letter, the kernel with a rejection.
"""

CARDS_MAX = 1 << 20
"""Cards of a node (whole machines of processors are described as one node) and of a pod; replicas
of a role and pods of a job."""

ROLES_MAX = 1 << 10
"""Roles of a job. Pod numbers interleave roles, so with `CARDS_MAX` they stay within 31 bits."""

RUN_CARDS_MAX = 1 << 24
"""Card runs of a node times its cards: bits of the masks of its islands, kept per node class."""

SPANS_MAX = 1 << 12
"""Runs of cards that an adopted pod holds."""

NAMES_MAX = 256
"""Named resources of a request, a report or a queue's bound: each is a place in every vector."""

QUANTITY_BITS = 41
QUANTITY_MAX = 1 << 40
"""Milli-cores, MiB, units of a named resource: of `CARDS_MAX` pods still within 60 bits."""

TIERS_MAX = 64
"""Topology tiers, counted outward from the innermost."""

INTERVALS_MAX = 1 << 12
"""Intervals of a zone: ten years of nights."""

PRIORITY_MAX = 1 << 31

ATTEMPT_MAX = 1 << 30
"""Attempts that an adopted pod may be at; its next ones count on from there in 31 bits."""

WEIGHT_MAX = 1 << 31
"""Weight of a queue."""

WEIGHT_BITS_MAX = 1 << 12
"""Bits of the least common multiple of the weights of siblings: shares are compared over it."""

NUMBER_MAX = 1 << 61
"""Durations in ns, 73 years, and amounts of a queue's bounds."""

TIME_MAX = 1 << 62
"""Latest time in ns, in the year 2116: with a duration added still within 64 bits."""

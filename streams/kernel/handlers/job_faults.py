"""What may be wrong with a job as it is submitted, or with a change of one.

Each check returns the first fault it meets: a reason with the value that was asked and the limit it
breaks. Numbers that belong together are checked together, so the reason names what they are.
"""

from ganger.schemas.enums import JobAction, PodEvent
from ganger.schemas.parts import Affinity, Amount, EventAction, Label, PodGroup, Role, Topology
from ganger.schemas.reasons import Reason
from ganger.schemas.records import JobSubmitRequested
from ganger.streams.kernel.limits import (
    CARDS_MAX,
    NAMES_MAX,
    NUMBER_MAX,
    PRIORITY_MAX,
    QUANTITY_MAX,
    ROLES_MAX,
    TIERS_MAX,
)
from ganger.streams.kernel.nodes.zones import ANY
from ganger.streams.kernel.resources import names_defect
from ganger.streams.kernel.state import State

# bound once: looking a member up on its Enum class costs more than what is done with it
_FAILED = PodEvent.FAILED
_JOB_PENDING = PodEvent.JOB_PENDING
_GROUP_UNKNOWN = Reason.GROUP_UNKNOWN
_MIN_ABOVE_REPLICAS = Reason.MIN_ABOVE_REPLICAS
_NAMES_REPEATED = Reason.NAMES_REPEATED
_ROLE_DUPLICATE = Reason.ROLE_DUPLICATE
_ROLE_MISSING = Reason.ROLE_MISSING
_ROLE_UNKNOWN = Reason.ROLE_UNKNOWN
_VALUE_OUT_OF_RANGE = Reason.VALUE_OUT_OF_RANGE
_ZONE_UNKNOWN = Reason.ZONE_UNKNOWN

Fault = tuple[Reason, int, int]
"""Reason, the value asked, the limit it breaks."""

GROUP_DEPTH_MAX = 16
"""Levels of a job's groups."""

_NO_REST = (0, -1, -1, 0, None, None, None, ())

Bound = tuple[int, int, int]
"""A value, the least and the greatest that it may be."""


def job_fault(state: State, record: JobSubmitRequested) -> Fault | None:
    """What is wrong with a submission by its own words, zones aside; its key and queue not asked.

    What only few jobs have is looked at only in those.
    """
    if not state.shapes.knows(record.roles, record.min_available):  # else checked before
        fault = roles_fault(record.roles, record.min_available)
        if fault is not None:
            return fault
    retry = record.retry
    numbers = (
        record.runtime_estimate_ns,
        record.time_limit_ns,
        record.sla_waiting_ns,
        retry.limit,
        retry.backoff_ns,
        retry.backoff_max_ns,
        record.backfill_risk_milli,
        record.min_success,
        record.protected_ns,
        record.notice_ns,
    )
    if (least := min(numbers)) < 0:
        return (_VALUE_OUT_OF_RANGE, least, 0)
    if (greatest := max(numbers)) > NUMBER_MAX:
        return (_VALUE_OUT_OF_RANGE, greatest, NUMBER_MAX)
    if retry.backoff_max_ns < retry.backoff_ns:
        return (_VALUE_OUT_OF_RANGE, retry.backoff_ns, retry.backoff_max_ns)
    if abs(record.priority) > PRIORITY_MAX:
        return (_VALUE_OUT_OF_RANGE, record.priority, PRIORITY_MAX)
    for role in record.roles:
        if role.group or role.revocable_zone or role.affinities or record.groups:
            fault = groups_fault(record.groups, record.roles)
            fault = fault or _wishes_fault(state, record.roles)
            if fault is not None:
                return fault
            break
    rest = (
        record.priority_boost,
        record.grace_ns,
        record.restarts_max,
        record.min_success,
        record.budget,
        record.topology,
        record.start_request,
        record.actions,
    )
    return None if rest == _NO_REST else _rest_fault(record)


def _rest_fault(record: JobSubmitRequested) -> Fault | None:
    """What is wrong with the parts of a job that few have."""
    fault = bounds_fault(
        (record.priority_boost, -PRIORITY_MAX, PRIORITY_MAX),
        (record.grace_ns, -1, NUMBER_MAX),
        (record.restarts_max, -1, NUMBER_MAX),
    )
    if fault is None and record.min_success:
        replicas = sum(role.replicas for role in record.roles)
        if record.min_success > replicas:
            return (_MIN_ABOVE_REPLICAS, record.min_success, replicas)
    if fault is None and record.budget is not None:
        budget = record.budget
        fault = bounds_fault(
            (budget.min_available_count, -1, CARDS_MAX),
            (budget.min_available_milli, -1, 1000),
            (budget.max_unavailable_count, -1, CARDS_MAX),
            (budget.max_unavailable_milli, -1, 1000),
        )
    if fault is None and record.topology is not None:
        fault = _topology_fault(record.topology)
    if fault is None and record.start_request:
        fault = amounts_fault(record.start_request)
    if fault is None and record.actions:
        fault = _actions_fault(record)
    return fault


def bounds_fault(*bounds: Bound) -> Fault | None:
    """The first value that is out of its bounds."""
    for value, least, most in bounds:
        if not least <= value <= most:
            return (_VALUE_OUT_OF_RANGE, value, least if value < least else most)
    return None


def amounts_fault(amounts: tuple[Amount, ...]) -> Fault | None:
    """What is wrong with amounts: too many, one of a resource named twice, or out of bounds."""
    doubles = len(amounts) - len({amount.resource: True for amount in amounts})
    if doubles or len(amounts) > NAMES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(amounts), min(NAMES_MAX, len(amounts) - doubles))
    return bounds_fault(*[(amount.count, 0, NUMBER_MAX) for amount in amounts])


# ---- groups and what roles wish -----------------------------------------------------------------


def groups_fault(groups: tuple[PodGroup, ...], roles: tuple[Role, ...]) -> Fault | None:
    """What is wrong with the tree of groups: each named once, below a group, without a circle, and
    with no minimum above the pods of the roles in it.
    """
    named = {group.name: group for group in groups if group.name}
    if len(groups) > ROLES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(groups), ROLES_MAX)
    if len(named) < len(groups):
        return (_NAMES_REPEATED, len(groups), len(named))
    replicas = dict.fromkeys(named, 0)
    for role in roles:
        chain = _chain(named, role.group)
        if chain is None:
            return (_GROUP_UNKNOWN, 0, 0)
        for name in chain:
            replicas[name] += role.replicas
    for group in groups:
        above = _chain(named, group.parent)
        if above is None or group.name in above:  # below itself
            return (_GROUP_UNKNOWN, 0, 0)
        if len(above) >= GROUP_DEPTH_MAX:
            return (_VALUE_OUT_OF_RANGE, len(above) + 1, GROUP_DEPTH_MAX)
        if group.min_available < 0:
            return (_VALUE_OUT_OF_RANGE, group.min_available, 0)
        if group.min_available > replicas[group.name]:
            return (_MIN_ABOVE_REPLICAS, group.min_available, replicas[group.name])
        fault = None if group.topology is None else _topology_fault(group.topology)
        if fault is not None:
            return fault
    return None


def _chain(groups: dict[str, PodGroup], name: str) -> list[str] | None:
    """A group and those above it, at most once round; none: one of them is not there."""
    chain: dict[str, bool] = {}
    while name and name not in chain:
        if name not in groups:
            return None
        chain[name] = True
        name = groups[name].parent
    return list(chain)


def _topology_fault(topology: Topology) -> Fault | None:
    return bounds_fault(
        (topology.required_tier, 0, TIERS_MAX), (topology.preferred_tier, 0, TIERS_MAX)
    )


def _wishes_fault(state: State, roles: tuple[Role, ...]) -> Fault | None:
    """Which role names a zone, or in an affinity a role, that is not there."""
    names = {role.name: True for role in roles}
    for role in roles:
        zone = role.revocable_zone
        if zone not in ("", ANY) and zone not in state.zones:
            return (_ZONE_UNKNOWN, 0, 0)
        for affinity in role.affinities:
            if any(name not in names for name in affinity.roles):
                return (_ROLE_UNKNOWN, 0, 0)
    return None


# ---- actions ------------------------------------------------------------------------------------


def _actions_fault(record: JobSubmitRequested) -> Fault | None:
    """What is wrong with a job's actions. `JOB_PENDING` alone lasts, and is nobody's but the job's;
    exit codes belong to failures.
    """
    if len(record.actions) > NAMES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(record.actions), NAMES_MAX)
    names = {role.name: True for role in record.roles}
    for action in record.actions:
        fault = _action_fault(action)
        if fault is not None:
            return fault
        if action.role and (action.role not in names or action.event is _JOB_PENDING):
            return (_ROLE_UNKNOWN, 0, 0)
    return None


def _action_fault(action: EventAction) -> Fault | None:
    if action.event is PodEvent.UNKNOWN or action.action is JobAction.UNKNOWN:
        return (_VALUE_OUT_OF_RANGE, 0, 1)
    if action.event is _JOB_PENDING:
        least, most = 1, NUMBER_MAX
        if action.action < JobAction.ABORT_JOB:  # nothing runs that could start anew
            return (_VALUE_OUT_OF_RANGE, action.action, JobAction.ABORT_JOB)
    else:
        least = most = 0
    codes = NAMES_MAX if action.event is _FAILED else 0
    return bounds_fault((action.timeout_ns, least, most), (len(action.exit_codes), 0, codes))


# ---- roles --------------------------------------------------------------------------------------


def roles_fault(roles: tuple[Role, ...], min_available: int) -> Fault | None:
    """What is wrong with a job's roles."""
    if not roles:
        return (_ROLE_MISSING, 0, 1)
    if len(roles) > ROLES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(roles), ROLES_MAX)
    if len({role.name: None for role in roles}) < len(roles):
        return (_ROLE_DUPLICATE, len(roles), 0)
    for role in roles:
        if not 0 < role.replicas <= CARDS_MAX:
            return (_VALUE_OUT_OF_RANGE, role.replicas, CARDS_MAX)
        if role.min_available < 0:
            return (_VALUE_OUT_OF_RANGE, role.min_available, 0)
        if role.min_available > role.replicas:
            return (_MIN_ABOVE_REPLICAS, role.min_available, role.replicas)
        fault = _request_fault(role) or _role_fault(role)
        if fault is not None:
            return fault
    if min_available < 0:
        return (_VALUE_OUT_OF_RANGE, min_available, 0)
    replicas = sum(role.replicas for role in roles)
    if replicas > CARDS_MAX:
        return (_VALUE_OUT_OF_RANGE, replicas, CARDS_MAX)
    if min_available > replicas:
        return (_MIN_ABOVE_REPLICAS, min_available, replicas)
    return None


def _request_fault(role: Role) -> Fault | None:
    request = role.request
    if len(request.resources) > NAMES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(request.resources), NAMES_MAX)
    unnamed = names_defect(request.resources)
    if unnamed:
        return (_VALUE_OUT_OF_RANGE, unnamed, 0)
    amounts = [amount.count for amount in request.resources]
    numbers = (
        request.cards,
        request.card_milli,
        request.card_memory_mib,
        request.min_card_memory_mib,
        request.cpu_milli,
        request.memory_mib,
        *amounts,
    )
    if min(numbers) < 0:
        return (_VALUE_OUT_OF_RANGE, min(numbers), 0)
    if max(numbers) > QUANTITY_MAX:
        return (_VALUE_OUT_OF_RANGE, max(numbers), QUANTITY_MAX)
    if request.cards > CARDS_MAX:
        return (_VALUE_OUT_OF_RANGE, request.cards, CARDS_MAX)
    if request.card_milli >= 1000 or (request.cards and request.card_milli):
        return (_VALUE_OUT_OF_RANGE, request.card_milli, 0 if request.cards else 999)
    if request.card_count and not (request.card_milli and request.card_count == 1):
        return (_VALUE_OUT_OF_RANGE, request.card_count, 1 if request.card_milli else 0)
    if request.card_memory_mib and not request.card_milli:
        return (_VALUE_OUT_OF_RANGE, request.card_memory_mib, 0)
    return None


def _role_fault(role: Role) -> Fault | None:
    """What is wrong with a role beside its size and what its pods ask."""
    fault = bounds_fault(
        (role.priority, -PRIORITY_MAX, PRIORITY_MAX),
        (role.order, -PRIORITY_MAX, PRIORITY_MAX),
        (len(role.affinities), 0, NAMES_MAX),
    )
    if fault is None and role.labels:
        fault = labels_fault(role.labels)
    for affinity in role.affinities:
        fault = fault or _affinity_fault(affinity)
    return fault


def _affinity_fault(affinity: Affinity) -> Fault | None:
    """An affinity looks at pods of some roles or with some labels."""
    others = len(affinity.roles) + len(affinity.labels)
    fault = bounds_fault((affinity.tier, 0, TIERS_MAX), (others, 1, NAMES_MAX))
    return fault or labels_fault(affinity.labels)


def labels_fault(labels: tuple[Label, ...]) -> Fault | None:
    """What is wrong with labels: too many, or a key that is empty or given twice."""
    if len(labels) > NAMES_MAX:
        return (_VALUE_OUT_OF_RANGE, len(labels), NAMES_MAX)
    different = len({label.key: True for label in labels if label.key})
    if different < len(labels):
        return (_NAMES_REPEATED, len(labels), different)
    return None

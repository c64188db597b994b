"""Jobs and queues in files: TOML for one job, JSON lines for many, TOML for queues.

A file is read and checked as a whole before anything of it is used, so a bad one has no effect.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, BinaryIO, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from ganger.replay.traces.source import InputError
from ganger.schemas.encoding import encode_record
from ganger.schemas.enums import (
    FlavorPreference,
    FlavorSearch,
    LimitScope,
    QueueOrder,
    QueueState,
    Tier,
    Tri,
    VictimRule,
)
from ganger.schemas.errors import EncodeError
from ganger.schemas.records import (
    Amount,
    FlavorQuota,
    GroupLimit,
    JobSubmitRequested,
    Limit,
    QueueConfigured,
    QuotaBound,
    ResourceGroup,
)
from ganger.services.durations import parse_duration
from ganger.services.job_spec import (
    ActionSpec,
    AffinitySpec,
    BudgetSpec,
    GroupSpec,
    JobSpec,
    RetrySpec,
    RoleSpec,
    SelectorSpec,
    TolerationSpec,
    TopologySpec,
)
from ganger.streams.presets.wording import defect_of
from ganger.streams.structure import event_defect, job_defect

FILE_BYTES_MAX = 1 << 28
"""Largest file of jobs; some 500,000 of them."""

CARD_MILLI = 1000
QUEUE_STATES = {
    "open": QueueState.OPEN,
    "closed": QueueState.CLOSED,
    "draining": QueueState.DRAINING,
    "evicting": QueueState.EVICTING,
}
ORDERS = {
    "": QueueOrder.UNKNOWN,
    "best-effort": QueueOrder.BEST_EFFORT,
    "strict": QueueOrder.STRICT,
}
VICTIM_RULES = {
    "": VictimRule.UNKNOWN,
    "never": VictimRule.NEVER,
    "lower-priority": VictimRule.LOWER_PRIORITY,
    "lower-or-newer-equal": VictimRule.LOWER_OR_NEWER_EQUAL,
    "any": VictimRule.ANY,
}
SEARCHES = {"": FlavorSearch.UNKNOWN, "stop": FlavorSearch.STOP, "next": FlavorSearch.NEXT}
PREFERENCES = {
    "": FlavorPreference.UNKNOWN,
    "borrowing-first": FlavorPreference.BORROWING_FIRST,
    "preemption-first": FlavorPreference.PREEMPTION_FIRST,
}
SCOPES = {"queue": LimitScope.QUEUE, "user": LimitScope.USER, "tenant": LimitScope.TENANT}
TIERS = {"": Tier.UNKNOWN, "main": Tier.MAIN, "backfill": Tier.BACKFILL, "spot": Tier.SPOT}

_Quantity = Annotated[int, Meta(ge=0, le=1 << 51)]
_Bounds = dict[str, _Quantity]
_Weight = Annotated[int, Meta(ge=0, le=1 << 31)]
_Priority = Annotated[int, Meta(ge=-(1 << 31) + 1, le=(1 << 31) - 1)]
_T = TypeVar("_T")


class JobLine(NamedTuple):
    """A job of a file, with the place where it stands there."""

    place: str
    request: JobSubmitRequested


class _Bound(Struct, frozen=True, forbid_unknown_fields=True):
    """Quota of one resource in one flavor; absent limits are none."""

    resource: str
    nominal: _Quantity
    borrowing_limit: _Quantity | None = None
    lending_limit: _Quantity | None = None


class _Flavor(Struct, frozen=True, forbid_unknown_fields=True):
    """Quota in one flavor."""

    flavor: str
    bounds: tuple[_Bound, ...]


class _Group(Struct, frozen=True, forbid_unknown_fields=True):
    """Flavors of the same resources, in the order in which they are tried."""

    flavors: tuple[_Flavor, ...]


class _Limit(Struct, frozen=True, forbid_unknown_fields=True):
    """A bound for the queue, or for one (`subject`) or each user or tenant in it."""

    scope: str
    resource: str
    count: _Quantity
    subject: str = ""
    tier: str = ""


class _NodeGroupLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """What the queue may have on the nodes of one group."""

    group: str
    amounts: _Bounds


class _Queue(Struct, frozen=True, forbid_unknown_fields=True):
    """A [[queues]] table. Bounds are by resource: `cards`, `cpu_milli`, `memory_mib`, `pods`, or
    any name that nodes report.
    """

    name: str
    parent: str = ""
    weight: _Weight = 1
    priority: _Priority = 0
    guarantee: _Bounds = {}
    deserved: _Bounds = {}
    capability: _Bounds = {}
    borrowing_limit: _Bounds = {}
    lending_limit: _Bounds = {}
    reclaimable: bool = True
    state: str = "open"
    removed: bool = False
    fair_weight_milli: _Weight = 1000
    over_quota_weights: _Bounds = {}
    order: str = ""
    within_queue: str = ""
    reclaim_in_cohort: str = ""
    borrow_in_cohort: str = ""
    borrow_priority_max: _Priority | None = None
    when_can_borrow: str = ""
    when_can_preempt: str = ""
    preference: str = ""
    resource_groups: tuple[_Group, ...] = ()
    limits: tuple[_Limit, ...] = ()
    tenants: tuple[str, ...] = ()
    node_groups_required: tuple[str, ...] = ()
    node_groups_preferred: tuple[str, ...] = ()
    node_groups_anti_required: tuple[str, ...] = ()
    node_groups_anti_preferred: tuple[str, ...] = ()
    node_group_limits: tuple[_NodeGroupLimit, ...] = ()
    preempt_min_runtime: str = ""
    reclaim_min_runtime: str = ""
    usage_weight_milli: _Weight = 0
    backfill: bool | None = None
    lends: bool | None = None


class _QueueFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of queues; what else a file of a cluster or of a cell has is passed over."""

    queues: tuple[_Queue, ...]
    nodes: Any = None
    flavors: Any = None
    zones: Any = None


JOB_KEYS: dict[str, tuple[str, ...]] = {
    "": JobSpec.__struct_fields__,
    "roles": RoleSpec.__struct_fields__,
    "selectors": SelectorSpec.__struct_fields__,
    "tolerations": TolerationSpec.__struct_fields__,
    "retry": RetrySpec.__struct_fields__,
    "affinities": AffinitySpec.__struct_fields__,
    "groups": GroupSpec.__struct_fields__,
    "topology": TopologySpec.__struct_fields__,
    "budget": BudgetSpec.__struct_fields__,
    "actions": ActionSpec.__struct_fields__,
}
QUEUE_KEYS: dict[str, tuple[str, ...]] = {
    "": ("queues",),
    "queues": _Queue.__struct_fields__,
    "resource_groups": _Group.__struct_fields__,
    "flavors": _Flavor.__struct_fields__,
    "bounds": _Bound.__struct_fields__,
    "limits": _Limit.__struct_fields__,
    "node_group_limits": _NodeGroupLimit.__struct_fields__,
}
"""Keys of the tables of a file, by the table's own key; those of the whole file under ""."""
_JOB_REMEDY = "see docs/jobs.md for every key"


def read_text(file: BinaryIO, place: str) -> str:
    """The text of a file that a user named.

    Raises:
        InputError: it is too large, or not UTF-8.
    """
    data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InputError(place, f"it is larger than {FILE_BYTES_MAX} bytes", "split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(place, f"not UTF-8 text ({error})", "save it as UTF-8") from error


def parse_jobs(text: str, place: str) -> list[JobLine]:
    """The jobs of a text: lines of JSON if it begins with `{`, else one job in TOML.

    Raises:
        InputError: names the line, the key, its value and the remedy.
    """
    if not text.lstrip().startswith("{"):
        return [JobLine(place, _job(toml_document(text, place, _JOB_REMEDY), place))]
    jobs = list(_json_jobs(text, place))
    lines: dict[tuple[str, str], str] = {}
    for job in jobs:
        for key in ("job", "event_id"):
            value = getattr(job.request, key)
            first = lines.setdefault((key, value), job.place) if value else job.place
            if first != job.place:
                raise InputError(
                    f"{job.place}: {key}",
                    f"{value!r} stands in {first} already",
                    f"give every job {'a key' if key == 'job' else 'an event_id'} of its own",
                )
    return jobs


def parse_queues(text: str, place: str) -> list[QueueConfigured]:
    """The queues of a TOML text: parents before their children, then removed ones, these last
    with children before their parents.

    Raises:
        InputError: names the key, its value and the remedy.
    """
    document = toml_document(text, place, "begin each queue with [[queues]] and name = ...")
    if "flavors" in document or "zones" in document:
        document.setdefault("queues", [])
    file = converted(document, _QueueFile, place, QUEUE_KEYS, "see docs/jobs.md for every key")
    tables = {}
    for index, queue in enumerate(file.queues):
        if queue.name in tables:
            raise InputError(
                f"{place}: queues[{index}].name",
                f"{queue.name!r} stands above already",
                "describe each queue once",
            )
        tables[queue.name] = (queue, f"{place}: queues[{index}]")
    above = {name: {queue.parent} & tables.keys() for name, (queue, _) in tables.items()}
    try:
        ordered = [tables[name] for name in TopologicalSorter(above).static_order()]
    except CycleError as error:
        loop = " below ".join(error.args[1])
        raise InputError(
            f"{place}: queues", f"{loop} is a circle", "let one be at the top"
        ) from None
    kept = [entry for entry in ordered if not entry[0].removed]
    removed = [entry for entry in reversed(ordered) if entry[0].removed]
    return [_queue(queue, where) for queue, where in kept + removed]


def _json_jobs(text: str, place: str) -> Iterator[JobLine]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{place}:{number}"
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                where, f"this is no JSON ({error})", "write one job a line, as an object"
            ) from error
        if not isinstance(document, dict):
            raise InputError(where, "this is no object", "write one job a line, as an object")
        yield JobLine(where, _job(document, where))


def _job(document: dict[str, Any], place: str) -> JobSubmitRequested:
    spec = converted(document, JobSpec, place, JOB_KEYS, _JOB_REMEDY)
    return checked_job(spec.request(place), place)


def checked_job(request: JobSubmitRequested, place: str) -> JobSubmitRequested:
    """A request that can be sent, as it is.

    Raises:
        InputError: a field of it, told as at this place, is beyond what a job can say.
    """
    defect = job_defect(request) or event_defect(request)
    if defect:
        field, _, rest = defect.partition(" is ")
        problem, _, remedy = rest.rpartition("; ")
        raise InputError(f"{place}: {field}", f"it is {problem}", remedy)
    try:
        encode_record(request)
    except EncodeError as error:
        raise InputError(place, str(error), _JOB_REMEDY) from error
    return request


def toml_document(text: str, place: str, remedy: str) -> dict[str, Any]:
    """The tables of a TOML text, or the error that says what is wrong with it."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(place, f"this is no TOML ({error})", remedy) from error


def converted(
    document: dict[str, Any],
    kind: type[_T],
    place: str,
    keys: Mapping[str, tuple[str, ...]],
    remedy: str,
) -> _T:
    """The document as a struct, or the error that names the key."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        message = str(error).replace(" | null", "")  # absent is absent, no value of its own
        defect = defect_of(document, message, keys)
        raise InputError(
            f"{place}: {defect.key or 'top level'}", defect.problem, defect.remedy or remedy
        ) from error


def _queue(queue: _Queue, place: str) -> QueueConfigured:
    return QueueConfigured(
        0,
        "",
        None,
        queue.name,
        queue.parent,
        queue.weight,
        queue.priority,
        _amounts(queue.guarantee, f"{place}.guarantee"),
        _amounts(queue.deserved, f"{place}.deserved"),
        _amounts(queue.capability, f"{place}.capability"),
        _amounts(queue.borrowing_limit, f"{place}.borrowing_limit"),
        _amounts(queue.lending_limit, f"{place}.lending_limit"),
        queue.reclaimable,
        _chosen(QUEUE_STATES, queue.state, f"{place}.state"),
        queue.removed,
        queue.fair_weight_milli,
        _amounts(queue.over_quota_weights, f"{place}.over_quota_weights", 1),
        _chosen(ORDERS, queue.order, f"{place}.order"),
        _chosen(VICTIM_RULES, queue.within_queue, f"{place}.within_queue"),
        _chosen(VICTIM_RULES, queue.reclaim_in_cohort, f"{place}.reclaim_in_cohort"),
        _chosen(VICTIM_RULES, queue.borrow_in_cohort, f"{place}.borrow_in_cohort"),
        queue.borrow_priority_max,
        _chosen(SEARCHES, queue.when_can_borrow, f"{place}.when_can_borrow"),
        _chosen(SEARCHES, queue.when_can_preempt, f"{place}.when_can_preempt"),
        _chosen(PREFERENCES, queue.preference, f"{place}.preference"),
        tuple(_resource_group(group) for group in queue.resource_groups),
        tuple(
            _limit(limit, f"{place}.limits[{index}]") for index, limit in enumerate(queue.limits)
        ),
        queue.tenants,
        queue.node_groups_required,
        queue.node_groups_preferred,
        queue.node_groups_anti_required,
        queue.node_groups_anti_preferred,
        tuple(
            GroupLimit(
                limit.group, _amounts(limit.amounts, f"{place}.node_group_limits[{index}].amounts")
            )
            for index, limit in enumerate(queue.node_group_limits)
        ),
        _runtime(queue.preempt_min_runtime, f"{place}.preempt_min_runtime"),
        _runtime(queue.reclaim_min_runtime, f"{place}.reclaim_min_runtime"),
        queue.usage_weight_milli,
        _tri(queue.backfill),
        _tri(queue.lends),
    )


def _chosen(choices: Mapping[str, _T], value: str, place: str) -> _T:
    found = choices.get(value)
    if found is None:
        known = ", ".join(name for name in choices if name)
        raise InputError(place, f"it is {value!r}", f"give one of {known}")
    return found


def _tri(value: bool | None) -> Tri:
    if value is None:
        return Tri.UNKNOWN
    return Tri.YES if value else Tri.NO


def _runtime(text: str, place: str) -> int:
    return parse_duration(text, place) if text else -1


def _resource_group(group: _Group) -> ResourceGroup:
    return ResourceGroup(
        tuple(
            FlavorQuota(quota.flavor, tuple(_bound(bound) for bound in quota.bounds))
            for quota in group.flavors
        )
    )


def _bound(bound: _Bound) -> QuotaBound:
    """Quota by the kernel's names; whole cards as thousandths."""
    factor = CARD_MILLI if bound.resource == "cards" else 1
    limits = (bound.borrowing_limit, bound.lending_limit)
    return QuotaBound(
        "cards_milli" if bound.resource == "cards" else bound.resource,
        bound.nominal * factor,
        *[-1 if limit is None else limit * factor for limit in limits],
    )


def _limit(limit: _Limit, place: str) -> Limit:
    factor = CARD_MILLI if limit.resource == "cards" else 1
    return Limit(
        _chosen(SCOPES, limit.scope, f"{place}.scope"),
        limit.subject,
        "cards_milli" if limit.resource == "cards" else limit.resource,
        limit.count * factor,
        _chosen(TIERS, limit.tier, f"{place}.tier"),
    )


def _amounts(bounds: _Bounds, place: str, card: int = CARD_MILLI) -> tuple[Amount, ...]:
    """Amounts by the kernel's names; a whole card is `card` of its own."""
    if "cards" in bounds and "cards_milli" in bounds:
        raise InputError(
            f"{place}.cards_milli", f"it is {bounds['cards_milli']}, and cards is given", "give one"
        )
    return tuple(
        Amount("cards_milli", count * card) if name == "cards" else Amount(name, count)
        for name, count in bounds.items()
    )

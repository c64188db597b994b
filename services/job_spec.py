"""A job as people and programs write it: short names, durations as text, sensible defaults.

`JobSpec` is the content of a job's file, of one line of JSON, and of the arguments of `ganger
submit`; `request` makes the event of it. docs/jobs.md lists every key with its meaning.
"""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from ganger.replay.traces.source import InputError
from ganger.replay.workload import DEFAULT_QUEUE, RETRY
from ganger.schemas.enums import (
    BackfillPreference,
    Communication,
    IslandPolicy,
    JobAction,
    LimitAction,
    PodEvent,
    SelectorOperator,
    TaintEffect,
    TolerationOperator,
    Tri,
)
from ganger.schemas.records import (
    Affinity,
    Amount,
    Budget,
    EventAction,
    JobSubmitRequested,
    Label,
    PodGroup,
    PodRequest,
    RetryPolicy,
    Role,
    Selector,
    Toleration,
    Topology,
)
from ganger.services.durations import parse_duration

_T = TypeVar("_T")

ROLE_NAME = "main"
"""Name of the one role of a job that lists none."""

RISK_MILLI_MAX = 1000
_INT_MAX = (1 << 31) - 1

SELECTOR_OPERATORS = {
    "In": SelectorOperator.IN,
    "NotIn": SelectorOperator.NOT_IN,
    "Exists": SelectorOperator.EXISTS,
    "DoesNotExist": SelectorOperator.NOT_EXISTS,
}
TOLERATION_OPERATORS = {"Equal": TolerationOperator.EQUAL, "Exists": TolerationOperator.EXISTS}
EFFECTS = {
    "": TaintEffect.UNKNOWN,  # every effect
    "NoSchedule": TaintEffect.NO_SCHEDULE,
    "NoExecute": TaintEffect.NO_EXECUTE,
    "PreferNoSchedule": TaintEffect.PREFER_NO_SCHEDULE,
}
ISLANDS = {"any": IslandPolicy.ANY, "same": IslandPolicy.SAME}
BACKFILL = {
    "accept": BackfillPreference.ACCEPT,
    "low-risk-only": BackfillPreference.LOW_RISK_ONLY,
    "refuse": BackfillPreference.REFUSE,
}

COMMUNICATION = {
    "": Communication.UNKNOWN,  # by its size
    "low": Communication.LOW,
    "heavy": Communication.HEAVY,
}
ON_LIMIT = {
    "": LimitAction.UNKNOWN,  # as the policy says
    "end": LimitAction.END,
    "let-run": LimitAction.LET_RUN,
}
EVENTS = {
    "failed": PodEvent.FAILED,
    "evicted": PodEvent.EVICTED,
    "succeeded": PodEvent.SUCCEEDED,
    "timed-out": PodEvent.TIMED_OUT,
    "job-pending": PodEvent.JOB_PENDING,
    "out-of-sync": PodEvent.OUT_OF_SYNC,
}
JOB_ACTIONS = {
    "restart-pod": JobAction.RESTART_POD,
    "restart-role": JobAction.RESTART_ROLE,
    "restart-group": JobAction.RESTART_GROUP,
    "restart-job": JobAction.RESTART_JOB,
    "abort-job": JobAction.ABORT_JOB,
    "terminate-job": JobAction.TERMINATE_JOB,
    "complete-job": JobAction.COMPLETE_JOB,
    "resume-job": JobAction.RESUME_JOB,
}

_Count = Annotated[int, Meta(ge=0, le=_INT_MAX)]
_Replicas = Annotated[int, Meta(ge=1, le=_INT_MAX)]
_Quantity = Annotated[int, Meta(ge=0, le=1 << 40)]
_Milli = Annotated[int, Meta(ge=0, le=999)]
_Share = Annotated[int, Meta(ge=0, le=1000)]
_Order = Annotated[int, Meta(ge=-_INT_MAX, le=_INT_MAX)]
_Risk = Annotated[int, Meta(ge=0, le=RISK_MILLI_MAX)]
_Priority = Annotated[int, Meta(ge=-_INT_MAX, le=_INT_MAX)]


class SelectorSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A condition on one label of a node; `operator` as in Kubernetes."""

    key: str
    operator: str = "In"
    values: tuple[str, ...] = ()


class TolerationSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A taint that the pods bear; an empty key bears every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Exists"
    value: str = ""
    effect: str = ""


class AffinitySpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Pods to be near to, or with `anti` to keep away from: of these roles, or of any job with all
    these labels. `tier` 0: on the same node; 1: in the innermost domain around it, and so on.
    """

    tier: _Count = 0
    roles: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    anti: bool = False
    required: bool = True
    preemptable_only: bool = False


class RoleSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Equal pods of a job; `min_available` None: all of them. All numbers are of one pod."""

    name: str = ROLE_NAME
    replicas: _Replicas = 1
    min_available: _Count | None = None
    cards: _Count = 0
    card_milli: _Milli = 0
    card_memory_mib: _Quantity = 0
    min_card_memory_mib: _Quantity = 0
    models: tuple[str, ...] = ()
    island: str = "any"
    cpu_milli: _Quantity = 0
    memory_mib: _Quantity = 0
    resources: dict[str, _Quantity] = {}
    selectors: tuple[SelectorSpec, ...] = ()
    tolerations: tuple[TolerationSpec, ...] = ()
    card_count: _Count = 0
    group: str = ""
    priority: _Priority = 0
    preemptable: bool | None = None
    preempts: bool | None = None
    labels: dict[str, str] = {}
    affinities: tuple[AffinitySpec, ...] = ()
    revocable_zone: str = ""
    order: _Order = 0


class TopologySpec(Struct, frozen=True, forbid_unknown_fields=True):
    """How close pods must be, or should: tiers from 1, the innermost, outward; 0: no wish."""

    required_tier: _Count = 0
    preferred_tier: _Count = 0


class GroupSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Roles that belong together; groups nest by `parent`."""

    name: str
    parent: str = ""
    min_available: _Count = 0
    topology: TopologySpec | None = None


class BudgetSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """What evictions must leave of the job: pods, or thousandths of them."""

    min_available_count: _Count | None = None
    min_available_milli: _Share | None = None
    max_unavailable_count: _Count | None = None
    max_unavailable_milli: _Share | None = None


class ActionSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """What follows when an event meets pods of a role, or of any."""

    event: str
    action: str
    role: str = ""
    exit_codes: tuple[_Order, ...] = ()
    timeout: str = ""


class RetrySpec(Struct, frozen=True, forbid_unknown_fields=True):
    """How often a failed pod is tried again; the n-th retry waits `backoff` times 2^(n-1)."""

    limit: _Count = RETRY.limit
    backoff: str = "10s"
    backoff_max: str = "5m"


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A job. Without `roles` it has one, `main`, of `replicas` pods with `cards` cards each."""

    job: str
    queue: str = DEFAULT_QUEUE
    user: str = ""
    tenant: str = ""
    priority_class: str = ""
    priority: _Priority = 0
    replicas: _Replicas | None = None
    cards: _Count | None = None
    cpu_milli: _Quantity | None = None
    memory_mib: _Quantity | None = None
    models: tuple[str, ...] = ()
    roles: tuple[RoleSpec, ...] = ()
    min_available: _Count = 0
    estimate: str = ""
    time_limit: str = ""
    can_checkpoint: bool = False
    accepts_suspend: bool = False
    backfill: str = "accept"
    backfill_risk_milli: _Risk = RISK_MILLI_MAX
    sla_waiting: str = ""
    dependencies: tuple[str, ...] = ()
    retry: RetrySpec = RetrySpec()
    ttl: str = ""
    held: bool = False
    event_id: str = ""
    groups: tuple[GroupSpec, ...] = ()
    topology: TopologySpec | None = None
    budget: BudgetSpec | None = None
    start_request: dict[str, _Quantity] | None = None
    preempts: bool | None = None
    preemptable: bool | None = None
    priority_boost: _Priority = 0
    protected: str = ""
    grace: str = ""
    actions: tuple[ActionSpec, ...] = ()
    restarts_max: _Count | None = None
    min_success: _Count = 0
    spot: bool = False
    notice: str = ""
    communication: str = ""
    on_limit: str = ""

    def request(self, place: str = "") -> JobSubmitRequested:
        """The event that submits the job; its time is 0, the producer's to set.

        Args:
            place: what errors name before the key: a file, a line.

        Raises:
            InputError: a key says what its type alone cannot refuse.
        """
        before = f"{place}: " if place else ""
        retry = RetryPolicy(
            self.retry.limit,
            parse_duration(self.retry.backoff, f"{before}retry.backoff"),
            parse_duration(self.retry.backoff_max, f"{before}retry.backoff_max"),
        )
        if retry.backoff_max_ns < retry.backoff_ns:
            raise InputError(
                f"{before}retry.backoff_max",
                f"{self.retry.backoff_max!r} is less than retry.backoff, {self.retry.backoff!r}",
                "give at least as much",
            )
        return JobSubmitRequested(
            time_ns=0,
            event_id=self.event_id,
            source=None,
            job=self.job,
            queue=self.queue,
            user=self.user,
            tenant=self.tenant,
            priority_class=self.priority_class,
            priority=self.priority,
            roles=self._roles(before),
            min_available=self.min_available,
            runtime_estimate_ns=_optional_ns(self.estimate, f"{before}estimate", 0),
            time_limit_ns=_optional_ns(self.time_limit, f"{before}time_limit", 0),
            can_checkpoint=self.can_checkpoint,
            accepts_suspend=self.accepts_suspend,
            backfill=_choice(BACKFILL, self.backfill, f"{before}backfill"),
            backfill_risk_milli=self.backfill_risk_milli,
            sla_waiting_ns=_optional_ns(self.sla_waiting, f"{before}sla_waiting", 0),
            dependencies=self.dependencies,
            retry=retry,
            ttl_ns=_optional_ns(self.ttl, f"{before}ttl", -1),
            held=self.held,
            groups=tuple(_group(group) for group in self.groups),
            topology=_topology(self.topology),
            budget=None if self.budget is None else _budget(self.budget),
            start_request=None if self.start_request is None else _amounts(self.start_request),
            preempts=_tri(self.preempts),
            preemptable=_tri(self.preemptable),
            priority_boost=self.priority_boost,
            protected_ns=_optional_ns(self.protected, f"{before}protected", 0),
            grace_ns=_optional_ns(self.grace, f"{before}grace", -1),
            actions=tuple(
                _action(action, f"{before}actions[{index}].")
                for index, action in enumerate(self.actions)
            ),
            restarts_max=-1 if self.restarts_max is None else self.restarts_max,
            min_success=self.min_success,
            spot=self.spot,
            notice_ns=_optional_ns(self.notice, f"{before}notice", 0),
            communication=_choice(COMMUNICATION, self.communication, f"{before}communication"),
            on_limit=_choice(ON_LIMIT, self.on_limit, f"{before}on_limit"),
        )

    def _roles(self, before: str) -> tuple[Role, ...]:
        short = {
            "replicas": self.replicas,
            "cards": self.cards,
            "cpu_milli": self.cpu_milli,
            "memory_mib": self.memory_mib,
            "models": self.models or None,
        }
        if not self.roles:
            alone = RoleSpec(
                replicas=self.replicas or 1,
                cards=1 if self.cards is None else self.cards,
                cpu_milli=self.cpu_milli or 0,
                memory_mib=self.memory_mib or 0,
                models=self.models,
            )
            return (_role(alone, before),)
        for key, value in short.items():
            if value is not None:
                raise InputError(
                    f"{before}{key}", f"it is {value}, and roles are given", "put it into the roles"
                )
        return tuple(
            _role(role, f"{before}roles[{index}].") for index, role in enumerate(self.roles)
        )


def _role(spec: RoleSpec, before: str) -> Role:
    if spec.cards and spec.card_milli:
        raise InputError(
            f"{before}card_milli",
            f"it is {spec.card_milli}, and cards is {spec.cards}",
            "ask for whole cards or for a share of one, not for both",
        )
    least = spec.replicas if spec.min_available is None else spec.min_available
    if least > spec.replicas:
        raise InputError(
            f"{before}min_available",
            f"it is {least}, and replicas is {spec.replicas}",
            "give at most so many",
        )
    return Role(
        spec.name,
        spec.replicas,
        least,
        PodRequest(
            spec.cards,
            spec.card_milli,
            spec.card_memory_mib,
            spec.min_card_memory_mib,
            spec.models,
            _choice(ISLANDS, spec.island, f"{before}island"),
            spec.cpu_milli,
            spec.memory_mib,
            _amounts(spec.resources),
            tuple(
                _selector(selector, f"{before}selectors[{index}].")
                for index, selector in enumerate(spec.selectors)
            ),
            tuple(
                toleration(borne, f"{before}tolerations[{index}].")
                for index, borne in enumerate(spec.tolerations)
            ),
            spec.card_count,
        ),
        spec.group,
        spec.priority,
        _tri(spec.preemptable),
        _tri(spec.preempts),
        _labels(spec.labels),
        tuple(_affinity(affinity) for affinity in spec.affinities),
        spec.revocable_zone,
        spec.order,
    )


def _tri(value: bool | None) -> Tri:
    if value is None:
        return Tri.UNKNOWN
    return Tri.YES if value else Tri.NO


def _amounts(bounds: dict[str, int]) -> tuple[Amount, ...]:
    return tuple(Amount(name, count) for name, count in sorted(bounds.items()))


def _labels(labels: dict[str, str]) -> tuple[Label, ...]:
    return tuple(Label(key, value) for key, value in sorted(labels.items()))


def _topology(spec: TopologySpec | None) -> Topology | None:
    return None if spec is None else Topology(spec.required_tier, spec.preferred_tier)


def _group(spec: GroupSpec) -> PodGroup:
    return PodGroup(spec.name, spec.parent, spec.min_available, _topology(spec.topology))


def _budget(spec: BudgetSpec) -> Budget:
    bounds = (
        spec.min_available_count,
        spec.min_available_milli,
        spec.max_unavailable_count,
        spec.max_unavailable_milli,
    )
    return Budget(*[-1 if bound is None else bound for bound in bounds])


def _affinity(spec: AffinitySpec) -> Affinity:
    return Affinity(
        spec.tier,
        spec.roles,
        _labels(spec.labels),
        spec.anti,
        spec.required,
        spec.preemptable_only,
    )


def _action(spec: ActionSpec, before: str) -> EventAction:
    return EventAction(
        _choice(EVENTS, spec.event, f"{before}event"),
        spec.exit_codes,
        spec.role,
        _choice(JOB_ACTIONS, spec.action, f"{before}action"),
        _optional_ns(spec.timeout, f"{before}timeout", 0),
    )


def _selector(spec: SelectorSpec, before: str) -> Selector:
    operator = _choice(SELECTOR_OPERATORS, spec.operator, f"{before}operator")
    needs_values = operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)
    if needs_values != bool(spec.values):
        raise InputError(
            f"{before}values",
            f"there are {len(spec.values)} with the operator {spec.operator}",
            "give at least one" if needs_values else "leave them out",
        )
    return Selector(spec.key, operator, spec.values)


def toleration(spec: TolerationSpec, before: str) -> Toleration:
    """A toleration as records have it; errors name the key after `before`."""
    operator = _choice(TOLERATION_OPERATORS, spec.operator, f"{before}operator")
    if spec.value and operator is TolerationOperator.EXISTS:
        raise InputError(
            f"{before}value", f"it is {spec.value!r}", 'leave it out, or set operator = "Equal"'
        )
    effect = _choice(EFFECTS, spec.effect, f"{before}effect")
    return Toleration(spec.key, operator, spec.value, effect)


def _choice(choices: Mapping[str, _T], value: str, place: str) -> _T:
    found = choices.get(value)
    if found is None:
        known = ", ".join(name for name in choices if name)
        raise InputError(place, f"it is {value[:40]!r}", f"give one of {known}")
    return found


def _optional_ns(text: str, place: str, absent_ns: int) -> int:
    return parse_duration(text, place) if text else absent_ns

"""Kueue's admission cycles: what one pass of quota admission does.

A case becomes ledger records: flavors, queues (cohorts are inner queues), one node on which the
jobs run that hold quota, those jobs as submissions and adopted pods, the policy, the jobs that
wait, a Tick. Only quota is asked for (`then=quota_alone`), of one job per queue, as there.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from conformance.cases import Body, Unsupported, same, whole
from conformance.flavors import flavor_of, named, request_of, units
from ganger.schemas import records as r
from ganger.schemas.enums import (
    DecisionKind,
    FlavorPreference,
    FlavorSearch,
    Phase,
    QueueOrder,
    QueueState,
    VictimRule,
)
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import ENDED, Job
from ganger.streams.presets.loader import load_policy
from support.builders import GENESIS, SECOND, Cell, queue, report, submission

EVICTIONS = {
    Reason.SAME_QUEUE: "same_queue",
    Reason.RECLAIM_IN_COHORT: "reclaim_in_cohort",
    Reason.RECLAIM_WHILE_BORROWING: "reclaim_while_borrowing",
    Reason.FAIR_SHARE: "fair_share",
}
FOR_GOOD = (Reason.TENANT_FORBIDDEN, Reason.VALUE_OUT_OF_RANGE)
"""Why ganger refuses a job at once that the peer takes and never admits: it counts as parked."""

STRATEGIES: Mapping[object, str] = {
    "default": "both",
    ("le_final_share", "lt_initial_share"): "both",
    ("le_final_share",): "final",
    ("lt_initial_share",): "initial",
}
EPOCH = GENESIS + 1_000_000 * SECOND
"""The moment 0 of a case; jobs that have no moment were created then."""

MINUTE = 60 * SECOND
LONG_MAX = (1 << 63) - 1
NODE = "n1"
NOBODY = "no tenant of any case"


def admission_cycle(body: Body) -> None:
    """One pass over the head of every queue."""
    world = _World(body)
    decisions = world.cell.tick()
    expect = body["expect"]
    evicted = {
        one.job: EVICTIONS[one.reason] for one in decisions if one.kind is DecisionKind.EVICT
    }
    same("evicted", evicted, dict(expect["evicted"]))
    same("reservations", world.reservations(), _plain(expect["reservations"]))
    queued, parked = world.waiting()
    same("queued", queued, _sorted(expect["queued"]))
    same("inadmissible", parked, _sorted(expect["inadmissible"]))


def _plain(reservations: Mapping[str, Any]) -> dict[str, Any]:
    return {
        job: {
            "queue": one["queue"],
            "groups": {
                name: {"count": part["count"], "flavors": dict(part["flavors"])}
                for name, part in one["groups"].items()
            },
        }
        for job, one in reservations.items()
    }


def _sorted(jobs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {queue: sorted(names) for queue, names in jobs.items()}


class _World:
    """A cell as a case describes it, before the pass."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.cell = Cell()
        self.refused: dict[str, list[str]] = {}  # for good, by queue
        self.cell.put(
            r.OwnerClaimed(GENESIS, "", None, "owner"), r.IntakeClaimed(GENESIS, "", None, "intake")
        )
        self.cell.put(*[flavor_of(one) for one in body["flavors"] if not one.get("undefined")])
        self.cell.put(*queues_of(body), policy_of(body["policy"]))
        jobs = sorted(body["jobs"], key=lambda job: str(job["name"]))
        holders = [job for job in jobs if "reserved" in job]
        self.cell.put(_node_for(holders))
        self._adopt(holders)
        for job in jobs:
            if "reserved" not in job:
                self._submit(job, job["groups"])
        stopped = [_queue(one) for one in body["queues"] if one.get("stopped")]
        self.cell.put(*[replace(one, state=QueueState.DRAINING) for one in stopped])

    def _submit(self, job: Body, groups: Iterable[Body]) -> None:
        """A job enters; what ganger refuses at once for good is remembered."""
        request = submission(
            job["name"],
            *[_role(group, group["count"], group["request"]) for group in groups],
            queue=job["queue"] or "",
            priority=job["priority"],
            time_ns=_moment(job.get("created_at", 0)),
        )
        asks = [amount for role in request.roles for amount in numbers_of(role.request)]
        if max(asks) > LONG_MAX:  # no record can say so: the codec refuses it
            self.refused.setdefault(job["queue"], []).append(job["name"])
            return
        boost = job.get("priority_boost", 0)
        made = self.cell.put(
            replace(
                request,
                tenant=job.get("tenant", ""),
                priority_boost=boost if isinstance(boost, int) else 0,
            )
        )
        if any(one.reason in FOR_GOOD for one in made):
            self.refused.setdefault(job["queue"], []).append(job["name"])

    def _adopt(self, jobs: Iterable[Body]) -> None:
        """Jobs that hold quota run on one node, cards in a row."""
        first = 0
        for job in jobs:
            parts = job["reserved"]
            groups = [group for group in job["groups"] if group["name"] in parts]
            sized = [_reserved(group, parts[group["name"]]) for group in groups]
            self._submit(job, sized)
            for place, group in enumerate(sized):
                role = _role(group, group["count"], group["request"])
                for local in range(group["count"]):
                    pod = _pod(job, role, local * len(sized) + place, first)
                    self.cell.put(replace(pod, flavors=_flavors(group, parts[group["name"]])))
                    first += role.request.cards

    # ---- what has come of it ------------------------------------------------------------------

    def reservations(self) -> dict[str, Any]:
        """Jobs that have quota, with the pods and flavors they have it for."""
        state = self.cell.state
        return {
            job.request.job: {
                "queue": state.queues[job.queue].config.queue,
                "groups": self._groups(job),
            }
            for job in state.jobs.values()
            if job.phase not in (Phase.PENDING, *ENDED)
        }

    def _groups(self, job: Job) -> dict[str, Any]:
        names = {named(name): name for part in self.body["jobs"] for name in _names(part)}
        counts = job.admitted_counts or [role.replicas for role in job.roles]
        groups: dict[str, Any] = {
            role.name: {"count": count, "flavors": {}}
            for role, count in zip(job.shape.roles, counts, strict=True)
        }
        for choice in job.flavors:
            groups[choice.role]["flavors"][names[choice.resource]] = choice.flavor
        return groups

    def waiting(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Jobs in line and jobs parked, by queue."""
        queued: dict[str, list[str]] = {}
        parked: dict[str, list[str]] = {
            name: jobs
            for name, jobs in self.refused.items()
            if name in self.cell.state.queue_by_name
        }
        for job in self.cell.state.jobs.values():
            if job.phase is Phase.PENDING:
                is_parked = job.group is not None and job.group.is_limited
                name = self.cell.state.queues[job.queue].config.queue
                (parked if is_parked else queued).setdefault(name, []).append(job.request.job)
        return _sorted(queued), _sorted(parked)


def _names(job: Body) -> Iterable[str]:
    return [name for group in job["groups"] for name in group["request"]]


def numbers_of(request: r.PodRequest) -> list[int]:
    """What a pod asks, without names."""
    return [
        request.cards,
        request.cpu_milli,
        request.memory_mib,
        *[amount.count for amount in request.resources],
    ]


def _moment(minutes: int) -> int:
    return EPOCH + minutes * MINUTE


def _role(group: Body, count: int, amounts: Mapping[str, Any]) -> r.Role:
    """A group that may not shrink needs all its pods."""
    least = min(count, group.get("min_count", count))
    return r.Role(group["name"], count, least, request_of(group, amounts))


def _reserved(group: Body, part: Body) -> Body:
    """A group as it holds quota: its size now, and what each pod uses of it."""
    count = part["count"]
    each = {name: Fraction(amount, count) for name, amount in part["usage"].items()}
    return {**group, "count": count, "request": each}


def _flavors(group: Body, part: Body) -> tuple[r.FlavorChoice, ...]:
    return tuple(
        r.FlavorChoice(group["name"], named(resource), flavor)
        for resource, flavor in part["flavors"].items()
    )


def _pod(job: Body, role: r.Role, index: int, first: int) -> r.PodAdopted:
    request = role.request
    return r.PodAdopted(
        EPOCH + EPOCH,
        "",
        None,
        job["name"],
        role.name,
        job["queue"],
        "u",
        job.get("tenant", ""),
        job["priority"],
        index,
        1,
        NODE,
        (r.CardSpan(first, request.cards),) if request.cards else (),
        0,
        0,
        request.cpu_milli,
        request.memory_mib,
        _moment(job.get("reserved_at", 0)),
        0,
        resources=request.resources,
        is_leaving=job.get("being_evicted", False),
    )


def _node_for(holders: Iterable[Body]) -> r.NodeChanged:
    """A node with all the cards in use; what else is used need not be there."""
    parts = [part for job in holders for part in job["reserved"].values()]
    cards = sum(whole(part["usage"].get("gpu", 0)) for part in parts)
    return r.NodeChanged(GENESIS, "", None, report(NODE, cards, slots=1 << 20))


# ---- queues and policy ------------------------------------------------------------------------

RULES = {
    "never": VictimRule.NEVER,
    "lower_priority": VictimRule.LOWER_PRIORITY,
    "lower_or_newer_equal_priority": VictimRule.LOWER_OR_NEWER_EQUAL,
    "any": VictimRule.ANY,
}
SEARCHES = {"stop_here": FlavorSearch.STOP, "try_next_flavor": FlavorSearch.NEXT}
PREFERENCES = {
    "borrowing_over_preemption": FlavorPreference.BORROWING_FIRST,
    "preemption_over_borrowing": FlavorPreference.PREEMPTION_FIRST,
}
ORDERS = {"strict_fifo": QueueOrder.STRICT, "best_effort_fifo": QueueOrder.BEST_EFFORT}


def queues_of(body: Body) -> list[r.QueueConfigured]:
    """Cohorts, each after the one above it, then queues."""
    waiting = list(body["cohorts"])
    known: dict[str, bool] = {}
    made = []
    while waiting:
        ready = [one for one in waiting if one.get("parent") is None or one["parent"] in known]
        if not ready:
            raise Unsupported("cohorts without a root")
        for one in ready:
            known[one["name"]] = True
            waiting.remove(one)
            made.append(
                replace(
                    queue(one["name"], parent=one.get("parent") or ""),
                    resource_groups=_quotas(one),
                    fair_weight_milli=whole(one.get("fair_weight", 1), 1000),
                )
            )
    return made + [_queue(one) for one in body["queues"]]


def _queue(one: Body) -> r.QueueConfigured:
    tenants = tuple(one.get("tenants_allowed", ()))
    if "tenants_allowed" in one and not tenants:
        tenants = (NOBODY,)
    rules, search = one["preemption"], one["flavor_search"]
    borrow = rules.get("borrow_in_cohort", {})
    return replace(
        queue(one["name"], parent=one.get("cohort") or ""),
        order=ORDERS[one["strategy"]],
        within_queue=RULES[rules["within_queue"]],
        reclaim_in_cohort=RULES[rules["reclaim_in_cohort"]],
        borrow_in_cohort=RULES[borrow.get("policy", "never")],
        borrow_priority_max=borrow.get("max_priority"),
        when_can_borrow=SEARCHES[search["when_can_borrow"]],
        when_can_preempt=SEARCHES[search["when_can_preempt"]],
        preference=PREFERENCES.get(search.get("preference", ""), FlavorPreference.UNKNOWN),
        resource_groups=_quotas(one),
        fair_weight_milli=whole(one.get("fair_weight", 1), 1000),
        tenants=tenants,
    )


def _quotas(one: Body) -> tuple[r.ResourceGroup, ...]:
    return tuple(
        r.ResourceGroup(
            tuple(
                r.FlavorQuota(
                    entry["flavor"],
                    tuple(
                        r.QuotaBound(
                            named(resource),
                            units(resource, quota["nominal"]),
                            _limit(resource, quota.get("borrow_limit")),
                            _limit(resource, quota.get("lend_limit")),
                        )
                        for resource, quota in entry["quota"].items()
                    ),
                )
                for entry in group
            )
        )
        for group in one.get("resource_groups", [])
    )


def _limit(resource: str, value: Any) -> int:
    return -1 if value is None else units(resource, value)


def policy_of(policy: Body) -> r.PolicyConfigured:
    """The preset of the peer's name, with its own pass and what the case says of it."""
    flags = policy.get("feature_flags", {})
    fair = "off"
    if policy.get("fair_sharing"):
        strategies = policy["fair_sharing"]["strategies"]
        fair = STRATEGIES.get(strategies if isinstance(strategies, str) else tuple(strategies), "")
        if not fair:
            raise Unsupported(f"fair sharing by {strategies!r}")
    overlap = flags.get("recompute_assignment_upon_preemption_targets_overlap", True)
    arguments = {
        "then": "quota_alone",
        "heads": "one_per_queue",
        "fair": fair,
        "partial": "yes" if flags.get("partial_admission", True) else "no",
        "overlap": "recompute" if overlap else "skip",
    }
    preset = load_policy("kueue")
    admit = r.ActionConfig("admit", tuple(r.Argument(k, v) for k, v in arguments.items()))
    return replace(preset, time_ns=GENESIS, actions=(admit,))

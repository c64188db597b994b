"""From a policy record to functions: the explicit table of what there is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from ganger.schemas.reasons import Reason
from ganger.schemas.records import ActionConfig, Argument, PolicyConfigured
from ganger.streams.kernel.digest import policy_facts
from ganger.streams.kernel.horizon.orders import ORDERS
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.policies import (
    binpack,
    capability,
    capacity,
    cohort,
    compensation,
    conflicts,
    conformance,
    cooldown,
    drf,
    fair_quota,
    fair_share,
    flavors,
    gang,
    limits,
    min_runtime,
    network_topology,
    nodegroup,
    nodeorder,
    overcommit,
    pack,
    pdb,
    predicates,
    priority,
    proportion,
    resource_strategy_fit,
    resourcequota,
    shard,
    sla,
    spread,
    task_topology,
    tdm,
    usage,
)
from ganger.streams.kernel.policies.hooks import Arguments, Hooks, PolicyRefused
from ganger.streams.kernel.policies.votes import (
    all_starve,
    first_tier_starves,
    flat,
    intersection,
    tier_vetoes,
    tier_vote,
)
from ganger.streams.kernel.settings import (
    LENT_ROUTES,
    RESERVE_ALL,
    ROUTES,
    Settings,
    Timing,
    Yielding,
)
from ganger.streams.kernel.state import Policy


class Rule(Protocol):
    """A policy module."""

    NAME: str
    HOOKS: tuple[str, ...]

    def build(self, arguments: tuple[Argument, ...], where: str) -> Hooks:
        """What it contributes with these arguments; `where` names them in a refusal."""


POLICIES: dict[str, Rule] = {
    module.NAME: module
    for module in (
        binpack,
        capability,
        capacity,
        cohort,
        compensation,
        conformance,
        cooldown,
        drf,
        fair_quota,
        fair_share,
        flavors,
        gang,
        limits,
        min_runtime,
        network_topology,
        nodegroup,
        nodeorder,
        overcommit,
        pack,
        pdb,
        predicates,
        priority,
        proportion,
        resource_strategy_fit,
        resourcequota,
        shard,
        sla,
        spread,
        task_topology,
        tdm,
        usage,
    )
}


@dataclass(frozen=True, slots=True)
class ActionKeys:
    """Arguments that an action takes: default, least and greatest value of each; of choices the
    default and the options; of several names the default, with commas between them, and the
    options. A count may be "all" instead, which is its greatest value.
    """

    integers: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    millis: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    durations: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    choices: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    several: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=dict)


_TAKING = ActionKeys(
    integers={"depth": (64, 1, 1 << 31), "evictions_max": (-1, -1, 1 << 31)},
    durations={
        "patience_ns": (0, 0, 365 * 24 * 3600 * 10**9),
        "lost_max_ns": (0, 0, 365 * 24 * 3600 * 10**9),
    },
    choices={"give_back": ("yes", ("yes", "no")), "search": ("cell", ("cell", "node"))},
)
"""Of actions that take from others: jobs per queue that are tried in vain; how often a pod is
begun anew before it is nobody's victim (-1: any number); how long a job waits before it takes; the
most unsaved run time that a victim may lose (0: any); whether victims that are not needed are
spared, and where victims are sought: in the whole cell, or on one node after the other.
"""

_HOUR_NS = 3600 * 10**9
_YEAR_NS = 365 * 24 * _HOUR_NS

ACTIONS: dict[str, ActionKeys] = {
    "tune": ActionKeys(
        integers={
            "protection_milli": (150, 1, 1000),
            "protection_least_milli": (100, 1, 1000),
            "protection_max_milli": (200, 1, 1000),
        },
        durations={
            "window_ns": (_HOUR_NS, 10**9, _YEAR_NS),
            "runtime_least_ns": (_HOUR_NS, 1, _YEAR_NS),
            "runtime_max_ns": (30 * 24 * _HOUR_NS, 1, _YEAR_NS),
        },
    ),
    "yielding": ActionKeys(
        integers={"large_cards": (4, 1, 1 << 20)},
        durations={
            "evict_after_ns": (6 * _HOUR_NS, 0, _YEAR_NS),
            "lost_max_ns": (_HOUR_NS, 0, _YEAR_NS),
            "floor_ns": (60 * 10**9, 0, _YEAR_NS),
            "ceiling_ns": (2 * _HOUR_NS, 0, _YEAR_NS),
            "suspend_max_ns": (7 * 24 * _HOUR_NS, 0, _YEAR_NS),
        },
    ),
    "shuffle": ActionKeys(),
    "reserve": ActionKeys(integers={"depth": (1, 1, 1 << 31)}),
    "stale": ActionKeys(),
    "preempt": _TAKING,
    "reclaim": _TAKING,
    "enqueue": ActionKeys(choices={"unasked": ("compute", ("compute", "permit"))}),
    "allocate": ActionKeys(
        counts={"reserve": (0, 0, RESERVE_ALL), "depth": (100, 1, RESERVE_ALL)},
        choices={
            "beyond": ("go_on", ("go_on", "stop")),
            "surplus": ("at_once", ("at_once", "one_by_one")),
            "pipelines": ("no", ("no", "yes")),
        },
    ),
    "backfill": ActionKeys(
        integers={"scan_max": (10_000, 1, 1 << 31)},
        durations={"guard_ns": (0, 0, 3650 * 24 * 3600 * 10**9)},
        choices={
            "order": ("arrival", tuple(ORDERS)),
            "judge": ("limit", ("limit", "estimate")),
        },
        several={"routes": (",".join(ROUTES), (*ROUTES, *LENT_ROUTES))},
        switches={"timed": False},
    ),
    "admit": ActionKeys(
        choices={
            "then": ("place", ("place", "quota_alone")),
            "fair": ("off", ("off", "final", "initial", "both")),
            "heads": ("all", ("all", "one_per_queue")),
            "overlap": ("recompute", ("recompute", "skip")),
            "uncovered": ("refuse", ("refuse", "ignore")),
        },
        switches={"partial": True},
    ),
}
"""The actions there are, with their arguments; module `cycle` runs them. What stands in a policy
record is compiled into `Policy.numbers` and `Policy.words` as "action.key"."""

_S = 10**9
_DAY_NS = 24 * 3600 * _S

DURATIONS: dict[str, tuple[int, int, int]] = {
    # default, least, greatest; ns
    "start_timeout_ns": (600 * _S, _S, 30 * _DAY_NS),
    "ttl_ns": (3600 * _S, 0, 3650 * _DAY_NS),
    "tick_min_ns": (0, 0, _DAY_NS),
    "tick_max_ns": (0, 0, _DAY_NS),
    "event_id_ns": (600 * _S, 0, _DAY_NS),
    "grace_ns": (0, 0, 30 * _DAY_NS),
    "release_ns": (0, 0, 30 * _DAY_NS),
    "claim_ns": (300 * _S, _S, 30 * _DAY_NS),
    "stale_ns": (60 * _S, 0, 30 * _DAY_NS),
    "requeue_base_ns": (60 * _S, 0, 30 * _DAY_NS),
    "requeue_max_ns": (3600 * _S, 0, 30 * _DAY_NS),
    "inqueue_ns": (0, 0, 30 * _DAY_NS),
    "usage_half_life_ns": (0, 0, 3650 * _DAY_NS),
    "min_runtime_ns": (0, 0, 30 * _DAY_NS),
}

CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "votes": ("all", ("all", "tiers")),
    "vetoes": ("intersection", ("intersection", "tiers")),
    "estimates": ("declared", ("declared", "exact", "predicted")),
    "expect": ("limit", ("limit", "estimate")),
    "passes": ("all", ("all", "fitting")),
    "overrun": ("limit", ("limit", "double")),
    "margin": ("off", ("off", "learnt")),
    "alike": ("narrowest", ("narrowest", "user")),
}


def build(record: PolicyConfigured) -> Policy:
    """Compile a policy record.

    Raises:
        PolicyRefused: names the key, the value and the remedy.
    """
    tiers = [
        [_hooks_of(record, t, p) for p, _ in enumerate(tier.policies)]
        for t, tier in enumerate(record.tiers)
    ]
    _check_classes(record)
    settings = _settings(record)
    numbers: dict[str, int] = {}
    words: dict[str, str] = {}
    for place, action in enumerate(record.actions):
        where = f"actions[{place}]"
        if action.action in [other.action for other in record.actions[:place]]:
            raise PolicyRefused(Reason.ACTION_UNKNOWN, where, action.action, "name it once")
        _read_action(action, where, numbers, words)
    conflicts.check(record, numbers, words, settings)
    named = [action.action for action in record.actions]
    digest = sha256(policy_facts(record)).digest()[:8]
    return Policy(
        digest=digest,
        digest_term=int.from_bytes(digest, "little"),
        actions=tuple(named),
        numbers=numbers,
        words=words,
        classes={named.name: named for named in record.priority_classes},
        settings=settings,
        timing=_timing(numbers, words),
        asks_quota="admit.then" in words,
        admits_all=bool(named) and "enqueue" not in named and "admit.then" not in words,
        is_patient=any(value for key, value in numbers.items() if key.endswith(".patience_ns")),
        evicts=any(name in _HUNTS for name in named),
        ends_stale="stale" in named,
        admits_unasked=words.get("enqueue.unasked") == "permit",
        **_combined(tiers, settings),
    )


def _timing(numbers: dict[str, int], words: dict[str, str]) -> Timing | None:
    """How actions plan with run times; none where no action does."""
    timing = Timing(
        reserve=numbers.get("allocate.reserve", 0),
        depth=numbers.get("allocate.depth", 0),
        stops=words.get("allocate.beyond") == "stop",
        scans=numbers.get("backfill.timed", 0) > 0,
        order=words.get("backfill.order", ""),
        by_estimate=words.get("backfill.judge") == "estimate",
        guard_ns=numbers.get("backfill.guard_ns", 0),
        scan_max=numbers.get("backfill.scan_max", 0),
        routes=tuple(words.get("backfill.routes", "").split(",")),
        yields=_yielding(numbers) if "yielding.lost_max_ns" in numbers else None,
    )
    return timing if timing.reserve or timing.stops or timing.scans else None


def _yielding(numbers: dict[str, int]) -> Yielding:
    """How jobs in gaps make way."""
    return Yielding(
        evict_after_ns=numbers["yielding.evict_after_ns"],
        lost_max_ns=numbers["yielding.lost_max_ns"],
        floor_ns=numbers["yielding.floor_ns"],
        ceiling_ns=numbers["yielding.ceiling_ns"],
        large_cards=numbers["yielding.large_cards"],
        suspend_max_ns=numbers["yielding.suspend_max_ns"],
    )


def rules_of(record: PolicyConfigured) -> list[tuple[str, Hooks]]:
    """The rules of a sound policy record by name, one by one: for explanations."""
    return [
        (config.policy, _hooks_of(record, t, p))
        for t, tier in enumerate(record.tiers)
        for p, config in enumerate(tier.policies)
    ]


def _combined(tiers: list[list[Hooks]], settings: Settings) -> dict[str, Any]:
    """The fields of `Policy` that hold hooks."""

    def by_tier(hook: str) -> tuple[tuple[Any, ...], ...]:
        found = [[getattr(one, hook) for one in tier] for tier in tiers]
        kept = [tuple([one for one in tier if one is not None]) for tier in found]
        return tuple([tier for tier in kept if tier])

    combined: dict[str, Any] = {hook: flat(by_tier(hook)) for hook in _FLAT}
    is_tiered = settings.votes == "tiers"
    for hook in ("job_enqueue", "job_pipelined"):
        voters = by_tier(hook)
        combined[hook] = (tier_vote(voters),) if is_tiered and voters else flat(voters)
    combined["headroom"] = () if is_tiered else flat(by_tier("headroom"))
    starving = by_tier("job_starving")
    combined["job_starving"] = first_tier_starves(starving) if is_tiered else all_starve(starving)
    for hook in ("preemptable", "reclaimable"):
        judge = tier_vetoes if settings.vetoes == "tiers" else intersection
        combined[hook] = judge(by_tier(hook))
    combined["spare"] = () if settings.vetoes == "tiers" else flat(by_tier("spare"))
    orders, spreads = flat(by_tier("victim_order")), flat(by_tier("spread"))
    combined["victim_order"] = orders[0] if orders else None
    combined["spread"] = spreads[-1] if spreads else False
    for hook in ("follows_capacity", "follows_clock"):
        combined[hook] = bool(flat(by_tier(hook)))
    promised = flat(by_tier("sla_waiting_ns"))
    combined["sla_waiting_ns"] = promised[0] if promised else None
    combined["by_queue"] = any(flat(by_tier("by_queue")))
    combined["is_plain"] = not any(combined[hook] for hook in _OF_PLACEMENT)
    return combined


_HUNTS = ("preempt", "reclaim", "shuffle")
"""Actions that may evict."""

_FLAT = (
    "job_order",
    "queue_order",
    "task_order",
    "job_valid",
    "job_ready",
    "overused",
    "allocatable",
    "preemptive",
    "predicate",
    "predicate_now",
    "node_order",
    "node_order_now",
    "domain_order",
    "victim",
    "protected",
    "refresh",
)
"""Hooks whose contributions stand in one row, whatever their tiers."""

_OF_PLACEMENT = ("allocatable", "predicate", "predicate_now", "node_order")
"""Hooks that are asked for every pod that is placed."""

_COMPANIONS = {
    "headroom": "job_enqueue",
    "spare": "reclaimable",
    "predicate_now": "predicate",
    "node_order_now": "node_order",
    "follows_capacity": "job_order",
    "follows_clock": "job_order",
}
"""Hooks that nobody can ask for alone, and those that they come with."""


def _read_action(
    action: ActionConfig, where: str, numbers: dict[str, int], words: dict[str, str]
) -> None:
    """Check an action and put its arguments into the tables."""
    keys = ACTIONS.get(action.action)
    if keys is None:
        remedy = f"use one of: {', '.join(ACTIONS)}"
        raise PolicyRefused(Reason.ACTION_UNKNOWN, where, action.action, remedy)
    reader = Arguments(action.arguments, where)
    readers: tuple[tuple[Callable[..., int], dict[str, tuple[int, int, int]]], ...] = (
        (reader.integer, keys.integers),
        (reader.milli, keys.millis),
        (reader.duration, keys.durations),
        (reader.count, keys.counts),
    )
    for read, table in readers:
        for key, bounds in table.items():
            numbers[f"{action.action}.{key}"] = read(key, *bounds)
    for key, (default, options) in keys.choices.items():
        words[f"{action.action}.{key}"] = reader.choice(key, default, options)
    for key, (default, options) in keys.several.items():
        words[f"{action.action}.{key}"] = ",".join(reader.several(key, default, options))
    for key, is_on in keys.switches.items():
        numbers[f"{action.action}.{key}"] = int(reader.yes(key, is_on))
    reader.close()


def _settings(record: PolicyConfigured) -> Settings:
    """The settings of a record; sound ones."""
    reader = Arguments(record.settings, "settings")
    durations = {key: reader.duration(key, *bounds) for key, bounds in DURATIONS.items()}
    words = {key: reader.choice(key, *options) for key, options in CHOICES.items()}
    texts: dict[str, Any] = {**durations, **words}
    settings = Settings(
        **texts,
        requeue_limit=reader.integer("requeue_limit", -1, -1, PRIORITY_MAX),
        usage_k_milli=reader.integer("usage_k_milli", 1000, 0, 1_000_000),
        end_at_limit=reader.yes("end_at_limit", False),
        promises=reader.yes("promises", False),
    )
    reader.close()
    return settings


def _check_classes(record: PolicyConfigured) -> None:
    """Names of priority classes name one class each."""
    names: dict[str, bool] = {}
    for place, named in enumerate(record.priority_classes):
        if not named.name or named.name in names:
            raise PolicyRefused(
                Reason.ARGUMENT_INVALID,
                f"priority_classes[{place}].name",
                named.name,
                "give each class a name of its own",
            )
        names[named.name] = True


def _hooks_of(record: PolicyConfigured, tier: int, place: int) -> Hooks:
    config = record.tiers[tier].policies[place]
    where = f"tiers[{tier}].policies[{place}]"
    module = POLICIES.get(config.policy)
    if module is None:
        remedy = f"use one of: {', '.join(sorted(POLICIES))}"
        raise PolicyRefused(Reason.POLICY_UNKNOWN, where, config.policy, remedy)
    built = module.build(config.arguments, where)
    if not config.hooks:
        return built
    for hook in config.hooks:
        if hook not in module.HOOKS:
            remedy = f"use one of: {', '.join(module.HOOKS)}"
            raise PolicyRefused(Reason.HOOK_UNKNOWN, f"{where}.hooks", hook, remedy)
    asked = [hook for hook, main in _COMPANIONS.items() if main in config.hooks]
    kept = {hook: getattr(built, hook) for hook in (*config.hooks, *asked)}
    always = ("refresh", "sla_waiting_ns", "by_queue")
    return Hooks(**kept, **{name: getattr(built, name) for name in always})

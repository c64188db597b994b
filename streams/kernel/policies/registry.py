"""From a policy record to functions: the explicit table of what there is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from ganger.schemas.reasons import Reason
from ganger.schemas.records import ActionConfig, Argument, PolicyConfigured
from ganger.streams.kernel.digest import policy_facts
from ganger.streams.kernel.limits import PRIORITY_MAX
from ganger.streams.kernel.policies import (
    capability,
    fair_share,
    gang,
    overcommit,
    pack,
    priority,
    spread,
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
from ganger.streams.kernel.state import Policy, Settings


class Rule(Protocol):
    """A policy module."""

    NAME: str
    HOOKS: tuple[str, ...]

    def build(self, arguments: tuple[Argument, ...], where: str) -> Hooks:
        """What it contributes with these arguments; `where` names them in a refusal."""


POLICIES: dict[str, Rule] = {
    module.NAME: module
    for module in (capability, fair_share, gang, overcommit, pack, priority, spread)
}


@dataclass(frozen=True, slots=True)
class ActionKeys:
    """Arguments that an action takes: default, least and greatest value of each; of choices the
    default and the options.
    """

    integers: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    millis: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    durations: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    choices: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)


ACTIONS: dict[str, ActionKeys] = {
    "enqueue": ActionKeys(),
    "allocate": ActionKeys(),
    "backfill": ActionKeys(),
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
    return Policy(
        digest=sha256(policy_facts(record)).digest()[:8],
        actions=tuple([action.action for action in record.actions]),
        numbers=numbers,
        words=words,
        classes={named.name: named for named in record.priority_classes},
        settings=settings,
        **_combined(tiers, settings),
    )


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
    orders, spreads = flat(by_tier("victim_order")), flat(by_tier("spread"))
    combined["victim_order"] = orders[0] if orders else None
    combined["spread"] = spreads[-1] if spreads else False
    combined["is_plain"] = not any(combined[hook] for hook in _OF_PLACEMENT)
    return combined


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
    "node_order",
    "domain_order",
    "victim",
    "protected",
)
"""Hooks whose contributions stand in one row, whatever their tiers."""

_OF_PLACEMENT = ("task_order", "allocatable", "predicate", "node_order", "domain_order")
"""Hooks that are asked while pods are placed."""


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
    )
    for read, table in readers:
        for key, bounds in table.items():
            numbers[f"{action.action}.{key}"] = read(key, *bounds)
    for key, (default, options) in keys.choices.items():
        words[f"{action.action}.{key}"] = reader.choice(key, default, options)
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
    if settings.requeue_max_ns < settings.requeue_base_ns:
        raise PolicyRefused(
            Reason.ARGUMENT_INVALID,
            "settings.requeue_max_ns",
            str(settings.requeue_max_ns),
            f"give at least requeue_base_ns, {settings.requeue_base_ns}",
        )
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
    return Hooks(
        **{hook: getattr(built, hook) for hook in config.hooks},
        headroom=built.headroom if "job_enqueue" in config.hooks else None,
    )

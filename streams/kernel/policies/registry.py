"""From a policy record to functions: the explicit table of what there is."""

from hashlib import sha256
from typing import Protocol

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument, PolicyConfigured
from ganger.streams.kernel.digest import policy_facts
from ganger.streams.kernel.policies import (
    capability,
    fair_share,
    gang,
    overcommit,
    pack,
    priority,
    spread,
)
from ganger.streams.kernel.policies.hooks import Hooks, PolicyRefused, integers
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

ACTIONS: tuple[str, ...] = ("enqueue", "allocate", "backfill")
"""Names of the actions there are; module `cycle` runs them."""

_DAY_NS = 24 * 3600 * 10**9

SETTINGS: dict[str, tuple[int, int, int]] = {
    # default, least, greatest; ns
    "start_timeout_ns": (600 * 10**9, 10**9, 30 * _DAY_NS),
    "ttl_ns": (3600 * 10**9, 0, 3650 * _DAY_NS),
    "tick_min_ns": (0, 0, _DAY_NS),
    "tick_max_ns": (0, 0, _DAY_NS),  # 0 = none
    "event_id_ns": (600 * 10**9, 0, _DAY_NS),
}


def build(record: PolicyConfigured) -> Policy:
    """Compile a policy record.

    Raises:
        PolicyRefused: names the key, the value and the remedy.
    """
    hooks = [
        contribution
        for t, tier in enumerate(record.tiers)
        for p, _ in enumerate(tier.policies)
        for contribution in [_hooks_of(record, t, p)]
    ]
    names = []
    for place, action in enumerate(record.actions):
        where = f"actions[{place}]"
        if action.action not in ACTIONS:
            remedy = f"use one of: {', '.join(ACTIONS)}"
            raise PolicyRefused(Reason.ACTION_UNKNOWN, where, action.action, remedy)
        if action.action in names:
            raise PolicyRefused(Reason.ACTION_UNKNOWN, where, action.action, "name it once")
        integers(action.arguments, where, {})
        names.append(action.action)
    _check_classes(record)
    spreads = [h.spread for h in hooks if h.spread is not None]
    return Policy(
        digest=sha256(policy_facts(record)).digest()[:8],
        actions=tuple(names),
        job_keys=tuple(h.job_key for h in hooks if h.job_key is not None),
        queue_keys=tuple(h.queue_key for h in hooks if h.queue_key is not None),
        admissions=tuple(h.admission for h in hooks if h.admission is not None),
        headrooms=tuple(h.headroom for h in hooks if h.headroom is not None),
        spread=spreads[-1] if spreads else False,
        classes={c.name: (c.priority, c.preempts) for c in record.priority_classes},
        settings=Settings(**integers(record.settings, "settings", SETTINGS)),
    )


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
        headroom=built.headroom if "admission" in config.hooks else None,
    )

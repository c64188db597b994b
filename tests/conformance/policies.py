"""The policy of a case as a policy record: its tiers and hooks one to one, and of all it does not
say what the preset of the same scheduler says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance import probes
from conformance.cases import Body, Unsupported, duration_ns, whole
from ganger.schemas import records as r
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import ACTIONS, build
from ganger.streams.presets.loader import load_policy, preset_names
from support.builders import GENESIS

RENAMED = {"topology": "network_topology"}
"""Policies that go by another name than the peer's plugin."""

ALWAYS = {"gang": ("job_valid",)}
"""Hooks that no switch of the peer turns off."""

AS_ARGUMENT = ("hierarchy",)
"""What the peer switches like a hook, and ganger by an argument of that name."""

ADMITTING = ("enqueue", "allocate")
"""Without any of these the peer admits nobody; ganger asks nobody where it has no `enqueue`."""

NEEDS = {("priority", "task_order"): ("roles", "yes")}
"""Hooks that a policy has only with an argument."""

UNSAID = {
    "network_topology": ("domain_gradient",),  # placement tries the narrowest domain first anyway
    "drf": ("job_enqueue",),  # the peer's plugin of that name has no such hook either
    "capacity": ("overused",),
    "proportion": ("predicate",),
    "predicates": ("preemptable",),
    "priority": ("job_pipelined", "reclaimable"),
    "pdb": ("victim",),  # what is put out passes the same budget
}
"""Hooks that cases switch on and that are none of the policy."""

RESOURCES = {"cpu": "cpu_milli", "cpu_m": "cpu_milli", "memory": "memory_mib", "gpu": "cards_milli"}
"""Names of resources in cases and in records."""

Texts = dict[str, str]


@dataclass(frozen=True, slots=True)
class Base:
    """What a preset says where a case is silent."""

    actions: Mapping[str, Texts]
    policies: Mapping[str, Texts]
    settings: Texts


def base_of(preset: str, actions: Mapping[str, Texts], settings: Texts) -> Base:
    """The arguments and settings of a preset over the given ones."""
    if preset not in preset_names():
        return Base(actions, {}, settings)
    record = load_policy(preset)
    return Base(
        {**actions, **{one.action: _texts(one.arguments) for one in record.actions}},
        {one.policy: _texts(one.arguments) for tier in record.tiers for one in tier.policies},
        {**settings, **_texts(record.settings)},
    )


def _texts(arguments: Sequence[r.Argument]) -> Texts:
    return {argument.key: argument.value for argument in arguments}


def volcano_base() -> Base:
    """What Volcano does unless told otherwise."""
    return base_of(
        "volcano",
        {
            "preempt": {"search": "node"},
            "reclaim": {"search": "node"},
            "allocate": {"surplus": "one_by_one", "pipelines": "yes"},
            "enqueue": {"unasked": "permit"},
        },
        {"votes": "tiers", "vetoes": "tiers"},
    )


def volcano_policy(policy: Body, actions: Sequence[str] | None = None) -> r.PolicyConfigured:
    """The record of a Volcano case's policy.

    Raises:
        Unsupported: The kernel refuses it; the message is the refusal.
    """
    base = volcano_base()
    tiers = [
        [_plugin(one, base) for one in part]
        for tier in policy.get("tiers", ())
        for part in _parts(tier)
    ]
    shard = policy.get("shard")
    if shard is not None:
        arguments = {"mode": shard["mode"], "nodes": ",".join(shard["nodes"])}
        tiers.append([r.PolicyConfig("shard", (), pairs(arguments))])
    of_actions = policy.get("action_args", {})
    names = policy.get("actions", ()) if actions is None else actions
    listed = [_action(name, base, of_actions.get(name, {})) for name in names]
    if names and not any(name in ADMITTING for name in names):
        listed.append(r.ActionConfig("enqueue", pairs({"unasked": "compute"})))
        tiers.append([r.PolicyConfig(probes.Nobody.NAME, (), ())])
    return sound(
        tuple(listed),
        tuple(r.PolicyTier(tuple(one for one in tier if one is not None)) for tier in tiers),
        base.settings,
    )


def _parts(tier: Sequence[Body]) -> list[Sequence[Body]]:
    """A tier as tiers that may be configured: the peer refuses a division down a tree and one by
    weight in the same tier, which its harness does not ask.
    """
    names = [one["plugin"] for one in tier]
    is_tree = any(one["plugin"] == "drf" and "hierarchy" in one["hooks"] for one in tier)
    if not is_tree or "proportion" not in names:
        return [tier]
    divided = [
        [one for one in tier if (one["plugin"] == "proportion") is last] for last in (False, True)
    ]
    return [part for part in divided if part]


def _plugin(one: Body, base: Base) -> r.PolicyConfig | None:
    """A plugin with the hooks that are on; none if it has nothing to say."""
    name = RENAMED.get(one["plugin"], one["plugin"])
    unsaid = (*AS_ARGUMENT, *UNSAID.get(name, ()))
    given = [hook for hook in one["hooks"] if hook not in unsaid]
    hooks = dict.fromkeys((*ALWAYS.get(name, ()), *given))
    texts = dict(base.policies.get(name, {}))
    texts |= {hook: "yes" for hook in AS_ARGUMENT if hook in one["hooks"]}
    texts |= dict(NEEDS[name, hook] for hook in hooks if (name, hook) in NEEDS)
    texts |= TRANSLATED.get(name, plain_arguments)(one.get("args", {}))
    return r.PolicyConfig(name, tuple(hooks), pairs(texts)) if hooks else None


def _action(name: str, base: Base, given: Mapping[str, Any]) -> r.ActionConfig:
    """An action with its arguments; those that it does not know are left out."""
    texts = dict(base.actions.get(name, {}))
    if "topology_aware" in given:
        texts["search"] = "cell" if given["topology_aware"] else "node"
    known = ACTIONS.get(name)
    if known is not None:
        keys = {**known.integers, **known.millis, **known.durations, **known.choices}
        texts = {key: text for key, text in texts.items() if key in keys}
    return r.ActionConfig(name, pairs(texts))


def sound(
    actions: tuple[r.ActionConfig, ...], tiers: tuple[r.PolicyTier, ...], settings: Texts
) -> r.PolicyConfigured:
    """A policy record that the kernel takes."""
    record = r.PolicyConfigured(GENESIS, "", None, "case", actions, tiers, (), pairs(settings))
    try:
        build(record)
    except PolicyRefused as refused:
        raise Unsupported(str(refused)) from refused
    return record


def pairs(texts: Texts) -> tuple[r.Argument, ...]:
    """Arguments of a record."""
    return tuple(r.Argument(key, value) for key, value in texts.items())


# ---- arguments ----------------------------------------------------------------------------------


def plain_arguments(args: Mapping[str, Any]) -> Texts:
    """Arguments that are called the same: numbers, words, yes and no."""
    texts = {}
    for key, value in args.items():
        if isinstance(value, bool):
            texts[key] = "yes" if value else "no"
        elif isinstance(value, int | str):
            texts[key] = str(value)
        else:
            raise Unsupported(f"argument {key} = {value!r}")
    return texts


def _overcommit(args: Mapping[str, Any]) -> Texts:
    """A factor below one is no factor: the default holds."""
    factor = args.get("factor", 0)
    return {"factor_milli": str(whole(factor, 1000))} if factor >= 1 else {}


def _sla(args: Mapping[str, Any]) -> Texts:
    """A waiting time that is no text with a unit is no waiting time."""
    return {"waiting_ns": str(duration_ns(args.get("max_wait")))}


def _weights(args: Mapping[str, Any]) -> Texts:
    """Weights of resources, each an argument of the resource's name."""
    texts = plain_arguments({k: v for k, v in args.items() if k != "resource_weights"})
    texts["cards_milli"] = "0"  # the peer looks at cards only where they are named
    weights = args.get("resource_weights", {})
    return texts | {RESOURCES.get(name, name): str(weight) for name, weight in weights.items()}


def _strategies(args: Mapping[str, Any]) -> Texts:
    """Weights of resources as for binpack, and the names of those that are spread."""
    texts = plain_arguments({k: v for k, v in args.items() if k != "resources"})
    given = args.get("resources", {})
    texts |= {RESOURCES.get(name, name): str(one["weight"]) for name, one in given.items()}
    spread = [RESOURCES.get(n, n) for n, one in given.items() if one["mode"] == "least_allocated"]
    return texts | ({"spread": ",".join(spread)} if spread else {})


def _zones(args: Mapping[str, Any]) -> Texts:
    """Zones are records, not arguments."""
    return plain_arguments({key: value for key, value in args.items() if key != "zones"})


def _select(args: Mapping[str, Any]) -> Texts:
    return plain_arguments(args.get("select", {}))


TRANSLATED = {
    "overcommit": _overcommit,
    "sla": _sla,
    "binpack": _weights,
    "resource_strategy_fit": _strategies,
    "tdm": _zones,
    "test_victims": _select,
}
"""Policies whose arguments are not called as the peer's."""

probes.register()

"""Policies whose parts are sound one by one and contradict each other; and values that are not.

Each refusal names the key, the value and the remedy.
"""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import ACTIONS, DURATIONS, POLICIES, build
from ganger.streams.presets.loader import load_policy, preset_names
from support.builders import Cell, policy
from support.decision_lines import said

Texts = dict[str, str]

ALLOCATE = ("allocate", {"reserve": "1"})
GAPS = ("backfill", {"timed": "true", "routes": "safe,beside,suspendable"})
YIELDS = ("yielding", {})


def made(
    *actions: tuple[str, Texts],
    rules: tuple[tuple[str, Texts] | tuple[str, Texts, tuple[str, ...]], ...] = (),
    settings: Texts | None = None,
    tiers: int = 1,
) -> r.PolicyConfigured:
    """A policy record; `tiers` 2: each rule in one of its own."""
    configs = [
        r.PolicyConfig(name, hooks[0] if hooks else (), pairs(texts))
        for name, texts, *hooks in rules
    ]
    split = [tuple(configs)] if tiers == 1 else [(config,) for config in configs]
    return replace(
        policy(settings=settings),
        actions=tuple(r.ActionConfig(name, pairs(texts)) for name, texts in actions),
        tiers=tuple(r.PolicyTier(tier) for tier in split),
    )


def pairs(texts: Texts) -> tuple[r.Argument, ...]:
    return tuple(r.Argument(*pair) for pair in texts.items())


def gaps(**yielding: str) -> tuple[tuple[str, Texts], ...]:
    return ALLOCATE, ("yielding", yielding), GAPS


REFUSED = [
    # bounds the wrong way round, also against what stands where nothing is said
    (made(*gaps(floor_ns="2m", ceiling_ns="1m")), "actions[1].floor_ns", "120000000000", "ceiling"),
    (made(*gaps(floor_ns="3h")), "actions[1].floor_ns", "10800000000000", "7200000000000"),
    (made(*gaps(ceiling_ns="30s")), "actions[1].floor_ns", "60000000000", "30000000000"),
    (
        made(*gaps(), ("tune", {"protection_milli": "50"})),
        *("actions[3].protection_least_milli", "100", "protection_milli, 50"),
    ),
    (
        made(*gaps(), ("tune", {"protection_max_milli": "120"})),
        *("actions[3].protection_milli", "150", "protection_max_milli, 120"),
    ),
    (
        made(*gaps(), ("tune", {"runtime_least_ns": "2d", "runtime_max_ns": "1d"})),
        *("actions[3].runtime_least_ns", "172800000000000", "86400000000000"),
    ),
    (
        made(settings={"requeue_base_ns": "2h"}),
        *("settings.requeue_max_ns", "3600000000000", "requeue_base_ns, 7200000000000"),
    ),
    (
        made(settings={"tick_min_ns": "20s", "tick_max_ns": "10s"}),
        *("settings.tick_max_ns", "10000000000", "tick_min_ns, 20000000000, or 0"),
    ),
    # ways into a gap that nobody is made to leave again
    (made(ALLOCATE, GAPS), "actions[1].routes", "safe,beside,suspendable", "add action yielding"),
    (
        made(ALLOCATE, ("backfill", {"timed": "yes", "routes": "spot"})),
        *("actions[1].routes", "spot", "leave spot out"),
    ),
    # actions without what they work on
    (made(ALLOCATE, YIELDS), "actions[1]", "yielding", "backfill with timed = true"),
    (made(ALLOCATE, ("backfill", {}), ("tune", {})), "actions[2]", "tune", "timed = true"),
    (made(GAPS, YIELDS), "actions[0].timed", "true", "add action allocate before it"),
    (made(GAPS, ALLOCATE), "actions[0].timed", "true", "add action allocate before it"),
    (made(YIELDS, ALLOCATE, GAPS), "actions[0]", "yielding", "put it behind allocate"),
    (made(("reserve", {})), "actions[0]", "reserve", "add rule sla"),
    (made(("admit", {}), ("enqueue", {})), "actions[1]", "enqueue", "or admit"),
    # arguments that mean nothing beside others
    (made(("backfill", {"order": "shortest"})), "actions[0].order", "shortest", "timed = true"),
    (made(("backfill", {"guard_ns": "3d"})), "actions[0].guard_ns", "3d", "timed = true"),
    (
        made(("preempt", {"search": "node", "give_back": "yes"})),
        *("actions[0].give_back", "yes", 'search = "cell"'),
    ),
    (
        made(rules=(("capacity", {"ancestor_level": "1"}),)),
        *("tiers[0].policies[0].ancestor_level", "1", "hierarchy = yes"),
    ),
    (made(rules=(("shard", {}),)), "tiers[0].policies[0].nodes", "", "name the nodes"),
    (
        made(rules=(("shard", {"label": "pool"}),)),
        *("tiers[0].policies[0].label", "pool", "give value too"),
    ),
    (
        made(rules=(("shard", {"nodes": "n", "value": "a"}),)),
        *("tiers[0].policies[0].value", "a", "give label too"),
    ),
    (
        made(rules=(("nodegroup", {"label": "a,b"}),)),
        *("tiers[0].policies[0].label", "a,b", "give one name"),
    ),
    (made(rules=(("tdm", {"label": ""}),)), "tiers[0].policies[0].label", "", "give one name"),
    (
        made(rules=(("resource_strategy_fit", {"spread": "cpu", "cards": "1"}),)),
        *("tiers[0].policies[0].spread", "cpu", "give cpu a weight"),
    ),
    # rules that say the same twice, or divide the same twice
    (
        made(rules=(("gang", {}), ("gang", {})), tiers=2),
        *("tiers[1].policies[0]", "gang", "name the rule once"),
    ),
    (
        made(rules=(("gang", {}, ("job_ready",)), ("gang", {}, ("job_valid", "job_ready")))),
        *("tiers[0].policies[1]", "gang", "different hooks"),
    ),
    (
        made(rules=(("gang", {}, ("job_ready",)), ("gang", {}))),
        *("tiers[0].policies[1]", "gang", "different hooks"),
    ),
    (
        made(rules=(("drf", {"hierarchy": "yes"}), ("proportion", {}))),
        *("tiers[0].policies[0].hierarchy", "yes", "another tier"),
    ),
]


@pytest.mark.parametrize(("record", "where", "value", "remedy"), REFUSED)
def test_what_contradicts_is_refused(
    record: r.PolicyConfigured, where: str, value: str, remedy: str
) -> None:
    with pytest.raises(PolicyRefused) as refused:
        build(record)
    assert (refused.value.reason, refused.value.where) == (Reason.ARGUMENT_INVALID, where)
    assert refused.value.value == value
    assert remedy in refused.value.remedy


GOOD = [
    made(*gaps(floor_ns="1m", ceiling_ns="1m"), ("tune", {"protection_milli": "200"})),
    made(*gaps(), settings={"tick_min_ns": "20s", "requeue_base_ns": "1h"}),
    made(("reserve", {}), rules=(("sla", {}),)),
    made(("preempt", {"search": "node", "give_back": "no"}), ("reclaim", {"give_back": "yes"})),
    made(rules=(("capacity", {"hierarchy": "yes", "ancestor_level": "1"}),)),
    made(rules=(("gang", {}, ("job_ready",)), ("gang", {}, ("job_valid",)))),
    made(rules=(("drf", {"hierarchy": "yes"}), ("proportion", {})), tiers=2),
    made(rules=(("drf", {}), ("proportion", {}))),
    made(rules=(("shard", {"label": "pool", "value": "a"}),)),
]


@pytest.mark.parametrize("record", GOOD)
def test_what_does_not_contradict_is_taken(record: r.PolicyConfigured) -> None:
    cell = Cell().start(rules=record)
    assert said(cell.tick()) == [] and cell.state.policy_record == record


def test_no_preset_contradicts_itself() -> None:
    for name in preset_names():
        build(load_policy(name))


# ---- each argument by itself ---------------------------------------------------------------------

BAD = ("", " ", "-2", "1.2345", "x", "1e9", "9" * 30, "५", "1h1h", "yes,no", "nil")


def wrong_actions() -> list[tuple[str, str, str]]:
    """All arguments of all actions with all bad values that none of their kind takes."""
    found = []
    for action, keys in ACTIONS.items():
        for kind in (keys.integers, keys.millis, keys.durations, keys.counts):
            found += [(action, key, bad) for key in kind for bad in BAD]
        for words in (keys.choices, keys.several, keys.switches):
            found += [(action, key, bad) for key in words for bad in BAD]
    return found


@pytest.mark.parametrize(("action", "key", "bad"), wrong_actions())
def test_bad_values_of_actions_are_refused_by_name(action: str, key: str, bad: str) -> None:
    with pytest.raises(PolicyRefused) as refused:
        build(made((action, {key: bad})))
    assert refused.value.where == f"actions[0].{key}"
    assert (refused.value.value, bool(refused.value.remedy)) == (bad, True)


@pytest.mark.parametrize("rule", sorted(POLICIES))
@pytest.mark.parametrize("bad", ["", "x,", "maybe", "-1"])
def test_no_rule_takes_whatever_it_is_told(rule: str, bad: str) -> None:
    """Every argument that a rule names, and one that it does not, is looked at."""
    with pytest.raises(PolicyRefused) as refused:
        build(made(rules=((rule, {"nonsense": bad}),)))
    assert refused.value.where == "tiers[0].policies[0].nonsense"


@pytest.mark.parametrize("key", sorted(DURATIONS))
@pytest.mark.parametrize("bad", ["", "-1", "soon", "1", "1.5s", "2000000h"])
def test_bad_durations_are_refused(key: str, bad: str) -> None:
    least, greatest = DURATIONS[key][1:]
    if bad == "1" and least <= 1 <= greatest:
        return  # a nanosecond will do
    with pytest.raises(PolicyRefused) as refused:
        build(made(settings={key: bad}))
    assert refused.value.where in (f"settings.{key}", "settings.requeue_max_ns")

"""What is sound by itself and not together: actions, rules and settings that contradict each other.

A policy is refused for it, so that none is in force of which a part can never do anything, or does
the opposite of what another part says.
"""

from collections.abc import Mapping

from ganger.schemas.records import PolicyConfigured
from ganger.streams.kernel.policies.hooks import refuse
from ganger.streams.kernel.settings import LENT_ROUTES, Settings

_BOUNDS = (
    ("yielding", "floor_ns", "ceiling_ns"),
    ("tune", "protection_least_milli", "protection_milli"),
    ("tune", "protection_milli", "protection_max_milli"),
    ("tune", "runtime_least_ns", "runtime_max_ns"),
)
"""Arguments of an action of which the first is at most the second."""

_OF_GAPS = ("order", "judge", "guard_ns", "routes", "scan_max")
"""Arguments of `backfill` that say how gaps are filled: nothing without `timed`."""

_REMEDY_TIMED = "add action backfill with timed = true behind allocate, or remove it"


def check(
    record: PolicyConfigured,
    numbers: Mapping[str, int],
    words: Mapping[str, str],
    settings: Settings,
) -> None:
    """Refuse a policy whose parts, each of which is sound, contradict each other.

    `numbers`, `words`: its actions' arguments, compiled.

    Raises:
        PolicyRefused: names the key, the value and the remedy.
    """
    places = {action.action: place for place, action in enumerate(record.actions)}
    _check_bounds(places, numbers)
    _check_admission(places)
    _check_gaps(record, places, numbers, words)
    _check_hunts(record, words)
    _check_rules(record, places)
    _check_settings(settings)


def _check_bounds(places: Mapping[str, int], numbers: Mapping[str, int]) -> None:
    for action, low, high in _BOUNDS:
        if action in places:
            least, most = numbers[f"{action}.{low}"], numbers[f"{action}.{high}"]
            if least > most:
                where = f"actions[{places[action]}].{low}"
                refuse(where, str(least), f"give at most {high}, {most}, or raise that")


def _check_admission(places: Mapping[str, int]) -> None:
    if "admit" in places and "enqueue" in places:
        where = f"actions[{places['enqueue']}]"
        refuse(where, "enqueue", "remove it, or admit, which admits in its place")


def _check_gaps(
    record: PolicyConfigured,
    places: Mapping[str, int],
    numbers: Mapping[str, int],
    words: Mapping[str, str],
) -> None:
    """Gaps are filled by `backfill`, beside what `allocate` before it has kept for the first."""
    is_timed = numbers.get("backfill.timed", 0) > 0
    backfill = places.get("backfill", -1)
    if is_timed and not 0 <= places.get("allocate", -1) < backfill:
        refuse(f"actions[{backfill}].timed", "true", "add action allocate before it")
    for action in ("yielding", "tune"):
        if action in places and not is_timed:
            refuse(f"actions[{places[action]}]", action, _REMEDY_TIMED)
    if is_timed and places.get("yielding", backfill) < places["allocate"]:
        refuse(f"actions[{places['yielding']}]", "yielding", "put it behind allocate")
    if backfill < 0:
        return
    if not is_timed:
        for argument in record.actions[backfill].arguments:
            if argument.key in _OF_GAPS:
                where = f"actions[{backfill}].{argument.key}"
                refuse(where, argument.value, "set timed = true, or remove it")
    lent = [route for route in words["backfill.routes"].split(",") if route in LENT_ROUTES]
    if lent and "yielding" not in places:
        where = f"actions[{backfill}].routes"
        remedy = f"add action yielding, or leave {' and '.join(lent)} out"
        refuse(where, words["backfill.routes"], remedy)


def _check_hunts(record: PolicyConfigured, words: Mapping[str, str]) -> None:
    for place, action in enumerate(record.actions):
        if words.get(f"{action.action}.search") == "node":
            for argument in action.arguments:
                if argument.key == "give_back" and argument.value == "yes":
                    remedy = 'remove it, or set search = "cell": node by node nobody is given back'
                    refuse(f"actions[{place}].give_back", argument.value, remedy)


def _check_rules(record: PolicyConfigured, places: Mapping[str, int]) -> None:
    said: dict[str, dict[str, bool]] = {}  # hooks of rules so far; "" are all
    for t, tier in enumerate(record.tiers):
        in_tier = {config.policy: config for config in tier.policies}
        for p, config in enumerate(tier.policies):
            where = f"tiers[{t}].policies[{p}]"
            hooks = said.setdefault(config.policy, {})
            for hook in config.hooks or ("",):
                if hook in hooks or "" in hooks or (hooks and not hook):
                    remedy = "name the rule once, or different hooks of it each time"
                    refuse(where, config.policy, remedy)
            hooks.update(dict.fromkeys(config.hooks or ("",), True))
            tree = [one.value for one in config.arguments if one.key == "hierarchy"]
            if config.policy == "drf" and "proportion" in in_tier and tree[:1] == ["yes"]:
                remedy = "remove it, or put proportion into another tier: both divide the cell"
                refuse(f"{where}.hierarchy", tree[0], remedy)
    if "reserve" in places and "sla" not in said:
        where = f"actions[{places['reserve']}]"
        refuse(where, "reserve", "add rule sla, which says who has waited too long, or remove it")


def _check_settings(settings: Settings) -> None:
    base, most = settings.requeue_base_ns, settings.requeue_max_ns
    if most < base:
        refuse("settings.requeue_max_ns", str(most), f"give at least requeue_base_ns, {base}")
    least, most = settings.tick_min_ns, settings.tick_max_ns
    if most and most < least:
        remedy = f"give at least tick_min_ns, {least}, or 0"
        refuse("settings.tick_max_ns", str(most), remedy)
